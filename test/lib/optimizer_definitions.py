"""What the optimizers of ai.tempo compute, in double precision, from the texts that define them."""

import numpy as np


def groups(operands, states):
    """X, G and each state of each tensor: those of the first, those of the second, ..."""
    count = len(operands) // (2 + states)
    return [operands[i::count] for i in range(count)]


def regrouped(results):
    """(X, V, ...) of each tensor as X..., V..., ..."""
    return tuple(r[k] for k in range(len(results[0])) for r in results)


def optimizer(states):
    """Adds what an optimizer of ai.tempo has beside ONNX's: a number behind the states that gradients are multiplied
    by, and copies of the new weights behind the results."""

    def extended(rule):
        def run(rate, t, *operands, copy_type=0, waits=0, **attributes):
            count, rest = divmod(len(operands), 2 + states)
            if waits and t < 0:
                kept = operands[:count] + operands[2 * count : (2 + states) * count]
                return kept + (operands[:count] if copy_type else ())
            scale = operands[-1] if rest else 1
            scaled = [g * scale for g in operands[count : 2 * count]]
            results = rule(rate, t, *operands[:count], *scaled, *operands[2 * count : (2 + states) * count],
                           **attributes)
            return results + (results[:count] if copy_type else ())

        return run

    return extended


def rounded(*numbers):
    """Attributes are floats."""
    return [np.float64(np.float32(n)) for n in numbers]


@optimizer(2)
def adam(rate, t, *operands, alpha=0.9, beta=0.999, epsilon=1e-6, norm_coefficient=0.0, norm_coefficient_post=0.0):
    """onnx's reference: onnx/reference/ops/aionnx_preview_training/op_adam.py."""
    alpha, beta, epsilon, norm, post = rounded(alpha, beta, epsilon, norm_coefficient, norm_coefficient_post)
    if t > 0:
        rate = rate * np.sqrt(1 - beta**t) / (1 - alpha**t)
    results = []
    for x, g, v, h in groups(operands, 2):
        g = norm * x + g
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        results.append(((1 - post) * (x - rate * v / (np.sqrt(h) + epsilon)), v, h))
    return regrouped(results)


@optimizer(2)
def adamw(rate, t, *operands, alpha=0.9, beta=0.999, epsilon=1e-8, norm_coefficient=0.0, weight_decay=0.01):
    """The algorithm in the documentation of torch.optim.AdamW, line by line; with norm_coefficient and without
    weight_decay that of torch.optim.Adam."""
    b1, b2, epsilon, norm, decay = rounded(alpha, beta, epsilon, norm_coefficient, weight_decay)
    results = []
    for theta, g, m, v in groups(operands, 2):
        g = norm * theta + g
        theta = theta - rate * decay * theta
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        m_hat, v_hat = (m / (1 - b1**t), v / (1 - b2**t)) if t > 0 else (m, v)
        results.append((theta - rate * m_hat / (np.sqrt(v_hat) + epsilon), m, v))
    return regrouped(results)


@optimizer(2)
def lamb(rate, t, *operands, alpha=0.9, beta=0.999, epsilon=1e-8, weight_decay=0.01):
    """Algorithm 2 of You et al., Large Batch Optimization for Deep Learning, arXiv 1904.00962, where phi is the
    identity; where a norm is 0, its ratio is 1."""
    b1, b2, epsilon, decay = rounded(alpha, beta, epsilon, weight_decay)
    results = []
    for x, g, m, v in groups(operands, 2):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        m_hat, v_hat = (m / (1 - b1**t), v / (1 - b2**t)) if t > 0 else (m, v)
        way = m_hat / (np.sqrt(v_hat) + epsilon) + decay * x
        norms = np.linalg.norm(x), np.linalg.norm(way)
        ratio = norms[0] / norms[1] if norms[0] > 0 and norms[1] > 0 else 1.0
        results.append((x - rate * ratio * way, m, v))
    return regrouped(results)


@optimizer(1)
def momentum(rate, t, *operands, alpha, beta, mode, norm_coefficient):
    alpha, beta, norm = rounded(alpha, beta, norm_coefficient)
    results = []
    for x, g, v in groups(operands, 1):
        g = norm * x + g
        v = alpha * v + (beta if t > 0 else 1) * g
        results.append((x - rate * (g + alpha * v if mode == "nesterov" else v), v))
    return regrouped(results)


@optimizer(0)
def sgd(rate, t, *operands, norm_coefficient=0.0):
    """torch.optim.SGD without momentum."""
    (norm,) = rounded(norm_coefficient)
    return tuple(x - rate * (norm * x + g) for x, g in groups(operands, 0))


@optimizer(0)
def accumulate(rate, t, *operands):
    return tuple((x if t > 0 else 0) + rate * g for x, g in groups(operands, 0))


@optimizer(1)
def adagrad(rate, t, *operands, decay_factor=0.0, epsilon=1e-6, norm_coefficient=0.0):
    decay, epsilon, norm = rounded(decay_factor, epsilon, norm_coefficient)
    results = []
    for x, g, h in groups(operands, 1):
        g = norm * x + g
        h = h + g * g
        results.append((x - rate / (1 + t * decay) * g / (np.sqrt(h) + epsilon), h))
    return regrouped(results)


def global_norm(*gradients, max_norm=None):
    """torch.nn.utils.clip_grad_norm_: the norm, and what it multiplies gradients by."""
    norm = np.sqrt(sum(np.sum(g * g) for g in gradients))
    return (norm,) if max_norm is None else (norm, min(1.0, np.float64(np.float32(max_norm)) / (norm + 1e-6)))
