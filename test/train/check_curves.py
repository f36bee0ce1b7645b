#!/usr/bin/env python3
"""tempo-train gives PyTorch's loss curve, and the same bits whatever is kept in memory.

usage: check_curves.py TEMPO_TRAIN CASE [--budget=SHARE]
CASE      a folder of models/ with model.onnx, data.npz and expected.npz of models/train_expected.py: PyTorch's curve
          without dropout
--budget  of the memory of `none`, default 35%
With dropout, and without: losses under `none`, `exact`, `tiled` and within the budget are the same bits. Without:
theirs, and those of `paper`, are PyTorch's to a relative TOLERANCE; PyTorch's own curve in float is a fortieth of that
off from that in float64 at most. Behind the last step, evaluation gives PyTorch's loss (and accuracy), and
so does ONNX Runtime with the model that --save wrote; --save-weights has the same weights by PyTorch's names.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import saved_models

BITS = {name: [f"--recipe={name}"] for name in ("none", "exact", "tiled")}
ROUNDING = {"paper": ["--recipe=paper"]}
TOLERANCE = 1e-4


class Case:
    def __init__(self, program, folder, budget, scratch):
        self.program, self.folder, self.scratch = program, folder, scratch
        self.data = os.path.join(folder, "data.npz")
        with np.load(os.path.join(folder, "expected.npz")) as file:
            self.expected = dict(file)
        with np.load(self.data) as file:
            self.arrays = dict(file)
        self.kept = dict(BITS)
        # A budget holds for one size of batch, so that the last one, where it is short, is left out of training.
        if len(self.arrays["labels"]) % self.expected["batch"] == 0:
            self.kept["budget"] = ["--recipe=none", f"--memory-budget={budget}", *self.sizes()]
        self.failed = 0

    def sizes(self):
        ids = self.arrays.get("input_ids")
        return [] if ids is None else [f"--dim=sequence={ids.shape[1]}"]

    def check(self, right, what):
        self.failed += not right
        if not right:
            print(f"FAILED {os.path.basename(self.folder)}: {what}")

    def train(self, model, flags, *more):
        """The log of a run."""
        log = os.path.join(self.scratch, "run.jsonl")
        e = self.expected
        subprocess.run([self.program, model, "-q", f"--data={self.data}", f"--batch={e['batch']}", "--no-shuffle",
                        f"--epochs={e['epochs']}", f"--lr={e['rate']}", "--schedule=constant", "--optimizer=adamw",
                        f"--weight-decay={e['decay']}", "--loss=loss", "--seed=1", f"--log={log}", *flags, *more],
                       check=True)
        return saved_models.read_log(log)

    def losses(self, log):
        return np.array([line["loss"] for line in log if not line.get("eval")], np.float32)

    def same_bits(self, model, *more):
        """Curves of each that keeps bits; that of `none`."""
        curves = {name: self.losses(self.train(model, flags, *more)) for name, flags in self.kept.items()}
        for name, curve in curves.items():
            self.check(np.array_equal(curve, curves["none"]), f"losses under {name} are not those of none")
        return curves["none"]

    def near(self, got, wanted, what):
        apart = np.max(np.abs(np.asarray(got) / wanted - 1)) if np.shape(got) == np.shape(wanted) else np.inf
        self.check(apart < TOLERANCE, f"{what} are off PyTorch's by {apart:.1e}")
        return apart

    def with_dropout(self):
        curve = self.same_bits(os.path.join(self.folder, "model.onnx"))
        differ = curve != self.expected["loss"]
        self.check(differ.mean() > 0.9, "dropout does not drop")

    def without_dropout(self):
        plain = os.path.join(self.scratch, "plain.onnx")
        onnx.save(saved_models.without_dropout(onnx.load(os.path.join(self.folder, "model.onnx"))), plain)
        apart = [self.near(self.same_bits(plain), self.expected["loss"], "losses")]
        for name, flags in ROUNDING.items():
            apart.append(self.near(self.losses(self.train(plain, flags)), self.expected["loss"], f"losses of {name}"))
        return apart

    def results(self):
        """What is written behind the last step."""
        plain, saved, weights = (os.path.join(self.scratch, name) for name in ("plain.onnx", "saved.onnx", "w.st"))
        log = self.train(plain, BITS["exact"], f"--save={saved}", f"--save-weights={weights}",
                         f"--eval-data={self.data}")
        last = [line for line in log if line.get("eval")][-1]
        feeds = {name: x if x.dtype == np.float32 else x.astype(np.int64) for name, x in self.arrays.items()}
        by_ort = saved_models.scores(saved_models.session_of(onnx.load(saved)), [feeds])
        for name in by_ort:
            wanted = self.expected[f"final_{name}"]
            self.near(last[name], wanted, f"evaluation's {name}")
            self.near(by_ort[name], wanted, f"{name} of the saved model by ONNX Runtime")
        before, after = ({i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
                         for path in (plain, saved))
        trained = {name: a for name, a in after.items() if not np.array_equal(a, before[name])}
        told = saved_models.read_safetensors(weights)
        self.check(set(trained) <= set(told), f"--save-weights lacks {sorted(set(trained) - set(told))}")
        self.check(all(np.array_equal(told[name], a) for name, a in trained.items() if name in told),
                   "--save-weights and --save differ")
        floats = [i.name for i in onnx.load(plain).graph.initializer
                  if i.data_type == onnx.TensorProto.FLOAT and i.dims]
        self.check(set(floats) == set(trained), f"not trained: {sorted(set(floats) - set(trained))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--budget", default="35%")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        case = Case(o.program, o.folder, o.budget, scratch)
        case.with_dropout()
        apart = case.without_dropout()
        case.results()
    print(f"{os.path.basename(o.folder)}: {len(case.expected['loss'])} steps, losses are off PyTorch's by " +
          " and ".join(f"{x:.1e}" for x in apart) + f"; {case.failed} failed")
    sys.exit(case.failed > 0)


if __name__ == "__main__":
    main()
