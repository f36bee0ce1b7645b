"""One kind of model by one exporter: exported with PyTorch's own loss and gradients beside it (`write_case`), then
compiled, run and compared (`try_case`). A case is a folder: model.onnx, inputs.npz, expected.npz (gradients by
parameter) and case.json. The second step needs no PyTorch."""
import copy
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "test", "lib"))
from compare import by_onnxruntime, worst  # noqa: E402
from tolerances import GRADIENT  # noqa: E402
import survey_double  # noqa: E402
import survey_places  # noqa: E402

OPEN = "batch"


def dynamic(feeds, batch):
    """For each input whether its first size is the batch"""
    return [t.ndim > 0 and t.shape[0] == batch and name != "target" for name, t in feeds.items()]


def export(task, feeds, path, exporter, batch):
    """EXPORTER: ts17, dyn18 (its defaults, sizes fixed), or plain18, plain23 (optimize=False, batch open). True where
    the batch is open in the file."""
    import torch
    how, opset = exporter.rstrip("0123456789"), int(exporter[-2:])
    axes = dynamic(feeds, batch)
    common = dict(input_names=list(feeds), output_names=["loss"], opset_version=opset)
    if how == "ts":
        torch.onnx.export(task, tuple(feeds.values()), path, dynamo=False, do_constant_folding=False,
                          dynamic_axes={n: {0: OPEN} for n, is_open in zip(feeds, axes) if is_open},
                          training=torch.onnx.TrainingMode.TRAINING, **common)
        return True
    shapes = (tuple({0: torch.export.Dim(OPEN)} if is_open else {} for is_open in axes),)
    for dynamic_shapes in ([shapes, None] if how == "plain" else [None]):
        try:
            torch.onnx.export(task, tuple(feeds.values()), path, dynamo=True, optimize=how == "dyn", verbose=False,
                              dynamic_shapes=dynamic_shapes, external_data=False, **common)
            return dynamic_shapes is not None
        except Exception:
            if dynamic_shapes is None:
                raise


def gradients(task, feeds):
    """loss, and the gradient of each parameter that has one"""
    task.zero_grad()
    loss = task(*feeds.values())
    loss.backward()
    return {"loss": loss.detach().numpy().copy(),
            **{f"{n}_grad": p.grad.numpy().copy() for n, p in task.named_parameters() if p.grad is not None}}


def own_error(task, feeds, want):
    """How far PyTorch in float is off PyTorch in double; None where that cannot be told"""
    try:
        double = copy.deepcopy(task).double()
        exact = gradients(double, {n: t.double() if t.is_floating_point() else t for n, t in feeds.items()})
        return worst(want, exact)[0]
    except Exception:
        return None


def write_case(folder, task, feeds, exporter, batch):
    """May raise whatever PyTorch raises"""
    import torch
    warnings.simplefilter("ignore")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    state = copy.deepcopy(task.state_dict())
    want = gradients(task, feeds)
    task.load_state_dict(state)
    same = want["loss"] == task(*feeds.values()).item()
    task.load_state_dict(state)
    cancels = any(word in type(m).__name__ for m in task.modules() for word in ("BatchNorm", "InstanceNorm"))
    own = own_error(task, feeds, want) if same and cancels else None
    if own is not None and own > GRADIENT / 10:  # sums that almost cancel: these are compared in double
        task, feeds = task.double(), {n: t.double() if t.is_floating_point() else t for n, t in feeds.items()}
        want = gradients(task, feeds)
        task.zero_grad()
    is_open = export(task, feeds, path, exporter, batch)
    np.savez(os.path.join(folder, "inputs.npz"), **{n: t.numpy() for n, t in feeds.items()})
    np.savez(os.path.join(folder, "expected.npz"), **want)
    first = {}
    for name, p in task.named_parameters(remove_duplicate=False):
        first.setdefault(id(p), []).append(name)
    told = {"model": type(task.m).__name__, "open": is_open, "random": not bool(same), "own_error": own,
            "double": next((p.dtype for p in task.parameters()), None) == torch.float64,
            "aliases": {names[0]: names for names in first.values() if len(names) > 1},
            "buffers": [n for n, _ in task.named_buffers()],
            "parameters": sum(p.numel() for p in task.parameters())}
    with open(os.path.join(folder, "case.json"), "w") as f:
        json.dump(told, f)


def said(done):
    """The last error that a program printed"""
    lines = [line for line in done.stderr.strip().splitlines() if line]
    errors = [line for line in lines if ": error: " in line or "error: " in line] or lines
    return errors[0].split("error: ", 1)[-1][:600] if errors else f"exit code {done.returncode}"


def gradients_run(got, want, aliases):
    """What was computed under the names of what was expected: the sum where a tied parameter has several names"""
    total = {}
    for name in want:
        names = [n + "_grad" for n in aliases.get(name[:-5], [name[:-5]])] if name != "loss" else ["loss"]
        found = [got[n].astype(np.float64) for n in names if n in got]
        if found:
            total[name] = sum(f.reshape(want[name].shape) if f.size == want[name].size else f for f in found)
        elif not want[name].any():
            total[name] = np.zeros_like(want[name])
    return total


def choice(model, told, want):
    """Options that say which initializers are parameters: of TorchScript's files, which do not"""
    if any(p.key.startswith("pkg.torch") for p in model.metadata_props) or \
            any(p.key.startswith("pkg.torch") for v in model.graph.node for p in v.metadata_props):
        return []
    names = {i.name for i in model.graph.initializer}
    return [f"--freeze={n}" for n in told["buffers"] if n in names] + \
        [f"--train={n[:-5]}" for n in want if n[:-5] in names]


def batch_of(model, inputs):
    """The size of the batch, where that is open in the file; else nothing"""
    arrays = np.load(inputs)
    return list({int(arrays[i.name].shape[axis]) for i in model.graph.input if i.name in arrays
                 for axis, dim in enumerate(i.type.tensor_type.shape.dim) if dim.dim_param == OPEN})[:1]


def run(*command, limit=120):
    return subprocess.run(command, capture_output=True, text=True, timeout=limit)


def try_case(folder, tempoc, tempo_run):
    """What came of it: stage (tempoc, tempo-run, gradients, or right), message, error, bytes, places; of what is not
    right also `runtime`, what ONNX Runtime makes of the file"""
    out = compiled(folder, tempoc, tempo_run)
    if out["stage"] != "right":
        out["runtime"] = other_runtime(folder)
    return out


def by_double(model, folder, scratch, options, want, told, tools):
    """How far the same graph in double is off PyTorch in float, which is not much where float's rounding alone decides;
    infinity where it does not compile or run. Changes the model."""
    path, train, feeds, got = (os.path.join(scratch, n) for n in ("d.onnx", "d.t.onnx", "d.npz", "d.g.npz"))
    survey_double.widen_graph(model.graph)
    onnx.save(model, path)
    np.savez(feeds, **survey_double.widened(np.load(os.path.join(folder, "inputs.npz"))))
    if run(tools[0], path, "-o", train, "--names=pytorch", *options).returncode or \
            run(tools[1], train, "--inputs", feeds, "--outputs", got).returncode:
        return float("inf")
    return worst(gradients_run(dict(np.load(got)), want, told["aliases"]), want)[0]


def other_runtime(folder):
    """refused, loss (another than PyTorch's), or right"""
    feeds = dict(np.load(os.path.join(folder, "inputs.npz")))
    try:
        loss = by_onnxruntime(os.path.join(folder, "model.onnx"), feeds)["loss"]
    except Exception:
        return "refused"
    want = np.load(os.path.join(folder, "expected.npz"))["loss"]
    return "right" if abs(loss - want) <= GRADIENT * abs(want) else "loss"


def compiled(folder, tempoc, tempo_run):
    with open(os.path.join(folder, "case.json")) as f:
        told = json.load(f)
    want = dict(np.load(os.path.join(folder, "expected.npz")))
    path = os.path.join(folder, "model.onnx")
    model = onnx.load(path)
    out = {"model": told["model"], "open": told["open"], "double": told.get("double", False),
           "places": survey_places.places(model)}
    with tempfile.TemporaryDirectory() as scratch:
        train, got, report, plain = (os.path.join(scratch, n) for n in ("t.onnx", "g.npz", "r.json", "f.onnx"))
        options = choice(model, told, want)
        done = run(tempoc, path, "-o", train, "--names=pytorch", *options)
        if done.returncode:
            return {**out, "stage": "tempoc", "message": said(done)}
        sizes = [f"--dim={OPEN}={n}" for n in batch_of(model, os.path.join(folder, "inputs.npz"))]
        if run(tempoc, path, f"--report={report}", "--recipe=exact", *options, *sizes).returncode == 0:
            with open(report) as f:
                saved = json.load(f)["saved_bytes"]
            out["saved"] = [saved["before"], saved["after"]]
        if run(tempoc, path, "-o", plain, "--recipe=forward").returncode == 0:
            out["raised"] = survey_places.raised(onnx.load(plain, load_external_data=False))
        done = run(tempo_run, train, "--inputs", os.path.join(folder, "inputs.npz"), "--outputs", got)
        if done.returncode:
            return {**out, "stage": "tempo-run", "message": said(done)}
        if told["random"]:
            return {**out, "stage": "right", "message": "drawn at random"}
        error, name = worst(gradients_run(dict(np.load(got)), want, told["aliases"]), want)
        if error > GRADIENT and not out["double"]:
            exact = by_double(model, folder, scratch, options, want, told, (tempoc, tempo_run))
            if exact <= GRADIENT:
                return {**out, "stage": "right", "error": exact, "float": error, "worst": name}
        right = error <= GRADIENT
        return {**out, "stage": "right" if right else "gradients", "error": error, "worst": name,
                "message": "" if right else f"{name} is {error:.1e} off"}
