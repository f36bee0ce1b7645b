"""Ops of ai.tempo that the recipes use, as tempo-run binds them, against numpy: broadcast leading dims, masks and
biases of every shape, seeds, statistics of each type, absent operands and results; and that what two recipes save gives
the same bits.

usage: lean_ops.py TEMPO_RUN
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

import tool
from compare import load, same_bits
from programs import check, finish, path
from tolerances import LEAN_FORWARD, LEAN_GRADIENT

RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def run(op, inputs, outputs, options=(), code=0, domain="ai.tempo", **attrs):
    """Runs one node. inputs: arrays, or None for absent ones; outputs: names, "" for absent ones; a dict of results."""
    names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    node = helper.make_node(op, names, outputs, name="node", domain=domain, **attrs)
    values = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for n, x in zip(names, inputs) if n]
    results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs if n]
    for value in results:
        value.ClearField("type")
    model = helper.make_model(helper.make_graph([node], "graph", values, results), ir_version=10,
                              opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.tempo", 1)])
    onnx.save(model, path("model.onnx"))
    np.savez(path("in.npz"), **{n: x for n, x in zip(names, inputs) if n})
    tool.run(path("model.onnx"), "--inputs", path("in.npz"), "--outputs", path("out.npz"), *options,
             code=code)
    return load(path("out.npz")) if code == 0 else None


def near(what, got, expected, tolerance=LEAN_FORWARD):
    expected = np.asarray(expected)
    good = got.shape == expected.shape and np.all(np.abs(got - expected) <= tolerance * (1 + np.abs(expected)))
    check(good, f"{what}: {got.shape} {got.ravel()[:4]}, expected {expected.shape} {expected.ravel()[:4]}")


def same(what, a, b):
    check(same_bits(a, b), f"{what}: the bits differ")


def has_kernel(op):
    """On this device; else the op runs as its body, which rounds in other places."""
    return f"{op}: " in tool.run("--list-kernels")


def philox(counter, key):
    """Philox4x32 of 7 rounds: counter [..., 4], key [2], as Python's integers would do it."""
    c = [counter[..., i].astype(np.uint64) for i in range(4)]
    k = [np.uint64(key[0]), np.uint64(key[1])]
    low, s32 = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(7):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> s32) ^ c[1] ^ k[0], p1 & low, (p0 >> s32) ^ c[3] ^ k[1], p0 & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(c, axis=-1)


def kept(shape, ratio, seed, node):
    n = int(np.prod(shape))
    blocks = np.arange((n + 7) // 8, dtype=np.uint64)
    step, high = (np.full_like(blocks, seed[1] >> shift & 0xFFFFFFFF) for shift in (0, 32))
    counter = np.stack([blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32) ^ high, np.full_like(blocks, node),
                        step], axis=-1)
    words = philox(counter, (seed[0] & 0xFFFFFFFF, seed[0] >> 32 & 0xFFFFFFFF)).ravel()
    halves = np.stack([words & np.uint64(0xFFFF), words >> np.uint64(16)], axis=-1).ravel()[:n]
    return (halves >= max(1, round(float(np.float32(ratio)) * 65536))).reshape(shape)


def dropout():
    for shape in [(5, 7), (3, 1, 1001)]:
        x, ratio, seed = normal(*shape), np.array(0.3, np.float32), np.array([-(2**40) - 5, 2**32 + 9])
        out = run("Dropout", [x, ratio, seed], ["y", "mask"], node=6)
        mask = kept(shape, 0.3, [int(s) for s in seed], 6)
        same("mask", out["mask"], mask)
        same("dropped", out["y"], np.where(mask, x / (np.float32(1) - ratio), np.float32(0)))
        grad = run("DropoutGrad", [x, mask, ratio], ["dx"])
        same("gradient by the mask", grad["dx"], out["y"])
    run("Dropout", [x, np.array(1.5, np.float32), seed], ["y"], code=2)


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention_case(q_lead, kt_lead, v_lead, bias, mask, ratio, **attrs):
    s, t, d, e = 5, 6, 4, 3
    q, kt, v = normal(*q_lead, s, d), normal(*kt_lead, d, t), normal(*v_lead, t, e)
    bias = None if bias is None else normal(*bias)
    mask = None if mask is None else RNG.random(mask) < 0.7
    scale = np.float32(0.4)
    drop = [np.array(ratio, np.float32), np.array([3, 4])] if ratio else [None, None]
    operands = [q, kt, v, bias, mask, *drop]
    while operands[-1] is None:
        operands.pop()
    names = ["y", "p", "dropped", "keep"] if ratio else ["y", "p"]
    none = run("DotProductAttention", operands, names, scale=float(scale), node=2, options=["--threads", "2"], **attrs)
    scores = scale.astype(np.float64) * (q.astype(np.float64) @ kt.astype(np.float64))
    if mask is not None:
        scores = np.where(mask, scores, attrs.get("fill", -np.inf))
    if bias is not None:
        scores = scores + bias
    with np.errstate(invalid="ignore"):
        p = softmax(scores)
    p = np.where(np.isnan(p), 0, p) if attrs.get("guard") else p
    keep = kept(p.shape, ratio, [3, 4], 2) if ratio else np.ones(p.shape, bool)
    dropped = np.where(keep, p / (1 - ratio), 0)
    near("p", none["p"], p)
    near("y", none["y"], dropped @ v)
    dy = normal(*none["y"].shape)
    saved = [dy, q, kt, v, none["p"]] + ([none["dropped"], none["keep"], drop[0]] if ratio else [])
    grads = run("DotProductAttentionGrad", saved, ["dq", "dkt", "dv", "ds"], scale=float(scale))
    dp = np.where(keep, (dy @ np.swapaxes(v, -1, -2)) / (1 - ratio), 0)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True))
    near("dv", grads["dv"], np.swapaxes(dropped, -1, -2) @ dy, LEAN_GRADIENT)
    near("ds", grads["ds"], ds, LEAN_GRADIENT)
    near("dq", grads["dq"], scale * (ds @ np.swapaxes(kt, -1, -2)), LEAN_GRADIENT)
    near("dkt", grads["dkt"], scale * (np.swapaxes(np.broadcast_to(q, (*p.shape[:-2], s, d)), -1, -2) @ ds),
         LEAN_GRADIENT)
    if not ratio:
        return
    signed = run("DotProductAttention", operands, ["y", "p"], scale=float(scale), node=2, signed=1,
                 options=["--threads", "3"],
                 **attrs)
    same("y beside signed p", signed["y"], none["y"])
    same("p without its sign", np.abs(signed["p"]), none["p"])
    same("the sign of p", ~np.signbit(signed["p"]), none["keep"])
    saved = [dy, q, kt, v, signed["p"], None, None, drop[0]]
    again = run("DotProductAttentionGrad", saved, ["dq", "dkt", "dv"], scale=float(scale), signed=1,
                options=["--threads", "1"])
    for name in again:
        same(name + " from signed p", again[name], grads[name])


def attention():
    attention_case((2, 3), (2, 3), (2, 3), None, None, 0)
    attention_case((2, 3), (2, 3), (2, 3), (2, 1, 1, 6), None, 0.2)
    attention_case((2, 3), (2, 1), (2, 1), (5, 6), None, 0)
    attention_case((2, 3), (1, 3), (), (1, 3, 5, 1), (5, 6), 0.5)
    attention_case((3,), (2, 1), (2, 3), (), (2, 1, 1, 6), 0.1, guard=1)
    attention_case((2, 2), (2, 2), (2, 2), None, (2, 1, 5, 1), 0.3, guard=1)
    attention_case((2, 2), (2, 2), (2, 2), (5, 6), (2, 1, 5, 1), 0.3, fill=-40.0)
    attention_case((), (), (), (6,), (6,), 0, fill=-2.0)


def from_y(x, scale, bias, dy, plain, lean, grads):
    """A norm that keeps y, beside the same that keeps x, or x-hat."""
    bias = np.where(np.abs(scale) > 1e-3, np.clip(bias, -np.abs(scale), np.abs(scale)), bias)
    bias[2, 3] = 20 * scale[2, 3]
    plain = run("LayerNormalization", [x, scale, bias], ["y", "mean", "inv"], domain="", axis=2, epsilon=1e-3)
    names = ["y", "inv", "channels", "kept"]
    ours = run("LayerNormalizationFromY", [x, scale, bias], names, axis=2, epsilon=1e-3, capacity=5)
    alike = same if has_kernel("LayerNormalizationFromY") else near
    alike("y from which x-hat comes", ours["y"], plain["y"])
    alike("inv_std beside it", ours["inv"], plain["inv"])
    same("sides", ours["channels"], np.array([0, 8, 17, -1, -1], np.int32))
    alike("what they keep", ours["kept"], np.concatenate(
        [lean["xhat"].reshape(4, 3, 70)[..., [0, 8, 17]], np.zeros((4, 3, 2), np.float32)], -1))
    saved = [dy, ours["y"], scale, ours["inv"], ours["channels"], ours["kept"], bias]
    got = run("LayerNormalizationFromYGrad", saved, ["dx", "dscale", "dbias"], axis=2)
    for name in got:
        near(name + " from y", got[name], grads[name], LEAN_GRADIENT)


def layer_norm():
    x, scale, bias, dy = normal(4, 3, 10, 7), normal(10, 7), normal(10, 7), normal(4, 3, 10, 7)
    scale[0, 0], scale[1, 1] = 0, 1e-8
    wide = x.astype(np.float64)
    mean, var = wide.mean(axis=(2, 3), keepdims=True), wide.var(axis=(2, 3), keepdims=True)
    root = 1 / np.sqrt((wide**2).mean(axis=(2, 3), keepdims=True) + 1e-3)
    plain = run("LayerNormalization", [x, scale, bias], ["y", "mean", "inv"], domain="", axis=2, epsilon=1e-3)
    lean = run("LayerNormalizationXhat", [x, scale, bias], ["y", "xhat", "inv"], axis=2, epsilon=1e-3)
    near("xhat", lean["xhat"], (wide - mean) / np.sqrt(var + 1e-3))
    again = run("ScaleBias", [lean["xhat"], scale, bias], ["y"], axis=2)
    same("y beside xhat", lean["y"], plain["y"])
    same("inv_std", lean["inv"], plain["inv"])
    same("y again", again["y"], plain["y"])
    names = ["dx", "dscale", "dbias"]
    a = run("LayerNormalizationGrad", [dy, x, scale, plain["mean"], plain["inv"]], names, axis=2,
            options=["--threads", "2"])
    b = run("LayerNormalizationXhatGrad", [dy, lean["xhat"], scale, lean["inv"]], names, axis=2,
            options=["--threads", "1"])
    for name in names:
        same(name, a[name], b[name])
    from_y(x, scale, bias, dy, plain, lean, a)
    near("dscale", a["dscale"], (dy * (wide - mean) / np.sqrt(var + 1e-3)).sum(axis=(0, 1)), LEAN_GRADIENT)
    plain = run("RMSNormalization", [x, scale], ["y", "inv"], axis=2, epsilon=1e-3)
    lean = run("RMSNormalizationXhat", [x, scale], ["y", "xhat", "inv"], axis=2, epsilon=1e-3)
    near("root mean square", plain["y"], wide * root * scale)
    near("xhat of it", lean["xhat"], wide * root)
    same("y beside its xhat", lean["y"], plain["y"])
    same("y of it again", run("ScaleBias", [lean["xhat"], scale], ["y"], axis=2)["y"], plain["y"])
    a = run("RMSNormalizationGrad", [dy, x, scale, plain["inv"]], names[:2], axis=2)
    b = run("RMSNormalizationXhatGrad", [dy, lean["xhat"], scale, lean["inv"]], names[:2], axis=2)
    for name in names[:2]:
        same(name + " of RMS", a[name], b[name])
    g = dy * scale
    near("dx of RMS", a["dx"], root * (g - wide * root * (g * wide * root).mean(axis=(2, 3), keepdims=True)),
         LEAN_GRADIENT)


def swish():
    x, dy = normal(300), normal(300)
    s = 1 / (1 + np.exp(-1.5 * x.astype(np.float64)))
    near("swish", run("Swish", [x], ["y"], alpha=1.5)["y"], x * s)
    near("its gradient", run("SwishGrad", [dy, x], ["dx"], alpha=1.5)["dx"], dy * (s + 1.5 * x * s * (1 - s)))


def activation():
    x, dy, of = normal(3, 7), normal(3, 7), {"function": "Swish", "alpha": 1.5}
    s = 1 / (1 + np.exp(-1.5 * x.astype(np.float64)))
    out = run("ActivationMasked", [x], ["y", "right"], **of)
    near("swish beside its bits", out["y"], x * s)
    same("bits", out["right"], np.packbits(1.5 * x >= -1.278464542761074, bitorder="little"))  # SiLU's minimum
    same("y without bits", run("ActivationMasked", [x], ["y"], **of)["y"], out["y"])
    operands = [dy, out["y"], out["right"]]
    dx = run("ActivationFromOutputGrad", operands, ["dx"], options=["--threads", "3"], **of)["dx"]
    near("gradient of y and bits", dx, dy * (s + 1.5 * x * s * (1 - s)), LEAN_GRADIENT)
    run("ActivationFromOutputGrad", [*operands[:2], np.zeros(4, np.uint8)], ["dx"], code=2, **of)
    run("ActivationFromOutputGrad", [*operands[:2], x > 0], ["dx"], code=2, **of)
    run("ActivationFromOutputGrad", operands, ["dx"], code=2, function="Relu")
    run("ActivationMasked", [x], ["y", "right"], code=2, function="Gelu", approximate="sigmoid")


dropout()
activation()
attention()
layer_norm()
swish()
finish()
