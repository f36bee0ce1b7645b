/* test_collective.c: ranks on the host, by a table of functions: what is averaged there, when, and what is said where
 * it does not come. The collective is one of a second rank that it makes up, whose tensors are three times as large: a
 * mean is twice the tensor. Means come when they are waited for, and not before. */
#define OWN_MAIN
#include "test/unit/session_test.h"

enum { MOST = 16, N = 16 };

static struct {
    char log[512]; /* first outputs of nodes as they run; +B:N bucket B of N pieces begins, -B it is waited for */
    rt_piece pieces[MOST];
    uint32_t buckets[MOST], n;
    bool fails, disagrees;
    int at_rest; /* runs that said that they are over */
} ranks;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...) {
    size_t n = strlen(ranks.log);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ranks.log + n, sizeof ranks.log - n, format, arguments);
    va_end(arguments);
}

static void average(void *user, uint32_t bucket, const rt_piece *pieces, uint32_t n) {
    assert_ptr_equal(user, &ranks);
    assert_true(ranks.n + n <= MOST);
    note("+%u:%u ", bucket, n);
    for (uint32_t i = 0; i < n; i++) {
        ranks.buckets[ranks.n] = bucket;
        ranks.pieces[ranks.n++] = pieces[i];
    }
}

static bool averaged(void *user, uint32_t bucket) {
    uint32_t left = 0;
    assert_ptr_equal(user, &ranks);
    note("-%u ", bucket);
    for (uint32_t i = 0; i < ranks.n; i++) {
        if (ranks.buckets[i] > bucket) {
            ranks.buckets[left] = ranks.buckets[i];
            ranks.pieces[left++] = ranks.pieces[i];
            continue;
        }
        for (int64_t k = 0; k < ranks.pieces[i].count; k++)
            ((float *)ranks.pieces[i].memory)[k] *= 2;
    }
    ranks.n = left;
    return !ranks.fails;
}

static const char *failure(void *user) {
    (void)user;
    return "it went";
}

static bool exchange(void *user, double number, double *to) {
    assert_ptr_equal(user, &ranks);
    to[0] = number + ranks.disagrees;
    to[1] = number;
    return true;
}

static void alive(void *user, const char *node) {
    assert_ptr_equal(user, &ranks);
    if (node)
        note("%s ", node);
    else
        ranks.at_rest++;
}

static const rt_collective collective = {&ranks, 1, 2, average, averaged, failure, exchange, alive};

/* --- sessions --------------------------------------------------------------------------------- */

static const int64_t dims[] = {N};
static float x[N], weights[N];
static const float rate = 0.5f;
static const int64_t one = 1;

static void bind_floats(tempo_session *s, const char *name, float *elements) {
    ok(s, tempo_bind(s, name, &(tempo_tensor){TEMPO_FLOAT, 1, dims, elements, N * sizeof *elements}));
}

/* With the memory of the host checked: what a bucket holds must be live until the mean is there. */
static tempo_session *open_rank(const char *graph) {
    tempo_session *s;
    memset(&ranks, 0, sizeof ranks);
    tempo_status status = try_open(&(rt_hooks){.collective = &collective}, "[\"\" : 21, \"ai.tempo\" : 1]", graph,
                                   &(tempo_options){.threads = 1, .check_memory = 1}, &s);
    ok(s, status);
    bind_floats(s, "x", x);
    return s;
}

static void bind_update(tempo_session *s) {
    union {
        const void *in;
        void *out;
    } r = {&rate}, t = {&one};
    ok(s, tempo_bind(s, "r", &(tempo_tensor){TEMPO_FLOAT, 0, NULL, r.out, sizeof rate}));
    ok(s, tempo_bind(s, "t", &(tempo_tensor){TEMPO_INT64, 0, NULL, t.out, sizeof one}));
    bind_floats(s, "w", weights);
    bind_floats(s, "v", weights);
}

static void are_times(tempo_session *s, const char *name, float factor) {
    tempo_tensor out;
    ok(s, tempo_output(s, name, &out));
    for (int i = 0; i < N; i++)
        if (((const float *)out.data)[i] != factor * x[i])
            fail_msg("%s[%d] is %g, not %g", name, i, (double)((const float *)out.data)[i], (double)(factor * x[i]));
}

/* --- means ------------------------------------------------------------------------------------ */

TEST(of_outputs) {
    tempo_session *s = open_rank("g (float[16] x) => (float[16] a, float[16] b, float[16] c)"
                                 " { a = Neg(x) b = Neg(a) c = Exp(x) }");
    ok(s, tempo_average(s, "a"));
    for (int run = 1; run < 4; run++) {
        ranks.log[0] = '\0';
        ok(s, tempo_run(s));
        assert_string_equal(ranks.log, "a +0:1 c -0 b ");
        assert_int_equal(ranks.at_rest, run);
        are_times(s, "a", -2);
        are_times(s, "b", 2);
    }
    tempo_close(s);
}

/* What optimizers take is no output. The momentum's weight and its velocity, both zero, become minus the rate times the
 * gradient, and the gradient; `rate` is a half. Each of two gradients is made of one value, and each update takes one.
 */
#define MOMENTUM "ai.tempo.Momentum <alpha = 0.0, beta = 1.0, mode = \"standard\", norm_coefficient = 0.0>"
static tempo_session *open_updates(const char *made_of, const char *taken, const char *other_made_of,
                                   const char *other_taken) {
    char graph[640];
    snprintf(graph, sizeof graph,
             "g (float[16] x, float r, int64 t, float[16] w, float[16] v) => (float[16] wn, float[16] vn, float[16] un,"
             " float[16] sn, float[16] c) { g = Neg(%s) wn, vn = " MOMENTUM "(r, t, w, %s, v)"
             " h = Neg(%s) un, sn = " MOMENTUM "(r, t, w, %s, v) c = Neg(%s) }",
             made_of, taken, other_made_of, other_taken, other_made_of);
    tempo_session *s = open_rank(graph);
    assert_int_equal(rt_average_updates(s), 2);
    bind_update(s);
    return s;
}

/* Alone the first update would stand behind g. Among ranks all that makes gradients comes before it, here h and what
 * does not depend on means at all. */
TEST(of_updates) {
    tempo_session *s = open_updates("x", "g", "x", "h");
    for (int run = 0; run < 3; run++) {
        ranks.log[0] = '\0';
        ok(s, tempo_run(s));
        assert_string_equal(ranks.log, "g h +0:2 c -0 wn un ");
        are_times(s, "wn", 2 * rate);
        are_times(s, "vn", -2);
        are_times(s, "un", 2 * rate);
        are_times(s, "sn", -2);
    }
    tempo_close(s);
}

/* Small buckets: the update of the first comes when the second has begun, and the backward pass goes on meanwhile. */
TEST(of_updates_in_buckets) {
    const size_t usual = rt_bucket_bytes;
    rt_bucket_bytes = 1;
    tempo_session *s = open_updates("x", "g", "x", "h");
    ok(s, tempo_run(s));
    assert_string_equal(ranks.log, "g +0:1 h +1:1 -0 wn c -1 un ");
    are_times(s, "wn", 2 * rate);
    are_times(s, "un", 2 * rate);
    tempo_close(s);
    rt_bucket_bytes = usual;
}

/* A gradient that two optimizers take is averaged once; a gradient of a gradient's mean comes behind it. */
TEST(of_one_gradient_twice) {
    tempo_session *s = open_updates("x", "g", "g", "g");
    ok(s, tempo_run(s));
    assert_string_equal(ranks.log, "g +0:1 -0 wn h un c ");
    are_times(s, "un", 2 * rate);
    are_times(s, "c", 2);
    tempo_close(s);
    s = open_updates("x", "g", "g", "h");
    ok(s, tempo_run(s));
    assert_string_equal(ranks.log, "g +0:1 -0 wn h +1:1 -1 un c ");
    are_times(s, "wn", 2 * rate);
    are_times(s, "un", -4 * rate);
    tempo_close(s);
}

/* Gradients that add up over runs are averaged as the sum that they come to, half of each here. */
TEST(of_sums) {
    tempo_session *s = open_rank("g (float[16] x, float r, int64 t, float[16] w, float[16] v) => (float[16] wn,"
                                 " float[16] vn) { g = Neg(x) vn = ai.tempo.Accumulate(r, t, v, g)"
                                 " wn = ai.tempo.Sgd(r, t, w, vn) }");
    assert_int_equal(rt_average_updates(s), 1);
    bind_update(s);
    ok(s, tempo_run(s));
    assert_string_equal(ranks.log, "g vn +0:1 -0 wn ");
    are_times(s, "vn", -2 * rate);
    are_times(s, "wn", 2 * rate * rate);
    tempo_close(s);
}

/* --- what is refused, and what fails ---------------------------------------------------------- */

TEST(refused) {
    tempo_session *s = open_updates("x", "x", "x", "h");
    fails(s, TEMPO_UNSUPPORTED, tempo_run(s), "gradient 'x' cannot be averaged: no node computes it in a run");
    tempo_close(s);
    static rt_device apart;
    apart = rt_device_cpu;
    apart.name = "apart";
    apart.host_memory = false;
    tempo_status status = try_open(&(rt_hooks){.collective = &collective, .device = &apart}, "[\"\" : 21]",
                                   "g (float[16] x) => (float[16] a) { a = Neg(x) }", NULL, &s);
    fails(s, TEMPO_UNSUPPORTED, status, "device 'apart' has its own");
    tempo_close(s);
}

TEST(failing) {
    tempo_session *s = open_updates("x", "g", "x", "h");
    ranks.fails = true;
    fails(s, TEMPO_IO, tempo_run(s), "rank 1 of 2: the mean of 'g' and of 1 more did not come: it went");
    assert_int_equal(ranks.at_rest, 1);
    fails(s, TEMPO_USAGE, tempo_run(s), "this session left its ranks when a run failed");
    tempo_close(s);
}

TEST(disagreeing) {
    tempo_session *s = open_updates("x", "g", "x", "h");
    ranks.disagrees = true;
    fails(s, TEMPO_USAGE, tempo_run(s), "rank 0 of 2 averages other values than rank 1");
    tempo_close(s);
}

int main(void) {
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - 5) / 4;
    return run_all_tests(NULL, NULL);
}
