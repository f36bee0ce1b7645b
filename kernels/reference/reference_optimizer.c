/* reference_optimizer.c: updates and the norm of all gradients, one element at a time, in double precision. */
#include "../queue.h"
#include "reference.h"
#include <math.h>

/* The numbers that an update's formulas name. */
typedef struct update_terms {
    double rate, step, scale, a, b; /* a, b: 1 - alpha^T, 1 - beta^T, or 1 */
    bool is_way;                    /* of LAMB: new_weight returns the step of the weight */
} update_terms;

static void put_state(const tk_update_tensor *tensor, int s, tk_dtype dtype, int64_t i, double value) {
    if (tensor->state_new[s])
        tk_put(tensor->state_new[s], dtype, i, value);
}

/* x_new at element i, with the new states put where they go. */
static double new_weight(const tk_update_op *u, const update_terms *t, const tk_update_tensor *tensor, int64_t i) {
    double x = tk_get(tensor->x, u->dtype, i),
           first = tk_states_of(u->rule) == 0 ? 0 : tk_get(tensor->state[0], u->dtype, i),
           g = t->scale * tk_get(tensor->g.data, tensor->g.dtype, i) + u->norm_coefficient * x, v, h;
    switch (u->rule) {
    case TK_ADAGRAD:
        h = first + g * g;
        put_state(tensor, 0, u->dtype, i, h);
        return x - t->rate / (1 + t->step * u->decay_factor) * g / (sqrt(h) + u->epsilon);
    case TK_MOMENTUM:
    case TK_NESTEROV:
        v = u->alpha * first + (t->step > 0 ? u->beta : 1) * g;
        put_state(tensor, 0, u->dtype, i, v);
        return x - t->rate * (u->rule == TK_NESTEROV ? g + u->alpha * v : v);
    case TK_SGD: return x - t->rate * g;
    case TK_SUM: return (t->step > 0 ? x : 0) + (t->rate != 0 ? t->rate * g : 0);
    case TK_LAMB:
    case TK_ADAM:
    case TK_ADAMW: break;
    }
    v = u->alpha * first + (1 - u->alpha) * g;
    h = u->beta * tk_get(tensor->state[1], u->dtype, i) + (1 - u->beta) * g * g;
    const double way = v / t->a / (sqrt(h / t->b) + u->epsilon) + u->weight_decay * x;
    if (t->is_way)
        return way;
    put_state(tensor, 0, u->dtype, i, v);
    put_state(tensor, 1, u->dtype, i, h);
    if (u->rule == TK_LAMB)
        return x - t->rate * way;
    if (u->rule == TK_ADAM)
        return (1 - u->norm_coefficient_post) * (x - t->rate * sqrt(t->b) / t->a * v / (sqrt(h) + u->epsilon));
    return (1 - t->rate * u->weight_decay) * x - t->rate / t->a * v / (sqrt(h / t->b) + u->epsilon);
}

/* x at element i, with the old states put where the new ones go. */
static double old_weight(const tk_update_op *u, const tk_update_tensor *tensor, int64_t i) {
    for (int s = 0; s < tk_states_of(u->rule); s++)
        put_state(tensor, s, u->dtype, i, tk_get(tensor->state[s], u->dtype, i));
    return tk_get(tensor->x, u->dtype, i);
}

static update_terms terms_of(const tk_update_op *u) {
    const double step = (double)*u->step;
    return (update_terms){.rate = tk_number_get(u->rate),
                          .step = step,
                          .scale = tk_number_get(u->scale),
                          .a = step > 0 ? 1 - pow(u->alpha, step) : 1,
                          .b = step > 0 ? 1 - pow(u->beta, step) : 1};
}

static void update_tensor(tk_queue *q, const tk_update_op *u, const update_terms *t, const tk_update_tensor *tensor) {
    const bool stays = u->waits && *u->step < 0;
    for (int64_t i = 0; i < tensor->g.n; i++) {
        if (!stays && u->rule != TK_SUM && !isfinite(tk_get(tensor->g.data, tensor->g.dtype, i)))
            tk_fault(q, TK_NOT_FINITE);
        const double x = stays ? old_weight(u, tensor, i) : new_weight(u, t, tensor, i);
        if (tensor->x_new)
            tk_put(tensor->x_new, u->dtype, i, x);
        if (tensor->copy)
            tk_put(tensor->copy, u->copy_dtype, i, (double)(float)x);
    }
}

void tk_reference_update(tk_queue *q, const tk_update_op *u, const tk_update_tensor *tensors, int64_t count,
                         void *workspace) {
    const update_terms t = terms_of(u);
    (void)workspace;
    for (int64_t k = 0; k < count; k++)
        update_tensor(q, u, &t, &tensors[k]);
}

void tk_reference_lamb(tk_queue *q, const tk_update_op *u, const tk_update_tensor *tensor, void *workspace) {
    update_terms t = terms_of(u);
    double x_squares = 0, way_squares = 0;
    (void)workspace;
    t.is_way = true;
    for (int64_t i = 0; i < tensor->g.n; i++) {
        const double x = tk_get(tensor->x, u->dtype, i), way = new_weight(u, &t, tensor, i);
        x_squares += x * x;
        way_squares += way * way;
    }
    t.is_way = false;
    if (x_squares > 0 && way_squares > 0)
        t.rate *= sqrt(x_squares / way_squares);
    update_tensor(q, u, &t, tensor);
}

void tk_reference_global_norm(tk_queue *q, void *norm, void *scale, double max_norm, const tk_gradient *gradients,
                              int64_t count, tk_dtype dtype, void *workspace) {
    double sum = 0;
    (void)q, (void)workspace;
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = 0; i < gradients[k].n; i++) {
            const double g = tk_get(gradients[k].data, gradients[k].dtype, i);
            sum += g * g;
        }
    const double all = sqrt(sum), clipped = max_norm / (all + 1e-6);
    tk_put(norm, dtype, 0, all);
    if (scale)
        tk_put(scale, dtype, 0, clipped > 1 ? 1 : clipped);
}
