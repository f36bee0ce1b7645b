/* test_optimizer.c: an optimizer as an op of the graph, its state kept in the session: AdamW, step by step, against the
 * algorithm (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2) in double precision, and no copy of weights or
 * moments; the same of weights that are also kept in bfloat16, by gradients of bfloat16 that are clipped by their norm.
 */
#include "passes/upgrade/upgrade.h"
#include "passes/bodies/bodies.h"
#include "test/unit/session_test.h"
#include "kernels/common/types.h"
#include "passes/pass/pass.h"
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

static void update_by_hand(adamw *a, int i, double g, int t) {
    a->v[i] = BETA1 * a->v[i] + (1 - BETA1) * g;
    a->h[i] = BETA2 * a->h[i] + (1 - BETA2) * g * g;
    a->w[i] = (1 - RATE * DECAY) * a->w[i] -
              RATE / (1 - pow(BETA1, t)) * a->v[i] / (sqrt(a->h[i]) / sqrt(1 - pow(BETA2, t)) + EPSILON);
}

static double step_by_hand(adamw *a, const float *x, int t) {
    double loss = 0;
    for (int i = 0; i < N; i++) {
        double g = a->w[i] - (double)x[i];
        loss += g * g / 2;
        update_by_hand(a, i, g, t);
    }
    return loss;
}

static const void *kept(tempo_session *s, const char *input) {
    tempo_tensor out;
    assert_int_equal(tempo_get_state(s, input, &out), TEMPO_OK);
    return out.data;
}

TEST(adamw_keeps_its_state) {
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

/* --- mixed precision ------------------------------------------------------------------------------ */

/* Gradients c - x and d - y of bfloat16, of weights w and u that are c and d in bfloat16. */
static const char mixed_graph[] =
    "g (bfloat16[6] x, bfloat16[2,3] y, float rate, float[6] w, float[2,3] u, float[6] v, float[2,3] m, float[6] h,"
    " float[2,3] k, bfloat16[6] c, bfloat16[2,3] d, int64 t = {1})"
    " => (float norm, float[6] w2, float[2,3] u2, float[6] v2, float[2,3] m2, float[6] h2, float[2,3] k2,"
    "     bfloat16[6] c2, bfloat16[2,3] d2, int64 t2) <int64 one = {1}> {"
    "  e = Sub(c, x) f = Sub(d, y) norm, scale = ai.tempo.GlobalNorm<max_norm = 0.5>(e, f)"
    "  w2, u2, v2, m2, h2, k2, c2, d2 ="
    "    ai.tempo.AdamW<weight_decay = 0.1, copy_type = 16>(rate, t, w, u, e, f, v, m, h, k, scale)"
    "  t2 = Add(t, one) }";

static double in_bfloat(double x) {
    uint16_t rounded;
    tk_put(&rounded, TK_BF16, 0, x);
    return tk_get(&rounded, TK_BF16, 0);
}

/* The gradients of one tensor, as bfloat16 has them; returns the sum of their squares. */
static double gradients_by_hand(double *g, const void *copy, const uint16_t *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) {
        g[i] = in_bfloat(tk_get(copy, TK_BF16, i) - tk_get(x, TK_BF16, i));
        sum += g[i] * g[i];
    }
    return sum;
}

static void mixed_step(tempo_session *s, const uint16_t x[2][N], adamw exact[2], int t) {
    static const char *const weights[] = {"w", "u"}, *const copies[] = {"c", "d"};
    double g[2][N], sum = 0;
    tempo_tensor norm;
    for (int k = 0; k < 2; k++)
        sum += gradients_by_hand(g[k], kept(s, copies[k]), x[k]);
    const double scale = fmin(1, 0.5 / (sqrt(sum) + 1e-6));
    if (tempo_run(s) != TEMPO_OK)
        fail_msg("%s", tempo_message(s));
    assert_int_equal(tempo_output(s, "norm", &norm), TEMPO_OK);
    assert_true(fabs((double)*(const float *)norm.data - sqrt(sum)) <= 1e-6 * sqrt(sum));
    for (int k = 0; k < 2; k++) {
        float w[N];
        memcpy(w, kept(s, weights[k]), sizeof w);
        const void *copy = kept(s, copies[k]);
        for (int i = 0; i < N; i++) {
            update_by_hand(&exact[k], i, scale * g[k][i], t);
            assert_true(fabs((double)w[i] - exact[k].w[i]) <= 1e-5);
            assert_true(tk_get(copy, TK_BF16, i) == in_bfloat((double)w[i]));
        }
    }
}

TEST(weights_are_kept_twice) {
    static const char *const names[][2] = {{"w2", "w"}, {"u2", "u"}, {"v2", "v"}, {"m2", "m"}, {"h2", "h"},
                                           {"k2", "k"}, {"c2", "c"}, {"d2", "d"}, {"t2", "t"}};
    const rt_hooks hooks = {.upgrade = tc_upgrade_model, .body = tc_body_for, .device = TEST_DEVICE};
    const int64_t one_dim[] = {N}, two_dims[] = {2, N / 2};
    const float zero[N] = {0}, rate = (float)RATE;
    uint16_t x[2][N];
    adamw exact[2] = {0};
    tempo_session *s = open_with(&hooks, "[\"\" : 21, \"ai.tempo\" : 1]", mixed_graph, 2);
    for (int i = 0; i < 2 * N; i++)
        tk_put(x, TK_BF16, i, (double)(i % 5 - 2) * 0.7);
    for (size_t i = 0; i < TC_COUNT(names); i++)
        assert_int_equal(tempo_keep(s, names[i][0], names[i][1]), TEMPO_OK);
    for (size_t i = 0; i < TC_COUNT(names) - 1; i++) {
        const bool copy = i >= 6, flat = i % 2 == 0;
        const tempo_tensor first = {copy ? TEMPO_BFLOAT16 : TEMPO_FLOAT, flat ? 1 : 2, flat ? one_dim : two_dims,
                                    (void *)(uintptr_t)zero, copy ? N * 2 : sizeof zero};
        assert_int_equal(tempo_set_state(s, names[i][1], &first), TEMPO_OK);
    }
    assert_int_equal(tempo_bind(s, "x", &(tempo_tensor){TEMPO_BFLOAT16, 1, one_dim, x[0], sizeof x[0]}), TEMPO_OK);
    assert_int_equal(tempo_bind(s, "y", &(tempo_tensor){TEMPO_BFLOAT16, 2, two_dims, x[1], sizeof x[1]}), TEMPO_OK);
    assert_int_equal(
        tempo_bind(s, "rate", &(tempo_tensor){TEMPO_FLOAT, 0, NULL, (void *)(uintptr_t)&rate, sizeof rate}), TEMPO_OK);
    for (int t = 1; t <= STEPS; t++)
        mixed_step(s, x, exact, t);
    tempo_memory memory;
    assert_int_equal(tempo_memory_report(s, &memory), TEMPO_OK);
    assert_int_equal(memory.state, 9 * 64); /* one place each */
    tempo_close(s);
}
