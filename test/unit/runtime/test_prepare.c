/* test_prepare.c: one session, run over and over with other inputs: how many plans it makes, that what they compute is
 * right, and that the process stays as large as it is. Expected numbers are computed here. */
#include "test/unit/resident.h"
#include "test/unit/session_test.h"

static void bind(tempo_session *s, const char *name, tempo_dtype dtype, int rank, const int64_t *dims, void *data) {
    size_t bytes = tempo_dtype_size(dtype);
    for (int i = 0; i < rank; i++)
        bytes *= (size_t)dims[i];
    tempo_tensor tensor = {dtype, rank, dims, data, bytes};
    assert_int_equal(tempo_bind(s, name, &tensor), TEMPO_OK);
}

static tempo_tensor run(tempo_session *s, const char *output) {
    tempo_tensor tensor;
    tempo_status status = tempo_run(s);
    if (status != TEMPO_OK)
        print_error("%s", tempo_message(s));
    assert_int_equal(status, TEMPO_OK);
    assert_int_equal(tempo_output(s, output, &tensor), TEMPO_OK);
    return tensor;
}

/* After the first hundred of so many runs the process may take so much more: an allocator's pages, no leak of a plan or
 * of a message, which would be a hundred times as much. */
enum { RUNS = 10000, SLACK = 512 << 10 };
static uint64_t after_hundred;
static void check_resident(int i) {
    if (i == 100)
        after_hundred = resident();
    if (i == RUNS - 1)
        assert_true(resident() <= after_hundred + SLACK);
}

/* --- which elements decide -------------------------------------------------------------------- */

static void rows_of(float *rows, const int64_t *ids, int n) {
    for (int i = 0; i < 2 * n; i++)
        rows[i] = (float)(2 * ids[i / 2] + i % 2);
}

/* The ids choose rows, the target decides a shape: a new batch is none of the plan's business. */
TEST(only_what_decides_counts) {
    tempo_session *s = open_text("g (float[v, w] table, int64[n] ids, int64[k] target) => (float[p, q] y) "
                                 "{ e = Gather (table, ids) y = Reshape (e, target) }",
                                 1);
    float table[100], want[12];
    int64_t ids[6], target[] = {3, 4};
    for (int i = 0; i < 100; i++)
        table[i] = (float)i;
    bind(s, "table", TEMPO_FLOAT, 2, (int64_t[]){50, 2}, table);
    bind(s, "ids", TEMPO_INT64, 1, (int64_t[]){6}, ids);
    bind(s, "target", TEMPO_INT64, 1, (int64_t[]){2}, target);
    for (int i = 0; i < RUNS; i++) {
        for (int k = 0; k < 6; k++)
            ids[k] = (7 * i + 3 * k) % 50;
        target[0] = i % 3 == 2 ? 6 : 3;
        target[1] = i % 3 == 2 ? -1 : 4;
        rows_of(want, ids, 6);
        tempo_tensor y = run(s, "y");
        assert_int_equal(y.dims[0], target[0]);
        assert_int_equal(y.dims[1], target[0] == 3 ? 4 : 2);
        assert_memory_equal(y.data, want, sizeof want);
        check_resident(i);
    }
    assert_int_equal(s->plans_made, 2);
    tempo_close(s);
}

/* Two inputs decide, one between them does not; floats can decide, too. */
TEST(each_that_decides_counts) {
    tempo_session *s =
        open_text("g (int64 from, int64[3] add, float limit) => (float[p] r, int64[q] z) "
                  "{ one = Constant <value_float: float = 1.0> () zero = Constant <value_float: float = 0.0> () "
                  "step = Constant <value_int: int = 1> () three = Constant <value_int: int = 3> () "
                  "r = Range (zero, limit, one) t = Range (from, three, step) u = ReduceSum <keepdims: int = 1> (add)"
                  "z = Add (t, u) }",
                  1);
    int64_t from = 1, add[] = {1, 2, 3};
    float limit = 4;
    bind(s, "from", TEMPO_INT64, 0, NULL, &from);
    bind(s, "add", TEMPO_INT64, 1, (int64_t[]){3}, add);
    bind(s, "limit", TEMPO_FLOAT, 0, NULL, &limit);
    for (int i = 0; i < 12; i++) {
        from = i % 2;
        add[1] = i;
        limit = (float)(2 + i % 3);
        tempo_tensor z = run(s, "z"), r;
        assert_int_equal(z.dims[0], 3 - from);
        assert_int_equal(*(int64_t *)z.data, from + 4 + i);
        assert_int_equal(tempo_output(s, "r", &r), TEMPO_OK);
        assert_int_equal(r.dims[0], 2 + i % 3);
    }
    assert_int_equal(s->plans_made, 6);
    tempo_close(s);
}

/* --- another course --------------------------------------------------------------------------- */

TEST(either_branch_runs) {
    tempo_session *s = open_text(
        "g (float[n] x, bool c) => (float[n] y) { y = If (c) <then_branch = a () => (float[n] p) { p = Neg (x) }, "
        "else_branch = b () => (float[n] q) { q = Abs (x) }> }",
        1);
    float x[] = {3};
    bool c = true;
    bind(s, "x", TEMPO_FLOAT, 1, (int64_t[]){1}, x);
    bind(s, "c", TEMPO_BOOL, 0, NULL, &c);
    for (int i = 0; i < 8; i++) {
        c = i % 3 == 0;
        x[0] = (float)(i - 4);
        float want = c ? -x[0] : x[0] < 0 ? -x[0] : x[0];
        assert_true(*(float *)run(s, "y").data == want);
    }
    assert_int_equal(s->plans_made, 2);
    tempo_close(s);
}

/* A loop of another number of turns, and one in a loop. */
TEST(loops_run_another_course) {
    tempo_session *s =
        open_text("g (float[n] x, int64 turns) => (float[n] y) { go = Constant <value: tensor = bool {1}> ()"
                  "y = Loop (turns, go, x) <body = b (int64 i, bool on, float[n] a) => (bool on2, float[n] a2) "
                  "{ on2 = Identity (on) a2 = Loop (turns, on, a) <body = c (int64 j, bool on3, float[n] d) => "
                  "(bool on4, float[n] d2) { on4 = Identity (on3) d2 = Add (d, x) }> }> }",
                  1);
    float x[] = {1, 10, 100};
    int64_t turns;
    bind(s, "turns", TEMPO_INT64, 0, NULL, &turns);
    for (int i = 0; i < 9; i++) {
        int64_t n = 1 + i % 2;
        turns = 1 + i % 3;
        bind(s, "x", TEMPO_FLOAT, 1, &n, x);
        tempo_tensor y = run(s, "y");
        assert_int_equal(y.dims[0], n);
        for (int64_t k = 0; k < n; k++)
            assert_true(((float *)y.data)[k] == x[k] * (float)(1 + turns * turns));
    }
    assert_int_equal(s->plans_made, 6);
    tempo_close(s);
}

/* --- long runs -------------------------------------------------------------------------------- */

/* More shapes than plans are kept, large and small ones in turn: plans come and go, and the arena is the same. */
TEST(plans_go) {
    tempo_session *s =
        open_text("g (float[n] x) => (float[n] z) { y = Neg (x) s = Shape (y) t = Cast <to: int = 1> (s) "
                  "z = Add (y, t) }",
                  1);
    static float x[RUNS];
    for (int i = 0; i < RUNS; i++) {
        int64_t n = i % 2 ? 1 + i % 41 : 2000 + i % 43;
        x[n - 1] = (float)i;
        bind(s, "x", TEMPO_FLOAT, 1, &n, x);
        tempo_tensor z = run(s, "z");
        assert_int_equal(z.dims[0], n);
        assert_true(((float *)z.data)[n - 1] == (float)(n - i));
        check_resident(i);
    }
    assert_int_equal(s->n_kept, RT_KEPT_PLANS);
    tempo_close(s);
}

/* Shapes that come again are not planned again, in whatever order. */
TEST(shapes_seen_before_have_plans) {
    tempo_session *s = open_text("g (float[n] x) => (float[n] y) { y = Neg (x) }", 1);
    float x[RT_KEPT_PLANS] = {5};
    for (int i = 0; i < 1000; i++) {
        int64_t n = 1 + i * i % RT_KEPT_PLANS;
        bind(s, "x", TEMPO_FLOAT, 1, &n, x);
        assert_true(*(float *)run(s, "y").data == -5);
    }
    assert_true(s->plans_made <= RT_KEPT_PLANS);
    tempo_close(s);
}

/* Calls that succeed and calls that fail give back what they took. */
TEST(calls_leave_nothing) {
    tempo_session *s = open_text("g (float[n, 2] x) => (float[n, 2] y) { y = Neg (x) }", 1);
    float x[4] = {1, 2, 3, 4};
    const int64_t dims[] = {2, 2};
    tempo_tensor good = {TEMPO_FLOAT, 2, dims, x, sizeof x}, bad = {TEMPO_FLOAT, 1, dims, x, 8}, y;
    tempo_info info;
    tempo_memory memory;
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(tempo_bind(s, "no such input", &good), TEMPO_USAGE);
        assert_int_equal(tempo_bind(s, "x", &bad), TEMPO_OK);
        assert_int_equal(tempo_run(s), TEMPO_BAD_INPUT);
        assert_non_null(strstr(tempo_message(s), "'x' is float[2], but the model takes float[n,2]"));
        assert_int_equal(tempo_bind(s, "x", &good), TEMPO_OK);
        assert_int_equal(tempo_run(s), TEMPO_OK);
        assert_int_equal(tempo_memory_report(s, &memory), TEMPO_OK);
        assert_string_equal(memory.live[0].type, "float[2,2]");
        for (int k = 0; k < 10; k++) {
            assert_int_equal(tempo_bind(s, "x", &good), TEMPO_OK);
            assert_int_equal(tempo_output(s, "y", &y), TEMPO_OK);
            assert_true(tempo_input(s, 0, &info) && tempo_output_info(s, 0, &info));
            assert_string_equal(info.type, "float[n,2]");
        }
        check_resident(i);
    }
    assert_int_equal(s->plans_made, 1);
    tempo_close(s);
}
