"""RecurrenceGrad by its definition in numpy, and its cases for check_lean_ops.py: the layers of ONNX step by step, and
their gradients by the complex step, f'(x) = Im f(x + ih) / h, which rounds but does not cancel."""

import numpy as np

FUNCTIONS = {
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Relu": lambda x: np.where(x.real > 0, x, 0),
}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def one_step(cell, functions, reset_after, x, h, c, w, r, wb, rb, p):
    n = h.shape[1]
    if cell == "RNN":
        return functions[0](x @ w.T + h @ r.T + wb + rb), c
    of_x, of_h = x @ w.T + wb, h @ r.T + rb
    if cell == "GRU":
        z, reset = functions[0](of_x[:, :n] + of_h[:, :n]), functions[0](of_x[:, n : 2 * n] + of_h[:, n : 2 * n])
        behind = reset * of_h[:, 2 * n :] if reset_after else (reset * h) @ r[2 * n :].T + rb[2 * n :]
        return (1 - z) * functions[1](of_x[:, 2 * n :] + behind) + z * h, c
    i, o, f, g = np.split(of_x + of_h, 4, axis=1)
    pi, po, pf = np.split(p, 3)
    c_new = functions[0](f + pf * c) * c + functions[0](i + pi * c) * functions[1](g)
    return functions[0](o + po * c_new) * functions[2](c_new), c_new


def layer(x, w, r, b, lens, h0, c0, p, cell, direction="forward", layout=0, linear_before_reset=0, activations=None):
    """Y, Y_h, Y_c."""
    directions, n = w.shape[0], r.shape[2]
    if layout:
        x, h0, c0 = (a if a is None else a.swapaxes(0, 1) for a in (x, h0, c0))
    steps, batch = x.shape[:2]
    zeros = np.zeros((directions, batch, n))
    kind = np.result_type(x, w, r, *(o for o in (b, h0, c0, p) if o is not None))
    y, last_h, last_c = np.zeros((steps, directions, batch, n), kind), zeros.astype(kind), zeros.astype(kind)
    names = activations or DEFAULTS[cell] * directions
    per = len(DEFAULTS[cell])
    for d in range(directions):
        functions = [FUNCTIONS[name] for name in names[d * per : (d + 1) * per]]
        bias = np.zeros(2 * w.shape[1]) if b is None else b[d]
        wb, rb = np.split(bias, 2)
        for item in range(batch):
            length = steps if lens is None else lens[item]
            order = range(length)[:: -1 if direction == "reverse" or d == 1 else 1]
            h = zeros[d, item : item + 1] if h0 is None else h0[d, item : item + 1]
            c = zeros[d, item : item + 1] if c0 is None else c0[d, item : item + 1]
            look = np.zeros(3 * n) if p is None else p[d]
            for t in order:
                at = x[t, item : item + 1]
                h, c = one_step(cell, functions, linear_before_reset, at, h, c, w[d], r[d], wb, rb, look)
                y[t, d, item] = h[0]
            last_h[d, item], last_c[d, item] = h[0], c[0]
    if layout:
        y, last_h, last_c = y.transpose(2, 0, 1, 3), last_h.swapaxes(0, 1), last_c.swapaxes(0, 1)
    return y, last_h, last_c


def recurrence_grad(y, x, w, r, b=None, lens=None, h0=None, c0=None, p=None, dy=None, dh=None, dc=None, **attributes):
    operands = [x, w, r, b, lens, h0, c0, p]

    def gradient(which):
        if operands[which] is None:
            return None
        result = np.zeros(operands[which].shape)
        for at in np.ndindex(result.shape):
            moved = [o if i != which else o.astype(complex) for i, o in enumerate(operands)]
            moved[which][at] += 1e-30j
            got = layer(*moved, **attributes)
            result[at] = sum((out * d).sum().imag for out, d in zip(got, (dy, dh, dc)) if d is not None) / 1e-30
        return result

    return tuple(gradient(i) for i in (0, 1, 2, 3, 5, 6, 7))


def cases(case, f, random):
    floats = (np.float32, np.float64)
    lens = np.array([3, 1], np.int32)

    def one(cell, absent="", directions=1, outputs=7, steps=3, types=floats, dynamic=False, **attributes):
        gates = dict(RNN=1, GRU=3, LSTM=4)[cell] * 2
        batch_first, state = attributes.get("layout", 0), f(directions, 2, 2)
        state = state.swapaxes(0, 1) if batch_first else state
        x = 0.5 * (f(2, steps, 3) if batch_first else f(steps, 2, 3))
        given = dict(B=0.5 * f(directions, 2 * gates), L=lens, H=state, C=0.5 * state, P=f(directions, 6))
        given.update(h=state + 1, c=state * state)
        weights = 0.5 * f(directions, gates, 3), 0.5 * f(directions, gates, 2)
        if cell != "LSTM":
            absent += "CPc"
        rest = [None if k in absent else given[k] for k in "BLHCP"]
        if rest[1] is not None and steps < 3:
            rest[1] = np.minimum(lens, steps)
        y = layer(x, *weights, *rest, cell=cell, **attributes)[0]
        operands = [y, x, *weights, *rest, None if "D" in absent else f(*y.shape)]
        operands += [None if k in absent else given[k] for k in "hc"]
        none = tuple(i for i, k in enumerate("...BHCP") if k in absent)
        outputs = max(i for i in range(outputs) if i not in none) + 1
        how = dict(absent=none, types=types, dynamic=dynamic, cell=cell)
        case("RecurrenceGrad", *operands, outputs=outputs, **how, **attributes)

    for cell in "RNN", "GRU", "LSTM":
        one(cell, dynamic=True)
        one(cell, "L", directions=2, direction="bidirectional", dynamic=True)
        one(cell, "LP", direction="reverse")
        one(cell, "BHCPhc", directions=2, direction="bidirectional", layout=1)
        one(cell, "BLHCPhc", types=(*floats, np.float16), outputs=2)
        one(cell, "DLP", steps=1)
        one(cell, "LPc", layout=1, direction="reverse", outputs=5)
    for after in 0, 1:
        one("GRU", directions=2, direction="bidirectional", linear_before_reset=after, types=(*floats, np.float16))
        one("GRU", "BL", linear_before_reset=after, activations=["Relu", "Sigmoid"])
    one("RNN", "L", directions=2, direction="bidirectional", activations=["Relu", "Sigmoid"])
    one("LSTM", "Lh", activations=["Sigmoid", "Relu", "Sigmoid"])
