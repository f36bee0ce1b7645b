"""The cases of check_gradients.py: at least one for each op with a gradient, with the attributes, broadcasts and ranks
that matter to its gradient. A case is (op, operands, attributes); operands are float arrays (differentiated), integer
or bool arrays (constants), Fixed(array) for float constants that get no gradient, or None."""

import numpy as np

random = np.random.default_rng(7)


class Fixed:
    """A float operand that is held constant."""

    def __init__(self, value):
        self.value = np.asarray(value, dtype=np.float64)


def normal(*shape):
    return random.standard_normal(shape)


def positive(*shape):
    return random.uniform(0.4, 2.0, shape)


def apart(*shape, keep_from=(0.0,), by=0.1):
    """Normal numbers that stay away from kinks."""
    x = normal(*shape)
    for k in keep_from:
        x = np.where(np.abs(x - k) < by, x + 2.5 * by, x)
    return x


def distinct(*shape):
    """Numbers no two of which are close: for maxima."""
    return (random.permutation(int(np.prod(shape))).reshape(shape) - 3.0) * 0.37


def ints(*values):
    return np.array(values, dtype=np.int64)


CASES = []


def case(op, *operands, outputs=1, use=None, opset=21, dynamic=True, ort=False, single=False, **attributes):
    """outputs: how many results the node has; use: which of them the loss is made of (default: the first); dynamic:
    also try it with dims that are not known before the run; ort: ONNX Runtime evaluates, where onnx's evaluator cannot;
    single: so, in float, since the op has no double form."""
    CASES.append(
        dict(op=op, operands=operands, outputs=outputs, use=use or [0], opset=opset, dynamic=dynamic, ort=ort or single,
             single=single, attributes=attributes)
    )


# --- elementwise ------------------------------------------------------------------------------------------------------
for op in "Identity Neg Exp Sin Cos Tanh Sigmoid Softplus Mish Atan Sinh Cosh Asinh".split():
    case(op, normal(2, 3))
for op in "Erf Gelu".split():
    case(op, normal(3, 4), single=True)  # erf is of single precision in onnx's evaluator
for op in "Sqrt Reciprocal Log".split():
    case(op, positive(2, 3))
for op in "Abs Relu Softsign Selu Elu LeakyRelu".split():
    case(op, apart(3, 4))
case("Celu", apart(3, 4), single=True)
case("Elu", apart(3, 4), alpha=0.7)
case("Celu", apart(3, 4), single=True, alpha=1.7)
case("Selu", apart(3, 4), alpha=1.2, gamma=0.8)
case("LeakyRelu", apart(3, 4), alpha=0.3)
case("Gelu", normal(3, 4), approximate="tanh")
case("Tan", random.uniform(-1, 1, (2, 3)))
for op in "Asin Acos Atanh".split():
    case(op, random.uniform(-0.8, 0.8, (2, 3)))
case("Acosh", random.uniform(1.2, 3, (2, 3)))
case("HardSigmoid", 3 * apart(4, 5, keep_from=(2.5 / 3, -2.5 / 3)))
case("HardSigmoid", 3 * apart(4, 5, keep_from=(1.2 / 3, -0.8 / 3)), alpha=0.5, beta=0.4)
case("HardSwish", 3 * apart(4, 5, keep_from=(1, -1)))
case("ThresholdedRelu", apart(3, 4, keep_from=(0.6,)), alpha=0.6)
case("Shrink", apart(3, 4, keep_from=(0.5, -0.5)))
case("Shrink", apart(3, 4, keep_from=(0.3, -0.3)), lambd=0.3, bias=0.1)
case("Swish", normal(3, 4), opset=24)
case("Swish", normal(3, 4), opset=24, alpha=1.702)
case("Cast", normal(2, 3), to=11)
case("CastLike", normal(2, 3), Fixed([1.0]))
case("PRelu", apart(2, 3, 4), normal(3, 1))
case("PRelu", apart(2, 3), normal(2, 3))
for op in "Add Sub Mul Div".split():
    for a, b in (((2, 3), (2, 3)), ((2, 3), (3,)), ((1, 3), (4, 2, 1)), ((), (2, 3)), ((2, 1, 4), (3, 1))):
        case(op, normal(*a), np.sign(normal(*b)) * positive(*b))
for a, b in (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (3,))):
    case("Pow", positive(*a), normal(*b))
for exponent in (2.0, 3.0, 0.5, 1.0, -1.0):
    case("Pow", positive(2, 3), Fixed(exponent))
case("Pow", normal(2, 3), ints(2)[0])
case("Pow", positive(2, 3), ints(2, 0, 3))
case("Clip", apart(4, 5, keep_from=(-0.5, 0.7)), np.float64(-0.5), np.float64(0.7))
case("Clip", apart(4, 5, keep_from=(0.2,)), None, np.float64(0.2))
case("Clip", normal(4, 5))
case("Mod", np.array([[1.7, -2.3, 4.9], [0.6, -0.2, 8.0]]), np.array([[1.0, 0.7, -1.1]]), fmod=1)
case("Where", random.random((2, 3)) < 0.5, normal(2, 3), normal(3))
case("Where", random.random((4, 1, 3)) < 0.5, normal(2, 1), normal(1, 3))
for op in "Max Min".split():
    case(op, distinct(2, 3), distinct(2, 3)[::-1] + 0.05)
    case(op, distinct(2, 3), normal(3), normal(4, 1, 1))
    case(op, normal(2, 3))
case("Sum", normal(2, 3), normal(3), normal(2, 1))
case("Mean", normal(2, 3), normal(3), normal(2, 1))
case("Sum", normal(2, 3))
case("Dropout", normal(3, 4), Fixed(0.3), np.array(False))
case("Dropout", normal(3, 4), outputs=2)

# --- reductions -------------------------------------------------------------------------------------------------------
REDUCTIONS = dict(ReduceSum=normal, ReduceMean=normal, ReduceMax=distinct, ReduceMin=distinct, ReduceProd=normal,
                  ReduceL1=apart, ReduceL2=normal, ReduceLogSum=positive, ReduceLogSumExp=normal,
                  ReduceSumSquare=normal)
for op, make in REDUCTIONS.items():
    case(op, make(2, 3, 4))
    case(op, make(2, 3, 4), ints(1), keepdims=0)
    case(op, make(2, 3, 4), ints(0, -1), keepdims=1)
    case(op, make(2, 3, 4), keepdims=0)
case("ReduceSum", normal(2, 3), noop_with_empty_axes=1)
case("ReduceProd", np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [1.5, -1.0, 2.0]]), ints(1))
case("GlobalAveragePool", normal(2, 3, 4, 2))
case("GlobalMaxPool", distinct(2, 3, 4, 2), single=True)
case("GlobalMaxPool", distinct(2, 3, 5), single=True)
case("LpNormalization", normal(3, 4))
case("LpNormalization", apart(3, 4), ort=True, axis=0, p=1)

# --- products ---------------------------------------------------------------------------------------------------------
for a, b in (((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)),
             ((5, 1, 2, 3), (4, 3, 2)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3,)),
             ((3,), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (1, 4, 3, 2))):
    case("MatMul", normal(*a), normal(*b))
for ta in (0, 1):
    for tb in (0, 1):
        case("Gemm", normal(*((3, 2) if ta else (2, 3))), normal(*((4, 3) if tb else (3, 4))), normal(4), transA=ta,
             transB=tb)
case("Gemm", normal(2, 3), normal(3, 4), normal(2, 1), alpha=0.5, beta=2.0)
case("Gemm", normal(3, 2), normal(3, 4), np.float64(1.5), alpha=0.5, transA=1)
case("Gemm", normal(2, 3), normal(3, 4))
for equation, shapes in (
    ("ij,jk->ik", ((2, 3), (3, 4))), ("bhqd,bhkd->bhqk", ((2, 2, 3, 4), (2, 2, 5, 4))), ("ij->ji", ((2, 3),)),
    ("ij->i", ((2, 3),)), ("bij,bjk,bkl->bil", ((2, 2, 3), (2, 3, 2), (2, 2, 4))), ("ij,jk", ((2, 3), (3, 4))),
    ("i,j->ij", ((2,), (3,))), ("ij,ij->", ((2, 3), (2, 3))), ("...ij,jk->...ik", ((2, 3, 2, 3), (3, 4))),
    ("a...b, ...bc -> a...c", ((2, 3, 2), (1, 2, 4))), ("...i,...i", ((1, 2, 3), (2, 2, 3))), ("ii->i", ((3, 3),)),
    ("bii->b", ((2, 3, 3),)), ("iji,jk->k", ((2, 3, 2), (3, 4))), ("iij,...i->j...", ((2, 2, 3), (4, 2))),
    ("bi,kij,bj->bk", ((2, 3), (2, 3, 4), (2, 4)))):
    case("Einsum", *[normal(*s) for s in shapes], equation=equation)
case("Conv", normal(2, 3, 4, 6), normal(5, 3, 2, 3), normal(5), strides=[2, 3], kernel_shape=[2, 3], dynamic=False)
case("Conv", normal(2, 3, 6), normal(4, 3, 2), strides=[2], dynamic=False)
case("Conv", normal(2, 3, 2, 2), normal(4, 3, 1, 1), normal(4), dynamic=False)
# Windows that overlap, with elements that none of them reaches, pads on one side, holes; with groups onnx's evaluator
# is right only where each has one channel.
case("Conv", normal(2, 3, 5, 6), normal(4, 3, 3, 2), normal(4), dynamic=False)
case("Conv", normal(2, 2, 7, 6), normal(3, 2, 3, 3), normal(3), pads=[1, 1, 1, 1], strides=[2, 2], dynamic=False)
case("Conv", normal(1, 2, 8, 9), normal(3, 2, 2, 3), pads=[0, 2, 1, 0], strides=[3, 2], dilations=[2, 1], dynamic=False)
case("Conv", normal(2, 2, 11), normal(2, 2, 2), strides=[4], dilations=[1], dynamic=False)
case("Conv", normal(2, 2, 10), normal(2, 2, 3), strides=[3], dilations=[2], pads=[1, 0], dynamic=False)
case("Conv", normal(2, 1, 3, 4, 3), normal(2, 1, 2, 2, 2), pads=[0, 1, 0, 1, 0, 1], dynamic=False)
case("Conv", normal(1, 2, 5, 6), normal(2, 2, 3, 2), auto_pad="SAME_UPPER", strides=[2, 2], dynamic=False)
case("Conv", normal(1, 2, 5, 6), normal(2, 2, 2, 4), auto_pad="SAME_LOWER", dynamic=False)
case("Conv", normal(1, 2, 5, 6), normal(2, 2, 3, 2), auto_pad="VALID", strides=[1, 2], dynamic=False)
case("Conv", normal(2, 3, 5, 5), normal(3, 1, 3, 3), normal(3), group=3, pads=[1, 1, 1, 1], strides=[2, 2],
     dynamic=False)
case("Conv", normal(2, 4, 5, 4), normal(6, 2, 3, 2), normal(6), group=2, pads=[1, 0, 1, 1], strides=[2, 1], single=True,
     ort=True, dynamic=False)
case("Conv", normal(2, 4, 7), normal(4, 2, 2), group=2, strides=[3], single=True, ort=True, dynamic=False)
case(
    "Conv", normal(2, 3, 5, 6), normal(4, 3, 3, 2), normal(4), kernel_shape=[3, 2], pads=[1, 0, 1, 1]
)  # strides of 1: any dims
case("ConvTranspose", normal(2, 3, 3, 4), normal(3, 2, 3, 2), normal(2), dynamic=False)
case("ConvTranspose", normal(1, 2, 3, 3), normal(2, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0],
     dynamic=False)
case("ConvTranspose", normal(2, 2, 4), normal(2, 1, 2), strides=[3], dilations=[2], pads=[0, 1], dynamic=False)
case("ConvTranspose", normal(2, 4, 3, 3), normal(4, 3, 2, 3), normal(6), group=2, strides=[2, 1], single=True, ort=True,
     dynamic=False)

# --- recurrent layers: onnx's evaluator has no Scan against the order of steps ----------------------------------------


def layer(op, *operands, dynamic=False, **how):
    case(op, *operands, single=True, dynamic=dynamic, hidden_size=3, **how)


LENS = np.array([3, 1], dtype=np.int32)
for op, gates in ("RNN", 1), ("GRU", 3), ("LSTM", 4):
    weights = [normal(1, gates * 3, 2), 0.5 * normal(1, gates * 3, 3)]
    states = [normal(1, 2, 3)] * (2 if op == "LSTM" else 1)
    both = [np.concatenate([w, -0.7 * w]) for w in [*weights, 0.3 * normal(1, gates * 6), *states]]
    both.insert(3, None)
    results = dict(outputs=1 + len(states), use=list(range(1 + len(states))))
    layer(op, normal(4, 2, 2), *weights)
    layer(op, normal(4, 2, 2), *weights, 0.3 * normal(1, gates * 6), None, *states, dynamic=True, **results)
    layer(op, normal(3, 2, 2), *both, direction="bidirectional", **results)
    layer(op, normal(3, 2, 2), *weights, None, LENS, direction="reverse")
    layer(op, normal(3, 2, 2), *both[:3], LENS, direction="bidirectional", **results)
layer("LSTM", normal(3, 2, 2), *weights, None, None, *states, normal(1, 9), **results)
layer("LSTM", normal(3, 2, 2), *weights, outputs=3, use=[2])
layer("GRU", normal(3, 2, 2), normal(1, 9, 2), normal(1, 9, 3), normal(1, 18), linear_before_reset=1)
layer("RNN", normal(3, 2, 2), normal(1, 3, 2), normal(1, 3, 3), activations=["Relu"])
layer("RNN", normal(3, 2, 2), normal(1, 3, 2), normal(1, 3, 3), activations=["Sigmoid"])

# --- pools: the operand's elements are apart from each other, so that eps changes no maximum --------------------------
case("MaxPool", distinct(2, 2, 5, 6), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
case("MaxPool", distinct(2, 2, 5, 6), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, ort=True)
case("MaxPool", distinct(1, 2, 7), kernel_shape=[3], dilations=[2], strides=[1], ort=True)
case("MaxPool", distinct(2, 2, 4, 4), kernel_shape=[2, 2], auto_pad="SAME_UPPER", storage_order=1, ort=True)
for p in (1, 2, 3):
    case("GlobalLpPool", apart(2, 3, 4, 2), p=p, single=True)
    case("LpPool", apart(2, 2, 5, 6), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], p=p, single=True,
         dynamic=False)
case("AveragePool", normal(2, 2, 5, 6), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], dynamic=False)
case("AveragePool", normal(2, 2, 5, 6), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 1, 0], count_include_pad=1,
     dynamic=False)
case("AveragePool", normal(2, 1, 6, 5), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, single=True, ort=True,
     dynamic=False)
case("AveragePool", normal(2, 1, 6, 6), kernel_shape=[3, 3], strides=[2, 3], pads=[1, 1, 0, 0], ceil_mode=1,
     count_include_pad=1, single=True, ort=True, dynamic=False)
case("AveragePool", normal(1, 2, 7), kernel_shape=[2], dilations=[3], single=True, ort=True, dynamic=False)
case("AveragePool", normal(1, 2, 5, 5), kernel_shape=[2, 2], auto_pad="SAME_LOWER", strides=[2, 2], single=True,
     ort=True, dynamic=False)

# --- resizes: along some axes or all, shorter and longer --------------------------------------------------------------
IMAGE, SPATIAL = normal(1, 2, 3, 4), dict(axes=[2, 3])
factors = lambda *values: np.array(values, np.float32)
case("Resize", IMAGE, None, factors(1, 1, 2, 1.5))
case("Resize", IMAGE, None, factors(2, 0.75), nearest_mode="floor", coordinate_transformation_mode="asymmetric",
     **SPATIAL)
case("Resize", IMAGE, None, None, ints(1, 2, 5, 2), mode="linear")
case("Resize", IMAGE, None, None, ints(5, 7), mode="linear", coordinate_transformation_mode="align_corners", **SPATIAL)
case("Resize", IMAGE, None, factors(1, 1, 0.7, 1.3), mode="linear", antialias=1)
case("Resize", IMAGE, None, None, ints(3, 5), mode="cubic", axes=[3, 2])
case("Resize", IMAGE, None, None, ints(4, 2), mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1, antialias=1,
     **SPATIAL)
case("Resize", normal(1, 1, 2, 3, 2), None, factors(2, 1, 1.5), mode="linear", axes=[2, 3, 4])
case("Resize", IMAGE, factors(0.2, -0.5, 0.9, 1.2), None, ints(3, 3), mode="linear", extrapolation_value=2.0,
     coordinate_transformation_mode="tf_crop_and_resize", **SPATIAL)
case("Resize", IMAGE, None, factors(1, 1, 1, 1), mode="cubic")

# --- samples at given places, inside and far outside, away from the elements and the ends, where slopes jump. onnx's
# evaluator has coordinates in float. The grid's gradient of cubic: passes/autodiff/autodiff_grid_sample.onnxt ---------
PLACES = np.array([[[-0.83, 0.32], [0.45, -0.61], [1.36, -1.23]], [[0.12, 0.77], [-2.7, 0.3], [0.55, 3.4]]])[None]
for mode, padding, align in (("cubic", "zeros", 1), ("cubic", "reflection", 0), ("nearest", "zeros", 0),
                             ("nearest", "reflection", 1), ("linear", "border", 0)):
    case("GridSample", normal(1, 2, 4, 5), Fixed(PLACES), opset=20, mode=mode, padding_mode=padding,
         align_corners=align)
for padding, align in (("zeros", 0), ("border", 1), ("reflection", 0), ("reflection", 1)):
    case("GridSample", normal(1, 2, 4, 5), PLACES, opset=20, padding_mode=padding, align_corners=align, single=True)
case("GridSample", normal(1, 2, 3, 4, 3), (2 * random.choice([-0.4, 0.3, 1.6, 2.4], (1, 1, 2, 2, 3)) + 1)
     / np.array([3, 4, 3]) - 1, opset=20, padding_mode="border", single=True)

# --- movement ---------------------------------------------------------------------------------------------------------
case("Reshape", normal(2, 3, 4), ints(4, 6))
case("Reshape", normal(2, 3, 4), ints(0, -1))
case("Squeeze", normal(2, 1, 3, 1), ints(1, -1))
case("Squeeze", normal(2, 1, 3, 1), dynamic=False)
case("Unsqueeze", normal(2, 3), ints(0, 2))
case("Flatten", normal(2, 3, 4), axis=2)
case("Expand", normal(3, 1), ints(2, 3, 4))
case("Expand", normal(2, 3), ints(1))
case("Transpose", normal(2, 3, 4), perm=[1, 2, 0])
case("Transpose", normal(2, 3, 4))
case("Concat", normal(2, 3), normal(2, 1), normal(2, 2), axis=1)
case("Concat", normal(2, 3), Fixed(normal(1, 3)), axis=-2)
case("Split", normal(6, 2), outputs=3, use=[0, 2], axis=0, num_outputs=3)
case("Split", normal(2, 6), ints(1, 2, 3), outputs=3, use=[0, 1, 2], axis=1)
for starts, ends, axes, steps in ((ints(1), ints(3), ints(0), None), (ints(0, 1), ints(2, -1), None, None),
                                  (ints(-3), ints(2**62), ints(1), None),
                                  (ints(0, 5), ints(4, 0), ints(0, 1), ints(2, -2)),
                                  (ints(-1), ints(-(2**62)), ints(-1), ints(-1)), (ints(2), ints(2), ints(0), None)):
    case("Slice", normal(4, 6), starts, ends, axes, steps)
case("Pad", normal(2, 3), ints(1, 0, 0, 2))
case("Pad", normal(2, 3), ints(1, 2), np.float64(0.5), ints(1))
case("Pad", normal(4, 5), ints(-1, 1, 0, -2), ort=True)
for mode in "reflect edge wrap".split():
    case("Pad", normal(3, 4), ints(1, 2, 2, 0), mode=mode)
    case("Pad", normal(2, 4, 5), ints(2, -1, 1, 2), None, ints(-1, 1), mode=mode, ort=True)
case("Pad", normal(2, 3), ints(4, 0, 5, 7), mode="wrap")
# --- transforms: operands real and complex, lengths with small and large factors, cut and filled up -------------------
last = ints(-2)[0]
for n in (1, 6, 8, 17, 23):
    case("DFT", normal(2, n, 2), None, ints(1)[0], ort=True)
    case("DFT", normal(2, n, 1), None, last, onesided=1, ort=True)
    case("DFT", normal(n, 2, 2), None, ints(0)[0], inverse=1, ort=True)
for length in (4, 9):
    case("DFT", normal(2, 6, 1), ints(length)[0], last, ort=True)
    case("DFT", normal(2, 6, 1), ints(length)[0], last, onesided=1, ort=True)
    case("DFT", normal(2, 6, 2), ints(length)[0], last, inverse=1, ort=True)
    case("DFT", normal(2, 4, 2), ints(length)[0], last, inverse=1, onesided=1, dynamic=False)
case("STFT", normal(2, 16, 1), ints(3)[0], None, ints(5)[0], onesided=1, ort=True)
case("STFT", normal(2, 16, 1), ints(4)[0], normal(8), None, onesided=1, ort=True)
case("STFT", normal(1, 16, 2), ints(3)[0], normal(6), ints(6)[0], onesided=0, ort=True)
case("Col2Im", normal(2, 12, 4), ints(4, 6), ints(2, 3), strides=[2, 3])
case("Col2Im", normal(1, 12, 12), ints(5, 6), ints(3, 2), strides=[1, 2], dilations=[2, 1], pads=[1, 0, 1, 2])
case("Col2Im", normal(2, 6, 4), ints(6), ints(3))
for n in (1, 2, 4):
    case("Det", normal(2, n, n))
case("Det", np.outer(positive(3), positive(3)) + np.diag([0.0, 0.5, 0.0]))
case("Tile", normal(2, 3), ints(2, 3))
case("Trilu", normal(4, 4))
case("Trilu", normal(2, 3, 5), ints(-1)[0], upper=0)
case("CumSum", normal(2, 4), ints(1)[0])
case("CumSum", normal(2, 4), ints(0)[0], exclusive=1, reverse=1)
case("SpaceToDepth", normal(1, 2, 4, 6), blocksize=2)
case("DepthToSpace", normal(1, 8, 2, 3), blocksize=2)
case("DepthToSpace", normal(2, 8, 2, 3), blocksize=2, mode="CRD")

# --- indices ----------------------------------------------------------------------------------------------------------
case("Gather", normal(5, 3), ints(1, 4, 1, -1))
case("Gather", normal(2, 5, 3), ints(1, 4, 1, 0).reshape(2, 2), axis=1)
case("Gather", normal(2, 5), ints(3)[0], axis=-1)
case("GatherElements", normal(3, 4), random.integers(0, 3, (2, 4)))
case("GatherElements", normal(3, 4), random.integers(-4, 4, (3, 2)), axis=1)
case("GatherND", normal(3, 4, 2), ints(0, 1, 2, 3, 0, 1).reshape(3, 2))
case("GatherND", normal(3, 4, 2), ints(0, 3, 3).reshape(3, 1), batch_dims=1)
case("GatherND", normal(2, 3, 4), random.integers(0, 4, (2, 3, 2, 1)), batch_dims=2)
case("ScatterND", normal(4, 3), ints(1, 3).reshape(2, 1), normal(2, 3))
case("ScatterND", normal(4, 3), ints(1, 1).reshape(2, 1), normal(2, 3), reduction="add")
case("ScatterElements", normal(3, 4), ints(0, 2, 1, 1).reshape(1, 4), normal(1, 4))
case("ScatterElements", normal(3, 4), ints(0, 0, 3, 3, 1, 2).reshape(3, 2), normal(3, 2), axis=1, reduction="add")
rows, places = ints(1, 1, 0).reshape(3, 1), ints(0, 0, 3, 3, 1, 0).reshape(3, 2)
for reduction, data, rest in (("mul", positive, positive), ("max", distinct, apart), ("min", distinct, apart)):
    case("ScatterND", data(4, 3), rows, rest(3, 3), reduction=reduction)
    case("ScatterElements", data(3, 4), places, rest(3, 2), axis=1, reduction=reduction)
case("ScatterND", np.array([0.0, 2.0, 0.5]), rows, np.array([1.5, 0.0, 0.0]), reduction="mul")
case("ScatterElements", np.array([[0.5, 0.0, 2.0]]), ints(0, 0, 2, 2).reshape(1, 4),
     np.array([[0.0, 1.5, 0.0, 0.0]]), axis=1, reduction="mul")
case("TopK", distinct(3, 5), ints(2), outputs=2)
case("TopK", distinct(3, 5), ints(2), outputs=2, axis=0, largest=0)

# --- normalizations and losses ----------------------------------------------------------------------------------------
for op in "Softmax LogSoftmax".split():
    case(op, normal(3, 4))
    case(op, normal(2, 3, 4), axis=1)
case("LayerNormalization", normal(2, 3, 4), normal(4), normal(4), ort=True)
case("LayerNormalization", normal(2, 3, 4), normal(4), ort=True)
case("LayerNormalization", normal(2, 3, 4), normal(3, 4), normal(3, 4), axis=-2, ort=True)
case("LayerNormalization", normal(2, 3, 4), normal(2, 3, 4), normal(2, 3, 4), axis=0, epsilon=0.1, ort=True)
# A scale or a bias that is repeated, or differs by row.
case("LayerNormalization", normal(3, 4), normal(3, 4), normal(3, 4), ort=True)
case("LayerNormalization", normal(3, 4), normal(3, 1), normal(1, 4), epsilon=0.1, ort=True)
case("LayerNormalization", normal(3, 4), normal(1), ort=True)
case("LayerNormalization", normal(3, 4), normal(1, 4), normal(4), ort=True)
case("LayerNormalization", normal(2, 3, 4), normal(4), normal(2, 1, 4), ort=True)
case("LayerNormalization", normal(2, 3, 4), normal(3, 1), normal(2, 1, 4), axis=1, ort=True)
case("LayerNormalization", normal(2, 2), normal(2, 1), normal(2, 1), ort=True)
case("BatchNormalization", normal(3, 4, 2), normal(4), normal(4), normal(4), positive(4))
case("BatchNormalization", normal(3, 4), normal(4), normal(4), normal(4), positive(4), epsilon=0.1)
case("BatchNormalization", normal(3, 4, 2), normal(4), normal(4), Fixed(normal(4)), Fixed(positive(4)), outputs=3,
     training_mode=1)
case("InstanceNormalization", normal(2, 3, 4, 2), normal(3), normal(3))
case("GroupNormalization", normal(2, 4, 3), normal(4), normal(4), single=True, num_groups=2)
for reduction in "mean sum none".split():
    case("SoftmaxCrossEntropyLoss", normal(4, 5), ints(1, 0, 4, 2), reduction=reduction)
    case("SoftmaxCrossEntropyLoss", normal(4, 5), ints(1, 0, 4, 1), Fixed(positive(5)), reduction=reduction,
         ignore_index=4)
    case("SoftmaxCrossEntropyLoss", normal(2, 5, 3), ints(1, 0, 4, -100, 1, 3).reshape(2, 3), reduction=reduction,
         ignore_index=-100)
    case("NegativeLogLikelihoodLoss", normal(4, 5), ints(1, 0, 4, 2), reduction=reduction)
    case("NegativeLogLikelihoodLoss", normal(4, 5), ints(1, 0, 4, 1), Fixed(positive(5)), reduction=reduction,
         ignore_index=4)
    case("NegativeLogLikelihoodLoss", normal(2, 5, 3), ints(1, 0, 4, 2, 1, 3).reshape(2, 3), Fixed(positive(5)),
         reduction=reduction)
case("SoftmaxCrossEntropyLoss", normal(4, 5), ints(1, 0, 4, 2), outputs=2, use=[0, 1])

# --- ops whose bodies are differentiated ------------------------------------------------------------------------------
case("RMSNormalization", normal(2, 3, 4), normal(4), opset=23)
case("RMSNormalization", normal(2, 3, 4), normal(3, 4), opset=23, axis=1)
case("RMSNormalization", normal(3, 4), normal(3, 4), opset=23)
case("RMSNormalization", normal(2, 3, 4), normal(2, 3, 1), opset=23, axis=1)
case("RMSNormalization", normal(2, 3, 4), normal(1), opset=23, axis=1)
case("Attention", normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4), opset=23)
case("Attention", normal(2, 4, 3, 4), normal(2, 2, 3, 4), normal(2, 2, 3, 4), opset=23, is_causal=1)
case("Attention", normal(2, 3, 8), normal(2, 5, 8), normal(2, 5, 8), Fixed(normal(3, 5)), opset=23, q_num_heads=2,
     kv_num_heads=2)
case("RotaryEmbedding", normal(2, 3, 4, 6), Fixed(normal(4, 3)), Fixed(normal(4, 3)), np.tile(np.arange(4), (2, 1)),
     opset=23, single=True)
