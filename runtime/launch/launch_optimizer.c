/* launch_optimizer.c: optimizers, (R, T, X..., G..., state..., Scale?) to (X..., state..., Copy...), and the norm of
 * all gradients to the kernels of kernels/optimizer. */
#include "compiler/ir/ops.h"
#include "kernels/optimizer/optimizer.h"
#include "launch_util.h"
#include <string.h>

/* Tensors are grouped by the type of their weights, one call for each type that there is. */
static const tk_dtype weight_types[] = {TK_F32, TK_F64};
enum { TYPES = 2 };

typedef struct update_params {
    tk_update_op update;
    tk_update_tensor *tensors; /* with the addresses of this run */
    uint32_t *place;           /* [n] of each tensor among these */
    uint32_t n, n_of[TYPES];
} update_params;

enum { R, T, X };

/* Group k of n operands after R and T: X, G, states. */
static const rt_arg *operand_of(const rt_launch *launch, const update_params *p, int k, uint32_t i) {
    return &launch->in[X + (uint32_t)k * p->n + i];
}

/* Group k of n results: X, states, copies; NULL where unused. */
static void *result_of(const rt_launch *launch, const update_params *p, int k, uint32_t i) {
    return rt_data(rt_out(launch, (uint32_t)k * p->n + i));
}

static void run_update(tk_queue *q, const rt_launch *launch) {
    const update_params *p = launch->params;
    tk_update_op u = p->update;
    const int states = tk_states_of(u.rule);
    u.rate.data = launch->in[R].data;
    u.step = launch->in[T].data;
    if (u.scale.dtype)
        u.scale.data = launch->in[launch->n_in - 1].data;
    for (uint32_t i = 0; i < p->n; i++) {
        tk_update_tensor *t = &p->tensors[p->place[i]];
        t->x = operand_of(launch, p, 0, i)->data;
        t->g.data = operand_of(launch, p, 1, i)->data;
        t->x_new = result_of(launch, p, 0, i);
        t->copy = result_of(launch, p, 1 + states, i);
        for (int s = 0; s < states; s++) {
            t->state[s] = operand_of(launch, p, 2 + s, i)->data;
            t->state_new[s] = result_of(launch, p, 1 + s, i);
        }
    }
    for (uint32_t type = 0, first = 0; type < TYPES; first += p->n_of[type++]) {
        u.dtype = weight_types[type];
        for (uint32_t i = first; u.rule == TK_LAMB && i < first + p->n_of[type]; i++)
            launch->kernels->lamb(q, &u, &p->tensors[i], launch->workspace);
        if (u.rule == TK_LAMB)
            continue;
        if (p->n_of[type] > 0)
            launch->kernels->update(q, &u, p->tensors + first, p->n_of[type], launch->workspace);
    }
}

static tk_rule rule_of(const tc_node *node) {
    static const struct {
        const char *op;
        tk_rule rule;
    } rules[] = {{"Adagrad", TK_ADAGRAD}, {"Adam", TK_ADAM},      {"AdamW", TK_ADAMW}, {"Momentum", TK_MOMENTUM},
                 {"Sgd", TK_SGD},         {"Accumulate", TK_SUM}, {"Lamb", TK_LAMB}};
    tk_rule rule = TK_ADAGRAD;
    for (size_t i = 0; i < TC_COUNT(rules); i++)
        if (strcmp(node->op->name, rules[i].op) == 0)
            rule = rules[i].rule;
    bool ahead = rule == TK_MOMENTUM && strcmp(tc_attr_string(node, "mode", ""), "nesterov") == 0;
    return ahead ? TK_NESTEROV : rule;
}

static tk_update_op read_update(const tc_node *node, tk_dtype rate) {
    const tk_rule rule = rule_of(node);
    const bool is_adamw = rule == TK_ADAMW;
    return (tk_update_op){
        .rule = rule,
        .copy_dtype = (tk_dtype)tc_attr_int(node, "copy_type", 0),
        .waits = tc_attr_int(node, "waits", 0) != 0,
        .rate = {.dtype = rate},
        .scale = {.otherwise = 1},
        .alpha = (double)tc_attr_float(node, "alpha", 0.9f),
        .beta = (double)tc_attr_float(node, "beta", 0.999f),
        .epsilon = (double)tc_attr_float(node, "epsilon", is_adamw ? 1e-8f : 1e-6f),
        .norm_coefficient = (double)tc_attr_float(node, "norm_coefficient", 0),
        .norm_coefficient_post = (double)tc_attr_float(node, "norm_coefficient_post", 0),
        .weight_decay = (double)tc_attr_float(node, "weight_decay", 0.01f),
        .decay_factor = (double)tc_attr_float(node, "decay_factor", 0),
    };
}

/* Operands of tensor i fit together. */
static bool fits(const rt_launch *launch, const update_params *p, uint32_t i) {
    const rt_arg *x = operand_of(launch, p, 0, i);
    bool fit = x->present;
    for (int k = 1; k < 2 + tk_states_of(p->update.rule); k++) {
        const rt_arg *other = operand_of(launch, p, k, i);
        bool narrow = k == 1 && x->dtype == TK_F32 && tk_is_half(other->dtype);
        fit = fit && other->present && other->count == x->count && (narrow || other->dtype == x->dtype);
    }
    return fit;
}

static tc_status place_tensors(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, update_params *p) {
    p->tensors = TC_NEW_ARRAY(launcher->arena, tk_update_tensor, (size_t)p->n + 1);
    p->place = TC_NEW_ARRAY(launcher->arena, uint32_t, (size_t)p->n + 1);
    uint32_t placed = 0;
    for (uint32_t i = 0; i < p->n; i++)
        TC_TRY(rt_expect(launcher, node, fits(launch, p, i)));
    for (uint32_t type = 0; type < TYPES; type++)
        for (uint32_t i = 0; i < p->n; i++) {
            const rt_arg *x = operand_of(launch, p, 0, i), *g = operand_of(launch, p, 1, i);
            if (x->dtype != weight_types[type])
                continue;
            p->tensors[placed].g = (tk_gradient){.n = x->count, .dtype = g->dtype};
            p->place[i] = placed++;
            p->n_of[type]++;
        }
    return placed == p->n ? TC_OK : rt_no_kernel(launcher, node, launch);
}

/* New weights and states may lie over the old ones. */
static const uint32_t *places_of(rt_launcher *launcher, const rt_launch *launch, const update_params *p) {
    uint32_t *over = TC_NEW_ARRAY(launcher->arena, uint32_t, (size_t)launch->n_out + 1);
    const uint32_t kept = (1 + (uint32_t)tk_states_of(p->update.rule)) * p->n;
    for (uint32_t k = 0; k < launch->n_out; k++)
        over[k] = k < p->n ? X + k : k < kept ? X + p->n + k : UINT32_MAX;
    return over;
}

static size_t workspace_of(const rt_launcher *launcher, const update_params *p) {
    int64_t most = 0;
    if (p->update.rule != TK_LAMB)
        return launcher->kernels->update_workspace(&p->update);
    for (uint32_t i = 0; i < p->n; i++)
        most = p->tensors[i].g.n > most ? p->tensors[i].g.n : most;
    return launcher->kernels->lamb_workspace(most);
}

tc_status rt_launch_optimizer(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    update_params *p = RT_PARAMS(launcher, update_params);
    p->update = read_update(node, launch->in[R].dtype);
    const uint32_t each = 2 + (uint32_t)tk_states_of(p->update.rule), rest = (launch->n_in - X) % each;
    p->n = (launch->n_in - X) / each;
    TC_TRY(rt_expect(launcher, node, rest <= 1 && launch->in[R].count == 1 && launch->in[T].count == 1));
    if (rest == 1) {
        const rt_arg *scale = &launch->in[launch->n_in - 1];
        TC_TRY(rt_expect(launcher, node, scale->count == 1 && tk_is_float(scale->dtype)));
        p->update.scale.dtype = scale->dtype;
    }
    if (launch->in[T].dtype != TK_I64)
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(place_tensors(launcher, node, launch, p));
    launch->params = p;
    launch->run = run_update;
    launch->workspace_bytes = workspace_of(launcher, p);
    launch->over = places_of(launcher, launch, p);
    return TC_OK;
}

uint32_t rt_gradient_operands(const tc_node *node, uint32_t *out_first) {
    const rt_kernel_row *row = rt_kernel_for(node);
    *out_first = 0;
    if (!row || row->launch != rt_launch_optimizer || node->n_inputs < X || rule_of(node) == TK_SUM)
        return 0;
    const uint32_t n = (node->n_inputs - X) / (2 + (uint32_t)tk_states_of(rule_of(node)));
    *out_first = X + n;
    return n;
}

/* --- the norm of all gradients ------------------------------------------------------------------ */

typedef struct norm_params {
    tk_gradient *gradients; /* with the addresses of this run */
    double max_norm;
} norm_params;

static void run_norm(tk_queue *q, const rt_launch *launch) {
    const norm_params *p = launch->params;
    for (uint32_t i = 0; i < launch->n_in; i++)
        p->gradients[i].data = launch->in[i].data;
    launch->kernels->global_norm(q, launch->out[0].data, rt_data(rt_out(launch, 1)), p->max_norm, p->gradients,
                                 launch->n_in, launch->out[0].dtype, launch->workspace);
}

tc_status rt_launch_global_norm(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    norm_params *p = RT_PARAMS(launcher, norm_params);
    p->gradients = TC_NEW_ARRAY(launcher->arena, tk_gradient, (size_t)launch->n_in + 1);
    p->max_norm = (double)tc_attr_float(node, "max_norm", 1);
    for (uint32_t i = 0; i < launch->n_in; i++) {
        TC_TRY(rt_expect(launcher, node, rt_in(launch, i) && tk_is_float(launch->in[i].dtype)));
        p->gradients[i] = (tk_gradient){.n = launch->in[i].count, .dtype = launch->in[i].dtype};
    }
    launch->params = p;
    launch->run = run_norm;
    launch->workspace_bytes = launcher->kernels->global_norm_workspace(p->gradients, launch->n_in);
    return TC_OK;
}
