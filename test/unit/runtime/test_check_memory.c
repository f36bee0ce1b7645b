/* test_check_memory.c: runs that check memory: what is right computes the same bits; plans that are made wrong here,
 * and kernels that write where they may not, are found, by name. */
#include "test/unit/session_test.h"
#include <math.h>

enum { N = 10, BYTES = N * (int)sizeof(float) }; /* no multiple of the alignment: the canary begins amid it */

#define HEADER "g (float[n] x) => (float[n] y, float[n] e) <int64[1] k = {3}> { "
#define NODES                                                                                                          \
    "[\"one\"] a = Neg (x) [\"two\"] b = Exp (a) [\"three\"] c = Mul (a, b) [\"four\"] d = Abs (x) "                   \
    "[\"five\"] e = Add (c, d) [\"six\"] top, at = TopK (e, k) [\"seven\"] s = ReduceSum <keepdims = 0> (top) "        \
    "[\"eight\"] y = Add (d, s) }"
enum { ONE, TWO, THREE, FOUR, FIVE, SIX, SEVEN, EIGHT };

static float x[N] = {1, -2, 3, -4, 5, -6, 7, -8, 9, 0.5f};

static tempo_session *open_checked(const char *graph) {
    tempo_session *s;
    assert_int_equal(try_open(NULL, "[\"\" : 21]", graph, &(tempo_options){.check_memory = 1}, &s), TEMPO_OK);
    return s;
}

static void bind(tempo_session *s, int64_t n) {
    tempo_tensor tensor = {TEMPO_FLOAT, 1, &n, x, (size_t)n * sizeof *x};
    assert_int_equal(tempo_bind(s, "x", &tensor), TEMPO_OK);
}

static void outputs_of(tempo_session *s, const char *name, float *out, int64_t n) {
    tempo_tensor tensor;
    assert_string_equal(tempo_message(s), "");
    assert_int_equal(tempo_output(s, name, &tensor), TEMPO_OK);
    assert_int_equal(tensor.bytes, (size_t)n * sizeof *out);
    memcpy(out, tensor.data, tensor.bytes);
}

/* --- what is right ---------------------------------------------------------------------------- */

/* Several runs, and plans for other shapes in one arena; the same choices, in a larger arena. */
TEST(same_bits) {
    static const char *const graphs[] = {
        HEADER NODES,
        "g (float[n] x) => (float[n] y, float[n] e) { a = Neg (x) b = Abs (a) e = Exp (b) c = Neg (e) y = Neg (c) }",
        "g (float[n] x) => (float[n] y, float[n] e) { a = Neg (x) p, q = Split <num_outputs = 2> (a)  u = Exp (p) "
        "y = Concat <axis = 0> (q, u) s = Shape (y) f = Reshape (a, s) e = Neg (f) }",
    };
    for (size_t i = 0; i < TC_COUNT(graphs); i++) {
        tempo_session *plain = open_text(graphs[i], 0), *checked = open_checked(graphs[i]);
        for (int64_t n = 4; n <= N; n += 2) {
            float want[N], got[N];
            bind(plain, n);
            bind(checked, n);
            for (int turn = 0; turn < 2; turn++) {
                for (int k = 0; k < 2; k++) {
                    assert_int_equal(tempo_run(plain), TEMPO_OK);
                    assert_int_equal(tempo_run(checked), TEMPO_OK);
                    outputs_of(plain, k ? "y" : "e", want, n);
                    outputs_of(checked, k ? "y" : "e", got, n);
                    assert_memory_equal(got, want, (size_t)n * sizeof *got);
                }
            }
        }
        assert_null(rt_current_plan(plain)->checks);
        assert_true(rt_current_plan(checked)->packing.bytes > rt_current_plan(plain)->packing.bytes);
        tempo_close(plain);
        tempo_close(checked);
    }
}

TEST(memory_of_its_own) {
    rt_device device = rt_device_cpu;
    device.name = "other";
    device.host_memory = false;
    tempo_session *s;
    tempo_status status =
        try_open(&(rt_hooks){.device = &device}, "[\"\" : 21]", HEADER NODES, &(tempo_options){.check_memory = 1}, &s);
    assert_int_equal(status, TEMPO_UNSUPPORTED);
    assert_non_null(
        strstr(tempo_message(s), "memory is checked on devices that compute in the host's: device 'other'"));
    tempo_close(s);
}

/* --- what is wrong ---------------------------------------------------------------------------- */

static tempo_session *session;

static rt_launch *launch_of(uint32_t at) { return &session->kept[0].plan->launches[at]; }

static const rt_storage *storage_of(const char *name) {
    const rt_plan *plan = rt_current_plan(session);
    for (uint32_t i = 0; i < plan->n_storages; i++)
        if (strcmp(plan->storages[i].value->name, name) == 0)
            return &plan->storages[i];
    fail_msg("no storage of %s", name);
    return NULL;
}

static unsigned char *place_of(const char *name) {
    const rt_plan *plan = rt_current_plan(session);
    return plan->shared->memory + plan->problem.buffers[storage_of(name) - plan->storages].offset;
}

static tc_plan_buffer *life_of(const char *name) {
    rt_plan *plan = session->kept[0].plan;
    return &plan->problem.buffers[storage_of(name) - plan->storages];
}

static void begin(void) {
    session = open_checked(HEADER NODES);
    bind(session, N);
    assert_int_equal(tempo_prepare(session), TEMPO_OK);
    assert_string_equal(tc_node_label(launch_of(EIGHT)->node), "eight");
    assert_true(life_of("b")->offset != life_of("a")->offset); /* a is read again */
}

static void end(const char *node, const char *words) {
    assert_int_equal(tempo_run(session), TEMPO_BUG);
    const char *message = tempo_message(session);
    if (!strstr(message, words) || (node && !strstr(message, node)))
        fail_msg("%s: expected %s, %s", message, node ? node : "no node", words);
    tempo_close(session);
}

/* A kernel that writes one more byte. */
static rt_run_fn honest;
static unsigned char *victim;
static void run_and_write(tk_queue *q, const rt_launch *launch) {
    honest(q, launch);
    *victim ^= 1;
}

static void write_too(uint32_t at, unsigned char *where) {
    honest = launch_of(at)->run;
    victim = where;
    launch_of(at)->run = run_and_write;
}

TEST(wrong_plans) {
    begin();
    life_of("a")->last = TWO;
    end("Mul \"three\"", "reads 'a' while buffer 'a' is free: it is live from node 'one' to node 'two'");
    begin();
    life_of("b")->first = life_of("b")->last = THREE;
    end("Exp \"two\"", "writes 'b' while buffer 'b' is free: it is live from node 'three' to node 'three'");
    begin();
    life_of("d")->offset = life_of("c")->offset; /* which is live */
    end("Abs \"four\"", "byte 0 of buffer 'd', which begins to live here, was written while it was free");
}

static void *stolen;
static void run_on_another(tk_queue *q, const rt_launch *launch) {
    rt_arg in = launch->in[0];
    in.data = stolen;
    rt_launch other = *launch;
    other.in = &in;
    honest(q, &other);
}

/* A kernel that reads bytes of nobody makes NaN. */
TEST(free_is_poison) {
    float e[N];
    begin();
    honest = launch_of(FOUR)->run;
    stolen = place_of("b"); /* which died at three, where the product may lie over it */
    if (place_of("c") == stolen)
        stolen = place_of("a");
    launch_of(FOUR)->run = run_on_another;
    assert_int_equal(tempo_run(session), TEMPO_OK);
    outputs_of(session, "e", e, N);
    for (int i = 0; i < N; i++)
        assert_true(isnan(e[i]));
    tempo_close(session);
}

TEST(write_behind_a_result) {
    begin();
    write_too(TWO, place_of("b") + BYTES);
    end("Exp \"two\"", "byte 0 after the 40 bytes of buffer 'b' was written by this node");
    begin();
    write_too(TWO, place_of("b") + 2 * RT_ALIGN - 1);
    end("Exp \"two\"", "byte 87 after the 40 bytes of buffer 'b' was written by this node");
    begin();
    write_too(FOUR, place_of("d") + BYTES - 1); /* its last byte is its own */
    assert_int_equal(tempo_run(session), TEMPO_OK);
    tempo_close(session);
}

TEST(write_behind_a_workspace) {
    begin();
    size_t bytes = launch_of(SIX)->workspace_bytes;
    assert_true(bytes > 0);
    write_too(SIX, (unsigned char *)launch_of(SIX)->workspace + bytes);
    end("TopK \"six\"", "byte 0 after the");
    begin();
    write_too(SIX, (unsigned char *)launch_of(SIX)->workspace + bytes - 1);
    assert_int_equal(tempo_run(session), TEMPO_OK);
    tempo_close(session);
}

TEST(write_elsewhere) {
    begin();
    write_too(TWO, place_of("a") + BYTES); /* an operand's */
    end("Exp \"two\"", "buffer 'a' was written by this node");
    begin();
    write_too(FOUR, place_of("c") + BYTES); /* of nobody's at four */
    end("Add \"five\"", "byte 0 after the 40 bytes of buffer 'c' was written before this node ran");
    begin();
    write_too(ONE, place_of("b") + 5);
    end("Exp \"two\"", "byte 5 of buffer 'b', which begins to live here, was written while it was free");
    begin();
    write_too(EIGHT, place_of("e") + BYTES);
    end(NULL, "byte 0 after the 40 bytes of buffer 'e' was written by some node");
}

/* A graph with nothing but the workspace behind the first node. */
TEST(write_in_a_free_workspace) {
    session = open_checked("g (float[n] x) => (float[n] y, float[k] e) <int64[1] k = {3}> "
                           "{ [\"one\"] y = Neg (x) [\"two\"] e, at = TopK (y, k) }");
    bind(session, N);
    assert_int_equal(tempo_prepare(session), TEMPO_OK);
    write_too(ONE, launch_of(TWO)->workspace);
    end("TopK \"two\"", "byte 0 of its workspace was written while it was free");
}
