/* test_average.c: outputs that are averaged over ranks: between which launches, what reads them, and what is refused.
 * The device is the CPU with a second rank that it makes up, whose tensors are all three times as large: a mean is
 * twice the tensor. Means come when they are begun, or only when they are waited for: one must be as good as the other.
 */
#define OWN_MAIN
#include "runtime/launch/launch.h"
#include "test/unit/session_test.h"

enum { MOST_PIECES = 64 };

static struct {
    bool late; /* means come when they are waited for */
    bool fails, peer_lost;
    tk_queue *with; /* joined */
    char log[1024]; /* ops as they run; +B:N bucket B of N pieces begins, -B it is waited for */
    rt_piece pieces[MOST_PIECES];
    uint32_t buckets[MOST_PIECES], n;
    bool disagrees, agreeing; /* about what is averaged: doubles, a place for each rank */
} ranks;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...) {
    size_t n = strlen(ranks.log);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ranks.log + n, sizeof ranks.log - n, format, arguments);
    va_end(arguments);
}

/* --- the device ------------------------------------------------------------------------------- */

static void begin(tk_queue *q, const rt_plan *plan, uint32_t index) {
    (void)q;
    note("%s ", plan->launches[index].node->op_type);
}

static void reduce(uint32_t upto) {
    uint32_t i = 0;
    for (; i < ranks.n && ranks.buckets[i] <= upto; i++)
        for (int64_t k = 0; k < ranks.pieces[i].count; k++)
            ((float *)ranks.pieces[i].memory)[k] *= 2;
    ranks.n -= i;
    memmove(ranks.pieces, ranks.pieces + i, ranks.n * sizeof *ranks.pieces);
    memmove(ranks.buckets, ranks.buckets + i, ranks.n * sizeof *ranks.buckets);
}

static void average_pieces(tk_queue *q, uint32_t bucket, const rt_piece *pieces, uint32_t n) {
    assert_ptr_equal(q, ranks.with);
    assert_true(ranks.n + n <= MOST_PIECES);
    ranks.agreeing = pieces[0].dtype == TK_F64;
    if (ranks.agreeing) {
        double *numbers = pieces[0].memory;
        assert_true(n == 1 && numbers[0] == 0 && numbers[1] > 0);
        numbers[1] /= (double)pieces[0].count;
        for (int64_t i = 0; i < pieces[0].count; i++)
            numbers[i] = numbers[1] + (i == 0 && ranks.disagrees);
        return;
    }
    note("+%u:%u ", bucket, n);
    for (uint32_t i = 0; i < n; i++) {
        ranks.buckets[ranks.n] = bucket;
        ranks.pieces[ranks.n++] = pieces[i];
    }
    if (!ranks.late)
        reduce(bucket);
}

static void averaged(tk_queue *q, uint32_t bucket) {
    assert_ptr_equal(q, ranks.with);
    if (ranks.agreeing)
        return;
    note("-%u ", bucket);
    reduce(bucket);
}

static tc_status make_group(tc_ctx *ctx, tk_queue *q, unsigned char *out_id) {
    (void)ctx, (void)q;
    memset(out_id, 7, RT_GROUP_BYTES);
    return TC_OK;
}

static tc_status join_ranks(tc_ctx *ctx, tk_queue *q, const unsigned char *id, int rank, int n, double patience) {
    (void)rank, (void)n, (void)patience;
    assert_null(ranks.with);
    if (id[0] != 7)
        return tc_error(ctx, TC_IO, NULL, "nobody is there");
    ranks.with = q;
    return TC_OK;
}

static void part(tk_queue *q) {
    assert_ptr_equal(q, ranks.with);
    ranks.with = NULL;
    ranks.n = 0;
}

static void close_queue(tk_queue *q) {
    if (q == ranks.with)
        ranks.with = NULL;
    tk_queue_destroy(q);
}

static tk_status wait_for(tk_queue *q, uint32_t *out_launch) {
    tk_status status = tk_queue_take_fault(q, out_launch);
    if (status == TK_OK)
        assert_int_equal(ranks.n, 0);
    return ranks.fails ? TK_DEVICE_FAILED : status;
}

static const char *failure(const tk_queue *q) {
    (void)q;
    return "it went";
}

static bool peer_lost(const tk_queue *q) {
    (void)q;
    return ranks.peer_lost;
}

static rt_device device;

static void make_device(void) {
    device = rt_device_cpu;
    device.name = "ranks";
    device.host_memory = false;
    device.close = close_queue;
    device.make_group = make_group;
    device.join = join_ranks;
    device.part = part;
    device.average = average_pieces;
    device.averaged = averaged;
    device.wait = wait_for;
    device.failure = failure;
    device.peer_lost = peer_lost;
    device.begin = begin;
}

/* --- sessions --------------------------------------------------------------------------------- */

#define OPSETS "[\"\" : 21]"

static tempo_session *open_joined(const char *graph) {
    tempo_group group;
    tempo_session *s = open_on(&device, graph, 1);
    ok(s, tempo_new_group(s, &group));
    ok(s, tempo_join(s, &group, 1, 2));
    return s;
}

enum { N = 16 }; /* floats: as many bytes as buffers are aligned to */

static const int64_t dims[] = {N};
static float x[N];
static const tempo_tensor tensor_x = {TEMPO_FLOAT, 1, dims, x, sizeof x};

/* Whether `n` elements, from the first one on, are so many times x. */
static void are_times(tempo_session *s, const char *name, size_t first, size_t n, float factor) {
    tempo_tensor out;
    ok(s, tempo_output(s, name, &out));
    assert_true(out.bytes >= (first + n) * sizeof(float));
    for (size_t i = 0; i < n; i++)
        if (((const float *)out.data)[first + i] != factor * x[i % N])
            fail_msg("%s[%zu] is %g, not %g", name, first + i, (double)((const float *)out.data)[first + i],
                     (double)(factor * x[i % N]));
}

/* Early, late, and both again. */
static void run_one(tempo_session *s, int i, const char *log) {
    ranks.late = i % 2 == 0;
    ranks.log[0] = '\0';
    ok(s, tempo_run(s));
    assert_string_equal(ranks.log, log);
}

typedef struct expected {
    const char *name;
    float factor;
    size_t first, n; /* elements; 0: N */
} expected;

/* `averages`: names with a blank behind each. */
static void check(const char *graph, const char *averages, const char *log, const expected *outputs) {
    tempo_session *s = open_joined(graph);
    for (const char *at = averages; *at; at = strchr(at, ' ') + 1) {
        char name[16] = "";
        memcpy(name, at, (size_t)(strchr(at, ' ') - at));
        ok(s, tempo_average(s, name));
    }
    ok(s, tempo_bind(s, "x", &tensor_x));
    for (int i = 0; i < 4; i++) {
        run_one(s, i, log);
        for (const expected *e = outputs; e->name; e++)
            are_times(s, e->name, e->first, e->n ? e->n : N, e->factor);
    }
    tempo_close(s);
}

#define CHECK(graph, averages, log, ...) check(graph, averages, log, (const expected[]){__VA_ARGS__, {NULL, 0, 0, 0}})

/* --- between which launches ------------------------------------------------------------------- */

TEST(at_the_end) {
    CHECK("g (float[16] x) => (float[16] a, float[16] b, float[16] c)"
          " { a = Neg(x) b = Identity(a) h = Neg(x) c = Neg(h) }",
          "c ", "Neg Neg Neg +0:1 -0 ", {"a", -1}, {"b", -1}, {"c", 2});
    CHECK("g (float[16] x) => (float[16] a, float[16] b)"
          " { a = Neg(x) h = Neg(x) b = Neg(h) }",
          "b a a ", "Neg Neg Neg +0:2 -0 ", {"a", -2}, {"b", 2}); /* in the order of launches, each once */
}

/* Nodes read the mean; what does not read it, waits for nothing, and comes first. */
TEST(before_readers) {
    CHECK("g (float[16] x) => (float[16] a, float[16] b, float[16] c)"
          " { a = Neg(x) h = Neg(x) b = Neg(a) c = Neg(h) }",
          "a ", "Neg +0:1 Neg Neg -0 Neg ", {"a", -2}, {"b", 2}, {"c", 1});
    CHECK("g (float[16] x) => (float[16] a, float[16] b, float[16] c)"
          " { a = Neg(x) b = Neg(a) c = Neg(a) }",
          "a c b ", "Neg +0:1 -0 Neg Neg +1:2 -1 ", {"a", -2}, {"b", 4}, {"c", 4});
}

TEST(of_a_shape) {
    CHECK("g (float[16] x) => (float[16] a, int64[1] n, float[16] b)"
          " { a = Neg(x) n = Shape(a) b = Neg(x) }",
          "a ", "Neg +0:1 Neg -0 ", {"a", -2}, {"b", -1});
}

/* Three of 10 MiB are more than 25 and begin at once. Who reads the first of them waits for them and for nothing
 * later; who reads of a bucket that is still open closes it. */
TEST(in_buckets) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    static const float factors[] = {-2, -2, -2, -2, 4, 4};
    enum { LONG = 2621440 };
    tempo_session *s = open_joined("g (float[16] x) => (float[163840, 16] a, float[163840, 16] b, float[163840, 16] c,"
                                   " float[163840, 16] d, float[163840, 16] e, float[163840, 16] f)"
                                   " <int64[2] n = {163840, 16}> { h = Expand(x, n) a = Neg(h) b = Neg(h) c = Neg(h)"
                                   " d = Neg(h) e = Neg(a) f = Neg(d) }");
    for (int i = 0; i < 6; i++)
        ok(s, tempo_average(s, names[i]));
    ok(s, tempo_bind(s, "x", &tensor_x));
    for (int i = 0; i < 2; i++) {
        run_one(s, i, "Expand Neg Neg Neg +0:3 Neg -0 Neg +1:2 -1 Neg +2:1 -2 ");
        for (int k = 0; k < 6; k++)
            are_times(s, names[k], 0, LONG, factors[k]);
    }
    tempo_close(s);
}

/* A bucket later on is begun before an earlier one is waited for; waiting for the later is waiting for both. Who reads
 * the earlier comes first, whatever the graph says. */
TEST(out_of_order) {
    static const struct {
        const char *readers, *log;
    } cases[] = {{"c = Neg(b) d = Neg(a)", "Expand Neg +0:1 Neg +1:1 -0 Neg -1 Neg "},
                 {"d = Neg(a) c = Neg(b)", "Expand Neg +0:1 Neg +1:1 -0 Neg -1 Neg "},
                 {"c = Sub(b, a) d = Sub(c, b)", "Expand Neg +0:1 Neg +1:1 -1 Sub Sub "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char graph[400];
        snprintf(graph, sizeof graph,
                 "g (float[16] x) => (float[491520, 16] a, float[491520, 16] b, float[491520, 16] c,"
                 " float[491520, 16] d) <int64[2] n = {491520, 16}> { h = Expand(x, n) a = Neg(h) b = Neg(h) %s }",
                 cases[i].readers);
        tempo_session *s = open_joined(graph);
        ok(s, tempo_average(s, "a"));
        ok(s, tempo_average(s, "b"));
        ok(s, tempo_bind(s, "x", &tensor_x));
        run_one(s, 0, cases[i].log);
        are_times(s, "d", 0, N, 2);
        tempo_close(s);
    }
}

/* --- tensors that lie in others ----------------------------------------------------------------- */

/* Another shape of a tensor is that tensor: whoever reads either reads the mean, of which there is one. */
TEST(of_a_view) {
    CHECK("g (float[16] x) => (float[4, 4] r, float[16] b) <int64[2] n = {4, 4}>"
          " { a = Neg(x) r = Reshape(a, n) b = Neg(a) }",
          "r ", "Neg +0:1 -0 Neg ", {"r", -2}, {"b", 2});
    CHECK("g (float[16] x) => (float[4, 4] r, float[16] a) <int64[2] n = {4, 4}>"
          " { a = Neg(x) r = Reshape(a, n) }",
          "r a ", "Neg +0:1 -0 ", {"r", -2}, {"a", -2});
}

/* A part of a split is another tensor than the whole, even where it could lie there. */
TEST(of_a_part) {
    static const char graph[] = "g (float[16] x) => (float[16] s, float[16] t, float[32] b)"
                                " { w = Concat<axis = 0>(x, x) s, t = Split<num_outputs = 2>(w) b = Neg(w) }";
    CHECK(graph, "s ", "Concat Split +0:1 Neg -0 ", {"s", 2}, {"t", 1}, {"b", -1, 0, 2 * N});
}

/* The same of a whole that is put together; one that has an averaged part has its mean. */
TEST(of_a_whole) {
    static const char graph[] = "g (float[16] x) => (float[16] a, float[16] c, float[32] w)"
                                " { a = Neg(x) b = Neg(x) w = Concat<axis = 0>(a, b) c = Neg(b) }";
    CHECK(graph, "w ", "Neg Neg Concat +0:1 Neg -0 ", {"a", -1}, {"c", 1}, {"w", -2, 0, 2 * N});
    CHECK(graph, "a ", "Neg +0:1 Neg Neg -0 Concat ", {"a", -2}, {"c", 1}, {"w", -2, 0, N}, {"w", -1, N, N});
}

/* A sum that stays in the session: it is the mean that the next run adds to, in place or beside what is still read. */
TEST(of_a_state) {
    static const struct {
        const char *graph, *log;
    } cases[] = {
        {"g (float[16] x, float[16] s) => (float[16] t) { t = Add(s, x) }", "Add +0:1 -0 "},
        {"g (float[16] x, float[16] s) => (float[16] t, float[16] y) { t = Add(s, x) y = Neg(s) }", "Add +0:1 Neg -0 "},
    };
    static float zeros[N];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tempo_session *s = open_joined(cases[i].graph);
        float expected_sum = 0;
        ok(s, tempo_keep(s, "t", "s"));
        ok(s, tempo_average(s, "t"));
        ok(s, tempo_bind(s, "x", &tensor_x));
        ok(s, tempo_set_state(s, "s", &(tempo_tensor){TEMPO_FLOAT, 1, dims, zeros, sizeof zeros}));
        for (int run = 0; run < 4; run++) {
            if (i == 1 && run > 0)
                are_times(s, "t", 0, N, expected_sum);
            run_one(s, run, cases[i].log);
            expected_sum = 2 * (expected_sum + 1);
            are_times(s, "t", 0, N, expected_sum);
        }
        tempo_close(s);
    }
}

TEST(of_nothing) {
    CHECK("g (float[16] x) => (float[16] a, float[0] b) <int64[1] n = {0}> { a = Neg(x) b = Slice(a, n, n) }", "b ",
          "Neg Slice ", {"a", -1});
}

/* --- alone, and what is refused --------------------------------------------------------------------- */

static const char negation[] = "g (float[16] x) => (float[16] y, int64[16] i, float[16] z, float[16] k)"
                               " <float[16] c = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}>"
                               " { y = Neg(x) i = Cast<to = 7>(x) z = Identity(x) k = Identity(c) }";

/* One rank, joined or not, is its own mean. */
TEST(alone) {
    tempo_group group;
    tempo_session *s = open_on(&rt_device_cpu, negation, 1);
    ok(s, tempo_average(s, "y"));
    ok(s, tempo_bind(s, "x", &tensor_x));
    ok(s, tempo_run(s));
    are_times(s, "y", 0, N, -1);
    fails(s, TEMPO_UNSUPPORTED, tempo_new_group(s, &group), "device 'cpu' of this build cannot train together");
    fails(s, TEMPO_UNSUPPORTED, tempo_join(s, &group, 0, 2), "docs/howto/processes.md");
    tempo_close(s);
    s = open_on(&device, negation, 1);
    ok(s, tempo_new_group(s, &group));
    ok(s, tempo_average(s, "y"));
    ok(s, tempo_join(s, &group, 0, 1));
    ok(s, tempo_bind(s, "x", &tensor_x));
    run_one(s, 0, "Neg Cast ");
    are_times(s, "y", 0, N, -1);
    tempo_close(s);
}

TEST(wrong_calls) {
    tempo_group group = {{0}};
    tempo_session *s = open_on(&device, negation, 1);
    fails(s, TEMPO_USAGE, tempo_average(s, "q"), "the model has no output 'q'");
    fails(s, TEMPO_USAGE, tempo_join(s, &group, 2, 2), "rank 2 of 2: ranks are numbered from 0");
    fails(s, TEMPO_USAGE, tempo_join(s, &group, -1, 2), "rank -1 of 2");
    fails(s, TEMPO_USAGE, tempo_join(s, &group, 0, 0), "rank 0 of 0");
    fails(s, TEMPO_IO, tempo_join(s, &group, 0, 2), "nobody is there");
    ok(s, tempo_new_group(s, &group));
    ok(s, tempo_join(s, &group, 0, 2));
    fails(s, TEMPO_USAGE, tempo_join(s, &group, 0, 2), "this session has joined 2 ranks already");
    tempo_close(s);
    assert_int_not_equal(tempo_open("/nowhere.onnx", NULL, &s), TEMPO_OK);
    fails(s, TEMPO_USAGE, tempo_join(s, &group, 0, 2), "the model could not be opened");
    tempo_close(s);
}

TEST(wrong_outputs) {
    static const struct {
        const char *name, *message;
    } cases[] = {{"i", "output 'i' is int64[16]: only floats are averaged"},
                 {"z", "output 'z' cannot be averaged: no node computes it in a run"},
                 {"k", "output 'k' cannot be averaged: no node computes it in a run"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tempo_session *s = open_on(&rt_device_cpu, negation, 1);
        ok(s, tempo_average(s, cases[i].name));
        ok(s, tempo_bind(s, "x", &tensor_x));
        fails(s, TEMPO_UNSUPPORTED, tempo_run(s), cases[i].message);
        tempo_close(s);
    }
}

/* A run that fails ends what others wait for; one that does not begin ends nothing. */
TEST(failing) {
    tempo_group group;
    tempo_session *s = open_joined(negation);
    ok(s, tempo_average(s, "y"));
    fails(s, TEMPO_BAD_INPUT, tempo_run(s), "input 'x'");
    assert_non_null(ranks.with);
    ok(s, tempo_bind(s, "x", &tensor_x));
    run_one(s, 0, "Neg +0:1 Cast -0 ");
    ranks.fails = ranks.peer_lost = true;
    fails(s, TEMPO_IO, tempo_run(s), "rank 1 of 2: the mean of 'y' did not come: it went");
    assert_null(ranks.with);
    ranks.fails = ranks.peer_lost = false;
    fails(s, TEMPO_USAGE, tempo_run(s), "this session left its ranks when a run failed");
    ok(s, tempo_new_group(s, &group));
    ok(s, tempo_join(s, &group, 1, 3));
    run_one(s, 1, "Neg +0:1 Cast -0 ");
    ranks.fails = true;
    fails(s, TEMPO_BUG, tempo_run(s), "device 'ranks' failed: it went");
    assert_null(ranks.with);
    ranks.fails = false;
    tempo_close(s);
}

/* Ranks tell each other what they average before the first run, and when that changes. */
TEST(agreeing) {
    tempo_group group;
    tempo_session *s = open_joined(negation);
    ok(s, tempo_bind(s, "x", &tensor_x));
    run_one(s, 0, "Neg Cast ");
    ranks.disagrees = true;
    run_one(s, 1, "Neg Cast ");
    ok(s, tempo_average(s, "y"));
    fails(s, TEMPO_USAGE, tempo_run(s), "rank 0 of 2 averages other values than rank 1");
    assert_null(ranks.with);
    fails(s, TEMPO_USAGE, tempo_run(s), "this session left its ranks");
    ok(s, tempo_new_group(s, &group));
    ok(s, tempo_join(s, &group, 1, 2));
    fails(s, TEMPO_USAGE, tempo_run(s), "rank 0 of 2 averages other values than rank 1");
    ranks.disagrees = false;
    tempo_close(s);
}

int main(void) {
    make_device();
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - 5) / 4;
    return run_all_tests(NULL, NULL);
}
