/* test_plan.c: whole graphs through the public API: results are right although buffers are reused and written in
 * place. Expected numbers are computed here, node by node, each result in memory of its own. */
#include "test/unit/random_below.h"
#include "test/unit/session_test.h"
#include <math.h>

static void bind_floats(tempo_session *session, const char *name, float *data, int64_t n) {
    int64_t dims[] = {n};
    tempo_tensor tensor = {TEMPO_FLOAT, 1, dims, data, (size_t)n * sizeof *data};
    assert_int_equal(tempo_bind(session, name, &tensor), TEMPO_OK);
}

static void run(tempo_session *session) {
    tempo_status status = tempo_run(session);
    if (status != TEMPO_OK)
        print_error("%s", tempo_message(session));
    assert_int_equal(status, TEMPO_OK);
}

static const float *output(tempo_session *session, const char *name) {
    tempo_tensor tensor;
    assert_int_equal(tempo_output(session, name, &tensor), TEMPO_OK);
    return tensor.data;
}

static uint64_t arena_of(tempo_session *session) {
    tempo_memory memory;
    assert_int_equal(tempo_memory_report(session, &memory), TEMPO_OK);
    assert_true(memory.arena >= memory.lower_bound);
    return memory.arena;
}

#define N 1024

TEST(chain_is_in_place) {
    tempo_session *s =
        open_text("g (float[n] x) => (float[n] y) { a = Neg (x) b = Abs (a) c = Neg (b) y = Neg (c) }", 0);
    float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - 300);
    bind_floats(s, "x", x, N);
    run(s);
    const float *y = output(s, "y");
    for (int i = 0; i < N; i++) {
        assert_true(y[i] == (float)abs(i - 300));
        assert_true(x[i] == (float)(i - 300)); /* the caller's bytes are never written */
    }
    assert_int_equal(arena_of(s), sizeof x); /* one buffer: each node writes over its operand */
    tempo_close(s);
}

/* a is read again later, and is an output: nothing may lie over it. */
TEST(live_operand_is_kept) {
    tempo_session *s = open_text(
        "g (float[n] x) => (float[n] a, float[n] y) { a = Neg (x) b = Abs (a) c = Add (b, b) y = Mul (c, a) }", 0);
    float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 7) - 3;
    bind_floats(s, "x", x, N);
    run(s);
    const float *a = output(s, "a"), *y = output(s, "y");
    for (int i = 0; i < N; i++) {
        assert_true(a[i] == -x[i]);
        assert_true(y[i] == 2 * (x[i] < 0 ? -x[i] : x[i]) * -x[i]);
    }
    tempo_close(s);
}

/* Views share their operand's bytes: what is written over a view would be written over the operand. */
TEST(views_keep_their_operand) {
    tempo_session *s =
        open_text("g (float[n] x) => (float[n] y) { a = Neg (x) v = Identity (a) w = Neg (v) u = Identity (w) "
                  "t = Add (u, a) y = Add (t, v) }",
                  0);
    float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    bind_floats(s, "x", x, N);
    run(s);
    const float *y = output(s, "y");
    for (int i = 0; i < N; i++)
        assert_true(y[i] == x[i] - x[i] - x[i]);
    tempo_close(s);
}

/* The smaller operand of a broadcast is read many times: the result never lies over it, nor over a bigger one's part.
 */
TEST(broadcast_operand_is_kept) {
    tempo_session *s =
        open_text("g (float[n] x, float[m] b) => (float[n] y) { a = Neg (x) c = Neg (b) y = Add (c, a) }", 0);
    float x[N], b[1] = {5};
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    bind_floats(s, "x", x, N);
    bind_floats(s, "b", b, 1);
    run(s);
    for (int i = 0; i < N; i++)
        assert_true(output(s, "y")[i] == -5 - x[i]);
    tempo_close(s);
}

/* Parts along the first dims lie in their whole, both ways: what is split and joined again needs no memory of its own.
 */
TEST(parts_lie_in_their_whole) {
    tempo_session *s = open_text("g (float[n] x) => (float[n] y) <int64[1] zero = {0}, int64[1] half = {512}> {"
                                 "  a = Neg (x)  p, q = Split <num_outputs = 2> (a)  first = Slice (a, zero, half)"
                                 "  u = Exp (p)  v = Mul (q, first)  y = Concat <axis = 0> (v, u) }",
                                 0);
    float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 5);
    bind_floats(s, "x", x, N);
    run(s);
    const float *y = output(s, "y");
    for (int i = 0; i < N / 2; i++) {
        assert_true(y[i] == x[i + N / 2] * x[i]);
        assert_true(fabsf(y[i + N / 2] - expf(-x[i])) < 1e-6f);
    }
    assert_int_equal(arena_of(s), 2 * sizeof x);
    tempo_close(s);
}

/* A part that lives long would keep its whole: it is copied, since less is live then. Parts that are no run of
 * elements, and one that would not be aligned for the kernel that writes it, are copied too. */
TEST(parts_are_copied_where_that_is_less) {
    tempo_session *s = open_text("g (float[n] x) => (float[m] p, float y) <int64[1] zero = {0}, int64[1] few = {16}> {"
                                 "  a = Neg (x)  p = Slice (a, zero, few)  b = Exp (x)  c = Sin (x)  d = Mul (b, c)"
                                 "  y = ReduceSum <keepdims = 0> (d) }",
                                 0);
    float x[N], z[6] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    bind_floats(s, "x", x, N);
    run(s);
    for (int i = 0; i < 16; i++)
        assert_true(output(s, "p")[i] == -x[i]);
    assert_true(arena_of(s) < 2 * sizeof x + 1024);
    tempo_close(s);
    s = open_text("g (float[n] x) => (float[n,1] y, float[k] z) <int64[2] shape = {2, 3}, int64[1] axes = {1}> {"
                  "  a = Neg (x)  m = Reshape (a, shape)  p, q, r = Split <axis = 1, num_outputs = 3> (m)"
                  "  y = Concat <axis = 0> (r, q, p)  b = Exp (x)  c = Abs (b)  z = Concat <axis = 0> (c, a, a) }",
                  0);
    bind_floats(s, "x", z, 6);
    run(s);
    const float expected[] = {-3, -6, -2, -5, -1, -4};
    for (int i = 0; i < 6; i++) {
        assert_true(output(s, "y")[i] == expected[i]);
        assert_true(fabsf(output(s, "z")[i] - expf(z[i])) < 1e-3f);
        assert_true(output(s, "z")[i + 6] == -z[i] && output(s, "z")[i + 12] == -z[i]);
    }
    tempo_close(s);
}

/* --- random graphs ---------------------------------------------------------------------------- */

static uint32_t state = 7;
static uint32_t below(uint32_t n) { return random_below(&state, n); }

#define NODES 40
#define SMALL 33

typedef struct step {
    int op, a, b;
} step;
static const char *const ops[] = {"Add", "Sub", "Neg", "Identity", "Abs"};

static float apply(int op, float a, float b) {
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return -a;
    case 3: return a;
    default: return fabsf(a);
    }
}

static void random_graph(char *text, size_t size, step *steps, const bool *is_output) {
    size_t n = (size_t)snprintf(text, size, "g (float[n] v0) => (float[n] v%d", NODES);
    for (int i = 1; i < NODES; i++)
        if (is_output[i])
            n += (size_t)snprintf(text + n, size - n, ", float[n] v%d", i);
    n += (size_t)snprintf(text + n, size - n, ") {\n");
    for (int i = 1; i <= NODES; i++) {
        steps[i] = (step){(int)below(5), i - 1 - (int)below(i < 4 ? (uint32_t)i : 4), (int)below((uint32_t)i)};
        n += (size_t)snprintf(text + n, size - n, steps[i].op < 2 ? "v%d = %s (v%d, v%d)\n" : "v%d = %s (v%d)\n", i,
                              ops[steps[i].op], steps[i].a, steps[i].b);
    }
    snprintf(text + n, size - n, "}\n");
}

static void check_random_graph(void) {
    static char text[8192];
    static float values[NODES + 1][SMALL];
    step steps[NODES + 1];
    bool is_output[NODES + 1] = {false};
    for (int i = 1; i < NODES; i++)
        is_output[i] = below(10) == 0;
    random_graph(text, sizeof text, steps, is_output);
    for (int k = 0; k < SMALL; k++)
        values[0][k] = (float)k / 1024 - 0.01f;
    for (int i = 1; i <= NODES; i++)
        for (int k = 0; k < SMALL; k++)
            values[i][k] = apply(steps[i].op, values[steps[i].a][k], values[steps[i].b][k]);
    tempo_session *s = open_text(text, 0);
    bind_floats(s, "v0", values[0], SMALL);
    run(s);
    run(s); /* nothing of the first run may be needed or spoiled */
    is_output[NODES] = true;
    for (int i = 1; i <= NODES; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        if (is_output[i])
            assert_memory_equal(output(s, name), values[i], sizeof values[i]);
    }
    tempo_close(s);
}

TEST(random_graphs) {
    for (int round = 0; round < 200; round++)
        check_random_graph();
}

/* --- binding ---------------------------------------------------------------------------------- */

TEST(other_shapes_plan_again) {
    tempo_session *s = open_text("g (float[n] x) => (float[n] y, int64[k] shape) { y = Neg (x) shape = Shape (x) }", 0);
    float x[N] = {3};
    for (int64_t n = N; n >= 1; n /= 4) {
        bind_floats(s, "x", x, n);
        run(s);
        tempo_tensor shape;
        assert_int_equal(tempo_output(s, "shape", &shape), TEMPO_OK);
        assert_int_equal(*(int64_t *)shape.data, n);
        assert_true(output(s, "y")[0] == -3);
    }
    tempo_close(s);
}

/* Elements that decide shapes are looked at before each run: other elements, another plan. */
TEST(other_elements_plan_again) {
    tempo_session *s = open_text("g (float[n] x, int64[k] shape) => (float[p, q] y) { y = Reshape (x, shape) }", 0);
    float x[12] = {0};
    int64_t shape[] = {3, 4}, dims[] = {2};
    tempo_tensor target = {TEMPO_INT64, 1, dims, shape, sizeof shape}, y;
    bind_floats(s, "x", x, 12);
    assert_int_equal(tempo_bind(s, "shape", &target), TEMPO_OK);
    run(s);
    assert_int_equal(tempo_output(s, "y", &y), TEMPO_OK);
    assert_int_equal(y.dims[0], 3);
    shape[0] = 6;
    shape[1] = -1;
    run(s);
    assert_int_equal(tempo_output(s, "y", &y), TEMPO_OK);
    assert_int_equal(y.dims[0], 6);
    assert_int_equal(y.dims[1], 2);
    tempo_close(s);
}

TEST(mistakes_are_named) {
    tempo_session *s = open_text("g (float[n] x, float[n] z) => (float[n] y) { y = Add (x, z) }", 0);
    float x[4] = {0};
    bind_floats(s, "x", x, 4);
    assert_int_equal(tempo_run(s), TEMPO_BAD_INPUT);
    assert_non_null(strstr(tempo_message(s), "'z'"));
    bind_floats(s, "z", x, 3);
    assert_int_equal(tempo_run(s), TEMPO_BAD_INPUT);
    assert_non_null(strstr(tempo_message(s), "dimension 'n' is 4 in input 'x', but 3 in input 'z'"));
    int64_t dims[] = {4};
    tempo_tensor doubles = {TEMPO_DOUBLE, 1, dims, x, 32};
    assert_int_equal(tempo_bind(s, "z", &doubles), TEMPO_BAD_INPUT);
    assert_int_equal(tempo_bind(s, "no such", &doubles), TEMPO_USAGE);
    tempo_close(s);
}

TEST(kernels_are_of_the_kind_of_device) {
    rt_device device = rt_device_cpu;
    device.name = "other";
    device.kind = RT_CUDA;
    const char *text = "g (float[n] x) => (float[n] y) "
                       "{ [\"the node\"] z = Add (x, x) d = MeanVarianceNormalization (z) y = Neg (d) }";
    tempo_session *s = open_on(NULL, text, 0);
    const tc_node *node = s->model->graph->first;
    assert_int_equal(rt_tell_no_kernel(&s->ctx, &device, node), TC_UNSUPPORTED);
    assert_int_equal(s->ctx.n_diags, 2);
    assert_non_null(strstr(s->ctx.diags[0].message, "device 'other' has no float kernel for this op"));
    assert_non_null(strstr(s->ctx.diags[0].hint, "tempo-run --device=other --list-kernels"));
    assert_non_null(strstr(s->ctx.diags[1].message, "no kernel for these either: MeanVarianceNormalization"));
    tempo_close(s);
}

TEST(known_shapes_count_as_saved) {
    const char *header = "[\"\" : 21], metadata_props: [\"tempo.loss\": \"loss\", \"tempo.gradient.dw\": \"w\"]";
    tempo_session *s = open_with(&(rt_hooks){.device = TEST_DEVICE}, header,
                                 "g (float[n] x, float[1] w) => (float loss, float[n] dw) <float[1] one = {1}> {"
                                 " s = Shape (x) e = Expand (w, s) h = Mul (x, e) loss = ReduceSum <keepdims = 0> (h)"
                                 " dw = Expand (one, s) }",
                                 0);
    float x[3] = {1, 2, 3}, w[1] = {2};
    bind_floats(s, "x", x, 3);
    bind_floats(s, "w", w, 1);
    run(s);
    tempo_memory memory;
    assert_int_equal(tempo_memory_report(s, &memory), TEMPO_OK);
    assert_int_equal(memory.saved, 8); /* s, one int64: the backward pass reads nothing else of the forward pass */
    tempo_close(s);
}
