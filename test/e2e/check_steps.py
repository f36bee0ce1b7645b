#!/usr/bin/env python3
"""Real exports that describe a step of training (training_info): a Gradient for every parameter and a Momentum. The
first step's velocities are the gradients that PyTorch computed, weights move along them, and `tempo-run --repeat`
trains: the loss of its last step is that of as many single runs, each fed with what the one before it gave.
usage: check_steps.py TEMPOC TEMPO_RUN CASE_DIR ..."""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as n

from check_models import worst
from compare import load
from programs import case, finish, path, run
from tolerances import GRADIENT

DOMAIN, RATE, STEPS = "ai.onnx.preview.training", 0.125, 4


def add_step(model, names, loss):
    """W_v is W's velocity, 0 at first."""
    init = {i.name: n.to_array(i) for i in model.graph.initializer}
    of = {end: [name + end for name in names] for end in ("_grad", "_v", "_new", "_v_new")}
    nodes = [h.make_node("Gradient", names, of["_grad"], domain=DOMAIN, xs=names, y=loss),
             h.make_node("Momentum", ["R", "T", *names, *of["_grad"], *of["_v"]], of["_new"] + of["_v_new"],
                         domain=DOMAIN, alpha=0.9, beta=1.0, mode="standard", norm_coefficient=0.0)]
    outputs = [h.make_tensor_value_info(name + end, T.FLOAT, init[name].shape) for end in ("_new", "_v_new")
               for name in names]
    state = [n.from_array(np.zeros_like(init[name]), name + "_v") for name in names]
    training = model.training_info.add(algorithm=h.make_graph(
        nodes, "step", [], outputs, [n.from_array(np.float32(RATE), "R"), n.from_array(np.int64(1), "T")] + state))
    for old in names + of["_v"]:
        training.update_binding.add(key=old, value=old + "_new")
    model.opset_import.append(h.make_opsetid(DOMAIN, 1))
    model.ir_version = max(model.ir_version, 8)
    return init


def check(tempoc, tempo_run, folder):
    want, feeds = (load(os.path.join(folder, name)) for name in ("expected.npz", "inputs.npz"))
    step, compiled, batch, results = (path(name) for name in ("m.onnx", "c.onnx", "i.npz", "o.npz"))
    model = onnx.load(os.path.join(folder, "model.onnx"))
    held = {i.name for i in model.graph.initializer}
    names = [name[:-5] for name in want if name.endswith("_grad") and name[:-5] in held]
    loss = model.graph.output[0].name
    init = add_step(model, names, loss)
    onnx.save(model, step)
    run(tempoc, step, "-o", compiled, "-q")

    def train(count, arrays):
        np.savez(batch, **arrays)
        run(tempo_run, compiled, "--inputs", batch, "--outputs", results, f"--repeat={count}")
        return load(results)
    got = first = train(1, feeds)
    error, name = worst({"loss": first[loss], **{w + "_grad": first[w + "_v_new"] for w in names}},
                        {"loss": want["loss"], **{w + "_grad": want[w + "_grad"] for w in names}})
    assert len(names) > 10 and error <= GRADIENT, f"{len(names)} parameters, {name}: {error}"
    for w in names:
        assert np.array_equal(first[w + "_new"], init[w] - np.float32(RATE) * first[w + "_v_new"]), w
    for _ in range(STEPS - 1):
        got = train(1, {**feeds, **{o[:-4]: value for o, value in got.items() if o.endswith("_new")}})
    again = train(STEPS, feeds)
    assert all(np.array_equal(got[o], again[o]) for o in got) and got[loss] < first[loss], "--repeat"
    return None, (f"{len(names)} parameters, worst {error:.2g} of {name}, loss {float(first[loss]):.3f} to "
                  f"{float(got[loss]):.3f}")


for model_folder in sys.argv[3:]:
    case(os.path.basename(os.path.normpath(model_folder)), check, *sys.argv[1:3], model_folder)
finish()
