/* test_shape.c: types and shapes of single ops, as ONNX's operator documentation (opset 21; 23 to 25 for ai.tempo)
 * gives them, also with symbolic dims, and what must be refused: the node named, the wrong number said. */
#include "test/unit/infer_case.h"

typedef struct typed {
    const char *text, *type, *value;
} typed; /* value: NULL is the first result */
typedef struct refused {
    const char *text, *message;
} refused;

static const typed typed_cases[] = {
    /* elementwise */
    {"float[2,n,1] x, float[3,4] y||z = Add(x, y)", "float[2,3,4]"},
    {"float[b,s,1] x, float[s,4] y||z = Mul(x, y)", "float[b,s,4]"},
    {"float[n] x, float[m] y||z = Add(x, y)", "float[max(n, m)]"},
    {"float[n] x, float[?] y||z = Add(x, y)", "float[?]"},
    {"float[] x, float[2] y||z = Add(x, y)", "float[...]"},
    {"int64[3] x, int64 [2,1] y||z = Less(x, y)", "bool[2,3]"},
    {"bool[2,1] c, float16[3] x, float16[1] y||z = Where(c, x, y)", "float16[2,3]"},
    {"float[2] x, double y||z = Pow(x, y)", "float[2]"},
    {"float[b,2] x||z = Cast <to = 7> (x)", "int64[b,2]"},
    {"float[b] x, int32[1] y||z = CastLike(x, y)", "int32[b]"},
    {"float[2] a, float[3,1] b, float[1] c||z = Max(a, b, c)", "float[3,2]"},
    {"float[2,3] x||z, mask = Dropout(x)", "float[2,3]"},
    /* reductions */
    {"float[2,n,4] x|int64[1] a = {-1}|z = ReduceSum(x, a)", "float[2,n,1]"},
    {"float[2,n,4] x|int64[2] a = {0, 2}|z = ReduceMean <keepdims = 0> (x, a)", "float[n]"},
    {"float[2,n] x||z = ReduceMax <keepdims = 0> (x)", "float[]"},
    {"float[2,n] x|int64[0] a = {}|z = ReduceMax <noop_with_empty_axes = 1> (x, a)", "float[2,n]"},
    {"float[2,3] x, int64[1] a||z = ReduceSum <keepdims = 0> (x, a)", "float[?]"},
    {"float[2,n,4] x||z = ArgMax <axis = 1, keepdims = 0> (x)", "int64[2,4]"},
    {"float[2,9] x|int64[1] k = {3}|z, i = TopK(x, k)", "float[2,3]"},
    /* products */
    {"float[b,1,n,4] x, float[3,4,m] y||z = MatMul(x, y)", "float[b,3,n,m]"},
    {"float[4] x, float[b,4,m] y||z = MatMul(x, y)", "float[b,m]"},
    {"float[4] x, float[4] y||z = MatMul(x, y)", "float[]"},
    {"float[4,n] x, float[8,4] y, float[8] c||z = Gemm <transA = 1, transB = 1> (x, y, c)", "float[n,8]"},
    {"float[b,i,j] x, float[b,j,k] y||z = Einsum <equation = \"bij, bjk -> bik\"> (x, y)", "float[b,i,k]"},
    {"float[5,n,3] x||z = Einsum <equation = \"...ij\"> (x)", "float[5,n,3]"},
    {"float[3,3] x||z = Einsum <equation = \"ii\"> (x)", "float[]"},
    /* convolutions */
    {"float[s,b,3] x, float[2,20,3] w, float[2,20,5] r||z, h, c = LSTM <direction = \"bidirectional\"> (x, w, r)",
     "float[s,2,b,5]"},
    {"float[b,s,3] x, float[1,15,3] w, float[1,15,5] r||z, h = GRU <layout = 1, hidden_size = 5> (x, w, r)",
     "float[b,s,1,5]"},
    {"float[s,1,b,5] y, float[s,b,3] x, float[1,15,3] w, float[1,15,5] r, float[1,b,5] h||a, z = "
     "ai.tempo.RecurrenceGrad <cell = \"GRU\"> (y, x, w, r, , , h, , , y)",
     "float[s,b,3]"},
    {"float[b,3,32,32] x, float[8,3,3,3] w||z = Conv <pads = [1,1,1,1], strides = [2,2]> (x, w)", "float[b,8,16,16]"},
    {"float[1,4,n,9] x, float[8,2,4,3] w||z = Conv <group = 2, strides = [4,3]> (x, w)", "float[1,8,floor(n/4),3]"},
    {"float[1,1,5,5] x, float[1,1,3,3] w||z = Conv <dilations = [2,2]> (x, w)", "float[1,1,1,1]"},
    {"float[1,1,5,6] x, float[1,1,3,3] w||z = Conv <auto_pad = \"SAME_UPPER\", strides = [2,2]> (x, w)",
     "float[1,1,3,3]"},
    {"float[1,4,3,3] x, float[4,2,3,3] w||z = ConvTranspose <strides = [2,2], pads = [1,1,1,1], output_padding = "
     "[1,1]> (x, w)",
     "float[1,2,6,6]"},
    {"float[1,3,32,32] x||z = MaxPool <kernel_shape = [3,3], strides = [2,2], ceil_mode = 1> (x)", "float[1,3,16,16]"},
    {"float[1,3,4,4] x||z = AveragePool <kernel_shape = [3,3], strides = [2,2]> (x)", "float[1,3,1,1]"},
    {"float[b,3,7,n] x||z = GlobalAveragePool(x)", "float[b,3,1,1]"},
    /* movement */
    {"float[b,s,64] x|int64[4] t = {0, 0, 4, -1}|z = Reshape(x, t)", "float[b,s,4,16]"},
    {"float[b,s,64] x|int64[2] t = {-1, 64}|z = Reshape(x, t)", "float[b*s,64]"},
    {"float[0,3] x|int64[2] t = {0, -1}|z = Reshape <allowzero = 0> (x, t)", "float[0,0]"},
    {"float[2,3] x, int64[2] t||z = Reshape(x, t)", "float[z.0,z.1]"},
    {"float[2,3] x|int64[2] t = {-1, 4}|u = com.example.Unknown(x) v = Cast <to = 1> (u) z = Reshape(v, t)",
     "float[z.0,4]"},
    {"float[2,n,4] x||z = Flatten <axis = 2> (x)", "float[2*n,4]"},
    {"float[2,n,4] x||z = Flatten <axis = 0> (x)", "float[1,8*n]"},
    {"float[1,n,1] x|int64[1] a = {-1}|z = Squeeze(x, a)", "float[1,n]"},
    {"float[1,2,1] x||z = Squeeze(x)", "float[2]"},
    {"float[n] x|int64[2] a = {0, -1}|z = Unsqueeze(x, a)", "float[1,n,1]"},
    {"float[a,b,c] x||z = Transpose(x)", "float[c,b,a]"},
    {"float[a,b,c] x||z = Transpose <perm = [1,0,2]> (x)", "float[b,a,c]"},
    {"float[3,1] x|int64[3] t = {2, 1, 6}|z = Expand(x, t)", "float[2,3,6]"},
    {"float[2,n] x|int64[2] r = {3, 2}|z = Tile(x, r)", "float[6,2*n]"},
    {"float[2,n] x|int64[4] p = {1, 0, 2, 3}|z = Pad(x, p)", "float[5,n + 3]"},
    {"float[2,n] x|int64[2] p = {1, 1}, int64[1] a = {-1}|z = Pad(x, p, \"\", a)", "float[2,n + 2]"},
    {"float[2,n] x, float[3,n] y||z = Concat <axis = 0> (x, y)", "float[5,n]"},
    {"float[2,n] x, float[2,m] y||z = Concat <axis = -1> (x, y)", "float[2,n + m]"},
    {"float[7] x||z, y = Split <num_outputs = 2> (x)", "float[4]"},
    {"float[7] x|int64[2] s = {3, 4}|z, y = Split(x, s)", "float[3]"},
    {"float[10,n] x|int64[1] s = {2}, int64[1] e = {9223372036854775807}, int64[1] a = {0}, int64[1] t = {3}|z = "
     "Slice(x, s, e, a, t)",
     "float[3,n]"},
    {"float[10] x|int64[1] s = {-1}, int64[1] e = {-9223372036854775807}, int64[1] a = {0}, int64[1] t = {-2}|z = "
     "Slice(x, s, e, a, t)",
     "float[5]"},
    {"float[n] x|int64[1] s = {-1}, int64[1] e = {9223372036854775807}|z = Slice(x, s, e)", "float[1]"},
    {"float[5] x|int64[1] s = {-7}, int64[1] e = {-9}, int64[1] a = {0}, int64[1] t = {-1}|"
     "z = Slice(x, s, e, a, t)",
     "float[1]"},
    {"float[5] x|int64[1] s = {-6}, int64[1] e = {-100}, int64[1] a = {0}, int64[1] t = {-2}|"
     "z = Slice(x, s, e, a, t)",
     "float[1]"},
    {"float[5] x|int64[1] s = {-3}, int64[1] e = {-9}, int64[1] a = {0}, int64[1] t = {-2}|"
     "z = Slice(x, s, e, a, t)",
     "float[2]"},
    {"float[0] x|int64[1] s = {-7}, int64[1] e = {-9}, int64[1] a = {0}, int64[1] t = {-1}|"
     "z = Slice(x, s, e, a, t)",
     "float[0]"},
    {"float[0] x|int64[1] s = {-1}, int64[1] e = {-9}, int64[1] a = {0}, int64[1] t = {-1}|"
     "z = Slice(x, s, e, a, t)",
     "float[0]"},
    {"float[n] x|int64[1] s = {-1}, int64[1] e = {-9223372036854775807}, int64[1] a = {0}, int64[1] t = {-1}|"
     "z = Slice(x, s, e, a, t)",
     "float[n]"},
    {"float[n] x|int64[1] s = {-9223372036854775807}, int64[1] e = {-9223372036854775807}, "
     "int64[1] a = {0}, int64[1] t = {-1}|z = Slice(x, s, e, a, t)",
     "float[1]"},
    {"float[n] x|int64[1] s = {0}, int64[1] e = {4}|z = Slice(x, s, e)", "float[min(n, 4)]"},
    {"float[b,8,2,3] x||z = DepthToSpace <blocksize = 2> (x)", "float[b,2,4,6]"},
    {"float[b,3,h,5] x|float[4] f = {1, 1, 1, 2}|z = Resize(x, \"\", f)", "float[b,3,h,10]"},
    {"float[b,3,h,5] x|float[4] f = {1, 1, 1.5, 0.5}|z = Resize(x, \"\", f)", "float[b,3,h + floor(h/2),2]"},
    {"float[1,10] x|float[2] f = {1, 0.3}|z = Resize(x, \"\", f)", "float[1,3]"},
    {"float[b,4,6] x|int64[2] s = {8, 7}|z = Resize <axes = [2, 1]> (x, \"\", \"\", s)", "float[b,7,8]"},
    {"float[b,4,6] x|float[0] f = {}, int64[3] s = {2, 8, 7}|z = Resize (x, \"\", f, s)", "float[2,8,7]"},
    {"float[b,4,6] x|float[3] f = {1, 2, 2}, int64[0] s = {}|z = Resize (x, \"\", f, s)", "float[b,8,12]"},
    {"float[4,6] x|int64[2] s = {6, 8}|z = Resize <keep_aspect_ratio_policy = \"not_larger\"> (x, \"\", \"\", s)",
     "float[5,8]"},
    {"float[4,6] x|int64[2] s = {6, 8}|z = Resize <keep_aspect_ratio_policy = \"not_smaller\"> (x, \"\", \"\", s)",
     "float[6,9]"},
    {"float[b,3,h,w] x, float[b,5,n,2] g||z = GridSample(x, g)", "float[b,3,5,n]"},
    /* indices */
    {"float[v,h] x, int64[b,s] i||z = Gather(x, i)", "float[b,s,h]"},
    {"float[4,5] x, int64 i||z = Gather <axis = 1> (x, i)", "float[4]"},
    {"float[4,5,6] x, int64[7,2] i||z = GatherND(x, i)", "float[7,6]"},
    {"float[2,5,6] x, int64[2,1] i||z = GatherND <batch_dims = 1> (x, i)", "float[2,6]"},
    {"float[2,n] x, int64[2,1] i||z = GatherElements <axis = 1> (x, i)", "float[2,1]"},
    {"int64[b] x|int64 d = {5}, float[2] v = {0.0, 1.0}|z = OneHot(x, d, v)", "float[b,5]"},
    {"float[2,n] x||z = NonZero(x)", "int64[2,z.1]"},
    {"|int64[3] x = {0, 5, 0}|z = NonZero(x)", "int64[1,1]"},
    /* shapes and values */
    {"float[b,3] x||z = Shape(x)", "int64[2]"},
    {"float[a,b,c] x||z = Shape <start = -2> (x)", "int64[2]"},
    {"|int64[2] s = {2, 3}|z = ConstantOfShape(s)", "float[2,3]"},
    {"|int64[2] s = {1048576, 1048576}|z = ConstantOfShape(s)", "float[1048576,1048576]"},
    {"|int64 a = {10}, int64 b = {4}, int64 c = {-2}|z = Range(a, b, c)", "int64[3]"},
    {"int64 n|int64 a = {0}, int64 c = {1}|z = Range(a, n, c)", "int64[z.0]"},
    {"||z = Constant <value_floats = [1.0, 2.0]> ()", "float[2]"},
    /* normalization and losses */
    {"float[b,s,8] x, float[8] g||z, m, i = LayerNormalization(x, g)", "float[b,s,8]"},
    {"float[2,c,d] x, int64[2,d] y||z, p = SoftmaxCrossEntropyLoss <reduction = \"none\"> (x, y)", "float[2,d]"},
    {"float[2,c] x, int64[2] y||z = SoftmaxCrossEntropyLoss(x, y)", "float[]"},
    {"float[2,3,4] x, float[3] a, float[3] b, float[3] c, float[3] d||z = BatchNormalization(x, a, b, c, d)",
     "float[2,3,4]"},
    /* ai.tempo */
    {"float[b,8,s,64] q, float[b,2,t,64] k, float[b,2,t,32] v||z = ai.tempo.Attention(q, k, v)", "float[b,8,s,32]"},
    {"float[b,s,512] q, float[b,t,128] k, float[b,t,128] v||z = ai.tempo.Attention <q_num_heads = 8, kv_num_heads = "
     "2> (q, k, v)",
     "float[b,s,512]"},
    {"float[b,s,512] q, float[b,t,128] k, float[b,t,128] v||z = ai.tempo.Attention_m1 <q_num_heads = 8, kv_num_heads "
     "= 2> (q, k, v)",
     "float[b,s,512]"},
    {"float[b,4,s,8] x, float[b,s,4] c, float[b,s,4] d||z = ai.tempo.RotaryEmbedding(x, c, d)", "float[b,4,s,8]"},
    {"float16[b,8] x, float16[8] g||z = ai.tempo.RMSNormalization(x, g)", "float16[b,8]"},
    {"float[b,4] d, float[b,4] x||z = ai.tempo.GeluGrad(d, x)", "float[b,4]"},
    {"float[3,5] x||y, z = ai.tempo.ActivationMasked <function = \"Mish\"> (x)", "uint8[2]", "z"},
    {"float[b,4] x||y, z = ai.tempo.ActivationMasked <function = \"Mish\"> (x)", "uint8[floor((4*b + 7)/8)]", "z"},
    {"float[b,4] d, float[b,4] y, uint8[n] r||z = ai.tempo.ActivationFromOutputGrad <function = \"Mish\"> (d, y, r)",
     "float[b,4]"},
    {"int64[b,s] i, float[b,s,8] d|int64[2] t = {100, 8}|z = ai.tempo.GatherGrad(t, i, d)", "float[100,8]"},
    {"float l, float[n,c] p, int64[n] y||z = ai.tempo.SoftmaxCrossEntropyLossGrad(l, p, y)", "float[n,c]"},
    {"float[b,s,8] x, float[9,8] w, int64[b,s] y, float[9] c||z, d = ai.tempo.LinearCrossEntropy <transB = 1, "
     "reduction = \"none\"> (x, w, y, c)",
     "float[b,s]"},
    {"float16[b,8] x, float16[8,v] w, int64[b] y||z, d, e, f = ai.tempo.LinearCrossEntropy <loss_type = 1> (x, w, y)",
     "float16[v]", "f"},
    {"float16[b,8] x, float16[8,v] w, int64[b] y||z = ai.tempo.LinearCrossEntropy <loss_type = 1> (x, w, y)",
     "float[]"},
    {"float[b,8] d, float[b,8] x, float[8] g, float[b,1] m, float[b,1] i||z, g2, b2 = "
     "ai.tempo.LayerNormalizationGrad(d, x, g, m, i)",
     "float[b,8]"},
    {"float[b,4,9,8] c, float[b,4,1,8] u, int64[b] i||z = ai.tempo.TensorScatter(c, u, i)", "float[b,4,9,8]"},
    {"float16[b,8] x, float[8] g||y, z = ai.tempo.RMSNormalization(x, g)", "float[b,1]", "z"},
    {"float[b,8] d, float[b,8] x, float[8] g, float[b,1] i||z, g2 = ai.tempo.RMSNormalizationGrad(d, x, g, i)",
     "float[8]", "g2"},
    {"float16[b,4,8] x, float16[8] g||z, h, i = ai.tempo.LayerNormalizationXhat(x, g)", "float16[b,4,8]", "h"},
    {"float16[b,4,8] x, float16[4,8] g||z, h, i = ai.tempo.LayerNormalizationXhat <axis = 1> (x, g)", "float[b,1,1]",
     "i"},
    {"float[b,8] d, float[b,8] h, float[8] g, float[b,1] i||z, g2, b2 = ai.tempo.LayerNormalizationXhatGrad(d, h, g, "
     "i)",
     "float[8]", "b2"},
    {"float[b,8] x, float[8] g||z, h, i = ai.tempo.RMSNormalizationXhat(x, g)", "float[b,8]", "h"},
    {"float16[b,4,8] x, float16[8] g||z, i, c, k = ai.tempo.LayerNormalizationFromY <capacity = 3> (x, g)",
     "float16[b,4,3]", "k"},
    {"float16[b,4,8] x, float16[4,8] g||z, i, c, k = ai.tempo.LayerNormalizationFromY <axis = 1, capacity = 3> (x, g)",
     "float[b,1,1]", "i"},
    {"float[b,8] x, float[8] g||z, i, c, k = ai.tempo.RMSNormalizationFromY <capacity = 2> (x, g)", "int32[2]", "c"},
    {"float[b,8] d, float[b,8] y, float[8] g, float[b,1] i, int32[2] c, float[b,2] k||"
     "z, g2, b2 = ai.tempo.LayerNormalizationFromYGrad(d, y, g, i, c, k, g)",
     "float[8]", "b2"},
    {"float[b,8] h, float[8] g, float[8] c||z = ai.tempo.ScaleBias(h, g, c)", "float[b,8]"},
    {"float16[b,3] x, float r, int64[2] s||z, m = ai.tempo.Dropout <node = 3> (x, r, s)", "float16[b,3]"},
    {"float[b,3] x, float r, int64[2] s||z, m = ai.tempo.Dropout <node = 3> (x, r, s)", "bool[b,3]", "m"},
    {"float[b,3] d, bool[b,3] m, float r||z = ai.tempo.DropoutGrad(d, m, r)", "float[b,3]"},
    {"float[b,h,s,8] q, float[b,h,8,t] k, float[b,h,t,5] v||z, p = ai.tempo.DotProductAttention(q, k, v)",
     "float[b,h,s,5]"},
    {"float[b,h,s,8] q, float[b,1,8,t] k, float[b,h,t,5] v, float[s,t] w||z, p = ai.tempo.DotProductAttention(q, k, "
     "v, w)",
     "float[b,h,s,t]", "p"},
    {"float[b,s,8] q, float[b,8,t] k, float[b,t,5] v, bool[b,1,t] m, float r, int64[2] c||"
     "z, p, d, keep = ai.tempo.DotProductAttention(q, k, v, \"\", m, r, c)",
     "bool[b,s,t]", "keep"},
    {"float[b,h,s,5] d, float[b,h,s,8] q, float[b,h,8,t] k, float[b,h,t,5] v, float[b,h,s,t] p||"
     "z, k2, v2, s2 = ai.tempo.DotProductAttentionGrad(d, q, k, v, p)",
     "float[b,h,s,8]"},
    {"float[b,h,s,5] d, float[b,h,s,8] q, float[b,1,8,t] k, float[b,h,t,5] v, float[b,h,s,t] p||"
     "z, k2, v2, s2 = ai.tempo.DotProductAttentionGrad(d, q, k, v, p)",
     "float[b,h,8,t]", "k2"},
    {"float[b,h,s,5] d, float[b,h,s,8] q, float[b,h,8,t] k, float[b,h,t,5] v, float[b,h,s,t] p||"
     "z, k2, v2, s2 = ai.tempo.DotProductAttentionGrad(d, q, k, v, p)",
     "float[b,h,t,5]", "v2"},
    {"float[b,h,s,5] d, float[b,h,s,8] q, float[b,h,8,t] k, float[b,h,t,5] v, float[b,h,s,t] p||"
     "z, k2, v2, s2 = ai.tempo.DotProductAttentionGrad(d, q, k, v, p)",
     "float[b,h,s,t]", "s2"},
    {"float[2] x||z = com.example.Unknown(x)", "?"},
};

static const refused refused_cases[] = {
    {"float[2] x, bool[2] y||z = Add(x, y)",
     "operand 0 \"x\" (float[2]) and operand 1 \"y\" (bool[2]) must have one element type"},
    {"float[2] x, int64[2] y||z = Mul(x, y)", "must have one element type"},
    {"bool[2] x, bool[2] y||z = Add(x, y)", "has element type bool, expected a number type"},
    {"int64[2] x||z = Exp(x)", "expected a float type"},
    {"float[2,3] x, float[4] y||z = Add(x, y)", "shapes [2,3] and [4] cannot be broadcast: 3 and 4 at axis 1"},
    {"float[2,4] x, float[5,4] y||z = MatMul(x, y)", "inner sizes are 4 and 5"},
    {"float[2,3] x||z = Softmax <axis = 7> (x)", "axis is 7, expected -2 to 1 (rank 2)"},
    {"float[2,3] x||z = Softmax <axis = \"a\"> (x)", "axis"},
    {"float[2,3] x||z = Cast(x)", "to"},
    {"float[2,3] x||z = Cast <to = 77> (x)", "to is 77"},
    {"float[2,3] x||z = Transpose <perm = [0,0]> (x)", "perm has the element 0 at 1"},
    {"float[2,3] x||z = Transpose <perm = [0,1,2]> (x)", "perm has 3 elements"},
    {"float[6] x|int64[3] t = {-1, 2, -1}|z = Reshape(x, t)", "shape [-1,2,-1] has -1 twice"},
    {"float[6] x|int64[2] t = {4, -1}|z = Reshape(x, t)", "6 elements are no multiple of 4"},
    {"float[6] x|int64[2] t = {2, 2}|z = Reshape(x, t)", "6 elements against 4"},
    {"float[6] x|int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {0}, int64[1] t = {0}|z = Slice(x, s, e, a, t)",
     "step is 0 for axis 0"},
    {"float[6] x|int64[2] s = {3, 4}|z, y = Split(x, s)", "split adds up to 7, but axis 0 has size 6"},
    {"float[7] x||z, y = Split(x)", "size 7 cannot be split into 2"},
    {"float[6] x, float[6,1] y||z = Concat <axis = 0> (x, y)", "has rank 2, expected 1"},
    {"float[6,2] x, float[6,3] y||z = Concat <axis = 0> (x, y)", "2 and 3"},
    {"float[1,4,8,8] x, float[4,4,3,3] w||z = Conv <group = 0> (x, w)", "group is 0"},
    {"float[7,2,3] x, float[1,20,4] w, float[1,20,5] r||z = LSTM <hidden_size = 5> (x, w, r)", "number of inputs"},
    {"float[7,2,3] x, float[1,15,3] w, float[1,20,5] r||z = LSTM <hidden_size = 5> (x, w, r)", "gates' rows"},
    {"float[7,2,3] x, float[1,48,3] w, float[1,48,5] r||z = LSTM <hidden_size = 5> (x, w, r)",
     "4 gates of 5 states have 48 rows of weights"},
    {"float[7,2,3] x, float[1,20,3] w, double[1,20,5] r||z = LSTM <hidden_size = 5> (x, w, r)", "float"},
    {"float[7,1,2,5] y, float[7,2,3] x, float[1,5,3] w, float[1,5,5] r||z, , , b = ai.tempo.RecurrenceGrad "
     "<cell = \"RNN\"> (y, x, w, r, , , , , , y)",
     "result 3 is the gradient of operand 4, which is absent"},
    {"float[1,4,8,8] x, float[4,3,3,3] w||z = Conv(x, w)", "number of channels"},
    {"float[1,4,2,2] x, float[4,4,5,5] w||z = Conv(x, w)", "larger than spatial axis 0"},
    {"float[4,2] x|int64[1] i = {99}|z = Gather(x, i)", "index 99 is outside an axis of size 4"},
    {"float[3,2] x||z = ReduceSum <keepdims = 7> (x)", "keepdims is 7, expected 0 or 1"},
    {"float[3,2] x|float[1] a = {0.0}|z = Unsqueeze(x, a)", "has element type float, expected int64"},
    {"float[2,2,4,8] q, float[2,2,4,8] k, float[2,2,4,8] v, float[2,3,4,8] p||z, y = ai.tempo.Attention(q, k, v, "
     "\"\", p, p)",
     "number of heads of past and present differs: 3 and 2"},
    {"float[3,2] x|int64[2] a = {0, 0}|z = ReduceSum(x, a)", "axis 0 is given twice"},
    {"float[3,2] x|int64[1] a = {0}|z = Squeeze(x, a)",
     "axis 0 of operand 0 \"x\" (float[3,2]) has size 3, expected 1"},
    {"float[3] x|int64[1] t = {4}|z = Expand(x, t)", "cannot be broadcast"},
    {"float[1] x|int64[2] t = {4611686018427387904, 4}|z = Expand(x, t)", "too many elements"},
    {"float[2,3] x, float[4] g||z = LayerNormalization(x, g)", "cannot be broadcast to [2,3]"},
    {"float[2,3] x, float[3] g||z = LayerNormalization <axis = 2> (x, g)", "axis is 2"},
    {"float[2,3] x, float[3] g||z = LayerNormalization <epsilon = -1.0> (x, g)", "epsilon is -1"},
    {"float[2] x|float r = {1.5}|z = Dropout(x, r)", "ratio is 1.5"},
    {"float[2,5] x, int64[3] y||z = SoftmaxCrossEntropyLoss(x, y)", "2 and 3"},
    {"float[2,5] x, float[2] y||z = SoftmaxCrossEntropyLoss(x, y)", "expected int32 or int64"},
    {"float[2,5] x, float[4,9] w, int64[2] y||z = ai.tempo.LinearCrossEntropy(x, w, y)", "inner size of the product"},
    {"float[5] x, float[5,9] w, int64[1] y||z = ai.tempo.LinearCrossEntropy(x, w, y)", "expected at least 2"},
    {"float[2,5] x, float[5,9] w, int64[2] y, float[5] b||z = ai.tempo.LinearCrossEntropy(x, w, y, b)", "9 and 5"},
    {"|int64 a = {0}, int64 b = {4}, int64 c = {0}|z = Range(a, b, c)", "delta is 0"},
    {"float[2] x, float[2] y, float[2] w||z = Add(x, y, w)", "3"},
    {"float[2] x||z = Add(x, \"\")", "operand"},
    {"float[b,4,3] x, float[b,4,5] y||z = Einsum <equation = \"bij,bjk->bik\"> (x, y)", "axis 'j'"},
    {"float[4,4] x||z = Einsum <equation = \"bij->b\"> (x)", "names 3 axes"},
    {"float[2,6,4] q, float[2,6,4] k, float[2,6,4] v||z = ai.tempo.Attention <q_num_heads = 3, kv_num_heads = 1> (q, "
     "k, v)",
     "cannot be split into 3 heads"},
    {"float[2,8] q, float[7,4] k, float[4,8] v||z = ai.tempo.DotProductAttention(q, k, v)",
     "inner size of a product differs: 8 and 7"},
    {"float[2,8] q, float[8,4] k, float[4,8] v, float r||z = ai.tempo.DotProductAttention(q, k, v, \"\", \"\", r)",
     "has a ratio, but no seed"},
    {"float[2,8] q, float[8,4] k, float[4,8] v, float[3,4] w||z = ai.tempo.DotProductAttention(q, k, v, w)",
     "cannot be broadcast to [2,4]"},
    {"float[b,8] x, float[8] g||z = ai.tempo.RMSNormalizationFromY <capacity = 0> (x, g)", "capacity is 0"},
    {"float[b,8] x, float[1] g||z = ai.tempo.RMSNormalizationFromY <capacity = 1> (x, g)",
     "size of a normalized dim differs: 8 and 1"},
    {"float[b,8] x, float[1,8] g||z = ai.tempo.LayerNormalizationFromY <capacity = 1> (x, g)", "expected 1"},
    {"float[b,8] d, float[b,8] y, float[8] g, float[b,1] i, int32[2] c, float[b,3] k||"
     "z = ai.tempo.RMSNormalizationFromYGrad(d, y, g, i, c, k)",
     "number of channels that are kept differs: 2 and 3"},
    {"float[2] x, float r, int64[3] s||z = ai.tempo.Dropout(x, r, s)", "size of seed (seed and step) differs: 3 and 2"},
    {"float[2] x, float r, int32[2] s||z = ai.tempo.Dropout(x, r, s)", "expected int64"},
    {"float[2] x, float[2] m, float r||z = ai.tempo.DropoutGrad(x, m, r)", "expected bool"},
    {"float[9] d, float[9] y, uint8[1] r||z = ai.tempo.ActivationFromOutputGrad <function = \"Mish\"> (d, y, r)",
     "size of Right (a bit for each element of Y) differs: 2 and 1"},
    {"float[9] d, float[9] y, bool[2] r||z = ai.tempo.ActivationFromOutputGrad <function = \"Mish\"> (d, y, r)",
     "expected uint8"},
};

TEST(types) {
    for (size_t i = 0; i < TC_COUNT(typed_cases); i++) {
        tc_ctx ctx;
        tc_status status;
        tc_ctx_init(&ctx, "test");
        tc_model *model = infer_case(&ctx, typed_cases[i].text, &status);
        tc_diags_print(&ctx, stderr);
        const char *name = typed_cases[i].value;
        const tc_value *value = name ? tc_graph_find(model->graph, name) : model->graph->last->outputs[0];
        const char *type = tc_type_text(ctx.arena, value->type);
        if (status != TC_OK || strcmp(type, typed_cases[i].type) != 0)
            fail_msg("%s: %s, expected %s", typed_cases[i].text, type, typed_cases[i].type);
        assert_int_equal(tc_infer_graph(&ctx, model->graph), TC_OK); /* again: nothing changes */
        assert_string_equal(tc_type_text(ctx.arena, value->type), type);
        tc_model_destroy(model);
        tc_ctx_fini(&ctx);
    }
}

TEST(errors) {
    for (size_t i = 0; i < TC_COUNT(refused_cases); i++) {
        tc_ctx ctx;
        tc_status status;
        tc_ctx_init(&ctx, "test");
        tc_model *model = infer_case(&ctx, refused_cases[i].text, &status);
        if (status == TC_OK || ctx.n_diags == 0 || !strstr(ctx.diags[0].message, refused_cases[i].message))
            fail_msg("%s: %s, expected %s", refused_cases[i].text, ctx.n_diags ? ctx.diags[0].message : "accepted",
                     refused_cases[i].message);
        assert_true(status == TC_BAD_INPUT || status == TC_LIMIT);
        assert_string_equal(ctx.diags[0].node, "z");
        tc_model_destroy(model);
        tc_ctx_fini(&ctx);
    }
}

static const tc_type *type_of(const tc_model *model, const char *name) {
    return tc_graph_find(model->graph, name)->type;
}

static tc_model *parse(tc_ctx *ctx, const char *text) {
    tc_model *model = NULL;
    if (tc_parse_text(ctx, text, strlen(text), "case", &model) != TC_OK) {
        tc_diags_print(ctx, stderr);
        fail_msg("%s does not parse", text);
    }
    return model;
}

#define ASSERT_TYPE(ctx, model, name, text) assert_string_equal(tc_type_text((ctx)->arena, type_of(model, name)), text)

/* The shape arithmetic that exporters write, by symbols: view(x.shape[0], x.shape[1], 4, -1) and masks of the
 * sequence's length. */
TEST(exported_shape_arithmetic) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    tc_model *model = parse(
        &ctx,
        "<ir_version: 10, opset_import: [\"\": 21]> g (float[batch,seq,64] x, int64[1,512] ids) => (wide)"
        "<int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}, int64[1] first = {1}, int64[1] four = {4}, "
        "int64[1] rest = {-1}> {"
        " s = Shape(x) b = Gather(s, zero) n = Gather(s, one) b1 = Unsqueeze(b, axis) n1 = Unsqueeze(n, axis)"
        " t = Concat <axis = 0> (b1, n1, four, rest) heads = Reshape(x, t)"
        " r = Range(zero, n, one) row = Unsqueeze(r, axis) column = Transpose(row) mask = LessOrEqual(row, column)"
        " position = Slice(ids, axis, n1, first) shifted = Add(position, row)"
        " square = Concat <axis = 0> (n1, n1) rank = Shape(square) ones = ConstantOfShape <value = int64[1] {1}> (rank)"
        " minus = Equal(square, rest) chosen = Where(minus, ones, square) wide = Expand(mask, chosen)"
        " twice = Add(n, n) v = Range(zero, twice, one) }");
    assert_int_equal(tc_infer_graph(&ctx, model->graph), TC_OK);
    ASSERT_TYPE(&ctx, model, "heads", "float[batch,seq,4,16]");
    ASSERT_TYPE(&ctx, model, "mask", "bool[seq,seq]");
    ASSERT_TYPE(&ctx, model, "position", "int64[1,min(seq, 512)]");
    ASSERT_TYPE(&ctx, model, "shifted", "int64[1,seq]");
    ASSERT_TYPE(&ctx, model, "wide", "bool[seq,seq]");
    ASSERT_TYPE(&ctx, model, "v", "int64[2*seq]");
    tc_substitute_symbol(model->graph, "batch", 2);
    tc_substitute_symbol(model->graph, "seq", 16);
    assert_int_equal(tc_infer_graph(&ctx, model->graph), TC_OK);
    TC_FOR_NODES(node, model->graph)
        assert_true(tc_type_is_static(node->outputs[0]->type));
    ASSERT_TYPE(&ctx, model, "heads", "float[2,16,4,16]");
    ASSERT_TYPE(&ctx, model, "position", "int64[1,16]");
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
}

/* A declared type is merged: a stale name gives way, a wrong number or element type is refused. */
TEST(declared_types) {
    static const struct {
        const char *declared;
        tc_status status;
        const char *merged;
    } cases[] = {
        {"float[n,4]", TC_OK, "float[n,4]"}, {"float[stale,4]", TC_OK, "float[n,4]"},
        {"float[]", TC_OK, "float[n,4]"},    {"float[n,5]", TC_BAD_INPUT, NULL},
        {"int64[n,4]", TC_BAD_INPUT, NULL},  {"float[n,4,1]", TC_BAD_INPUT, NULL},
    };
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        char text[256];
        tc_ctx ctx;
        tc_ctx_init(&ctx, "test");
        snprintf(text, sizeof text,
                 "<ir_version: 10, opset_import: [\"\": 21]> g (float[n,4] x) => (%s y) { y = Relu(x) }",
                 cases[i].declared);
        tc_model *model = parse(&ctx, text);
        if (tc_infer_graph(&ctx, model->graph) != cases[i].status)
            fail_msg("declared as %s", cases[i].declared);
        if (cases[i].merged)
            ASSERT_TYPE(&ctx, model, "y", cases[i].merged);
        else
            assert_non_null(strstr(ctx.diags[0].message, "is declared as"));
        tc_model_destroy(model);
        tc_ctx_fini(&ctx);
    }
}

/* Within a graph a wrong shape is passed over, as exporters declare some; a wrong element type is not. */
TEST(declared_within) {
    static const struct {
        const char *declared;
        tc_status status;
    } cases[] = {{"float", TC_OK}, {"float[n,5]", TC_OK}, {"float[n,4]", TC_OK}, {"int64[n,4]", TC_BAD_INPUT}};
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        char text[256];
        tc_ctx ctx;
        tc_ctx_init(&ctx, "test");
        snprintf(text, sizeof text,
                 "<ir_version: 10, opset_import: [\"\": 21]> g (float[n,4] x) => (float[n,4] z) <%s y> "
                 "{ y = Relu(x) z = Relu(y) }",
                 cases[i].declared);
        tc_model *model = parse(&ctx, text);
        assert_int_equal(tc_infer_graph(&ctx, model->graph), cases[i].status);
        if (cases[i].status == TC_OK)
            ASSERT_TYPE(&ctx, model, "y", "float[n,4]");
        assert_int_equal(ctx.n_diags, strcmp(cases[i].declared, "float[n,4]") == 0 ? 0 : 1);
        tc_model_destroy(model);
        tc_ctx_fini(&ctx);
    }
}

/* So it is where a branch declares its result; the graph's own promise counts. */
TEST(declared_by_branch) {
    static const struct {
        const char *inner, *outer;
        tc_status status;
    } cases[] = {{"float[n,5]", "float[n,4]", TC_OK}, {"float[n,4]", "float[n,5]", TC_BAD_INPUT}};
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        char text[512];
        tc_ctx ctx;
        tc_ctx_init(&ctx, "test");
        snprintf(text, sizeof text,
                 "<ir_version: 10, opset_import: [\"\": 21]> g (bool c, float[n,4] x) => (%s z) { z = If (c) "
                 "<then_branch: graph = t () => (%s y) { y = Relu (x) }, else_branch: graph = e () => "
                 "(float[n,4] w) { w = Neg (x) }> }",
                 cases[i].outer, cases[i].inner);
        tc_model *model = parse(&ctx, text);
        assert_int_equal(tc_infer_graph(&ctx, model->graph), cases[i].status);
        assert_int_equal(ctx.n_diags, 1);
        tc_model_destroy(model);
        tc_ctx_fini(&ctx);
    }
}

/* Nested graphs: branches are merged, a Scan's body gets its slices. */
TEST(control_flow) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    tc_model *model = parse(
        &ctx,
        "<ir_version: 10, opset_import: [\"\": 21]> g (bool c, float[n,4] x, float[4] h) => (last) {"
        " y = If (c) <then_branch = yes () => (a) { a = Relu(x) }, else_branch = no () => (b) { b = Transpose(x) }>"
        " last, all = Scan <num_scan_inputs = 1, body = step (h0, x0) => (h1, s) { h1 = Add(h0, x0) s = Exp(h1) }> "
        "(h, x) }");
    tc_status status = tc_infer_graph(&ctx, model->graph);
    tc_diags_print(&ctx, stderr);
    assert_int_equal(status, TC_OK);
    ASSERT_TYPE(&ctx, model, "last", "float[4]");
    ASSERT_TYPE(&ctx, model, "all", "float[n,4]");
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
}

TEST(op_table) {
    tc_attr_kind kind;
    bool required;
    for (size_t i = 0; i < tc_op_count(); i++) {
        const tc_op *op = tc_op_at(i);
        assert_ptr_equal(tc_op_find(op->domain, op->name), op);
        assert_int_equal(op->index, i);
        assert_true(op->min_inputs <= op->max_inputs && op->min_outputs <= op->max_outputs);
    }
    assert_ptr_equal(tc_op_find("ai.onnx", "Add"), tc_op_find("", "Add"));
    assert_ptr_equal(tc_op_find("ai.tempo", "Attention_m1s1"), tc_op_find("ai.tempo", "Attention"));
    assert_ptr_not_equal(tc_op_find("ai.tempo", "Dropout"), tc_op_find("", "Dropout"));
    assert_null(tc_op_find("", "Add_m1"));
    assert_null(tc_op_find("", "Frobnicate"));
    assert_null(tc_op_find("ai.tempo", "Frobnicate"));
    assert_null(tc_op_find("com.example", "Add"));
    assert_true(tc_op_attr(tc_op_find("", "Cast"), "to", &kind, &required));
    assert_true(required && kind == TC_ATTR_INT);
    assert_false(tc_op_attr(tc_op_find("", "Cast"), "t", &kind, &required));
}
