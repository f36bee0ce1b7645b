"""Ops of ai.tempo whose definition in numpy takes a few lines, with their cases: of check_lean_ops.py."""

import itertools

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def swish_grad(dy, x, alpha=1.0):
    s = sigmoid(alpha * x)
    return (dy * (s + alpha * x * s * (1 - s)),)


def det_grad(dy, x):
    """Each cofactor by its minor."""
    n, dx = x.shape[-1], np.zeros(x.shape)
    for i, j in itertools.product(range(n), repeat=2):
        dx[..., i, j] = (-1) ** (i + j) * dy * np.linalg.det(np.delete(np.delete(x, i, -2), j, -1))
    return (dx,)


DEFINITIONS = {
    "Atan2": lambda y, x: (np.arctan2(y, x),),
    "BernoulliLog": lambda p, outcome=1: (np.maximum(np.log(np.where(outcome, p, 1 - p) + 1e-300), -100),),
    "Sinc": lambda x: (np.sinc(x),),
    "MulOrZero": lambda a, b: (a * np.where(a == 0, 1, b),),
    "DetGrad": det_grad,
    "Swish": lambda x, alpha=1.0: (x * sigmoid(alpha * x),),
    "SwishGrad": swish_grad,
}


def add(case, f, floats):
    """`case` runs an op on operands; f draws them."""
    for outcome in (0, 1):
        case("BernoulliLog", np.array([0, 2.0**-20, 0.25, 0.5, 1 - 2.0**-10, 1]), outcome=outcome, types=floats)
    signs = np.array([-0.0, 0.0, 0.5, -2.0, np.inf, -np.inf])
    case("Atan2", np.repeat(signs, 6).reshape(6, 6), signs, types=floats[:1])
    case("Sinc", np.array([0, -0.0, 0.25, -1.5, 3e-4]), types=floats)
    case("MulOrZero", np.array([0, -0.0, 0, 2]), np.array([np.inf, -1, np.nan, 0.5]), types=floats)
    for n in (2, 3, 5):
        case("DetGrad", f(2, 3), f(2, 3, n, n), dynamic=n == 3)
    case("DetGrad", f(), np.outer(f(4), f(4)) + np.outer(f(4), f(4)) + np.outer(f(4), f(4)))  # singular
    for alpha in (1.0, 1.702):
        case("Swish", f(3, 5), alpha=alpha, types=floats)
        case("SwishGrad", f(3, 5), f(3, 5), alpha=alpha, types=floats, dynamic=True)
    case("SwishGrad", f(3, 5), f(3, 5), types=(np.float16,))
