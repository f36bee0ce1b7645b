#!/usr/bin/env python3
"""Tries PyTorch's own lists of modules and ops, module_db and op_db: exports samples of each that need gradients,
compiles, runs, and compares loss and gradients with PyTorch's autograd in double.

usage: survey_suites.py [NAME ...] [--suite modules|ops] [--exporter NAME] [--form NAME] [--twists NAME,...]
                        [--limit SECONDS] [--results FILE] [--keep FOLDER] [--again OUTCOME,...]
  NAME             globs of names, such as Conv2d, nn.functional.*, linalg.*; default: all
  --suite NAME     default: both
  --exporter NAME  plain18, plain23 (dynamo, optimize=False), dyn18 (dynamo) or ts17 (TorchScript) [default: plain18]
  --form NAME      see FORMS [default: plain]
  --twists NAMES   tries what is right again with other numbers in the same file: zeros, ties, ...; see TWISTS
  --samples N      of each name, taken evenly from the suite's [default: 3]
  --limit SECONDS  that a name may take [default: 120]
  --results FILE   a JSON object a name, appended; what is there is not tried again
  --keep FOLDER    gets the file, inputs.npz and expected.npz of what is not right
  --again OUTCOMES of what FILE holds, try these again, such as WRONG,fails
  --together N     names of which an export is made at once, and in halves where that is not right [default: 1]
The loss is the sum of the outputs, each element times a weight of its own. Outcomes, the worst of a name's samples:
right; random (drawn, and only run); exporter (it stops, or ONNX Runtime finds another loss in the file, or refuses it);
refused (by tempoc or when run, with the message); fails (a crash, code 70, out of time); WRONG.
TEMPO_HOME names the build folder. Needs torch, onnxscript, onnxruntime, expecttest. Not needed to build, test or run
Tempo.
"""
import argparse
import collections
import contextlib
import fnmatch
import io
import json
import os
import shutil
import sys
import tempfile
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "test", "lib"), os.path.join(HERE, "..", "..", "python")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import torch  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from torch import nn  # noqa: E402

import survey  # noqa: E402
import survey_double  # noqa: E402
import tempo  # noqa: E402
from compare import by_onnxruntime  # noqa: E402
from survey_suite_cases import FORMS, LIMITS, TWISTS, Cases, cases_of, gradients, suites  # noqa: E402
from tempo import torch_export  # noqa: E402

OUTCOMES = ["right", "random", "exporter", "refused", "fails", "WRONG"]  # from good to bad
LIMIT = 1e-4


def case_of(name):
    """The N of loss.N and cases.N.learned.0_grad"""
    return int(name.split(".")[1]) if "." in name else None


def errors(got, want):
    """{case: (error, name)}: the largest distance, relative to the largest number of the tensor or 1e-2 of all of its
    case's; infinity where NaN or infinity stand elsewhere than in `want`, but for numbers in the place of NaN"""
    most, worst = collections.defaultdict(float), collections.defaultdict(lambda: (0.0, ""))
    for name, w in want.items():
        most[case_of(name)] = max(most[case_of(name)], np.abs(w[np.isfinite(w)]).max(initial=0))
    for name, w in want.items():
        g, finite, error = got.get(name), np.isfinite(w), np.inf
        if g is None and not w.any():
            continue
        if g is not None and g.size == w.size:
            g = g.reshape(w.shape).astype(np.float64)
            off = np.abs(g - w)[finite] / max(np.abs(w[finite]).max(initial=0), 1e-2 * most[case_of(name)], 1e-30)
            same = np.array_equal(g[np.isinf(w)], w[np.isinf(w)]) and not np.isnan(off).any()
            error = float(off.max(initial=0)) if same else np.inf
        worst[case_of(name)] = max(worst[case_of(name)], (error, name if g is not None else f"{name}, missing,"))
    return worst


def export(module, path, o):
    given = module.given()
    common = {"input_names": [f"given.{i}" for i in range(len(given))], "opset_version": int(o.exporter[-2:]),
              "output_names": ["loss", *(f"loss.{i}" for i in range(len(module.cases)))]}
    with torch_export.quiet_and_plain(module):
        if o.exporter.startswith("ts"):
            torch.onnx.export(module, tuple(given), path, dynamo=False, do_constant_folding=False,
                              training=torch.onnx.TrainingMode.PRESERVE, **common)
        else:
            shapes = tuple({0: torch.export.Dim.AUTO} if t.dim() and o.form == "open" else {} for t in given)
            torch.onnx.export(module, tuple(given), path, dynamo=True, optimize=o.exporter.startswith("dyn"),
                              dynamic_shapes=(shapes,), verbose=False, external_data=False, **common)


def run(model, path, module, o, double=False):
    """What Tempo finds for the elements that the module has; they take the place of those in the model"""
    own = {name: p.detach().numpy() for name, p in module.named_parameters()}
    for tensor in model.graph.initializer:
        if tensor.name in own:
            tensor.CopyFrom(numpy_helper.from_array(own[tensor.name], tensor.name))
    feeds = {f"given.{i}": t.numpy() for i, t in enumerate(module.given())}
    feeds = {value.name: feeds[value.name] for value in model.graph.input}
    if double:
        survey_double.widen_graph(model.graph)
        feeds = survey_double.widened(feeds)
    else:
        np.savez(os.path.join(os.path.dirname(path), "inputs.npz"), **feeds)
    onnx.save(model, path)
    is_told = any(p.key.startswith("pkg.torch") for p in model.graph.metadata_props)
    train = [] if is_told else [t.name for t in model.graph.initializer if t.name in own]
    return tempo.Session(tempo.compile(path, names="pytorch", loss="loss", train=train), threads=1).run(feeds)


def compare(path, module, o):
    """[(outcome, message)] of each case; one for all where it ends before there are numbers"""
    model = onnx.load(path)
    want = gradients(module)
    np.savez(os.path.join(os.path.dirname(path), "expected.npz"), **want)
    try:
        got = run(model, path, module, o)
    except tempo.Error as e:
        said = e.message.split("error: ", 1)[-1].split("\n")[0]
        return [("refused", said) if e.code in (2, 3) else ("fails", f"{e.code}: {said}")]
    exact, found = want, []
    with contextlib.suppress(Exception):
        exact = gradients(module, double=True)
    own, off, off_exact = errors(want, exact), errors(got, want), errors(got, exact)
    torch.manual_seed(2)
    with torch.no_grad():
        again = [y.numpy() for y in module(*module.given())[1:]]
    for i, y in enumerate(again):
        error, name = min(off[i], off_exact[i])
        limit = max(LIMITS.get(o.form, LIMIT), 10 * own[i][0] if np.isfinite(own[i][0]) else 0)
        if not np.array_equal(y, want[f"loss.{i}"], equal_nan=True):
            found.append(("random", ""))
        else:
            found.append(("right", "") if error <= limit else ("WRONG", f"{name} is {error:.1e} off"))
    if "WRONG" in dict(found):  # unless rounding decides
        with contextlib.suppress(Exception):
            off = errors(run(model, path + ".double", module, o, double=True), exact)
            found = [("right", "") if outcome == "WRONG" and off[i][0] <= 1e-6 else (outcome, said)
                     for i, (outcome, said) in enumerate(found)]
    return found


def at_fault(outcome, said, path):
    """The exporter, where ONNX Runtime finds another loss than PyTorch in the file, or cannot read it"""
    with np.load(os.path.join(os.path.dirname(path), "inputs.npz")) as feeds, \
            np.load(os.path.join(os.path.dirname(path), "expected.npz")) as expected:
        feeds, want = dict(feeds), expected["loss"]
    try:
        loss = np.asarray(by_onnxruntime(path, feeds)["loss"])
    except Exception as e:
        is_invalid = outcome != "WRONG" and "NOT_IMPLEMENTED" not in str(e)
        return "exporter" if is_invalid else outcome, f"{said} (ONNX Runtime: {str(e)[:80]})"
    if np.allclose(loss, want, rtol=1e-2, atol=1e-3, equal_nan=True):
        return outcome, said
    return "exporter", f"{said} (ONNX Runtime finds the loss {loss}, PyTorch {want})"


def attempt(cases, folder, o):
    """[(case, outcome, message)]: together, and in halves where that ends before there are numbers"""
    module, path = Cases(cases), os.path.join(tempfile.mkdtemp(dir=folder), "model.onnx")
    try:
        export(module, path, o)
        found = compare(path, module, o)
    except Exception as e:
        while e.__cause__ is not None:
            e = e.__cause__
        found = [("exporter", f"{type(e).__name__}: {e}")]
    one_name = len({case.name for case in cases}) == 1
    if len(cases) > 1 and (len(found) < len(cases) and not (one_name and "No ONNX function" in found[0][1]) or
                           "WRONG" in dict(found)):
        half = len(cases) // 2
        shutil.rmtree(os.path.dirname(path))
        return attempt(cases[:half], folder, o) + attempt(cases[half:], folder, o)
    rows = [(case, *outcome) for case, outcome in zip(cases, found * (len(cases) if len(found) == 1 else 1))]
    if len(cases) == 1 and found[0][0] in ("refused", "WRONG"):
        rows = [(cases[0], *at_fault(*found[0], path))]
    for twist in o.twists if any(row[1] == "right" for row in rows) else []:
        other = module.twisted(TWISTS[twist])
        made = compare(path, other, o)
        made = made * len(cases) if len(made) < len(cases) else made
        rows += [(case, outcome, f"{twist}: {said}" if said else "")
                 for case, row, (outcome, said) in zip(cases, rows, made) if row[1] == "right"]
    if not (o.keep and any(row[1] in ("WRONG", "fails", "refused") for row in rows)):
        shutil.rmtree(os.path.dirname(path))
    return rows


def try_names(names, found, folder, o):
    """{name: row}; run in a process of its own"""
    torch.manual_seed(7)
    torch.set_num_threads(1)
    cases = [case for name in names for case in cases_of(name, *found[name], o)]
    outcomes, rows = attempt(cases, folder, o) if cases else [], {}
    for name in names:
        own = [(outcome, said) for case, outcome, said in outcomes if case.name == name]
        worst = max(own, key=lambda row: OUTCOMES.index(row[0]), default=("skipped", "no sample has a gradient"))
        said = dict.fromkeys(said for outcome, said in own if outcome == worst[0])
        rows[name] = {"outcome": worst[0], "message": "; ".join(said).replace("\n", " ")[:600],
                      "samples": [outcome for outcome, _ in own]}
    return {"rows": rows}


def parse():
    a = argparse.ArgumentParser(add_help=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("-h", "--help", action="version", version=__doc__)
    a.add_argument("names", nargs="*", default=["*"])
    a.add_argument("--suite", choices=["modules", "ops"])
    a.add_argument("--exporter", default="plain18")
    a.add_argument("--form", default="plain", choices=FORMS)
    a.add_argument("--twists", type=lambda text: text.split(","), default=[])
    a.add_argument("--samples", type=int, default=3)
    a.add_argument("--together", type=int, default=1)
    a.add_argument("--jobs", type=int, default=1)
    a.add_argument("--limit", type=int, default=120)
    a.add_argument("--memory", type=int, default=24)
    a.add_argument("--results")
    a.add_argument("--keep")
    a.add_argument("--again", default="")
    return a.parse_args()


def main():
    o = parse()
    warnings.simplefilter("ignore")
    found, known = suites(o.suite), {}
    todo = [n for n in found if any(fnmatch.fnmatch(n, g) for g in o.names)]
    if o.results and os.path.exists(o.results):
        with open(o.results) as f:
            known = {row["name"]: row for row in map(json.loads, f)}
        todo = [n for n in todo if n not in known or known[n]["outcome"] in o.again.split(",")]
    groups = [todo[i:i + o.together] for i in range(0, len(todo), o.together)]
    torch.onnx.export(nn.Linear(2, 2), (torch.zeros(1, 2),), io.BytesIO(), dynamo=True, verbose=False)
    running = []
    with tempfile.TemporaryDirectory() as scratch:
        while groups or running:
            while groups and len(running) < o.jobs:
                names = groups.pop(0)
                folder = os.path.join(o.keep or scratch, names[0])
                os.makedirs(folder, exist_ok=True)
                running.append((names, time.time(), *survey.apart(lambda: try_names(names, found, folder, o), o)))
            for job in list(running):
                names, started, child, read = job
                made = survey.collect(child, read, started, o)
                if made is None:
                    continue
                running.remove(job)
                if "rows" not in made and len(names) > 1:  # ended by a signal, or out of time
                    groups += [[name] for name in names]
                    continue
                for name in names:
                    row = {"name": name, **made.get("rows", {name: {"outcome": "fails", **made}})[name]}
                    known[name] = row
                    print(f"{name:45} {row['outcome']:9} {row['message'][:200]}", flush=True)
                    if o.results:
                        with open(o.results, "a") as f:
                            f.write(json.dumps(row) + "\n")
            time.sleep(0.01)
    counts = collections.Counter(row["outcome"] for row in known.values())
    print(f"{len(known)} names:", ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
    return counts["WRONG"] + counts["fails"] > 0


if __name__ == "__main__":
    sys.exit(main())
