#!/usr/bin/env python3
"""Each rewrite of the upgrade pass on a small model: the model as it was and the model that tempoc made of it give the
same numbers. The original runs in ONNX Runtime, which keeps kernels for old opsets; where it has none, numpy says what
the old text meant. usage: rows.py tempoc"""
import sys

import numpy as np
import onnx
import onnx.parser

from compare import near, session
from programs import case, finish, path, run
from tolerances import UPGRADED

rng = np.random.default_rng(7)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def flat_softmax(x, axis):
    m = x.reshape(int(np.prod(x.shape[:axis])), -1)
    e = np.exp(m - m.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).reshape(x.shape)


X234, X2345, C3 = floats(2, 3, 4), floats(2, 3, 4, 5), floats(3)
SHAPE = np.array([2, 3, 4])
MOD_X = np.array([[5.5, -5.5, 5.5, -5.5, 0, -0.0, 1, 0.3], [6, -6, 3, -1e-3, 7, np.nan, -2, -7]], np.float32)
MOD_Y = np.array([3, 3, -3, -3, 2, 2, np.inf, -0.1], np.float32)
POSITIVE = np.abs(floats(2, 3, 4)) + 0.5
# name, opset, signature, body, inputs, what it means in numpy (None: ask ONNX Runtime)
CASES = [
    ("squeeze", 11, "(float[1,3,1] x) => (float[3] y)", "y = Squeeze <axes = [0, 2]> (x)", [floats(1, 3, 1)], None),
    ("squeeze_all", 11, "(float[1,3,1] x) => (float[3] y)", "y = Squeeze (x)", [floats(1, 3, 1)], None),
    ("unsqueeze", 11, "(float[3] x) => (float[1,3,1] y)", "y = Unsqueeze <axes = [0, 2]> (x)", [C3], None),
    ("reduce_sum", 12, "(float[2,3,4] x) => (float[2,4] y)", "y = ReduceSum <axes = [1], keepdims = 0> (x)", [X234],
     None),
    ("reduce_sum_all", 12, "(float[2,3,4] x) => (float[1,1,1] y)", "y = ReduceSum (x)", [X234], None),
    ("softmax_middle", 11, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Softmax <axis = 1> (x)", [X234],
     lambda x: flat_softmax(x, 1)),
    ("softmax_default", 12, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Softmax (x)", [X234], None),
    ("softmax_last", 11, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Softmax <axis = 2> (x)", [X234], None),
    ("softmax_unknown_rank", 12, "(float[24] x, int64[n] s, int64[3] t) => (float[a,b,c] y)",
     "r = Reshape (x, s)\n m = Softmax <axis = 1> (r)\n y = Reshape (m, t)", [X234.ravel(), SHAPE, SHAPE], None),
    ("log_softmax", 11, "(float[2,3,4] x) => (float[2,3,4] y)", "y = LogSoftmax <axis = 1> (x)", [X234],
     lambda x: np.log(flat_softmax(x, 1))),
    ("hardmax", 11, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Hardmax <axis = 1> (x)", [X234], None),
    ("dropout_7", 7, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Dropout <ratio = 0.3> (x)", [X234], None),
    ("dropout_10", 10, "(float[2,3,4] x) => (float[2,3,4] y)", "y, m = Dropout (x)", [X234], None),
    ("dropout_6_test", 6, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Dropout <is_test = 1> (x)", [X234], lambda x: x),
    ("clip", 9, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Clip <min = -0.5, max = 0.25> (x)", [X234], None),
    ("clip_one_side", 10, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Clip <max = 0.25> (x)", [X234], None),
    ("clip_untyped", 10, "(float[2,3,4] x) => (float[2,3,4] y)", "y = local.Cut (x)", [X234],
     lambda x: np.minimum(x, 0.25)),
    ("pad", 10, "(float[2,3,4] x) => (float[3,3,6] y)", "y = Pad <pads = [1, 0, 0, 0, 0, 2], value = 1.5> (x)", [X234],
     None),
    ("pad_reflect", 9, "(float[2,3,4] x) => (float[2,3,6] y)", 'y = Pad <pads = [0, 0, 1, 0, 0, 1], mode = "reflect"> '
                                                               '(x)', [X234], None),
    ("pad_1", 1, "(float[2,3,4] x) => (float[2,3,5] y)", "y = Pad <paddings = [0, 0, 1, 0, 0, 0]> (x)", [X234],
     lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0)))),
    ("slice", 9, "(float[2,3,4] x) => (float[2,2,2] y)", "y = Slice <starts = [1, -3], ends = [9, -1], axes = [1, 2]> "
                                                         "(x)", [X234], None),
    ("slice_no_axes", 9, "(float[2,3,4] x) => (float[1,2,4] y)", "y = Slice <starts = [1, 0], ends = [2, 2]> (x)",
     [X234], None),
    ("top_k", 9, "(float[2,3,4] x) => (float[2,3,2] y, int64[2,3,2] i)", "y, i = TopK <k = 2> (x)", [X234], None),
    ("upsample_9", 9, "(float[2,3,4,5] x) => (float[2,3,8,15] y)",
     'y = Upsample <mode = "nearest"> (x, s)|<float[4] s = {1.0, 1.0, 2.0, 3.0}>', [X2345], None),
    ("upsample_7", 7, "(float[2,3,4,5] x) => (float[2,3,8,10] y)",
     'y = Upsample <mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]> (x)', [X2345], None),
    ("upsample_1", 6, "(float[2,3,4,5] x) => (float[2,3,8,15] y)",
     'y = Upsample <mode = "nearest", height_scale = 2.0, width_scale = 3.0> (x)', [X2345],
     lambda x: x.repeat(2, axis=2).repeat(3, axis=3)),
    ("resize_10", 10, "(float[2,3,4,5] x) => (float[2,3,8,15] y)",
     'y = Resize <mode = "nearest"> (x, s)|<float[4] s = {1.0, 1.0, 2.0, 3.0}>', [X2345], None),
    ("batch_norm_9", 9, "(float[2,3,4,5] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[2,3,4,5] y)",
     "y = BatchNormalization <epsilon = 0.01> (x, s, b, m, v)",
     [X2345, C3, floats(3), floats(3), np.abs(floats(3)) + 0.5], None),
    ("batch_norm_7", 7, "(float[2,3,4,5] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[2,3,4,5] y)",
     "y = BatchNormalization <spatial = 1> (x, s, b, m, v)", [X2345, C3, floats(3), floats(3), np.abs(floats(3)) + 0.5],
     None),
    ("split", 11, "(float[2,3,4] x) => (float[2,3,1] a, float[2,3,3] b)", "a, b = Split <axis = 2, split = [1, 3]> (x)",
     [X234], None),
    ("split_even", 13, "(float[2,3,4] x) => (float[2,3,2] a, float[2,3,2] b)", "a, b = Split <axis = 2> (x)", [X234],
     None),
    ("cast_1", 5, "(float[2,3,4] x) => (int32[2,3,4] y)", 'y = Cast <to = "INT32"> (x)', [X234],
     lambda x: x.astype(np.int32)),
    ("reduce_mean", 13, "(float[2,3,4] x) => (float[2,1,4] y)", "y = ReduceMean <axes = [-2]> (x)", [X234], None),
    ("reduce_max", 12, "(float[2,3,4] x) => (float[2] y)", "y = ReduceMax <axes = [1, 2], keepdims = 0> (x)", [X234],
     None),
    ("reduce_min", 17, "(float[2,3,4] x) => (float[1,1,1] y)", "y = ReduceMin (x)", [X234], None),
    ("reduce_prod", 13, "(float[2,3,4] x) => (float[2,1,4] y)", "y = ReduceProd <axes = [1]> (x)", [X234], None),
    ("reduce_l1", 13, "(float[2,3,4] x) => (float[2,1,4] y)", "y = ReduceL1 <axes = [1]> (x)", [X234], None),
    ("reduce_l2", 13, "(float[2,3,4] x) => (float[2,1,4] y)", "y = ReduceL2 <axes = [1]> (x)", [X234], None),
    ("reduce_log_sum", 13, "(float[2,3,4] x) => (float[2,1,4] y)", "y = ReduceLogSum <axes = [1]> (x)", [POSITIVE],
     None),
    ("reduce_log_sum_exp", 13, "(float[2,3,4] x) => (float[2,1,4] y)", "y = ReduceLogSumExp <axes = [1]> (x)", [X234],
     None),
    ("reduce_sum_square", 13, "(float[2,3,4] x) => (float[2,1,4] y)", "y = ReduceSumSquare <axes = [1]> (x)", [X234],
     None),
    ("layer_norm_14", 14, "(float[2,3,4] x, float[4] s, float[4] b) => (float[2,3,4] y)",
     "y = LayerNormalization (x, s, b)",
     [X234, floats(4), floats(4)],
     lambda x, s, b: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * s + b),
    ("group_norm_18", 18, "(float[2,6,4] x, float[3] s, float[3] b) => (float[2,6,4] y)",
     "y = GroupNormalization <num_groups = 3> (x, s, b)", [floats(2, 6, 4), floats(3), floats(3)],
     lambda x, s, b: ((lambda g: (g - g.mean((2, 3), keepdims=True)) / np.sqrt(g.var((2, 3), keepdims=True) + 1e-5)
                       * s[:, None, None] + b[:, None, None])(x.reshape(2, 3, 2, 4))).reshape(x.shape)),
    ("add_axis_6", 6, "(float[2,3,4,5] x, float[3] c) => (float[2,3,4,5] y)", "y = Add <broadcast = 1, axis = 1> (x, "
                                                                              "c)",
     [X2345, C3], lambda x, c: x + c[:, None, None]),
    ("mul_axis_negative_6", 6, "(float[2,3,4] x, float[3] c) => (float[2,3,4] y)", "y = Mul <broadcast = 1, axis = -2> "
                                                                                   "(x, c)",
     [X234, C3], lambda x, c: x * c[:, None]),
    ("sub_suffix_6", 6, "(float[2,3,4] x, float[4] c) => (float[2,3,4] y)", "y = Sub <broadcast = 1> (x, c)",
     [X234, floats(4)], lambda x, c: x - c),
    ("prelu_6", 6, "(float[2,3,4] x, float[3] c) => (float[2,3,4] y)", "y = PRelu (x, c)", [X234, C3],
     lambda x, c: np.where(x < 0, x * c[:, None], x)),
    ("gemm_6", 6, "(float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y)", "y = Gemm <broadcast = 1> (a, b, c)",
     [floats(2, 3), floats(3, 4), floats(4)], lambda a, b, c: a @ b + c),
    ("reshape_4", 4, "(float[2,3,4] x) => (float[6,4] y)", "y = Reshape <shape = [-1, 4]> (x)", [X234],
     lambda x: x.reshape(-1, 4)),
    ("relu_1", 1, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Relu <consumed_inputs = [1]> (x)", [X234],
     lambda x: np.maximum(x, 0)),
    ("selu_1", 1, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Selu (x)", [X234],
     lambda x: 1.0507 * np.where(x <= 0, 1.6732 * np.exp(x) - 1.6732, x)),
    ("concat_1", 1, "(float[2,3,4] x) => (float[2,6,4] y)", "y = Concat (x, x)", [X234],
     lambda x: np.concatenate([x, x], 1)),
    ("global_lp_pool_1", 1, "(float[2,3,4,5] x) => (float[2,3,1,1] y)", "y = GlobalLpPool <p = 2.0> (x)", [X2345],
     lambda x: np.sqrt((x * x).sum((2, 3), keepdims=True))),
    ("scatter_9", 9, "(float[3,3] x, int64[1,3] i, float[1,3] u) => (float[3,3] y)", "y = Scatter <axis = 0> (x, i, u)",
     [floats(3, 3), np.array([[0, 2, 1]]), floats(1, 3)], None),
    ("grid_sample_16", 16, "(float[1,1,4,4] x, float[1,2,2,2] g) => (float[1,1,2,2] y)",
     'y = GridSample <mode = "bilinear"> (x, g)',
     [floats(1, 1, 4, 4), np.clip(floats(1, 2, 2, 2), -1, 1)], None),
    ("roi_align_10", 10, "(float[1,1,8,8] x, float[1,4] r, int64[1] b) => (float[1,1,2,2] y)",
     "y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, r, b)",
     [floats(1, 1, 8, 8), np.array([[0.5, 0.5, 6.0, 7.0]], np.float32), np.array([0])], None),
    ("dft_17", 17, "(float[1,4,3,1] x) => (float[1,4,3,2] y)", "y = DFT (x)", [floats(1, 4, 3, 1)],
     lambda x: (lambda f: np.stack([f.real, f.imag], -1))(np.fft.fft(x[..., 0], axis=1)).astype(np.float32)),
    ("swish_24", 24, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Swish <alpha = 1.5> (x)", [X234],
     lambda x: x / (1 + np.exp(-1.5 * x))),
    ("swiglu_28", 28, "(float[2,3,4] a, float[2,3,4] b) => (float[2,3,4] y)", "y = SwiGLU (a, b)", [X234, POSITIVE],
     lambda a, b: a / (1 + np.exp(-a)) * b),
    ("cast_25", 25, "(float[2,3,4] x) => (int64[2,3,4] y)", 'y = Cast <to = 7, round_mode = "up"> (x)', [X234],
     lambda x: x.astype(np.int64)),
    ("range_27", 27, "() => (float[5] y)", "y = Range (a, b, c)|<float a = {1.0}, float b = {6.0}, float c = {1.0}>",
     [],
     lambda: np.arange(1, 6, dtype=np.float32)),
    ("range_27_half", 27, "(float16 a, float16 b, float16 c) => (float16[n] y)", "y = Range (a, b, c)",
     [np.array(v, np.float16) for v in (1, 2, 0.3)],
     lambda a, b, c: (np.float32(a) + np.arange(4, dtype=np.float32) * np.float32(c)).astype(np.float16)),
    ("mod_floor_28", 28, "(float[2,8] x, float[8] y) => (float[2,8] z)", "z = Mod (x, y)", [MOD_X, MOD_Y], np.mod),
    ("mod_floor_typed_28", 28, "(float[2,8] x, float[8] y) => (float[2,8] z)", "a = Neg (x)\n z = Mod (a, y)",
     [MOD_X, MOD_Y],
     lambda x, y: np.mod(-x, y)),
    ("mod_28", 28, "(int64[4] x) => (int64[4] y)", "y = Mod (x, c)|<int64 c = {3}>", [np.array([-4, -1, 2, 7])],
     lambda x: x % 3),
    ("function_12", 12, "(float[2,3,4] x) => (float[2,4] y)", "y = local.Total <over = [1]> (x)", [X234],
     lambda x: x.sum(1)),
]
# The body of a function is brought up by its own opset; an attribute that it takes from its caller stays one.
FUNCTIONS = {"clip_untyped": '<domain: "local", opset_import: ["" : 10]>\nCut (a) => (b) { b = Clip <max: float = '
                             '0.25> (a) }\n',
             "function_12": '<domain: "local", opset_import: ["" : 12]>\nTotal <over> (a) => (b)\n'
                            "{ c = ReduceSum <keepdims: int = 1, axes: ints = @over> (a)\n b = Squeeze <axes: ints = "
                            "@over> (c) }\n"}


def model_of(name, opset, signature, body):
    nodes, _, initializers = body.partition("|")
    local = ', "local" : 1' if name in FUNCTIONS else ""
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}{local}]>\ng {signature} '
                                   f'{initializers}\n{{ {nodes} }}\n'
                                   + FUNCTIONS.get(name, ""))


def computed(model, inputs):
    made = session(model)
    return made.run(None, {i.name: v for i, v in zip(made.get_inputs(), inputs)})


def check(tempoc, name, opset, signature, body, inputs, meaning):
    before, after = path("before.onnx"), path("after.onnx")
    onnx.save(model_of(name, opset, signature, body), before)
    expected = meaning(*inputs) if meaning else computed(before, inputs)
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    run(tempoc, before, "-o", after, "--passes=upgrade,shapes,bodies", "--verify-each", "-q")
    out = onnx.load(after)
    onnx.checker.check_model(out, full_check=True)
    if {o.domain: o.version for o in out.opset_import}[""] != 21:
        return "not at the canonical opset"
    for got, want in zip(computed(after, inputs), expected, strict=True):
        if got.dtype != want.dtype or not near(got, want, UPGRADED, nan=True):
            return f"expected {want.ravel()[:4]}, got {got.ravel()[:4]}"
    return None


for row in CASES:
    case(row[0], check, sys.argv[1], *row)
finish()
