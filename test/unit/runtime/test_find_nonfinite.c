/* test_find_nonfinite.c: graphs that make NaN or an infinity: the node, the tensor and the element are those where the
 * arithmetic of IEEE 754 first gives one; masks are passed by. */
#include "test/unit/session_test.h"
#include <math.h>

enum { ROWS = 2, COLUMNS = 3, N = ROWS * COLUMNS };

static void bind(tempo_session *s, const float x[N]) {
    static float elements[N];
    static const int64_t dims[] = {ROWS, COLUMNS};
    memcpy(elements, x, sizeof elements);
    tempo_tensor tensor = {TEMPO_FLOAT, 2, dims, elements, sizeof elements};
    assert_int_equal(tempo_bind(s, "x", &tensor), TEMPO_OK);
}

/* `text`: what is to be found, or NULL for nothing. */
static void check(tempo_session *s, const float x[N], const char *text) {
    rt_nonfinite found;
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    bind(s, x);
    if (rt_find_nonfinite(s, &found) != TEMPO_OK)
        fail_msg("%s", tempo_message(s));
    assert_int_equal(found.found, text != NULL);
    if (text)
        assert_string_equal(rt_nonfinite_text(&ctx, &found), text);
    tc_ctx_fini(&ctx);
}

static void check_graph(const char *graph, const float x[N], const char *text) {
    tempo_session *s = open_text(graph, 0);
    check(s, x, text);
    tempo_close(s);
}

static const float ones[N] = {1, 1, 1, 1, 1, 1}, fifth[N] = {1, 1, 1, 1, -2, -3}, large[N] = {1, 1, 1, 1, 1, 1000};

TEST(logarithm) {
    static const char graph[] = "g (float[2,3] x) => (float loss) <float h = {0.5}> { [\"half\"] a = Mul (x, h) "
                                "[\"bad\"] b = Log (a) [\"turn\"] c = Transpose (b) "
                                "loss = ReduceMean <keepdims = 0> (c) }";
    check_graph(graph, fifth, "Log 'bad' made NaN: element [1,1] of its result 'b', float[2,3]");
    check_graph(graph, ones, NULL);
}

TEST(infinity) {
    static const char graph[] = "g (float[2,3] x) => (float loss) { [\"big\"] a = Exp (x) [\"flat\"] b = Flatten (a) "
                                "[\"wide\"] c = Neg (b) loss = ReduceSum <keepdims = 0> (c) }";
    check_graph(graph, large, "Exp 'big' made infinity: element [1,2] of its result 'a', float[2,3]");
    check_graph(graph, ones, NULL);
}

/* e^1000 / e^1000 */
TEST(nan_of_infinities) {
    check_graph("g (float[2,3] x) => (float loss) { a = Exp (x) [\"ratio\"] b = Div (a, a) "
                "loss = ReduceSum <keepdims = 0> (b) }",
                large,
                "Div 'ratio' made NaN: element [1,2] of its result 'b', float[2,3], where its operand 'a' has "
                "infinities");
}

#define MASKED                                                                                                         \
    "g (float[2,3] x) => (float loss, float[2,3] scores) <float zero = {0}, float none = {-inf}> { "                   \
    "m = Greater (x, zero) mask = Where (m, zero, none) scores = Add (x, mask) p = Softmax (scores) "
/* Scores of -infinity are an output, too; the loss is of what they give. */
TEST(masks) {
    check_graph(MASKED "loss = ReduceSum <keepdims = 0> (p) }", fifth, NULL);
    check_graph(MASKED "q = Neg (p) [\"bad\"] l = Log (q) loss = ReduceSum <keepdims = 0> (l) }", fifth,
                "Log 'bad' made NaN: element [0,0] of its result 'l', float[2,3]");
}

/* A NaN that Where does not choose is none of the loss; the infinity is. */
TEST(not_chosen) {
    static const float x[N] = {-1, 1, 1, 1, 1, 1000};
    check_graph("g (float[2,3] x) => (float loss) <float zero = {0}> { m = Greater (x, zero) l = Log (x) "
                "w = Where (m, l, zero) [\"big\"] e = Exp (x) s = Add (w, e) loss = ReduceSum <keepdims = 0> (s) }",
                x, "Exp 'big' made infinity: element [1,2] of its result 'e', float[2,3]");
}

TEST(of_nobody) {
    static const float x[N] = {1, 1, NAN, 1, 1, 1};
    check_graph("g (float[2,3] x) => (float loss) { a = Exp (x) loss = ReduceSum <keepdims = 0> (a) }", x,
                "'x', float[2,3], comes from no node and holds NaN: element [0,2]");
    check_graph("g (float[2,3] x) => (float loss) <float[3] w = {1, -inf, 2}> { a = Mul (x, w) "
                "loss = ReduceSum <keepdims = 0> (a) }",
                ones, "'w', float[3], comes from no node and holds -infinity: element [1]");
}

/* float16 ends at 65504; bfloat16 and double go on. */
TEST(other_types) {
    static const char graph[] =
        "g (float[2,3] x) => (float loss) { a = Cast <to = %d> (x) [\"square\"] b = Mul (a, a) c = Cast <to = 1> (b) "
        "loss = ReduceSum <keepdims = 0> (c) }";
    static const char log_graph[] =
        "g (float[2,3] x) => (float loss) { a = Cast <to = %d> (x) [\"root\"] b = Sqrt (a) c = Cast <to = 1> (b) "
        "loss = ReduceSum <keepdims = 0> (c) }";
    static const struct {
        int to;
        const char *square, *root;
    } types[] = {{10, "Mul 'square' made infinity: element [1,2] of its result 'b', float16[2,3]",
                  "Sqrt 'root' made NaN: element [1,1] of its result 'b', float16[2,3]"},
                 {11, NULL, "Sqrt 'root' made NaN: element [1,1] of its result 'b', double[2,3]"},
                 {16, NULL, "Sqrt 'root' made NaN: element [1,1] of its result 'b', bfloat16[2,3]"}};
    for (size_t i = 0; i < TC_COUNT(types); i++) {
        char text[300];
        snprintf(text, sizeof text, graph, types[i].to);
        check_graph(text, large, types[i].square);
        snprintf(text, sizeof text, log_graph, types[i].to);
        check_graph(text, fifth, types[i].root);
    }
}

/* The weight is written over; what it was before is what it is made of. */
TEST(states) {
    static const char graph[] =
        "g (float[2,3] x, float[3] w) => (float loss, float[3] new) <float[3] w = {1, 2, 3}, int64[1] rows = {0}> { "
        "p = Mul (x, w) loss = ReduceSum <keepdims = 0> (p) l = Log (x) s = ReduceSum <keepdims = 0> (l, rows) "
        "[\"step\"] new = Sub (w, s) }";
    tempo_session *s = open_text(graph, 0);
    assert_int_equal(tempo_keep(s, "new", "w"), TEMPO_OK);
    bind(s, ones);
    assert_int_equal(tempo_run(s), TEMPO_OK);
    check(s, fifth, "Log 'l' made NaN: element [1,1] of its result 'l', float[2,3]");
    float zeros[3] = {0, INFINITY, 0};
    int64_t three = 3;
    tempo_tensor tensor = {TEMPO_FLOAT, 1, &three, zeros, sizeof zeros};
    assert_int_equal(tempo_set_state(s, "w", &tensor), TEMPO_OK);
    check(s, ones, "'w', float[3], comes from no node and holds infinity: element [1]");
    tempo_close(s);
}

/* The loss is finite, the gradient is not, whether the optimizer takes it or not. */
TEST(gradients) {
    static const char graph[] =
        "g (float[2,3] x, float[2,3] w) => (float loss, float[2,3] new) <float rate = {0.1}, int64 t = {1}, "
        "float[2,3] w = {1, 2, 3, 4, 5, 6}> { loss = ReduceSum <keepdims = 0> (w) [\"bad\"] l = Log (x) "
        "[\"twice\"] g = Add (l, l) [\"step\"] new = ai.tempo.Sgd (rate, t, w, g) }";
    tempo_session *s = open_with(&(rt_hooks){.device = TEST_DEVICE}, "[\"\" : 21, \"ai.tempo\" : 1]", graph, 0);
    assert_int_equal(tempo_keep(s, "new", "w"), TEMPO_OK);
    check(s, ones, NULL);
    check(s, fifth, "Log 'bad' made NaN: element [1,1] of its result 'l', float[2,3]");
    tempo_close(s);
}

/* Memory of a device is copied to the host, and the same is found. */
TEST(device_of_its_own) {
    rt_device device = rt_device_cpu;
    device.host_memory = false;
    tempo_session *s = open_on(&device,
                               "g (float[2,3] x) => (float loss) { a = Exp (x) [\"bad\"] b = Log (x) c = Add (a, b) "
                               "loss = ReduceSum <keepdims = 0> (c) }",
                               0);
    check(s, fifth, "Log 'bad' made NaN: element [1,1] of its result 'b', float[2,3]");
    tempo_close(s);
}

/* A run that cannot be is an error as ever, and what is left of it no output. */
TEST(failing_runs) {
    rt_nonfinite found;
    tempo_tensor loss;
    tempo_session *s = open_text("g (float[2,3] x) => (float loss) <int64[1] k = {7}> { a = Gather (x, k) "
                                 "loss = ReduceSum <keepdims = 0> (a) }",
                                 0);
    assert_int_equal(rt_find_nonfinite(s, &found), TEMPO_BAD_INPUT);
    bind(s, ones);
    assert_int_equal(rt_find_nonfinite(s, &found), TEMPO_BAD_INPUT);
    assert_non_null(strstr(tempo_message(s), "index"));
    assert_false(found.found);
    assert_int_equal(tempo_output(s, "loss", &loss), TEMPO_USAGE);
    tempo_close(s);
}
