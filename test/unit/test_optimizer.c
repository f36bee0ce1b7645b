/* test_optimizer.c: an optimizer as an op of the graph, its state kept in the session: AdamW, step by step, against the
 * algorithm (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2) in double precision, and no copy of weights or
 * moments. */
#include "session_test.h"
#include "passes/pass.h"
#include <math.h>

enum { N = 6, STEPS = 20 };
static const double RATE = 0.05, DECAY = 0.1, BETA1 = 0.9, BETA2 = 0.999, EPSILON = 1e-8;

/* The loss is sum (w - x)^2 / 2, so the gradient w - x; t counts the steps. */
static const char graph[] =
    "g (float[6] x, float rate, float[6] w, float[6] v, float[6] h, int64 t = {1})"
    " => (float loss, float[6] w2, float[6] v2, float[6] h2, int64 t2) <int64 one = {1}, float half = {0.5}> {"
    "  e = Sub(w, x) q = Mul(e, e) s = ReduceSum<keepdims = 0>(q) loss = Mul(s, half)"
    "  w2, v2, h2 = ai.tempo.AdamW<weight_decay = 0.1>(rate, t, w, e, v, h) t2 = Add(t, one) }";

typedef struct adamw {
    double w[N], v[N], h[N];
} adamw;

static double step_by_hand(adamw *a, const float *x, int t) {
    double loss = 0;
    for (int i = 0; i < N; i++) {
        double g = a->w[i] - (double)x[i];
        loss += g * g / 2;
        a->v[i] = BETA1 * a->v[i] + (1 - BETA1) * g;
        a->h[i] = BETA2 * a->h[i] + (1 - BETA2) * g * g;
        a->w[i] = (1 - RATE * DECAY) * a->w[i] -
                  RATE / (1 - pow(BETA1, t)) * a->v[i] / (sqrt(a->h[i]) / sqrt(1 - pow(BETA2, t)) + EPSILON);
    }
    return loss;
}

static const void *kept(tempo_session *s, const char *input) {
    tempo_tensor out;
    assert_int_equal(tempo_get_state(s, input, &out), TEMPO_OK);
    return out.data;
}

static void adamw_keeps_its_state(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"w2", "w"}, {"v2", "v"}, {"h2", "h"}, {"t2", "t"}};
    const rt_hooks hooks = {.upgrade = tc_upgrade_model, .body = tc_body_for, .device = TEST_DEVICE};
    float x[N], zero[N] = {0}, rate = (float)RATE;
    const int64_t dims[] = {N};
    adamw exact = {0};
    tempo_session *s = open_with(&hooks, "[\"\" : 21, \"ai.tempo\" : 1]", graph, 2);
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - 2) * 0.7f;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(tempo_keep(s, pairs[i][0], pairs[i][1]), TEMPO_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(tempo_set_state(s, pairs[i][1], &(tempo_tensor){TEMPO_FLOAT, 1, dims, zero, sizeof zero}),
                         TEMPO_OK);
    assert_int_equal(tempo_bind(s, "x", &(tempo_tensor){TEMPO_FLOAT, 1, dims, x, sizeof x}), TEMPO_OK);
    assert_int_equal(tempo_bind(s, "rate", &(tempo_tensor){TEMPO_FLOAT, 0, NULL, &rate, sizeof rate}), TEMPO_OK);
    const void *weights = kept(s, "w");
    for (int t = 1; t <= STEPS; t++) {
        tempo_tensor loss;
        double wanted = step_by_hand(&exact, x, t);
        if (tempo_run(s) != TEMPO_OK)
            fail_msg("%s", tempo_message(s));
        assert_int_equal(tempo_output(s, "loss", &loss), TEMPO_OK);
        assert_true(fabs((double)*(const float *)loss.data - wanted) <= 1e-5 * (1 + wanted));
        const float *w = kept(s, "w");
        for (int i = 0; i < N; i++)
            assert_true(fabs((double)w[i] - exact.w[i]) <= 1e-5);
        assert_true(!TEST_DEVICE->host_memory || w == weights);
    }
    assert_int_equal(*(const int64_t *)kept(s, "t"), STEPS + 1);
    assert_int_equal(s->plans_made, 1);
    tempo_memory memory;
    assert_int_equal(tempo_memory_report(s, &memory), TEMPO_OK);
    assert_int_equal(memory.state, 4 * 64); /* one place each */
    tempo_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(adamw_keeps_its_state)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
