/* test_update.c: updates of many tensors and the norm of all gradients by the CPU's kernels, against the papers'
 * algorithms in loops of double: between guard bands, over their operands, the same bits at 1 and 3 threads. */
#include "test/unit/kernel_test.h"
#include "kernels/optimizer/optimizer.h"

enum { TENSORS = 5, MOST = 20011 };
static const int64_t sizes[TENSORS] = {1, 0, 513, MOST, 4096};
static const tk_dtype types[TENSORS] = {TK_F32, TK_BF16, TK_F16, TK_BF16, TK_F32};

typedef struct tensors {
    tk_update_tensor at[TENSORS];
    tk_dtype dtype;
} tensors;

static void *filled(tk_dtype dtype, int64_t n, uint64_t seed, bool square) {
    void *data = alloc_guarded((size_t)n * tk_size(dtype), tk_size(dtype));
    for (int64_t i = 0; i < n; i++) {
        double x = any_number(&seed);
        tk_put(data, dtype, i, square ? x * x : x);
    }
    return data;
}

static tensors make(tk_dtype dtype) {
    tensors t = {.dtype = dtype};
    for (int k = 0; k < TENSORS; k++) {
        tk_update_tensor *u = &t.at[k];
        u->g.n = sizes[k];
        u->g.dtype = dtype == TK_F64 ? TK_F64 : types[k];
        u->g.data = filled(u->g.dtype, sizes[k], 7 + (uint64_t)k, false);
        u->x_new = filled(dtype, sizes[k], 17 + (uint64_t)k, false);
        u->state_new[0] = filled(dtype, sizes[k], 27 + (uint64_t)k, true);
        u->state_new[1] = filled(dtype, sizes[k], 37 + (uint64_t)k, true);
        u->copy = dtype == TK_F32 ? filled(TK_BF16, sizes[k], 0, false) : NULL;
        u->x = u->x_new, u->state[0] = u->state_new[0], u->state[1] = u->state_new[1];
    }
    return t;
}

static void give_back(tensors *t) {
    for (int k = 0; k < TENSORS; k++) {
        const size_t n = (size_t)sizes[k];
        union {
            const void *in;
            void *out;
        } g = {t->at[k].g.data};
        free_guarded(g.out, n * tk_size(t->at[k].g.dtype));
        free_guarded(t->at[k].x_new, n * tk_size(t->dtype));
        free_guarded(t->at[k].state_new[0], n * tk_size(t->dtype));
        free_guarded(t->at[k].state_new[1], n * tk_size(t->dtype));
        if (t->at[k].copy)
            free_guarded(t->at[k].copy, 2 * n);
    }
}

/* One element by hand; m and v are what the rule keeps. The papers: Duchi et al. (Adagrad), Kingma and Ba (Adam),
 * Loshchilov and Hutter (AdamW), Sutskever et al. (momentum). */
static double by_hand(const tk_update_op *u, double rate, double scale, int64_t step, double x, double g, double *m,
                      double *v) {
    const double a = u->alpha, b = u->beta, t = (double)step;
    g = g * scale + u->norm_coefficient * x;
    switch (u->rule) {
    case TK_ADAGRAD: *m += g * g; return x - rate / (1 + t * u->decay_factor) * g / (sqrt(*m) + u->epsilon);
    case TK_MOMENTUM: *m = a * *m + (step > 0 ? b : 1) * g; return x - rate * *m;
    case TK_NESTEROV: *m = a * *m + (step > 0 ? b : 1) * g; return x - rate * (g + a * *m);
    case TK_SGD: return x - rate * g;
    case TK_SUM: return (step > 0 ? x : 0) + rate * g;
    case TK_LAMB:
    case TK_ADAM:
    case TK_ADAMW: break;
    }
    *m = a * *m + (1 - a) * g;
    *v = b * *v + (1 - b) * g * g;
    const double for_m = step > 0 ? 1 - pow(a, t) : 1, for_v = step > 0 ? 1 - pow(b, t) : 1;
    if (u->rule == TK_ADAM)
        return (x - rate * sqrt(for_v) / for_m * *m / (sqrt(*v) + u->epsilon)) * (1 - u->norm_coefficient_post);
    return x * (1 - rate * u->weight_decay) - rate * (*m / for_m) / (sqrt(*v / for_v) + u->epsilon);
}

static void near(const void *got, tk_dtype dtype, int64_t i, double exact) {
    const double error = dtype == TK_F64 ? 1e-14 : dtype == TK_BF16 ? 0.0040 : 1e-6; /* bfloat16: half of 2^-7 */
    if (!(fabs(tk_get(got, dtype, i) - exact) <= error * (fabs(exact) + (dtype == TK_BF16 ? 0 : 1))))
        fail_msg("element %lld is %.9g, expected %.9g", (long long)i, tk_get(got, dtype, i), exact);
}

static void compare(const tensors *before, const tensors *after, const tk_update_op *u, double rate, double scale) {
    for (int k = 0; k < TENSORS; k++) {
        const tk_update_tensor *from = &before->at[k], *to = &after->at[k];
        for (int64_t i = 0; i < sizes[k]; i++) {
            double m = tk_get(from->state[0], u->dtype, i), v = tk_get(from->state[1], u->dtype, i);
            const double x = by_hand(u, rate, scale, *u->step, tk_get(from->x, u->dtype, i),
                                     tk_get(from->g.data, from->g.dtype, i), &m, &v);
            near(to->x_new, u->dtype, i, x);
            near(to->state_new[0], u->dtype, i, m);
            near(to->state_new[1], u->dtype, i, v); /* where there is none, as it was */
            if (to->copy)
                near(to->copy, TK_BF16, i, tk_get(to->x_new, TK_F32, i));
        }
    }
}

static void one_rule(tk_rule rule, tk_dtype dtype, int64_t step) {
    const double scale = 0.25;
    const tk_update_op u = {.rule = rule,
                            .dtype = dtype,
                            .copy_dtype = TK_BF16,
                            .rate = number(0.01),
                            .scale = {.data = &scale, .dtype = TK_F64},
                            .step = &step,
                            .alpha = 0.9,
                            .beta = 0.999,
                            .epsilon = 1e-6,
                            .norm_coefficient = 0.1,
                            .norm_coefficient_post = 0.02,
                            .weight_decay = 0.1,
                            .decay_factor = 0.3};
    tensors before = make(dtype), one = make(dtype), three = make(dtype);
    use_threads(1);
    tk_update(queue(), &u, one.at, TENSORS, NULL);
    use_threads(3);
    tk_update(queue(), &u, three.at, TENSORS, NULL);
    for (int k = 0; k < TENSORS; k++) {
        const size_t bytes = (size_t)sizes[k] * tk_size(dtype);
        assert_memory_equal(one.at[k].x_new, three.at[k].x_new, bytes);
        assert_memory_equal(one.at[k].state_new[0], three.at[k].state_new[0], bytes);
        assert_memory_equal(one.at[k].state_new[1], three.at[k].state_new[1], bytes);
    }
    compare(&before, &one, &u, 0.01, scale);
    give_back(&before), give_back(&one), give_back(&three);
}

TEST(updates) {
    for (int rule = TK_ADAGRAD; rule <= TK_SUM; rule++)
        for (int64_t step = 0; step < 1000000 && rule != TK_LAMB; step = 30 * step + 1) {
            one_rule((tk_rule)rule, TK_F32, step);
            one_rule((tk_rule)rule, TK_F64, step);
        }
}

/* One tensor by LAMB, and its norms; results over operands. */
static void lamb_of(tk_dtype dtype, int64_t step) {
    const tk_update_op u = {.rule = TK_LAMB,
                            .dtype = dtype,
                            .rate = number(0.01),
                            .scale = number(0.25),
                            .step = &step,
                            .alpha = 0.9,
                            .beta = 0.999,
                            .epsilon = 1e-6,
                            .weight_decay = 0.1};
    const double a = step > 0 ? 1 - pow(0.9, (double)step) : 1, b = step > 0 ? 1 - pow(0.999, (double)step) : 1;
    tensors before = make(dtype), after = make(dtype);
    for (int k = 0; k < TENSORS; k++) {
        const tk_update_tensor *from = &before.at[k], *to = &after.at[k];
        void *workspace = malloc(tk_lamb_workspace(sizes[k]) + 1);
        double x_squares = 0, way_squares = 0, ratio = 1;
        use_threads(1 + k % 3);
        tk_lamb(queue(), &u, to, workspace);
        free(workspace);
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t i = 0; i < sizes[k]; i++) {
                const double x = tk_get(from->x, dtype, i), g = 0.25 * tk_get(from->g.data, from->g.dtype, i);
                const double m = 0.9 * tk_get(from->state[0], dtype, i) + (1 - 0.9) * g,
                             v = 0.999 * tk_get(from->state[1], dtype, i) + (1 - 0.999) * g * g,
                             way = m / a / (sqrt(v / b) + 1e-6) + 0.1 * x;
                x_squares += x * x;
                way_squares += way * way;
                if (pass == 0)
                    continue;
                near(to->x_new, dtype, i, x - 0.01 * ratio * way);
                near(to->state_new[0], dtype, i, m);
                near(to->state_new[1], dtype, i, v);
            }
            ratio = x_squares > 0 && way_squares > 0 ? sqrt(x_squares / way_squares) : 1;
        }
    }
    give_back(&before), give_back(&after);
}

TEST(lamb) {
    for (int64_t step = 0; step < 1000; step = 30 * step + 1) {
        lamb_of(TK_F32, step);
        lamb_of(TK_F64, step);
    }
}

static void spoil(tensors *t) {
    union {
        const void *in;
        void *out;
    } g = {t->at[3].g.data};
    tk_put(g.out, t->at[3].g.dtype, MOST - 1, (double)INFINITY);
}

/* A gradient with infinity at its end: an update that waits leaves all bits as they were; one that does not says so. */
TEST(not_finite) {
    for (int rule = TK_ADAGRAD; rule <= TK_SGD; rule++)
        for (int64_t step = -1; step <= 1; step++) {
            const tk_update_op u = {.rule = (tk_rule)rule,
                                    .dtype = TK_F32,
                                    .copy_dtype = TK_BF16,
                                    .waits = true,
                                    .rate = number(0.01),
                                    .scale = number(1),
                                    .step = &step,
                                    .alpha = 0.9,
                                    .beta = 0.999,
                                    .epsilon = 1e-6};
            tensors before = make(TK_F32), after = make(TK_F32);
            uint32_t launch;
            spoil(&after);
            tk_update(queue(), &u, after.at, TENSORS, NULL);
            assert_int_equal(tk_queue_take_fault(queue(), &launch), step < 0 ? TK_OK : TK_NOT_FINITE);
            for (int k = 0; k < TENSORS && step < 0; k++) {
                const size_t bytes = (size_t)sizes[k] * sizeof(float);
                assert_memory_equal(after.at[k].x_new, before.at[k].x, bytes);
                assert_memory_equal(after.at[k].state_new[0], before.at[k].state[0], bytes);
                assert_memory_equal(after.at[k].state_new[1], before.at[k].state[1], bytes);
                for (int64_t i = 0; i < sizes[k]; i++)
                    near(after.at[k].copy, TK_BF16, i, tk_get(before.at[k].x, TK_F32, i));
            }
            give_back(&before), give_back(&after);
        }
}

static void norm_of(tk_dtype dtype) {
    tensors t = make(dtype);
    tk_gradient gradients[TENSORS];
    double sum = 0, norm[2] = {0}, scale[2] = {0};
    for (int k = 0; k < TENSORS; k++) {
        gradients[k] = t.at[k].g;
        for (int64_t i = 0; i < sizes[k]; i++) {
            const double g = tk_get(t.at[k].g.data, t.at[k].g.dtype, i);
            sum += g * g;
        }
    }
    void *workspace = malloc(tk_global_norm_workspace(gradients, TENSORS));
    for (int run = 0; run < 2; run++) {
        use_threads(1 + 2 * run);
        tk_global_norm(queue(), &norm[run], &scale[run], 3, gradients, TENSORS, dtype, workspace);
    }
    assert_memory_equal(&norm[0], &norm[1], sizeof norm[0]);
    assert_memory_equal(&scale[0], &scale[1], sizeof scale[0]);
    near(norm, dtype, 0, sqrt(sum));
    near(scale, dtype, 0, 3 / (sqrt(sum) + 1e-6));
    tk_global_norm(queue(), norm, scale, 1e6, gradients, TENSORS, dtype, workspace);
    near(scale, dtype, 0, 1);
    free(workspace);
    give_back(&t);
}

TEST(norms) {
    norm_of(TK_F32);
    norm_of(TK_F64);
}
