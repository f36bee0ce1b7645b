"""LinearCrossEntropy by its definition in numpy, and its cases for check_lean_ops.py."""

import numpy as np
from onnx import TensorProto


def linear_loss(x, w, labels, b=None, weights=None, dloss=None, reduction="mean", ignore_index=None,
                label_smoothing=0.0, label_share=None, z_loss=0.0, transB=0, loss_type=None):
    """PyTorch's cross_entropy of linear(x, w, b), plus z_loss times the square of each row's log-sum-exp."""
    w = w.T if transB else w
    rows, flat, classes = x.reshape(-1, x.shape[-1]), labels.reshape(-1), w.shape[1]
    kept = np.ones(len(flat), bool) if ignore_index is None else flat != ignore_index
    scores = rows @ w + (0 if b is None else b)
    lse = np.log(np.exp(scores).sum(1, keepdims=True))
    each = np.ones(classes) if weights is None else weights
    target = np.eye(classes)[np.where(kept, flat, 0)] * each
    divisor = target.sum(1)[kept].sum() if reduction == "mean" else 1.0
    e, z = (np.float64(np.float32(number)) for number in (label_smoothing, z_loss))  # attributes are floats
    share = 1 - e if label_share is None else np.float64(np.float32(label_share))
    target = share * target + e / classes * each
    losses = np.where(kept, (target * (lse - scores)).sum(1) + z * lse[:, 0] ** 2, 0)
    slopes = np.exp(scores - lse) * (target.sum(1, keepdims=True) + 2 * z * lse) - target
    slopes *= kept[:, None] / divisor * (1 if dloss is None else np.reshape(dloss, (-1, 1)))
    loss = losses.reshape(labels.shape) if reduction == "none" else losses.sum() / divisor
    dw = rows.T @ slopes
    return loss, (slopes @ w.T).reshape(x.shape), dw.T if transB else dw, slopes.sum(0)


def scores_loss(scores, labels, weights=None, **attributes):
    return linear_loss(scores, np.eye(scores.shape[1]), labels, None, weights, **attributes)[:1]


def cases(case, f, random):
    floats = (np.float32, np.float64)
    x, w, b, weights = f(2, 3, 4), f(4, 5), f(5), random.random(5) + 0.5
    labels = np.array([[1, 0, 4], [4, 3, 2]])
    for reduction in ("mean", "sum", "none"):
        how = dict(reduction=reduction, outputs=4)
        dloss = f(2, 3) if reduction == "none" else f()
        case("LinearCrossEntropy", x, w, labels, types=(*floats, np.float16), **how)
        case("LinearCrossEntropy", x, w.T, labels, b, transB=1, types=floats, dynamic=True, **how)
        case("LinearCrossEntropy", x, w, labels.reshape(-1) if dloss.ndim == 0 else labels, b, weights, dloss, **how)
        case("LinearCrossEntropy", x, w, labels, None, None, dloss, ignore_index=4, types=floats, **how)
        case("LinearCrossEntropy", x, w, labels, b, weights, None, ignore_index=4, label_smoothing=0.1, **how)
        case("LinearCrossEntropy", x, w, labels, b, z_loss=0.25, label_smoothing=0.2, types=floats, **how)
        case("LinearCrossEntropy", x, w, labels, b, z_loss=0.25, ignore_index=4, dynamic=True, **how)
        case("LinearCrossEntropy", x, w, labels, b, label_share=0.7, label_smoothing=0.2, types=floats, **how)
        scores = (x @ w + b).reshape(6, 5)
        case("ScoresCrossEntropy", scores, labels.reshape(-1), weights, reduction=reduction, label_smoothing=0.1)
        case("ScoresCrossEntropy", scores, labels.reshape(-1), reduction=reduction, z_loss=0.2, ignore_index=4)
        case("LinearCrossEntropy", x[0], w, labels[0].astype(np.int32), reduction=reduction)
        case("LinearCrossEntropy", x[0], w, labels[0], b, outputs=4, absent=(1, 3), reduction=reduction)
        case("LinearCrossEntropy", x[0], w, labels[0], b, outputs=2, loss_type=TensorProto.FLOAT, reduction=reduction)


def gradient_cases(f, random):
    x, w, b, labels = f(2, 3, 4), f(4, 5), f(5), np.array([[1, 0, 4], [4, 3, 2]])
    for reduction in ("mean", "sum", "none"):
        yield "LinearCrossEntropy", [x, w, labels, b], dict(reduction=reduction, ignore_index=4), ()
        yield "LinearCrossEntropy", [x, w, labels], dict(reduction=reduction, label_smoothing=0.1, z_loss=0.25), ()
        yield "LinearCrossEntropy", [x, w.T.copy(), labels, b], dict(reduction=reduction, transB=1), (0,)
        yield "LinearCrossEntropy", [x, w, labels, None, random.random(5) + 0.5], dict(reduction=reduction), (1, 4)
