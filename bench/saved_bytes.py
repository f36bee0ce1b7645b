#!/usr/bin/env python3
"""What a transformer layer saves for its backward pass under each recipe, beside what Tempo's published layers save.

usage: saved_bytes.py TEMPOC [docs/how-it-works/recipes.md]
Networks of bert.py and gpt2.py, without weights, with dropout: a layer is the difference between three layers and two.
MiB a sample. Prints the table, or puts it between the marks of a file.

Tempo's are the tensors that its repository's layers (github.com/UofT-EcoSystem/Tempo) save, with a byte for each
element of a mask: 46 s h + 5 a s^2 bytes a sample in float, 26 s h + 3 a s^2 in 16 bits.
"""
import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile

import bert
import gpt2
import onnx
import onnx_graph

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import in_half  # noqa: E402

NETWORKS = (
    ("BERT-Large", bert, bert.Bert(hidden=1024, heads=16, batch=1, sequence=128)),
    ("BERT-Large", bert, bert.Bert(hidden=1024, heads=16, batch=1, sequence=512)),
    ("GPT-2 124M", gpt2, gpt2.Gpt2(hidden=768, heads=12, batch=1, sequence=1024)),
    ("GPT-2 1.5B", gpt2, gpt2.Gpt2(hidden=1600, heads=25, batch=1, sequence=1024)),
)
COLUMNS = {
    "`none`": ["--recipe=none"],
    "`paper`": ["--recipe=paper"],
    "with bytes": ["--recipe=paper", "--dropout=mask"],
    "`exact`": ["--recipe=exact"],
    "`tiled`": ["--recipe=tiled"],
}
TYPES = ("float", "float16")
BEGIN, END = "<!-- bench/saved_bytes.py writes this -->\n", "<!-- end of what it writes -->\n"
MIB = 2**20


def saved(tempoc, module, network, dtype, flags, folder):
    path, report = os.path.join(folder, "network.onnx"), os.path.join(folder, "report.json")
    graph = module.Graph(network)
    graph.whole()
    onnx_graph.write(path, graph, module.shapes(network), None, module.inputs(network))
    if dtype != "float":
        model = onnx.load(path, load_external_data=False)
        onnx.save(in_half.convert(model, dtype), path)
    subprocess.run([tempoc, path, "-q", f"--report={report}", *flags], check=True, stderr=subprocess.DEVNULL)
    with open(report) as f:
        return json.load(f)["saved_bytes"]["after"]


def layer(tempoc, module, network, dtype, flags, folder):
    two, three = (saved(tempoc, module, dataclasses.replace(network, layers=n), dtype, flags, folder) for n in (2, 3))
    return (three - two) / MIB


def published(network, dtype):
    of_sh, of_as2 = (46, 5) if dtype == "float" else (26, 3)
    s, h, a = network.sequence, network.hidden, network.heads
    return (of_sh * s * h + of_as2 * a * s * s) / MIB


def table(tempoc):
    lines = ["| a layer, MiB a sample | tokens | type | " + " | ".join(COLUMNS) + " | Tempo's own |",
             "|---" * (len(COLUMNS) + 4) + "|"]
    with tempfile.TemporaryDirectory() as folder:
        for dtype in TYPES:
            for name, module, network in NETWORKS:
                cells = [layer(tempoc, module, network, dtype, flags, folder) for flags in COLUMNS.values()]
                cells.append(published(network, dtype))
                row = [f"| {name} | {network.sequence} | {dtype}", *(f"{c:.2f}" for c in cells)]
                lines.append(" | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tempoc")
    parser.add_argument("file", nargs="?")
    args = parser.parse_args()
    text = table(args.tempoc)
    if not args.file:
        print(text, end="")
        return
    with open(args.file) as f:
        before, _, rest = f.read().partition(BEGIN)
    with open(args.file, "w") as f:
        f.write(before + BEGIN + "\n" + text + "\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
