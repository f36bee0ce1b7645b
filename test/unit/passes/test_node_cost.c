/* test_node_cost.c: flops and bytes of nodes against counts by hand, and what they cost on machines. */
#include "test/unit/infer_case.h"
#include "passes/budget/node_cost.h"
#include "passes/budget/node_work.h"
#include <stdlib.h>
#include <unistd.h>

typedef struct costed {
    tc_ctx ctx;
    tc_options options;
    tc_summary summary;
    tc_model *model;
} costed;

static const tc_node *open_case(costed *c, const char *text) {
    tc_status status;
    *c = (costed){0};
    tc_ctx_init(&c->ctx, "test");
    c->model = infer_case(&c->ctx, text, &status);
    if (status != TC_OK)
        tc_diags_print(&c->ctx, stderr);
    assert_int_equal(status, TC_OK);
    return c->model->graph->last;
}

static void close_case(costed *c) {
    tc_model_destroy(c->model);
    tc_ctx_fini(&c->ctx);
}

static void expect_work(const char *text, uint64_t flops, uint64_t bytes) {
    costed c;
    tc_work work = tc_node_work(open_case(&c, text));
    if (work.flops != flops || work.bytes != bytes)
        print_error("%s\n", text);
    assert_int_equal(work.flops, flops);
    assert_int_equal(work.bytes, bytes);
    close_case(&c);
}

/* 2 m n k; operands and results once. */
TEST(products) {
    expect_work("float[2,3,4] a, float[4,5] b || z = MatMul (a, b)", 2 * 2 * 3 * 5 * 4, 4 * (24 + 20 + 30));
    expect_work("float16[3,4] a, float16[4,5] b || z = MatMul (a, b)", 2 * 3 * 5 * 4, 2 * (12 + 20 + 15));
    expect_work("float[4,3] a, float[5,4] b, float[5] c || z = Gemm <transA = 1, transB = 1> (a, b, c)", 2 * 3 * 5 * 4,
                4 * (12 + 20 + 5 + 15));
    /* 8 channels of 6 x 6 from 3 of 3 x 3 windows: 2 * 8*36 * 27; with 2 groups a window has half of the channels. */
    expect_work("float[1,3,8,8] x, float[8,3,3,3] w || z = Conv (x, w)", 2 * 8 * 36 * 27, 4 * (192 + 216 + 288));
    expect_work("float[1,4,8,8] x, float[8,2,3,3] w || z = Conv <group = 2> (x, w)", 2 * 8 * 36 * 18,
                4 * (256 + 144 + 288));
    /* The operand's 3 channels of 8 x 8 are each spread over 5 channels of 3 x 3. */
    expect_work("float[1,3,8,8] x, float[3,5,3,3] w || z = ConvTranspose (x, w)", 2 * 192 * 45, 4 * (192 + 135 + 500));
    expect_work("float[2,3,4] a, float[2,4,5] b || z = Einsum <equation = \"bij,bjk->bik\"> (a, b)", 2 * 2 * 3 * 4 * 5,
                4 * (24 + 40 + 30));
    expect_work("float[7,2,3,4] a, float[7,2,4,5] b || z = Einsum <equation = \"...ij, ...jk -> ...ik\"> (a, b)",
                2 * 14 * 3 * 4 * 5, 4 * (14 * 12 + 14 * 20 + 14 * 15));
    /* 4 gates of an LSTM with 3 inputs and 5 states; 7 steps of 2 rows. */
    expect_work("float[7,2,3] x, float[1,20,3] w, float[1,20,5] r || z = LSTM <hidden_size = 5> (x, w, r)",
                2 * 14 * (60 + 100), 4 * (42 + 60 + 100 + 70));
    /* Its gradient: the same sums once more, and two products for each. */
    expect_work("float[7,1,2,5] y, float[7,2,3] x, float[1,20,3] w, float[1,20,5] r || z, dw = "
                "ai.tempo.RecurrenceGrad <cell = \"LSTM\"> (y, x, w, r, , , , , , y)",
                6 * 14 * (60 + 100), 4 * (70 + 42 + 60 + 100 + 42 + 60));
}

/* Two heads of 3 queries, 6 keys of 4 numbers and values of 5: two products, and 14 for the softmax of a score. */
TEST(attention) {
    expect_work("float[2,3,4] q, float[2,4,6] kt, float[2,6,5] v || z, p = ai.tempo.DotProductAttention (q, kt, v)",
                36 * (2 * (4 + 5) + 14), 4 * (24 + 48 + 60 + 30 + 36));
    expect_work("float[2,3,5] dy, float[2,3,4] q, float[2,4,6] kt, float[2,6,5] v, float[2,3,6] p || "
                "z, dkt, dv = ai.tempo.DotProductAttentionGrad (dy, q, kt, v, p)",
                36 * (2 * (5 + 4 + 4 + 5) + 6), 4 * (30 + 24 + 48 + 60 + 36 + 24 + 48 + 60));
    /* Only dQ: by dP alone. */
    expect_work("float[2,3,5] dy, float[2,3,4] q, float[2,4,6] kt, float[2,6,5] v, float[2,3,6] p || "
                "z = ai.tempo.DotProductAttentionGrad (dy, q, kt, v, p)",
                36 * (2 * (5 + 4) + 6), 4 * (30 + 24 + 48 + 60 + 36 + 24));
    /* P again: Q K^T and the softmax, too; where it is dropped, 9 for a draw. */
    expect_work("float[2,3,5] dy, float[2,3,4] q, float[2,4,6] kt, float[2,6,5] v || "
                "z, dkt, dv = ai.tempo.DotProductAttentionTiledGrad (dy, q, kt, v)",
                36 * (2 * (4 + 5 + 4 + 4 + 5) + 20), 4 * (30 + 24 + 48 + 60 + 24 + 48 + 60));
    expect_work("float[2,3,4] q, float[2,4,6] kt, float[2,6,5] v, float r, int64[2] s || "
                "z = ai.tempo.DotProductAttention (q, kt, v, \"\", \"\", r, s)",
                36 * (2 * (4 + 5) + 14 + 9), 4 * (24 + 48 + 60 + 30 + 1) + 8 * 2);
    expect_work("float[1,2,3,4] q, float[1,2,6,4] k, float[1,2,6,5] v || z = ai.tempo.Attention (q, k, v)",
                36 * (2 * (4 + 5) + 14), 4 * (24 + 48 + 60 + 30));
    expect_work("float[1,3,8] q, float[1,6,8] k, float[1,6,10] v || "
                "z = ai.tempo.Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v)",
                36 * (2 * (4 + 5) + 14), 4 * (24 + 48 + 60 + 30));
}

/* 6 rows of 4 numbers and 7 classes: the scores alone, and with two gradients of as many flops. */
TEST(linear_loss) {
    expect_work("float[2,3,4] x, float[4,7] w, int64[2,3] l || z = ai.tempo.LinearCrossEntropy (x, w, l)",
                42 * (2 * 4 + 18), 4 * (24 + 28 + 1) + 8 * 6);
    expect_work("float[6,4] x, float[7,4] w, int64[6] l || "
                "z, dx, dw = ai.tempo.LinearCrossEntropy <transB = 1> (x, w, l)",
                42 * (3 * 2 * 4 + 18), 4 * (24 + 28 + 1 + 24 + 28) + 8 * 6);
}

TEST(others) {
    expect_work("float[3,4] x, float[4] y || z = Add (x, y)", 12, 4 * (12 + 4 + 12));
    expect_work("float[3,4] x || z = Mul (x, x)", 12, 4 * (12 + 12));
    expect_work("float[3,4] x || z = Exp (x)", 10 * 12, 4 * 24);
    expect_work("float[3,4] x || z = ReduceSum <keepdims = 0> (x)", 12, 4 * (12 + 1));
    expect_work("float[2,3,8,8] x || z = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)", 2 * 3 * 16 * 4,
                4 * (384 + 96));
    expect_work("float[3,4] x || z = Transpose (x)", 0, 4 * 24);
    /* Of a table no more is read than what is taken from it. */
    expect_work("float[1000,4] x, int64[3] i || z = Gather (x, i)", 0, 4 * 12 + 4 * 12 + 8 * 3);
    expect_work("float16[0,4] x || z = Exp (x)", 0, 0);
    /* A dim that is not known is 1. */
    expect_work("float[n,4] x || z = Exp (x)", 10 * 4, 4 * 8);
}

/* Nothing runs for views, constants, shapes and what is known. */
TEST(runs) {
    expect_work("float[3,4] x | int64[1] flat = {-1} | z = Reshape (x, flat)", 0, 0);
    expect_work("float[3,1,4] x || z = Transpose <perm = [1, 0, 2]> (x)", 0, 0);
    expect_work("float[3,4] x || z = Shape (x)", 0, 0);
    expect_work("float[3,4] x || s = Shape (x) z = Add (s, s)", 0, 0);
    expect_work("float[3,4] x || z = Constant <value_float = 1.0> ()", 0, 0);
}

/* A file may claim any shape. */
TEST(saturates) {
    expect_work("float[536870912,536870912] a, float[536870912,536870912] b || z = MatMul (a, b)", UINT64_C(1) << 62,
                UINT64_C(3) << 60);
}

static uint64_t cost_of(const char *text, const char *machine, const char *cost) {
    costed c;
    const tc_node *node = open_case(&c, text);
    c.options = (tc_options){.machine = machine, .cost = cost};
    tc_pass_env env = {&c.ctx, &c.options, &c.summary, NULL, NULL};
    const tc_costs *costs;
    assert_int_equal(tc_costs_open(&env, c.model, &costs), TC_OK);
    uint64_t ns = tc_node_cost(costs, node);
    close_case(&c);
    return ns;
}

/* By the figures of machines.def. */
TEST(roofline) {
    static const char product[] = "float[4096,4096] a, float[4096,4096] b || z = MatMul (a, b)",
                      half[] = "float16[4096,4096] a, float16[4096,4096] b || z = MatMul (a, b)",
                      brain[] = "bfloat16[4096,4096] a, bfloat16[4096,4096] b || z = MatMul (a, b)",
                      sum[] = "float[4096,4096] a, float[4096,4096] b || z = Add (a, b)",
                      tiny[] = "float[2] a, float[2] b || z = Add (a, b)",
                      view[] = "float[3,4] x | int64[1] flat = {-1} | z = Reshape (x, flat)";
    enum { LAUNCH = 3000 };
    /* 2 * 4096^3 flops = 137,438,953,472, at 19.5, 312, 15.7 and 1.28 TFLOP/s. */
    assert_int_equal(cost_of(product, "a100", NULL), 7048152 + LAUNCH);
    assert_int_equal(cost_of(half, "a100", NULL), 440510 + LAUNCH);
    assert_int_equal(cost_of(brain, "a100", NULL), 440510 + LAUNCH);
    assert_int_equal(cost_of(half, "v100", NULL), 1099512 + LAUNCH);
    assert_int_equal(cost_of(brain, "v100", NULL), 8754074 + LAUNCH);
    assert_int_equal(cost_of(product, NULL, NULL), 107374183 + 1000);
    /* 3 * 64 MiB = 201,326,592 bytes at 2039 GB/s. */
    assert_int_equal(cost_of(sum, "a100", "roofline"), 98738 + LAUNCH);
    assert_int_equal(cost_of(tiny, "a100", NULL), 1 + LAUNCH);
    assert_int_equal(cost_of(view, "a100", NULL), 0);
    assert_int_equal(cost_of(product, NULL, "unit"), 1);
    assert_int_equal(cost_of(view, NULL, "unit"), 0);
}

TEST(no_machine) {
    costed c;
    const tc_costs *costs;
    open_case(&c, "float[2] a || z = Neg (a)");
    c.options.machine = "abacus";
    tc_pass_env env = {&c.ctx, &c.options, &c.summary, NULL, NULL};
    assert_int_equal(tc_costs_open(&env, c.model, &costs), TC_USAGE);
    assert_string_equal(c.ctx.diags[0].message, "there is no machine 'abacus'");
    assert_string_equal(c.ctx.diags[0].hint, "machines: cpu, cpu2, v100, a100, h100, h200, rtx4090, t4, l4");
    close_case(&c);
}

/* --- measured times ----------------------------------------------------------------------------- */

#define HEAD "node,op,operands,result,runs,nanoseconds\n"

/* Costs by a file of these lines, for a100; *out_status tells how. */
static const tc_costs *open_table(costed *c, const char *text, tc_status *out_status) {
    static char path[] = "/tmp/test_node_cost.XXXXXX";
    const tc_costs *costs = NULL;
    char *name = strcpy(tc_arena_alloc(c->ctx.arena, sizeof path, 1), path);
    int fd = mkstemp(name);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
    c->options = (tc_options){.cost = name, .machine = "a100"};
    tc_pass_env env = {&c->ctx, &c->options, &c->summary, NULL, NULL};
    *out_status = tc_costs_open(&env, c->model, &costs);
    unlink(name);
    return costs;
}

static void expect_time(const tc_costs *costs, const tc_model *model, const char *result, uint64_t time) {
    assert_int_equal(tc_node_cost(costs, tc_graph_find(model->graph, result)->producer), time);
}

/* By name, by op and types, in proportion. An unnamed node goes by its first result, as tempo-run has it. */
TEST(measured) {
    costed c;
    tc_status status;
    open_case(&c, "float[4096,4096] a, float[2] s|| b = Exp (a) c = Exp (b) d = Neg (c) e = Exp (s) v = Add (e, e) "
                  "f = Tanh (a) z = MatMul (f, d)");
    const tc_costs *costs = open_table(&c,
                                       HEAD "b,Exp,\"float[4096,4096]\",\"float[4096,4096]\",3,100000\n"
                                            "other,Exp,\"float[4096,4096]\",\"float[4096,4096]\",3,300000\n"
                                            "d,Neg,float[7],float[7],3,5\n"
                                            "z,MatMul_x,\"float[4096,4096], float[4096,4096]\",\"float[4096,4096]\","
                                            "3,9000000\n",
                                       &status);
    assert_int_equal(status, TC_OK);
    expect_time(costs, c.model, "b", 100000); /* its row */
    expect_time(costs, c.model, "c", 200000); /* two rows of such a node: their mean */
    expect_time(costs, c.model, "z", 9000000);
    /* 128 MiB at 2039 GB/s are 65826 ns, and a launch 3000: two Exp took 300000 / 137652 of that, in 1024ths 2231. A
     * small Exp, 3001 ns by roofline, takes as many times. */
    expect_time(costs, c.model, "e", 3001 * 2231 / 1024);
    /* No Neg of this shape, no Tanh was measured: all three took 9300000 / 7188804, in 1024ths 1324. */
    expect_time(costs, c.model, "d", UINT64_C(68826) * 1324 / 1024);
    expect_time(costs, c.model, "f", UINT64_C(68826) * 1324 / 1024);
    assert_int_equal(c.ctx.n_diags, 1);
    assert_int_equal(c.ctx.diags[0].severity, TC_NOTE);
    assert_non_null(strstr(c.ctx.diags[0].message,
                           "has no time for 4 of 7 nodes: the roofline of a100 in proportion to the others"));
    close_case(&c);
}

/* All nodes are there: nothing to say. Names may hold whatever names can. */
TEST(measured_all) {
    costed c;
    tc_status status;
    open_case(&c, "float[2] a || [\"a \\\"b\\\", c\"] z = Neg (a)");
    const tc_costs *costs = open_table(&c, HEAD "\"a \"\"b\"\", c\",Neg,float[2],float[2],1,77\r\n", &status);
    assert_int_equal(status, TC_OK);
    assert_int_equal(c.ctx.n_diags, 0);
    expect_time(costs, c.model, "z", 77);
    /* With a batch of any size, name and op tell. */
    close_case(&c);
    open_case(&c, "float[n] a || z = Neg (a)");
    expect_time(open_table(&c, HEAD "z,Neg,float[2],float[2],1,77\n", &status), c.model, "z", 77);
    close_case(&c);
    /* The name of another op is chance. */
    open_case(&c, "float[n] a || z = Neg (a)");
    expect_time(open_table(&c, HEAD "z,Abs,float[2],float[2],1,77\n", &status), c.model, "z", 3001);
    assert_int_equal(c.ctx.diags[0].severity, TC_WARNING);
    assert_non_null(strstr(c.ctx.diags[0].message, "has no time for any node: the roofline of a100 is used"));
    close_case(&c);
}

static void expect_malformed(const char *text, const char *line, const char *says) {
    costed c;
    tc_status status;
    open_case(&c, "float[2] a || z = Neg (a)");
    open_table(&c, text, &status);
    assert_int_equal(status, TC_BAD_INPUT);
    if (!strstr(c.ctx.diags[0].message, says))
        print_error("%s: %s\n", text, c.ctx.diags[0].message);
    assert_non_null(strstr(c.ctx.diags[0].message, says));
    assert_non_null(strstr(c.ctx.diags[0].message, line));
    close_case(&c);
}

TEST(malformed) {
    expect_malformed("", ":1:", "expected node,op");
    expect_malformed("name,op,operands,result,runs,nanoseconds\n", ":1:", "expected the head");
    expect_malformed("node,op,operands,result,runs\n", ":1:", "expected node,op");
    expect_malformed(HEAD "z,Neg,float[2],float[2],1\n", ":2:", "expected node,op");
    expect_malformed(HEAD "z,Neg,float[2],float[2],1,2,3\n", ":2:", "expected node,op");
    expect_malformed(HEAD "z,Neg,float[2],float[2],1,7\n\n", ":3:", "expected node,op");
    expect_malformed(HEAD "\"a\nb\",Neg,float[2],float[2],1,7\nz,Neg,float[2],float[2],1,-7\n",
                     ":4:", "'-7' is not a number of nanoseconds");
    expect_malformed(HEAD "z,Neg,float[2],float[2],1,1e9\n", ":2:", "'1e9' is not a number of nanoseconds");
    expect_malformed(HEAD "z,Neg,float[2],float[2],1,\n", ":2:", "'' is not a number of nanoseconds");
    expect_malformed(HEAD "z,Neg,float[2],float[2],1,18446744073709551617\n", ":2:", "is not a number of nanoseconds");
    expect_malformed(HEAD "z,Neg,float[2],float[2],0,7\n", ":2:", "'0' is not a number of runs");
    expect_malformed(HEAD "\"z,Neg,float[2],float[2],1,7\n", ":2:", "a quote is not closed");
    expect_malformed(HEAD "\"z\"a,Neg,float[2],float[2],1,7\n", ":2:", "expected node,op");
    expect_malformed(HEAD "z,Neg,float[2],float[2],1,7\rx\n", ":2:", "a carriage return within a line");
}

TEST(no_file) {
    costed c;
    const tc_costs *costs;
    open_case(&c, "float[2] a || z = Neg (a)");
    c.options.cost = "/nowhere/times.csv";
    tc_pass_env env = {&c.ctx, &c.options, &c.summary, NULL, NULL};
    assert_int_equal(tc_costs_open(&env, c.model, &costs), TC_IO);
    close_case(&c);
}

/* Each row of work.def stands for an op, in order, once. */
TEST(rows) {
    static const char *const rows[][2] = {
#define BIT(n)
#define WORK(domain, op, counted_by, each, in_part) {domain, #op},
#include "passes/budget/work.def"
#undef WORK
    };
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        assert_non_null(tc_op_find(rows[i][0], rows[i][1]));
        int by_domain = i > 0 ? strcmp(rows[i - 1][0], rows[i][0]) : -1;
        assert_true(by_domain < 0 || (by_domain == 0 && strcmp(rows[i - 1][1], rows[i][1]) < 0));
    }
}
