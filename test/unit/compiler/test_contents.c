/* test_contents.c: known elements, as ONNX's operator documentation gives them; symbols stay symbols. Floats are
 * compared as they print with nine digits, from numpy. */
#include "compiler/contents/contents.h"
#include "test/unit/infer_case.h"
#include <math.h>

typedef struct known {
    const char *text, *elements;
} known;

/* Expected elements in row-major order; "-" where nothing may be claimed. */
static const known cases[] = {
    /* shapes */
    {"float[b,3,n] x||z = Shape(x)", "b 3 n"},
    {"float[b,3,n] x||z = Shape <start = 1> (x)", "3 n"},
    {"float[b,3,n] x||z = Shape <start = -2, end = -1> (x)", "3"},
    {"float[b,?] x||z = Shape(x)", "b ?"},
    {"float[b,3,n] x||z = Size(x)", "3*b*n"},
    {"float[] x||z = Shape(x)", "-"},
    /* constants */
    {"||z = Constant <value_ints = [3, -1]> ()", "3 -1"},
    {"||z = Constant <value_float = 0.1> ()", "0.100000001"},
    {"|int64[2] s = {1, 2}|z = ConstantOfShape <value = float[1] {2.5}> (s)", "2.5 2.5"},
    {"|int64 a = {1}, int64 b = {8}, int64 c = {3}|z = Range(a, b, c)", "1 4 7"},
    {"|float a = {1.0}, float b = {0.0}, float c = {-0.25}|z = Range(a, b, c)", "1 0.75 0.5 0.25"},
    {"|int64[2] s = {1, 2}|z = Identity(s)", "1 2"},
    {"|int64[2,3] x = {1,2,3,4,5,6}|z = EyeLike <k = 1> (x)", "0 1 0 0 0 1"},
    /* movement */
    {"|int64[2,3] x = {1,2,3,4,5,6}|z = Transpose(x)", "1 4 2 5 3 6"},
    {"|int64[2,3] x = {1,2,3,4,5,6}, int64[1] s = {-1}|z = Reshape(x, s)", "1 2 3 4 5 6"},
    {"|int64[2,3] x = {1,2,3,4,5,6}, int64[2] i = {2, -3}|z = Gather <axis = 1> (x, i)", "3 1 6 4"},
    {"|int64[2,3] x = {1,2,3,4,5,6}, int64[2,1] i = {2, 0}|z = GatherElements <axis = 1> (x, i)", "3 4"},
    {"|int64[2,3] x = {1,2,3,4,5,6}, int64[2,2] i = {0, 1, 1, 2}|z = GatherND(x, i)", "2 6"},
    {"|int64[2,3] x = {1,2,3,4,5,6}, int64[2,1] i = {1, 0}|z = GatherND <batch_dims = 1> (x, i)", "2 4"},
    {"|int64[2,2] x = {1,2,3,4}, int64[2,1] y = {8, 9}|z = Concat <axis = 1> (x, y)", "1 2 8 3 4 9"},
    {"|int64[5] x = {1,2,3,4,5}, int64[1] s = {-1}, int64[1] e = {-9}, int64[1] a = {0}, int64[1] t = {-2}|z = "
     "Slice(x, s, e, a, t)",
     "5 3 1"},
    {"|int64[5] x = {1,2,3,4,5}, int64[1] s = {1}, int64[1] e = {9}|z = Slice(x, s, e)", "2 3 4 5"},
    {"|int64[5] x = {1,2,3,4,5}, int64[1] s = {-7}, int64[1] e = {-9}, int64[1] a = {0}, int64[1] t = {-1}|"
     "z = Slice(x, s, e, a, t)",
     "1"},
    {"|int64[2,2] x = {1,2,3,4}, int64[2] s = {1, 2}, int64[2] r = {1, 3}|z = Tile(x, s)", "1 2 1 2 3 4 3 4"},
    {"|int64[2,1] x = {1,2}, int64[2] s = {1, 3}|z = Expand(x, s)", "1 1 1 2 2 2"},
    {"|int64[2] x = {1,2}, int64[2] p = {1, 2}, int64 v = {7}|z = Pad(x, p, v)", "7 1 2 7 7"},
    {"|int64[3] x = {1,2,3}, int64[2] p = {-1, 0}|z = Pad(x, p)", "2 3"},
    {"|int64[3] x = {1,2,3}, int64[2] s = {2, 1}|y, z = Split(x, s) w = Neg(z)", "-3"},
    {"|int64[3,3] x = {1,1,1,1,1,1,1,1,1}, int64 k = {-1}|z = Trilu <upper = 0> (x, k)", "0 0 0 1 0 0 1 1 0"},
    {"|int64[3,3] x = {1,1,1,1,1,1,1,1,1}|z = Trilu(x)", "1 1 1 0 1 1 0 0 1"},
    {"|int64[2,2] x = {0,5,6,0}|z = NonZero(x)", "0 1 1 0"},
    {"|int64[2] x = {2, -1}, int64 d = {3}, int64[2] v = {7, 9}|z = OneHot(x, d, v)", "7 7 9 7 7 9"},
    {"|int64[3] x = {1,2,3}, int64[2] i = {2, 2}, int64[2] u = {5, 6}|z = ScatterElements <reduction = \"add\"> (x, "
     "i, u)",
     "1 2 14"},
    {"|int64[3] x = {1,2,3}, int64[1,1] i = {1}, int64[1] u = {9}|z = ScatterND(x, i, u)", "1 9 3"},
    /* integers */
    {"|int64[2] x = {-7, 7}, int64 y = {2}|z = Div(x, y)", "-3 3"},
    {"|int64[2] x = {-7, 7}, int64 y = {3}|z = Mod(x, y)", "2 1"},
    {"|int64[2] x = {-7, 7}, int64 y = {3}|z = Mod <fmod = 1> (x, y)", "-1 1"},
    {"|int32 x = {2147483647}, int32 y = {1}|z = Add(x, y)", "-2147483648"},
    {"|uint8 x = {3}, uint8 y = {5}|z = Sub(x, y)", "254"},
    {"|int64 x = {7}, int64 y = {0}|z = Div(x, y)", "?"},
    {"|int64 x = {3}, int64 y = {4}|z = Pow(x, y)", "81"},
    {"|int64[2] x = {-4, 4}|z = Abs(x)", "4 4"},
    {"|int64[3] x = {3, 4, 2}|z = ReduceProd <keepdims = 0> (x)", "24"},
    {"|int64[2,2] x = {3, 4, 2, 9}, int64[1] a = {0}|z = ReduceMax <keepdims = 0> (x, a)", "3 9"},
    {"|int64[3] x = {3, 4, 2}, int64 a = {0}|z = CumSum(x, a)", "3 7 9"},
    {"|int64[3] x = {3, 4, 2}, int64 a = {0}|z = CumSum <exclusive = 1, reverse = 1> (x, a)", "6 2 0"},
    {"|int64[2] x = {3, 4}, int64[2] y = {4, 3}|z = GreaterOrEqual(x, y)", "0 1"},
    {"|bool[4] x = {0, 0, 1, 1}, bool[4] y = {0, 1, 0, 1}|z = Xor(x, y)", "0 1 1 0"},
    {"|bool[2] c = {1, 0}, int64[1] x = {3}, int64[2] y = {4, 5}|z = Where(c, x, y)", "3 5"},
    {"|float[3] x = {2.9, -2.9, 300.0}|z = Cast <to = 6> (x)", "2 -2 300"},
    {"|float[3] x = {2.9, -2.9, 300.0}|z = Cast <to = 2> (x)", "-"},
    {"|int64[2] x = {2, 0}|z = Cast <to = 9> (x)", "1 0"},
    /* floats */
    {"|float x = {0.1}, float y = {0.2}|z = Add(x, y)", "0.300000012"},
    {"|float16 x = {11878}, float16 y = {12902}|z = Add(x, y)", "0.299804688"},
    {"|bfloat16 x = {15821}, bfloat16 y = {15949}|z = Mul(x, y)", "0.0200195312"},
    {"|float x = {8.0}|z = Sqrt(x)", "2.82842708"},
    {"|double x = {2.0}, int64 y = {3}|z = Pow(x, y)", "8"},
    {"|float x = {-1.5}|z = Floor(x)", "-2"},
    {"|float[3] x = {0.5, 1.5, 2.5}|z = Round(x)", "0 2 2"},
    {"|float[4] x = {1.0, 2.0, 3.0, 4.0}|z = ReduceMean <keepdims = 0> (x)", "2.5"},
    {"|int64 x = {16777217}|z = Cast <to = 1> (x)", "16777216"},
    {"|float[2] x = {1.0, 2.0}, float[2] y = {2.0, 2.0}|z = Equal(x, y)", "0 1"},
    /* unknown operands */
    {"float[2] x|float[2] y = {1.0, 2.0}|z = Add(x, y)", "-"},
    {"int64[2] x||z = Neg(x)", "-"},
};

/* On the way through symbols: s is the shape [b, 4, n] of x. */
static const known symbolic_cases[] = {
    {"t = Add(s, one)", "b + 1 5 n + 1"},
    {"t = Mul(s, s)", "b*b 16 n*n"},
    {"t = Div(s, two)", "floor(b/2) 2 floor(n/2)"},
    {"t = Mod(s, s)", "0 0 0"},
    {"t = Equal(s, minus)", "0 0 0"},
    {"t = Equal(s, four)", "? 1 ?"},
    {"t = Greater(s, zero)", "1 1 1"},
    {"t = Min(s, four)", "min(b, 4) 4 min(n, 4)"},
    {"t = Neg(s)", "-b -4 -n"},
    {"t = ReduceProd <keepdims = 0> (s)", "4*b*n"},
    {"t = Cast <to = 6> (s)", "b 4 n"},
    {"t = Cast <to = 1> (s)", "-"},
    {"t = Cast <to = 9> (s)", "1 1 1"},
    {"e = Equal(s, four) t = Where(e, four, s)", "? 4 ?"},
    {"t = Concat <axis = 0> (s, four)", "b 4 n 4"},
};

static const char *elements_text(tc_ctx *ctx, const tc_contents *contents) {
    const char *text = "";
    for (uint64_t i = 0; contents && i < contents->count; i++) {
        const char *item = tc_dtype_is_float(contents->dtype)
                               ? tc_arena_printf(ctx->arena, "%.9g", contents->items[i].f)
                               : tc_dim_text(ctx->arena, contents->items[i].i);
        text = tc_arena_printf(ctx->arena, "%s%s%s", text, i ? " " : "", item);
    }
    return contents ? text : "-";
}

static void check(tc_ctx *ctx, tc_model *model, tc_status status, const known *c) {
    tc_diags_print(ctx, stderr);
    assert_int_equal(status, TC_OK);
    const tc_contents *found = tc_value_contents(model, model->graph->last->outputs[0]);
    if (strcmp(elements_text(ctx, found), c->elements) != 0)
        fail_msg("%s: %s, expected %s", c->text, elements_text(ctx, found), c->elements);
    tc_tensor *tensor = found ? tc_contents_to_tensor(model, found) : NULL;
    if (tensor) { /* there and back */
        assert_int_equal(tensor->dtype, found->dtype);
        assert_string_equal(elements_text(ctx, tc_contents_of_tensor(model, tensor)), c->elements);
    } else if (found)
        assert_false(tc_contents_is_const(found));
}

TEST(elements) {
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        tc_ctx ctx;
        tc_status status;
        tc_ctx_init(&ctx, "test");
        tc_model *model = infer_case(&ctx, cases[i].text, &status);
        check(&ctx, model, status, &cases[i]);
        tc_model_destroy(model);
        tc_ctx_fini(&ctx);
    }
}

TEST(symbolic_elements) {
    for (size_t i = 0; i < TC_COUNT(symbolic_cases); i++) {
        char text[512];
        tc_ctx ctx;
        tc_status status;
        tc_ctx_init(&ctx, "test");
        snprintf(text, sizeof text,
                 "float[b,4,n] x|int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, "
                 "int64[1] minus = {-1}|z = Identity(x) s = Shape(x) %s",
                 symbolic_cases[i].text);
        tc_model *model = infer_case(&ctx, text, &status);
        check(&ctx, model, status, &symbolic_cases[i]);
        tc_model_destroy(model);
        tc_ctx_fini(&ctx);
    }
}

/* Large results are left alone, however they arise. */
TEST(limits) {
    tc_ctx ctx;
    tc_status status;
    tc_ctx_init(&ctx, "test");
    tc_model *model = infer_case(&ctx, "|int64[2] s = {1048576, 1048576}|z = ConstantOfShape(s)", &status);
    assert_int_equal(status, TC_OK);
    assert_null(model->graph->last->outputs[0]->contents);
    tc_model_destroy(model);
    model = infer_case(&ctx, "|int64[1] s = {8192}|z = ConstantOfShape <value = int64[1] {3}> (s)", &status);
    assert_non_null(model->graph->last->outputs[0]->contents);
    tc_value *last = model->graph->last->outputs[0];
    for (int i = 0; i < 3000; i++) { /* 3000 results of 64 KiB: their contents are not all kept */
        tc_node *node = tc_node_create(model->graph, "", "Neg", 1, 1);
        tc_node_set_input(node, 0, last);
        tc_node_append(node);
        last = tc_node_add_output(node, 0, "n", NULL);
        assert_int_equal(tc_infer_node(&ctx, node), TC_OK);
    }
    assert_true(tc_arena_bytes(model->arena) < (size_t)100 << 20);
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
}
