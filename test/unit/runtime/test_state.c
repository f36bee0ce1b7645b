/* test_state.c: tensors that stay in a session from run to run. Each run by itself, fed with what the one before gave,
 * is what it is compared with: a session without pairs. */
#include "test/unit/session_test.h"

enum { N = 4, RUNS = 5 };

static const int64_t dims[] = {N};
static tempo_tensor tensor(float *data) { return (tempo_tensor){TEMPO_FLOAT, 1, dims, data, N * sizeof *data}; }

static const float *output(tempo_session *s, const char *name) {
    tempo_tensor out;
    ok(s, tempo_output(s, name, &out));
    assert_int_equal(out.bytes, N * sizeof(float));
    return out.data;
}

static const float *state(tempo_session *s, const char *name) {
    tempo_tensor out;
    ok(s, tempo_get_state(s, name, &out));
    return out.data;
}

/* A step of momentum: v' = 0.9 v + g, w' = w - 0.1 v', g = w - x; the loss is read after w is renewed. */
static const char step[] = "g (float[4] x, float[4] w, float[4] v) => (float[4] w2, float[4] v2, float loss)"
                           " <float d = {0.9}, float lr = {0.1}> {"
                           "  e = Sub(w, x) dv = Mul(v, d) v2 = Add(dv, e) s = Mul(v2, lr) w2 = Sub(w, s)"
                           "  q = Mul(e, e) loss = ReduceSum<keepdims = 0>(q) }";

TEST(as_if_fed_by_hand) {
    float x[N] = {1, 2, 3, 4}, w[N] = {0.5f, -1, 2, 8}, v[N] = {0, 1, 0, -1}, fed_w[N], fed_v[N];
    tempo_session *kept = open_text(step, 2), *fed = open_text(step, 2);
    memcpy(fed_w, w, sizeof w), memcpy(fed_v, v, sizeof v);
    ok(kept, tempo_keep(kept, "w2", "w"));
    ok(kept, tempo_keep(kept, "v2", "v"));
    ok(kept, tempo_set_state(kept, "w", &(tempo_tensor){TEMPO_FLOAT, 1, dims, w, sizeof w}));
    ok(kept, tempo_set_state(kept, "v", &(tempo_tensor){TEMPO_FLOAT, 1, dims, v, sizeof v}));
    memset(w, 0, sizeof w), memset(v, 0, sizeof v); /* they were copied */
    tempo_tensor tx = tensor(x), tw = tensor(fed_w), tv = tensor(fed_v);
    ok(kept, tempo_bind(kept, "x", &tx));
    ok(fed, tempo_bind(fed, "x", &tx));
    for (int i = 0; i < RUNS; i++) {
        ok(fed, tempo_bind(fed, "w", &tw));
        ok(fed, tempo_bind(fed, "v", &tv));
        ok(fed, tempo_run(fed));
        ok(kept, tempo_run(kept));
        memcpy(fed_w, output(fed, "w2"), sizeof fed_w), memcpy(fed_v, output(fed, "v2"), sizeof fed_v);
        assert_memory_equal(output(kept, "w2"), fed_w, sizeof fed_w);
        assert_memory_equal(output(kept, "v2"), fed_v, sizeof fed_v);
        assert_memory_equal(state(kept, "w"), fed_w, sizeof fed_w);
    }
    assert_int_equal(kept->plans_made, 1);
    tempo_close(kept), tempo_close(fed);
}

/* Both are written over: there is one place for each, and none of them is in the arena. */
TEST(without_a_copy) {
    float x[N] = {1, 2, 3, 4}, zero[N] = {0};
    tempo_session *s = open_text(step, 2);
    tempo_tensor tx = tensor(x), tz = tensor(zero);
    tempo_memory memory;
    ok(s, tempo_keep(s, "w2", "w"));
    ok(s, tempo_keep(s, "v2", "v"));
    ok(s, tempo_set_state(s, "w", &tz));
    ok(s, tempo_set_state(s, "v", &tz));
    ok(s, tempo_bind(s, "x", &tx));
    const float *at = state(s, "w");
    for (int i = 0; i < 3; i++) {
        ok(s, tempo_run(s));
        if (TEST_DEVICE->host_memory)
            assert_true(output(s, "w2") == at && state(s, "w") == at);
    }
    ok(s, tempo_memory_report(s, &memory));
    assert_int_equal(memory.state, 2 * 64);
    tempo_close(s);
}

/* The old elements are read behind the new ones: there are two places, by turns. An input handed on is copied. */
TEST(old_and_new_side_by_side) {
    float x[N] = {1, 2, 3, 4}, one[N] = {1, 1, 1, 1};
    tempo_session *s = open_text("g (float[4] x, float[4] a, float[4] b) => (float[4] a2, float[4] b2, float[4] y) {"
                                 "  a2 = Add(a, x) y = Mul(a2, a) b2 = Identity(a) }",
                                 2);
    tempo_tensor tx = tensor(x), t1 = tensor(one);
    ok(s, tempo_keep(s, "a2", "a"));
    ok(s, tempo_keep(s, "b2", "b"));
    ok(s, tempo_set_state(s, "a", &t1));
    ok(s, tempo_set_state(s, "b", &t1));
    ok(s, tempo_bind(s, "x", &tx));
    for (int i = 0; i < RUNS; i++) {
        ok(s, tempo_run(s));
        for (int k = 0; k < N; k++) {
            float old = 1 + (float)i * x[k], new = old + x[k];
            assert_true(output(s, "a2")[k] == new &&output(s, "y")[k] == old *new);
            assert_true(state(s, "a")[k] == new &&state(s, "b")[k] == old);
        }
    }
    assert_int_equal(s->plans_made, 1);
    tempo_close(s);
}

TEST(begins_with_the_default) {
    float x[N] = {1, 2, 3, 4};
    tempo_session *s = open_text("g (float[4] x, float[4] w = {5, 6, 7, 8}, float[4] v) => (float[4] w2, float[4] v2)"
                                 " { w2 = Add(w, x) v2 = Add(v, w) }",
                                 2);
    tempo_tensor tx = tensor(x);
    ok(s, tempo_bind(s, "x", &tx));
    ok(s, tempo_keep(s, "w2", "w"));
    assert_true(state(s, "w")[0] == 5);
    ok(s, tempo_keep(s, "v2", "v"));
    assert_int_equal(tempo_run(s), TEMPO_BAD_INPUT);
    assert_non_null(strstr(tempo_message(s), "'v' is kept from run to run, but has no first value; hint: give it one"));
    ok(s, tempo_set_state(s, "v", &tx));
    for (int i = 0; i < 3; i++)
        ok(s, tempo_run(s));
    assert_true(state(s, "w")[0] == 8 && state(s, "w")[3] == 20);
    assert_true(state(s, "v")[0] == 1 + 5 + 6 + 7);
    ok(s, tempo_set_state(s, "w", &tx));
    ok(s, tempo_run(s));
    assert_true(state(s, "w")[3] == 8);
    tempo_close(s);
}

TEST(mistakes) {
    float x[N] = {0};
    tempo_session *s = open_text("g (float[4] x, float[4] w) => (float[4] w2, float r) {"
                                 "  w2 = Add(w, x) r = ReduceSum<keepdims = 0>(w) }",
                                 2);
    tempo_tensor tx = tensor(x);
    assert_int_equal(tempo_keep(s, "w3", "w"), TEMPO_USAGE);
    assert_int_equal(tempo_keep(s, "w2", "q"), TEMPO_USAGE);
    assert_int_equal(tempo_set_state(s, "w", &tx), TEMPO_USAGE);
    assert_int_equal(tempo_get_state(s, "w", &tx), TEMPO_USAGE);
    ok(s, tempo_keep(s, "r", "w"));
    assert_int_equal(tempo_keep(s, "r", "x"), TEMPO_USAGE);
    assert_int_equal(tempo_keep(s, "w2", "w"), TEMPO_USAGE);
    assert_int_equal(tempo_bind(s, "w", &tx), TEMPO_USAGE);
    assert_non_null(strstr(tempo_message(s), "tempo_set_state changes it"));
    ok(s, tempo_set_state(s, "w", &tx));
    ok(s, tempo_bind(s, "x", &tx));
    assert_int_equal(tempo_run(s), TEMPO_BAD_INPUT);
    assert_non_null(strstr(tempo_message(s), "output 'r' is float[], but input 'w', which it replaces, is float[4]"));
    tempo_close(s);
}
