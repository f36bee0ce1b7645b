#!/usr/bin/env python3
"""Runs what on_gpu.sh has packed, on a machine with a GPU, and writes OUT/results.json after each step of it.

usage: on_gpu_run.py FOLDER OUT
Python's own library is enough. The last line is 'N right, N unsupported, N wrong'; what is wrong is printed, and in the
file. All of it ends within LIMIT seconds, and each part within its own: a program that hangs, or a part that fails,
takes nothing from the others. Beside the results are profiles of training steps, as tables.
"""
import ast
import concurrent.futures
import contextlib
import datetime
import json
import math
import os
import platform
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile

LIMIT = 570            # seconds, of everything
NEAR = 1e-4            # of gradients: test/e2e/check_models.py
SEEDS = (0, 1, 7, 2**40 + 3)
FORMATS = {"f4": "f", "f8": "d", "f2": "e", "i8": "q", "u8": "Q", "i4": "i", "u4": "I", "i2": "h", "u2": "H",
           "i1": "b", "u1": "B", "b1": "?", "V2": "H"}  # V2: bfloat16, as its bits


class OutOfTime(Exception):
    pass


class Machine:
    def __init__(self, pack, out):
        self.pack, self.out = pack, out
        self.end = self.until = time.monotonic() + LIMIT  # of everything, and of the part at hand
        self.emulated = os.path.exists(os.path.join(pack, "emulated"))
        self.tempo_run = self.program("tempo-run")
        self.n_right, self.n_unsupported, self.wrong = 0, 0, []

    def program(self, name):
        return os.path.join(self.pack, "bin", name)

    def run(self, *command, limit=LIMIT):
        """What the command gave. Its exit code is None where it was late and was ended: what it had said by then is
        there. OutOfTime: no time was left to begin it."""
        limit = min(limit, self.until - time.monotonic())
        if limit < 1:
            raise OutOfTime
        # Into files: a program that hangs in the driver holds pipes open even when it was killed.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
                process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(5)
            said = []
            for file in (out, err):
                file.seek(0)
                said.append(file.read().decode(errors="replace"))
        if code is None:
            said[1] += f"\nended after {limit:.0f} s"
        return subprocess.CompletedProcess(command, code, *said)

    def judge(self, good, what):
        self.n_right += good
        if not good:
            self.wrong.append(what)
            print(f"WRONG {what}", flush=True)
        return good

    def refused(self, why, what):
        """A graph did not run: fine where the device has no kernel for one of its ops."""
        if why["exit_code"] == 3:
            self.n_unsupported += 1
        else:
            self.judge(False, f"{what}: {why['said']}")
        return why


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


def first_line(text):
    return (text.strip().splitlines() or [""])[0]


def of_each(m, names, one):
    """(name, what one(m, name) gives) of each; where one of them breaks, the others go on."""
    for name in names:
        try:
            yield name, one(m, name)
        except OutOfTime:
            raise
        except Exception as e:  # pylint: disable=broad-except
            m.judge(False, f"{name}: {e!r}")
            yield name, traceback.format_exc()


def folders(m, name):
    at = os.path.join(m.pack, name)
    return sorted(os.listdir(at)) if os.path.isdir(at) else []


# --- .npz files -------------------------------------------------------------------------------------

def numbers_of(raw):
    """Kind, shape, numbers and bytes of a .npy file."""
    skip = 10 if raw[6] == 1 else 12
    length = struct.unpack("<H" if raw[6] == 1 else "<I", raw[8:skip])[0]
    header, data = ast.literal_eval(raw[skip:skip + length].decode()), raw[skip + length:]
    kind = header["descr"].lstrip("<|=")
    values = struct.unpack(f"<{math.prod(header['shape'])}{FORMATS[kind]}", data)
    if kind == "V2":
        values = struct.unpack(f"<{len(values)}f", b"".join(struct.pack("<HH", 0, bits) for bits in values))
    return kind, tuple(header["shape"]), values, data


def arrays(path):
    with zipfile.ZipFile(path) as archive:
        return {name[:-4]: numbers_of(archive.read(name)) for name in archive.namelist()}


def norm(values):
    return math.sqrt(math.fsum(v * v for v in values))


def total(got, names):
    """The sum of the arrays whose names are joined by '+', or None."""
    parts = [got.get(name) for name in names.split("+")]
    if None in parts:
        return None
    return parts[0][2] if len(parts) == 1 else [math.fsum(v) for v in zip(*(p[2] for p in parts))]


def worst(got, want):
    """(error, name) of the array that differs most, as test/e2e/check_models.py measures it."""
    floats = {name: w for name, w in want.items() if w[0] in ("f4", "f8", "f2", "V2")}
    sizes = [norm(w[2]) / math.sqrt(max(len(w[2]), 1)) for name, w in floats.items() if name != "loss"]
    median = statistics.median(sizes) if sizes else 0.0
    rows = []
    for name, (_, _, w, _) in floats.items():
        g = total(got, name)
        if g is None or len(g) != len(w):
            rows.append((math.inf, name))
            continue
        scale = 0.0 if name == "loss" else 0.01 * median * math.sqrt(len(w))
        error = norm([a - b for a, b in zip(g, w)]) / (norm(w) + scale + 1e-30)
        rows.append((math.inf if math.isnan(error) else error, name))
    return max(rows)


# --- parts: each yields names and results -----------------------------------------------------------

def measured(line):
    """A line of gpu_rates; None: it is none, or only the beginning of one."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    row["per_second"] = row["amount"] / row["seconds"] if row["seconds"] > 0 else math.nan
    return row


def rates(m):
    """Copies and products: what this machine can do. Kernels: bytes that they must move, over the time they take."""
    done = m.run(m.program("gpu_rates"), *(("512", "64", "1") if m.emulated else ()))
    m.judge(done.returncode == 0, f"gpu_rates: {last_line(done.stderr)}")
    rows = [row for row in map(measured, done.stdout.splitlines()) if row]
    copies = {row["type"]: row["per_second"] for row in rows if row["kind"] == "copy"}
    for row in rows:
        if row["kind"] == "kernel":
            row["of_copy"] = row["per_second"] / copies.get(row["type"], math.nan)
        of = f"  {100 * row['of_copy']:5.1f} % of a copy" if "of_copy" in row else ""
        print(f"  {row['kind']:8} {row['name']:24} {row['type']:9} {1e6 * row['seconds']:10.1f} us "
              f"{row['per_second'] / 1e9:10.1f} G/s{of}")
        yield f"{row['kind']} {row['name']} {row['type']}", row


def check(m, name):
    """Each program twice: the second time it gives the same bits."""
    limit = LIMIT if m.emulated else 100
    runs = [m.run(m.program(name), limit=limit)]
    if runs[0].returncode is not None:
        runs.append(m.run(m.program(name), limit=limit))
    said = [last_line(done.stdout) for done in runs]
    wrong = [line for line in runs[0].stderr.splitlines() if line.startswith("WRONG")]
    m.judge(all(done.returncode == 0 for done in runs), f"{name}: {said[0]} {last_line(runs[-1].stderr)}")
    m.judge(said[0] == said[-1], f"{name}: two runs differ: {said[0]}; {said[-1]}")
    return {"program": name, "said": said[0], "wrong": wrong[:20]}


def kernels(m):
    names = [name for name in folders(m, "bin") if name.startswith("check_")]
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        for done in concurrent.futures.as_completed(pool.submit(check, m, name) for name in names):
            yield done.result()["program"], done.result()


def run_cases(m, device, folder):
    """The lines of those that fail, by name, and the last line."""
    done = m.run(m.tempo_run, f"--device={device}", "--test-data", folder, limit=100)
    m.judge(done.returncode in (0, 1), f"node cases on {device}: {last_line(done.stdout)} {last_line(done.stderr)}")
    failed = {line.split(":")[0]: line for line in done.stdout.splitlines() if line.startswith("FAIL")}
    return failed, last_line(done.stdout)


def node_cases(m):
    """ONNX's own: right where the CPU is right. In several processes, of which each may lose the device."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        with tarfile.open(os.path.join(m.pack, "cases.tar.gz")) as archive:
            archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        cases = os.path.join(folder, "cases")
        shares = [os.path.join(folder, f"share{i}") for i in range(8)]
        for share in shares:
            os.mkdir(share)
        for i, name in enumerate(sorted(os.listdir(cases))):
            os.rename(os.path.join(cases, name), os.path.join(shares[i % len(shares)], name))
        done = {device: [pool.submit(run_cases, m, device, share) for share in shares] for device in ("cuda", "cpu")}
        failed = {}
        for device, runs in done.items():
            yield device, [run.result()[1] for run in runs]
            failed[device] = {name: line for run in runs for name, line in run.result()[0].items()}
    wrong = [line for name, line in sorted(failed["cuda"].items()) if name not in failed["cpu"]]
    m.judge(not wrong, f"node cases: {len(wrong)} fail on the GPU alone, {' '.join(wrong[:1])}")
    yield "failed", wrong[:100]


def outputs(m, folder, model, device, seed, name):
    """The file of outputs, or what tempo-run says."""
    path = os.path.join(folder, name)
    done = m.run(m.tempo_run, f"--device={device}", os.path.join(model, name[:name.index("-")] + ".onnx"), "--inputs",
                 os.path.join(model, "inputs.npz"), "--outputs", path, f"--seed={seed}", limit=60)
    if done.returncode != 0:
        late = done.returncode is None
        return None, {"exit_code": done.returncode, "said": last_line(done.stderr) if late else first_line(done.stderr)}
    return path, None


def read(path):
    with open(path, "rb") as f:
        return f.read()


def model_recipe(m, folder, model, name, recipe):
    twice = []
    for i in range(2):
        path, why = outputs(m, folder, model, "cuda", 1, f"{recipe}-cuda{i}.npz")
        if not path:
            return m.refused(why, f"{name}, {recipe}")
        twice.append(path)
    m.judge(read(twice[0]) == read(twice[1]), f"{name}, {recipe}: two runs differ")
    got = arrays(twice[0])
    result = {}
    peers = {"cpu": outputs(m, folder, model, "cpu", 1, f"{recipe}-cpu.npz")[0]}
    if os.path.exists(os.path.join(model, "expected.npz")):
        peers["pytorch"] = os.path.join(model, "expected.npz")
    for peer, path in peers.items():
        want = arrays(path) if path else {}
        limit = want.pop("limit")[2][0] if "limit" in want else 0.05 if "16" in name else NEAR
        error, of = worst(got, want) if want else (math.inf, "cpu")
        m.judge(error <= limit, f"{name}, {recipe}: {of} is off by {error:.1e} from {peer}")
        result[peer] = {"error": error, "of": of, "limit": limit}
    return result


def one_model(m, name):
    model = os.path.join(m.pack, "models", name)
    with tempfile.TemporaryDirectory() as folder:
        result = {recipe: model_recipe(m, folder, model, name, recipe) for recipe in ("exact", "none")}
        if all("cpu" in of_recipe for of_recipe in result.values()):
            a, b = (arrays(os.path.join(folder, f"{recipe}-cuda0.npz")) for recipe in ("exact", "none"))
            result["same_bits"] = a.keys() == b.keys() and all(a[key][3] == b[key][3] for key in a)
            m.judge(result["same_bits"], f"{name}: recipes exact and none differ")
    return result


def models(m):
    """Loss and gradients, twice; beside the CPU's and PyTorch's. `exact` and `none` have the same bits."""
    yield from of_each(m, folders(m, "models"), one_model)


def one_mask(m, name):
    model, right = os.path.join(m.pack, "masks", name), True
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS:
            cuda, why = outputs(m, folder, model, "cuda", seed, "exact-cuda.npz")
            cpu, _ = outputs(m, folder, model, "cpu", seed, "exact-cpu.npz")
            if not cuda:
                return m.refused(why, name)
            same = cpu is not None and read(cuda) == read(cpu)
            right = m.judge(same, f"{name}, seed {seed}: not the CPU's bits") and right
    return right


def masks(m):
    """Every output of graphs that draw: the CPU's bits, for each seed."""
    yield from of_each(m, folders(m, "masks"), one_mask)


def sanitizer(m):
    """Out of bounds, races, memory that nobody wrote: by the tool of CUDA's, where it is."""
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not tool or m.emulated:
        return
    for kind, name in (("memcheck", "check_norm"), ("racecheck", "check_norm"), ("memcheck", "check_attention")):
        if os.path.exists(m.program(name)):
            done = m.run(tool, f"--tool={kind}", "--error-exitcode=99", m.program(name), limit=60)
            m.judge(done.returncode != 99, f"{kind} of {name}: {last_line(done.stdout)}")
            yield f"{kind} {name}", last_line(done.stdout) if done.returncode is not None else last_line(done.stderr)


def write_weights(path, size):
    """So many bytes of numbers of bfloat16, small ones: a stretch of random ones, again and again."""
    draw = random.Random(7)
    block = b"".join(struct.pack("<f", draw.gauss(0, 0.02))[2:] for _ in range(100003))
    with open(path, "wb") as f:
        for _ in range(size // len(block)):
            f.write(block)
        f.write(block[:size % len(block)])


def one_step(m, at, name, recipe, sequences):
    """Seconds of a step and memory; which products ran how; each node's time in OUT/NAME-RECIPE.csv."""
    command = [m.tempo_run, "--device=cuda", os.path.join(at, f"{recipe}.onnx"), "--inputs",
               os.path.join(at, "inputs.npz")]
    done = m.run(*command, "--repeat=12", "--memory", "--products", limit=60)
    m.judge(done.returncode == 0, f"steps of {name}, {recipe}: {last_line(done.stderr)}")
    said, lines = re.search(r"median ([0-9.]+) ms", done.stdout), done.stdout.splitlines()
    seconds = float(said[1]) / 1e3 if said else math.nan
    products = [line.strip() for line in lines if "algorithm" in line]
    plain = [line for line in products if line.endswith("a plain kernel")]
    m.judge(not plain or m.emulated, f"steps of {name}, {recipe}: products without the library: {plain[:2]}")
    m.run(*command, "--repeat=5", f"--profile={os.path.join(m.out, f'{name}-{recipe}.csv')}", limit=60)
    print(f"  {name}, {recipe}: {1e3 * seconds:.1f} ms, {sequences / seconds:.0f} sequences/s")
    return {"seconds": seconds, "sequences_a_second": sequences / seconds, "products": products,
            "memory": [line for line in lines if " MiB " in line][:7]}


def step_of_all(m, name):
    with tempfile.TemporaryDirectory() as folder:
        at = shutil.copytree(os.path.join(m.pack, "steps", name), os.path.join(folder, name))
        with open(os.path.join(at, "weights.json"), encoding="utf-8") as f:
            weights = json.load(f)
        write_weights(os.path.join(at, weights["file"]), weights["bytes"])
        return {recipe: one_step(m, at, name, recipe, weights["sequences"]) for recipe in ("exact", "tiled")}


def steps(m):
    """Training steps: times of a run, and memory."""
    yield from of_each(m, folders(m, "steps"), step_of_all)


# And the seconds that each may take.
PARTS = ((rates, 120), (kernels, 200), (models, 150), (masks, 40), (steps, 200), (node_cases, 120), (sanitizer, 180))


def has_gpu(m, devices):
    """Says why not, where there is none."""
    if any(line.startswith("cuda") and "none found" not in line for line in devices.stdout.splitlines()):
        return True
    model = os.path.join(m.pack, "masks", (folders(m, "masks") or ["none"])[0])
    tried = m.run(m.tempo_run, "--device=cuda", os.path.join(model, "exact.onnx"), "--inputs",
                  os.path.join(model, "inputs.npz"), limit=60)
    print(f"{devices.stderr}{tried.stderr}on_gpu: there is no GPU that this program can use here", file=sys.stderr)
    return False


def machine(m, devices):
    smi = shutil.which("nvidia-smi")
    query = "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,power.limit"
    return {"devices": devices.stdout.splitlines(), "system": platform.platform(), "cores": os.cpu_count(),
            "nvidia-smi": m.run(smi, query, "--format=csv,noheader", limit=20).stdout.strip()
            if smi and not m.emulated else None}


def save(m, result):
    """Under another name first: whoever is stopped here leaves the last file whole."""
    result["right"], result["unsupported"], result["wrong"] = m.n_right, m.n_unsupported, m.wrong
    path = os.path.join(m.out, "results.json")
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
    os.replace(path + ".new", path)


def run_part(m, part, seconds, result):
    start, found = time.monotonic(), {}
    result[part.__name__] = found
    m.until = m.end if m.emulated else min(m.end, start + seconds)
    print(f"== {part.__name__}")
    try:
        for name, value in part(m):
            found[name] = value
            save(m, result)
    except OutOfTime:
        m.judge(False, f"{part.__name__}: out of time")
    except Exception as e:  # pylint: disable=broad-except
        m.judge(False, f"{part.__name__}: {e!r}")
        found["broken"] = traceback.format_exc()
    result["seconds"][part.__name__] = round(time.monotonic() - start, 1)
    save(m, result)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.stdout.reconfigure(line_buffering=True)
    m = Machine(*sys.argv[1:])
    with open(os.path.join(m.pack, "commit"), encoding="utf-8") as f:
        commit = f.read().strip()
    devices = m.run(m.tempo_run, "--list-devices", limit=60)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds")
    result = {"machine": machine(m, devices), "date": now,
              "command": f"on_gpu.sh --run {m.pack} {m.out}", "commit": commit, "emulated": m.emulated, "seconds": {}}
    print(*result["machine"]["devices"], sep="\n")
    if not has_gpu(m, devices):
        return 1
    for part, seconds in PARTS:
        run_part(m, part, seconds, result)
    print(f"{m.n_right} right, {m.n_unsupported} unsupported, {len(m.wrong)} wrong")
    return len(m.wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
