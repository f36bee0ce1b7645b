#!/usr/bin/env python3
"""What the canonical opset cannot say, and what no graph of ONNX Runtime's training tools can mean, is refused by the
name of the node: a graph for each reason.

usage: check_refused.py TEMPOC
A case has a name, the exit code, the head and the rest of the graph as ONNX text, and the error that tempoc names.
"""
import sys

from programs import case, finish, path, run, write

ORT = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'


def opset(number, ir=10, more=""):
    return f'<ir_version: {ir}, opset_import: ["" : {number}{more}]>'


CASES = [
    ("CumProd", 3, opset(26), "(float[2] x, int64 a) => (float[2] y) { y = CumProd (x, a) }",
     'CumProd "y": this op of opset 26 cannot be expressed at opset 21 [upgrade]'),
    ("batch norm", 3, opset(8),
     "(float[2,3] x, float[3] s) => (float[2,3] y) { y = BatchNormalization <spatial = 0> (x, s, s, s, s) }",
     'BatchNormalization "y": BatchNormalization with spatial=0 of opset 8 cannot be expressed at opset 21 [upgrade]'),
    ("batch norm saved", 3, opset(9),
     "(float[2,3] x, float[3] s) => (float[2,3] y, float[3] d) { y, a, b, c, d = BatchNormalization (x, s, s, s, s) }",
     'BatchNormalization "y": the saved mean or variance of BatchNormalization of opset 9 cannot be expressed at opset '
     "21 [upgrade]"),
    ("cast", 3, opset(25), "(float[2] x) => (float8e8m0[2] y) { y = Cast <to = 24> (x) }",
     'Cast "y": the element type of opset 25 cannot be expressed at opset 21 [upgrade]'),
    ("dequantize", 3, opset(23),
     "(uint8[2] x, float s) => (float16[2] y) { y = DequantizeLinear <output_dtype = 10> (x, s) }",
     'DequantizeLinear "y": the attribute output_dtype of opset 23 cannot be expressed at opset 21 [upgrade]'),
    ("dropout mask", 3, opset(9), "(float[2] x) => (float[2] y, float[2] m) { y, m = Dropout (x) }",
     'Dropout "y": the mask of Dropout as numbers of opset 9 cannot be expressed at opset 21 [upgrade]'),
    ("norm order", 3, opset(1), "(float[1,2,3,3] x) => (float[1,2,1,1] y) { y = GlobalLpPool <p = 1.5> (x) }",
     'GlobalLpPool "y": an order p that is no whole number of opset 1 cannot be expressed at opset 21 [upgrade]'),
    ("quantize", 3, opset(23), "(float[2] x, float s) => (uint8[2] y) { y = QuantizeLinear <precision = 11> (x, s) }",
     'QuantizeLinear "y": the attribute precision of opset 23 cannot be expressed at opset 21 [upgrade]'),
    ("range", 3, opset(27), "(float16 x) => (float16[n] y) { y = Range <stash_type = 11> (x, x, x) }",
     'Range "y": Range of 16-bit floats that add up in another type than float of opset 27 cannot be expressed at '
     "opset 21 [upgrade]"),
    ("scan", 3, opset(8),
     "(float[1,2] s, float[1,2,2] x) => (float[1,2] z) { z = Scan <num_scan_inputs = 1, body = b (float[2] a, "
     'float[2] b) => (float[2] c) { c = Add (a, b) }> ("", s, x) }',
     'Scan "z": Scan with a batch axis of opset 8 cannot be expressed at opset 21 [upgrade]'),
    ("shift", 3, opset(28), '(int32[2] x) => (int32[2] y) { y = BitShift <direction = "LEFT"> (x, x) }',
     'BitShift "y": shifting signed integers of opset 28 cannot be expressed at opset 21 [upgrade]'),
    ("softmax axis", 3, opset(12, 8, ', "local" : 1'),
     '(float[2,3] x) => (float[2,3] y) { y = local.Map <at = 0> (x) } <domain: "local", opset_import: ["" : 12]> '
     "Map <at> (a) => (b) { b = Softmax <axis: int = @at> (a) }",
     'Softmax "b": an axis that the function\'s caller gives of opset 12 cannot be expressed at opset 21 [upgrade]'),
    ("space", 3, opset(28),
     '(float[1,2,4,4] x) => (float[1,8,2,2] y) { y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x) }',
     'SpaceToDepth "y": the column-row-depth order of opset 28 cannot be expressed at opset 21 [upgrade]'),
    ("tile", 3, opset(5), "(float[2] x, int64 n, int64 a) => (float[4] y) { y = Tile (x, n, a) }",
     'Tile "y": Tile along one axis of opset 5 cannot be expressed at opset 21 [upgrade]'),
    ("ort activation", 3, ORT,
     '(float[2,2] x) => (float[2,2] u) { u = com.microsoft.FusedGemm <activation = "Clip"> (x, x) }',
     'FusedGemm "u": the activation \'Clip\' is not known here'),
    ("ort batch norm", 3, ORT,
     "(float[2,3] x, float[3] s) => (float[2,3] u, float[3] m) { u, , , m = com.microsoft.BatchNormInternal (x, s, "
     "s, s, s) }", 'BatchNormInternal "u": without training_mode it has no batch statistics'),
    ("ort bitmask", 3, ORT,
     "(float[64] x) => (float[64] y, uint32[2] n) { y, m = com.microsoft.BitmaskDropout (x) n = Identity (m) }",
     'BitmaskDropout "y": its packed mask \'m\' has other readers than its gradient'),
    ("ort bitmask bias", 3, ORT,
     "(float[64] x) => (float[64] y, uint32[2] m) { y, m = com.microsoft.BitmaskBiasDropout (x, x) }",
     'BitmaskBiasDropout "y": its packed mask \'m\' has other readers than its gradient'),
    ("ort bitmask grad", 3, ORT,
     "(float[64] x, uint32[2] m) => (float[64] u) { u = com.microsoft.BitmaskDropoutGrad (x, m) }",
     'BitmaskDropoutGrad "u": its packed mask \'m\' comes from no dropout of the graph'),
    ("ort buffer", 3, ORT, "(float[2] x) => (bool[1] u) { b = Neg (x) u = com.microsoft.InPlaceAccumulatorV2 (b, x) }",
     'InPlaceAccumulatorV2 "u": a buffer that is not a graph input, or that is used elsewhere, cannot be omitted'),
    ("ort concat", 2, ORT, "(float[2] x) => (int64[1] u) { y, n, u = com.microsoft.ConcatTraining <axis = 0> (x) }",
     'ConcatTraining "y": result 2 (\'u\') is in use, but the op has 2'),
    ("ort conv", 3, ORT,
     '(float[1,1,2] x, float[1,1,1] w) => (float[1,1,2] u) { u = com.microsoft.FusedConv <activation = "Clip", '
     "activation_params = [0.0, 6.0]> (x, w) }", 'FusedConv "u": the activation \'Clip\' is not known here'),
    ("ort div", 2, ORT, "(float[2] x) => (float[2] u) { a, b, u = com.microsoft.DivGrad (x, x, x) }",
     'DivGrad "a": result 2 (\'u\') is in use, but the op has 2'),
    ("ort function", 3, opset(17, 8, ', "com.microsoft" : 1, "local" : 1'),
     '(float[2] x, int64[1] s) => (float[4] y) { y = local.f (x, s) } <domain: "local", opset_import: ["" : 17, '
     '"com.microsoft" : 1]> f (x, s) => (u) { u = com.microsoft.SliceGrad (x, s, s, s) }',
     'SliceGrad "u": the op needs shapes that are not known in a function\'s body'),
    ("ort gelu", 3, opset(20, 8, ', "com.microsoft" : 1'),
     '(float[4] x, float[4] dy) => (float[4] g, float[4] h, float[4] u) { g = Gelu <approximate = "tanh"> (x) h = '
     "Gelu (x) u = com.microsoft.GeluGrad (dy, x) }",
     'GeluGrad "u": an exact Gelu and a tanh Gelu read its X \'x\': the gradient '
     'does not say which one it belongs to'),
    ("ort grad", 3, ORT, "(float[2] x) => (float[2] u) { u = com.microsoft.ResizeGrad (x) }",
     'ResizeGrad "u": the gradient op ResizeGrad of com.microsoft is not known [upgrade]; hint: give tempoc the '
     "model from before the training tools added a backward pass"),
    ("ort ignored", 3, ORT,
     "(float[2,3] x, int64[2] l, int64 i) => (float u) { u, p = com.microsoft.SoftmaxCrossEntropyLossInternal (x, "
     "l, , i) }", 'SoftmaxCrossEntropyLossInternal "u": the label to ignore, \'i\', is no constant'),
    ("ort max pool", 3, ORT,
     "(float[1,1,2] dy, int64[1,1,2] i) => (float[1,1,u] u) { u = MaxPoolGrad <kernel_shape = [2], strides = [2]> "
     "(dy, i) }", 'MaxPoolGrad "u": the MaxPool that made operand 1 is not in the graph'),
    ("ort optimizer", 3, ORT, "(float[2] x) => (float[2] u) { u = com.microsoft.AdamWOptimizer (x) }",
     'AdamWOptimizer "u": AdamWOptimizer of com.microsoft cannot be compiled [upgrade]; hint: its tensors come in '
     "sequences of unknown length: give tempoc the training graph, and run the optimizer outside, or by a "
     "node AdamW of ai.tempo"),
    ("ort pool", 3, ORT,
     "(float[1,1,2] dy, float[1,1,6] x) => (float[1,1,3] p, float[1,1,u] u) { p = AveragePool <kernel_shape = [2], "
     "strides = [2]> (x) u = AveragePoolGrad <kernel_shape = [2], strides = [2]> (dy) }",
     'AveragePoolGrad "u": no AveragePool of the graph has a result of this shape'),
    ("ort pools", 3, ORT,
     "(float[1,1,2] dy, float[1,1,4] x, float[1,1,5] z) => (float[1,1,2] p, float[1,1,2] q, float[1,1,u] u) { p = "
     "AveragePool <kernel_shape = [2], strides = [2]> (x) q = AveragePool <kernel_shape = [2], strides = [2]> (z) u "
     "= AveragePoolGrad <kernel_shape = [2], strides = [2]> (dy) }",
     'AveragePoolGrad "u": several AveragePools with different input sizes could match it'),
    ("ort rank", 2, ORT, "(float[2] x) => (float[2] u) { u = com.microsoft.FusedMatMul <transA = 1> (x, x) }",
     'FusedMatMul "u": operand 0 has rank 1, expected at least 2'),
    ("ort result", 2, ORT, "(int64[1] s) => (int64[N] u) { a, b, u = com.microsoft.BroadcastGradientArgs (s, s) }",
     'BroadcastGradientArgs "a": result 2 (\'u\') is in use, but the op has 2'),
    ("ort skip mean", 3, ORT,
     "(float[2,4] x, float[4] s) => (float[2,4] y, float[2,1] m) { y, m = "
     "com.microsoft.SkipSimplifiedLayerNormalization (x, x, s) }",
     'SkipSimplifiedLayerNormalization "y": its result 1, a mean, is in use, but the op computes none'),
    ("ort yield", 2, ORT,
     "(float[2] x) => (float[2] u) { y, g = com.microsoft.YieldOp <full_shape_outputs = [0]> (x) u = Mul (x, g) }",
     'YieldOp "g": result 1 (\'g\') is in use, but the op has 1'),
    ("group norm groups", 2, opset(18, 8),
     "(float[2,4,3] x, float[2] s) => (float[2,4,3] y) { y = GroupNormalization <num_groups = 0> (x, s, s) }",
     'GroupNormalization "y": num_groups is 0; expected a positive number [upgrade]'),
]


def check(code, head, graph, message):
    written = write(path("refused.onnxt"), f"{head}\nrefused {graph}\n")
    text = run(sys.argv[1], written, "--passes=upgrade", code=code).text
    return None if f"error: {message}" in text else text


for name, *what in CASES:
    case(name, check, *what)
finish()
