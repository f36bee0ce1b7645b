#!/usr/bin/env python3
"""packing.py BUILD [FOLDER...] [--layered N...]: the arenas that tempoc-plan finds for every .csv file of the folders,
as a table.

--layered makes schedules of its own: random graphs of N nodes in layers, half of whose results are computed again for
uses that come late.

A file NAME.BYTES.csv has a capacity: any packing into so many bytes is asked for. Offsets are checked by
tempoc-plan --check. Times are of one core, the least of --times runs.
"""
import argparse
import os
import random
import re
import resource
import subprocess
import sys
import tempfile


def seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def packed(tool, path, capacity, out, times):
    """buffers, bound, arena, seconds; arena None where the capacity was not met."""
    flags = [f"--capacity={capacity}"] if capacity else []
    least = None
    for _ in range(times):
        before = seconds_of_children()
        done = subprocess.run([tool, path, "-o", out, *flags], capture_output=True, text=True, check=False)
        taken = seconds_of_children() - before
        least = taken if least is None else min(least, taken)
        if done.returncode == 4:
            return None, None, None, least
        if done.returncode != 0:
            sys.exit(done.stderr)
    subprocess.run([tool, out, "--check", "--quiet", *flags], check=True)
    numbers = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}
    return int(numbers["buffers"]), int(numbers["bound"]), int(numbers["arena"]), least


def layered(n, rng):
    """Sizes and operands of n nodes: about 14 in a layer, most reading the layer before, half of them another one."""
    sizes, operands, before = [], [], []
    while len(sizes) < n:
        layer = []
        for _ in range(min(max(1, int(rng.gauss(14, 6))), n - len(sizes))):
            node = len(sizes) + len(layer)
            read = {x for x in before if rng.random() < 0.3}
            if node > 0 and rng.random() < 0.5:
                read.add(rng.randrange(len(sizes) or 1))
            size = 10 * rng.randint(1, 818 if rng.random() < 0.1 else 400)
            layer.append((size, sorted(x for x in read if x < len(sizes))))
        before = list(range(len(sizes), len(sizes) + len(layer)))
        sizes += [size for size, _ in layer]
        operands += [read for _, read in layer]
    return sizes, operands


def lives_with_copies(sizes, operands, share, rng):
    """Rows of node, first and last step: a result used late is made again, with that chance, from what is there."""
    lives, newest, steps = [], {}, 0

    def make(node, depth):
        nonlocal steps
        for x in operands[node]:
            late = steps - lives[newest[x]][2] > len(sizes) / 20
            if late and depth < 4 and rng.random() < share:
                make(x, depth + 1)
        for x in operands[node]:
            lives[newest[x]][2] = steps
        newest[node] = len(lives)
        lives.append([node, steps, steps])
        steps += 1

    for node in range(len(sizes)):
        make(node, 0)
    return lives


def write_layered(n, path):
    rng = random.Random(n)
    sizes, operands = layered(n, rng)
    with open(path, "w", encoding="utf-8") as file:
        file.write("id,lower,upper,size\n")
        for i, (node, first, last) in enumerate(lives_with_copies(sizes, operands, 0.5, rng)):
            file.write(f"{i},{first},{last + 1},{sizes[node]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--layered", type=int, nargs="*", default=[])
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    tool = os.path.join(options.build, "bench", "tempoc-plan", "tempoc-plan")
    print("| instance | buffers | bound | arena | ratio | capacity | seconds |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(f, n) for f in options.folders for n in sorted(os.listdir(f)) if n.endswith(".csv")]
        for n in options.layered:
            paths.append(os.path.join(folder, f"layered-{n}.csv"))
            write_layered(n, paths[-1])
        for path in paths:
            name = os.path.basename(path)[:-len(".csv")]
            found = re.search(r"\.(\d{4,})$", name)
            capacity = int(found[1]) if found else None
            n, bound, arena, seconds = packed(tool, path, capacity, os.path.join(folder, "out.csv"), options.times)
            met = "" if capacity is None else f"{capacity:,} met" if arena else f"{capacity:,} missed"
            figures = f"{n:,} | {bound:,} | {arena:,} | {arena / max(bound, 1):.4f}" if arena else " | | | "
            print(f"| {name} | {figures} | {met} | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
