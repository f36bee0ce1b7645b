#!/usr/bin/env python3
"""Checks --dim batch=N on exports whose batch is a number: the same samples several times over give PyTorch's loss and
gradients, which are means over the batch, and samples one by one give them on average.

usage: check_batch.py TEMPOC TEMPO_RUN [--recipe=RECIPE] CASE_DIR ...
In one run the whole batch stands three times in a row, in another each sample does: a sample that gets what belongs to
its neighbour shows. Losses that count labels (all but those with one label for each sample) are not tried one by one.
"""
import os
import sys

import numpy as np

from check_models import worst
from compare import by_onnxruntime, load
from programs import case, finish, path, run, write
from tolerances import GRADIENT


def compiled(o, folder, batch):
    out = path(f"{batch}.onnx")
    run(o["tempoc"], "-q", os.path.join(folder, "model.onnx"), f"--dim=batch={batch}", *o["flags"], "-o", out)
    return out


def results(o, graph, feeds):
    np.savez(path("in.npz"), **feeds)
    run(o["tempo_run"], graph, "--inputs", path("in.npz"), "--outputs", path("got.npz"))
    return load(path("got.npz"))


def judge(what, got, want, limit):
    error, name = worst(got, want)
    assert error <= limit, f"{what}: {name} is off by {error:.1e}"
    return error


def check(o, folder):
    want, feeds = (load(os.path.join(folder, name)) for name in ("expected.npz", "inputs.npz"))
    limit = float(want.pop("limit", GRADIENT))
    n = len(next(iter(feeds.values())))
    many = compiled(o, folder, 3 * n)
    in_turn = {k: np.tile(v, [3] + [1] * (v.ndim - 1)) for k, v in feeds.items()}
    errors = [judge("in turn", results(o, many, in_turn), want, limit),
              judge("in turn, by ONNX Runtime", by_onnxruntime(many, in_turn), want, limit),
              judge("in rows", results(o, many, {k: np.repeat(v, 3, axis=0) for k, v in feeds.items()}), want, limit)]
    if feeds.get("labels", np.zeros((1, 1))).ndim == 1:
        single = compiled(o, folder, 1)
        runs = [results(o, single, {k: v[i:i + 1] for k, v in feeds.items()}) for i in range(n)]
        errors.append(judge("one by one", {k: np.mean([r[k] for r in runs], axis=0) for k in runs[0]}, want, limit))
    return None, f"worst error {max(errors):.1e}"


COUNTED = """<ir_version: 10, opset_import: ["" : 21]>
counted (float[3,4] x, int64[3,2] columns) => (float[3,2] y)
  <int64[3,1] rows = {0,1,2}, int64[2] sizes = {3,2}, int64[1] behind = {-1}>
{
  r = Expand (rows, sizes)
  a = Unsqueeze (r, behind)
  c = Unsqueeze (columns, behind)
  i = Concat <axis = 2> (a, c)
  y = GatherND (x, i)
}
"""


def check_counted(o):
    """Rows that a constant counts: six samples at once as three and three by the file as it is, in ONNX Runtime."""
    text, plain, six = (path(name) for name in ("g.onnxt", "plain.onnx", "six.onnx"))
    write(text, COUNTED)
    for flags, out in (["--passes="], plain), (["--passes=shapes,batch", "--dim=batch=6"], six):
        run(o["tempoc"], "-q", text, *flags, "-o", out)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(6, 4)).astype(np.float32), "columns": rng.integers(0, 4, (6, 2))}
    parts = [by_onnxruntime(plain, {k: v[at:at + 3] for k, v in feeds.items()})["y"] for at in (0, 3)]
    assert np.array_equal(by_onnxruntime(six, feeds)["y"], np.concatenate(parts)), "counted rows are others"


def main(tempoc, tempo_run, *rest):
    o = {"tempoc": tempoc, "tempo_run": tempo_run, "flags": [a for a in rest if a.startswith("--")]}
    case("counted rows", check_counted, o)
    for folder in (a for a in rest if not a.startswith("--")):
        case(os.path.basename(os.path.normpath(folder)), check, o, folder)
    finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
