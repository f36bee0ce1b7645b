#!/usr/bin/env python3
"""Steps of graphs that hold their optimizer, against its definition in double precision.

usage: check_update.py TEMPOC TEMPO_RUN
A small network is compiled twice: with gradients as outputs, and with --update, clipped, summed over runs and scaled as
well. For some steps both run on the same weights; new weights and moments must be what optimizer_definitions.py makes
of the gradients, to rounding. Steps go on from the states that the graph gave; the first begins without any moments,
which are zeros then.
"""
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import optimizer_definitions as definitions
from compare import load, same_bits
from programs import check, finish, json_of, path, run
from tolerances import UPDATE, UPDATE_NORM, UPDATE_OF_SUM, UPDATE_SUM

RATE, STEPS = 0.03, 4
rng = np.random.default_rng(20240)
WEIGHTS = {
    "w1": rng.normal(0, 0.5, (7, 257)),
    "b1": rng.normal(0, 0.1, 257),
    "scale": rng.normal(1, 0.1, 257),
    "bias": rng.normal(0, 0.1, 257),
    "w2": rng.normal(0, 0.1, (257, 5)),
}
SPARED = {"b1", "scale", "bias"}


def network(name, dtype=TensorProto.FLOAT):
    """x [6, 7] and labels [6] to the loss of two layers with a norm between them."""
    node = helper.make_node
    nodes = [node("MatMul", ["x", "w1"], ["h"]), node("Add", ["h", "b1"], ["z"]),
             node("LayerNormalization", ["z", "scale", "bias"], ["n"]), node("Gelu", ["n"], ["a"]),
             node("MatMul", ["a", "w2"], ["y"]), node("SoftmaxCrossEntropyLoss", ["y", "labels"], ["loss"])]
    numpy_type = helper.tensor_dtype_to_np_dtype(dtype)
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", dtype, [6, 7]),
         helper.make_tensor_value_info("labels", TensorProto.INT64, [6])],
        [helper.make_tensor_value_info("loss", dtype, [])],
        [numpy_helper.from_array(w.astype(numpy_type), name) for name, w in WEIGHTS.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path(name))


def data(step, dtype):
    draw = np.random.default_rng(step)
    return {"x": draw.normal(0, 1, (6, 7)).astype(dtype), "labels": draw.integers(0, 5, 6)}


class Programs:
    def __init__(self, tempoc, tempo_run):
        self.tempoc, self.tempo_run = tempoc, tempo_run

    def compile(self, source, out, *flags):
        run(self.tempoc, path(source), "-q", "-o", path(out), *flags)

    def run(self, graph, inputs, *flags):
        np.savez(path("in.npz"), **inputs)
        run(self.tempo_run, path(graph), "--inputs", path("in.npz"), "--outputs", path("out.npz"), *flags)
        return load(path("out.npz"))


def with_weights_as_inputs(name):
    model = onnx.load(path(name))
    for tensor in [t for t in model.graph.initializer if t.name in WEIGHTS]:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    onnx.save(model, path(name))


def near(got, want, what, bound):
    scale = np.max(np.abs(want)) + 1e-3
    apart = float(np.max(np.abs(got - want)) / scale)
    if not apart <= bound:
        print(f"{what}: {apart:.2e} apart, at most {bound:.0e} is right")
    return apart <= bound


def numbers(step):
    return {"tempo.rate": np.float32(RATE), "tempo.update": np.int64(step)}


def expected(rule, step, weight, gradient, moments):
    operands = [np.asarray(t, np.float64) for t in (weight, gradient, *moments)]
    return rule(np.float64(np.float32(RATE)), step, *operands)


def norm_of(gradients):
    return np.sqrt(sum(np.sum(np.float64(g) ** 2) for g in gradients.values()))


def clipped(gradients, norm, limit):
    """torch.nn.utils.clip_grad_norm_"""
    factor = min(1.0, np.float64(np.float32(limit)) / (norm + 1e-6))
    return {name: g * factor for name, g in gradients.items()}


def loss_gradients(programs, batch, weights):
    got = programs.run("gradients.onnx", {**batch, **weights})
    return {name: np.float64(got[f"{name}_grad"]) for name in weights}


def check_sgd(programs, weights, got, gradients, what):
    """Weights of a step of plain sgd."""
    good = True
    for name, weight in weights.items():
        want = np.float64(weight) - np.float64(np.float32(RATE)) * gradients[name]
        good = near(got[f"{name}.new"], want, f"{what}, {name}", UPDATE["float32"]) and good
    return good


def check_clipping(programs, last):
    """Clipping by the norm of this update, or by that of the one before, which starts without."""
    limit, failed, before, state = 0.4, 0, 0.0, {}
    programs.compile("network.onnx", "update.onnx", "--update=sgd", f"--clip-norm={limit}", *["--clip-last"] * last)
    weights = {name: w.astype(np.float32) for name, w in WEIGHTS.items()}
    for step in range(1, STEPS + 1):
        batch = data(step, np.float32)
        gradients = loss_gradients(programs, batch, weights)
        got = programs.run("update.onnx", {**batch, **weights, **state, **numbers(step)})
        norm = norm_of(gradients)
        failed += not near(got["tempo.grad_norm"], norm, f"norm, step {step}", UPDATE_NORM)
        want = clipped(gradients, before if last else norm, limit)
        failed += not check_sgd(programs, weights, got, want, f"clipping, last {last}, step {step}")
        before = float(got["tempo.grad_norm"])
        state = {"tempo.last_norm": got["tempo.grad_norm"]} if last else {}
        weights = {name: got[f"{name}.new"] for name in weights}
    failed += not norm > limit  # else nothing was clipped
    return failed


def check_sums(programs, flags=()):
    """Groups of three runs: two updates, of sums that begin anew; between them no weight and no moment changes."""
    programs.compile("network.onnx", "update.onnx", "--update=adamw", "--accumulate-gradients", *flags)
    inputs = [i.name for i in onnx.load(path("update.onnx")).graph.input]
    weights = {name: w.astype(np.float32) for name, w in WEIGHTS.items()}
    state, failed, shares = {}, 0, (0.5, 0.3, 0.2)
    scale = {"tempo.loss_scale": np.float32(64)} if "--loss-scale" in flags else {}
    for update in (1, 2):
        sums = {name: np.zeros_like(w, np.float64) for name, w in WEIGHTS.items()}
        for part, share in enumerate(shares):
            batch = data(10 * update + part, np.float32)
            gradients = loss_gradients(programs, batch, weights)
            sums = {name: sums[name] + np.float64(np.float32(share)) * gradients[name] for name in sums}
            ends = {"tempo.apply": np.bool_(part == 2), "tempo.share": np.float32(share)}
            got = programs.run("update.onnx", {**batch, **weights, **state, **ends, **scale, **numbers(update)})
            for name, weight in weights.items():
                failed += not near(got[f"{name}.sum.new"], sums[name], f"{name}.sum, run {part}", UPDATE_SUM)
                moments = [state.get(f"{name}.moment{k}", np.zeros_like(weight)) for k in (1, 2)]
                results = [got[f"{name}{end}.new"] for end in ("", ".moment1", ".moment2")]
                if part < 2:
                    failed += not all(np.array_equal(a, b) for a, b in zip(results, [weight, *moments]))
                    continue
                want = definitions.adamw(np.float64(np.float32(RATE)), update, np.float64(weight), sums[name],
                                         *np.float64(moments), weight_decay=0.0)
                for tensor, exact in zip(results, want):
                    failed += not near(tensor, exact, f"{' '.join(flags)} {name}, update {update}",
                                       UPDATE_OF_SUM)
            state = {k: got[f"{k}.new"] for k in inputs if f"{k}.new" in got and k not in weights}
            weights = {name: got[f"{name}.new"] for name in weights}
    return failed


def check_loss_scale(programs):
    """Gradients of a scaled loss are true ones again; where one is not finite, all stays, and the run says so."""
    programs.compile("network.onnx", "update.onnx", "--update=adamw", "--loss-scale", "--clip-norm=0.4")
    weights = {name: w.astype(np.float32) for name, w in WEIGHTS.items()}
    moments = {f"{name}.moment{k}": np.abs(w) / 10 for name, w in weights.items() for k in (1, 2)}
    batch, failed = data(3, np.float32), 0
    gradients = loss_gradients(programs, batch, weights)
    want = clipped(gradients, norm_of(gradients), 0.4)
    for scale in (1.0, 1024.0, 3e38):
        loss_scale = {"tempo.loss_scale": np.float32(scale)}
        got = programs.run("update.onnx", {**batch, **weights, **moments, **numbers(2), **loss_scale})
        finite = scale < 1e30
        failed += bool(got["tempo.finite"]) != finite
        for name, weight in weights.items():
            keys = [name, f"{name}.moment1", f"{name}.moment2"]
            exact = [weight, *(moments[key] for key in keys[1:])]
            if finite:
                exact = definitions.adamw(np.float64(np.float32(RATE)), 2, *np.float64(exact[:1]), want[name],
                                          *np.float64(exact[1:]), weight_decay=0.0)
            for key, tensor in zip(keys, exact):
                same = np.array_equal(got[f"{key}.new"], tensor)
                failed += not (near(got[f"{key}.new"], tensor, f"scale {scale}, {key}", UPDATE["float32"])
                               if finite else same)
    return failed


def check_not_finite(programs):
    """Without a loss scale such a gradient stops the run, which names it and its weight."""
    programs.compile("network.onnx", "update.onnx", "--update=adamw")
    batch = {**data(1, np.float32), **numbers(1)}
    batch["x"][0, 0] = np.inf
    np.savez(path("in.npz"), **batch)
    command = [programs.tempo_run, path("update.onnx"), "--inputs", path("in.npz")]
    stopped = run(*command, code=None)
    wanted = (
        r"error: AdamW\S* \"\w+.new\": the gradient '\w+_grad' of '\w+' is not finite: "
        r"it has -?nan at element \d+ of"
    )
    good = stopped.code == 6 and re.search(wanted, stopped.err)
    if not good:
        print(f"exit code {stopped.code}, not 6: {stopped.err}")
    return int(not good)


def check_rule(programs, flags, rule, dtype=np.float32):
    """`rule` gives the definition for a weight's name. Returns how many of the comparisons failed."""
    programs.compile("network.onnx", "update.onnx", *flags)
    moments = sum(i.name.startswith("w1.moment") for i in onnx.load(path("update.onnx")).graph.input)
    weights = {name: w.astype(dtype) for name, w in WEIGHTS.items()}
    state, failed = {}, 0
    for step in range(1, STEPS + 1):
        batch = data(step, dtype)
        gradients = programs.run("gradients.onnx", {**batch, **weights})
        got = programs.run("update.onnx", {**batch, **weights, **state, **numbers(step)})
        failed += not np.array_equal(got["loss"], gradients["loss"])
        for name, weight in weights.items():
            keys = [f"{name}.moment{i + 1}" for i in range(moments)]
            old = [state.get(key, np.zeros_like(weight)) for key in keys]
            want = expected(rule(name), step, weight, gradients[f"{name}_grad"], old)
            for key, tensor in zip([name, *keys], want):
                failed += not near(got[f"{key}.new"], tensor, f"{' '.join(flags)}, step {step}, {key}",
                                   UPDATE[np.dtype(dtype).name])
                state[key] = got[f"{key}.new"]
        weights = {name: state.pop(name) for name in weights}
    return failed


def rules():
    """Options, and the definition for a weight."""
    adam = dict(alpha=0.8, beta=0.95, epsilon=1e-6)
    shown = ["--beta1=0.8", "--beta2=0.95", "--epsilon=1e-6"]

    def decay(name, number):
        return 0.0 if name in SPARED else number

    def rule(definition, **attributes):
        return lambda *operands: definition(*operands, **attributes)

    yield ["--update=adamw", "--weight-decay=0.1"], lambda name: rule(definitions.adamw, weight_decay=decay(name, 0.1))
    yield (
        ["--update=adamw", "--weight-decay=0.1", "--decay-all", *shown],
        lambda name: rule(definitions.adamw, weight_decay=0.1, **adam),
    )
    yield (
        ["--update=adam", "--weight-decay=0.2", *shown],
        lambda name: rule(definitions.adamw, weight_decay=0.0, norm_coefficient=decay(name, 0.2), **adam),
    )
    yield (
        ["--update=lamb", "--weight-decay=0.1", *shown],
        lambda name: rule(definitions.lamb, weight_decay=decay(name, 0.1), **adam),
    )
    yield (
        ["--update=sgd", "--weight-decay=0.2"],
        lambda name: rule(definitions.sgd, norm_coefficient=decay(name, 0.2)),
    )
    for mode, flags in (("standard", []), ("nesterov", ["--nesterov"])):
        yield (
            ["--update=sgd", "--momentum=0.7", *flags],
            lambda name, mode=mode: rule(definitions.momentum, alpha=0.7, beta=1.0, mode=mode, norm_coefficient=0.0),
        )


def deep(name, rows=2, layers=6):
    """x [rows, 64] to the loss of so many square layers: with few rows gradients are what takes memory."""
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(layers)]
    nodes.append(helper.make_node("ReduceMean", [f"x{layers}"], ["loss"], keepdims=0))
    x, loss = ("x0", [rows, 64]), ("loss", [])
    graph = helper.make_graph(
        nodes, "deep", *([helper.make_tensor_value_info(value, TensorProto.FLOAT, dims)] for value, dims in (x, loss)),
        [numpy_helper.from_array(rng.normal(0, 0.1, (64, 64)).astype(np.float32), f"w{i}") for i in range(layers)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path(name))


def check_arena(programs):
    """New weights and moments take no arena, and a gradient gives back what it took."""
    arenas = []
    deep("deep.onnx")
    for flags in ([], ["--update=adamw"]):
        programs.compile("deep.onnx", "deep_update.onnx", f"--report={path('report.json')}", *flags)
        arenas.append(json_of(path("report.json"))["arena_bytes"]["after"])
    fits = arenas[0] >= 6 * 64 * 64 * 4 and arenas[1] < 2 * 64 * 64 * 4
    if not fits:
        print(f"an update needs an arena of {arenas[1]} bytes, gradients {arenas[0]}")
    return int(not fits)


def check_budget(programs):
    """Under a budget that activations and gradients exceed, three steps give the bits of the graph without one."""
    results = []
    deep("deep.onnx", rows=96)
    inputs = {"x0": np.random.default_rng(5).normal(0, 1, (96, 64)).astype(np.float32), **numbers(1)}
    for flags in ([], ["--memory-budget=120000", "--remat-time=0.5"]):
        report = path("report.json")
        common = ["--recipe=none", "--update=adamw", f"--report={report}"]
        programs.compile("deep.onnx", "deep_update.onnx", *common, *flags)
        results.append(programs.run("deep_update.onnx", inputs, "--repeat=3"))
    arena = json_of(report)["arena_bytes"]["after"]
    same = same_bits(results[1], results[0])
    if not same or arena > 120000:
        print(f"under a budget of 120000 bytes: arena {arena}, same bits: {same}")
    return int(not same) + int(arena > 120000)


def check_repeat(programs):
    """Twenty steps on one batch lower the loss: tempo-run keeps what the file says."""
    programs.compile("network.onnx", "update.onnx", "--update=adamw")
    batch = {**data(1, np.float32), **numbers(1)}
    first = programs.run("update.onnx", batch)["loss"]
    last = programs.run("update.onnx", batch, "--repeat=20")["loss"]
    if not last < 0.5 * first:
        print(f"twenty steps: loss {first} -> {last}")
    return int(not last < 0.5 * first)


def main():
    programs = Programs(*sys.argv[1:3])
    network("network.onnx")
    programs.compile("network.onnx", "gradients.onnx")
    with_weights_as_inputs("gradients.onnx")
    failed = [check_rule(programs, flags, rule) for flags, rule in rules()]
    failed += [check_repeat(programs), check_arena(programs), check_budget(programs), check_not_finite(programs)]
    failed += [check_clipping(programs, last) for last in (False, True)]
    failed += [check_sums(programs), check_sums(programs, ("--loss-scale",)), check_loss_scale(programs)]
    network("network.onnx", TensorProto.DOUBLE)
    programs.compile("network.onnx", "gradients.onnx")
    with_weights_as_inputs("gradients.onnx")
    failed += [check_rule(programs, flags, rule, np.float64) for flags, rule in list(rules())[:2]]
    for number in failed:
        check(number == 0, f"{number} comparisons")
    finish()


if __name__ == "__main__":
    main()
