/* check_optimizer.c: updates of many tensors by every rule on the emulated device, beside the definitions and beside
 * the CPU's bits: all types, odd sizes and addresses, over their operands, more tensors than a launch takes; and the
 * norm of all gradients, the same bits for every grid and address. */
#include "kernels/cuda/cuda_queue.h"
#include "cuda_case.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 600 };

/* A tensor with gradient, states and results, the device's unwritten. */
typedef struct tensor {
    pair x, g, state[TK_STATES], x_new, state_new[TK_STATES], copy;
} tensor;

static tensor tensors[MOST];
static tk_update_tensor built[MOST];

/* What a kernel gets of them on the side that runs. */
static const tk_update_tensor *at_side(int count, int states) {
    for (int i = 0; i < count; i++) {
        const tensor *t = &tensors[i];
        built[i] = (tk_update_tensor){
            .g = {AT(t->g), t->g.n, t->g.dtype}, .x = AT(t->x), .x_new = AT(t->x_new), .copy = AT(t->copy)};
        for (int s = 0; s < states; s++) {
            built[i].state[s] = AT(t->state[s]);
            built[i].state_new[s] = AT(t->state_new[s]);
        }
    }
    return built;
}

/* n elements, `shift` behind a place of 16 bytes; squares are not negative. */
static pair operand(tk_dtype dtype, int64_t n, int64_t shift, bool square) {
    return pair_from(pair_random(dtype, n + shift, square ? 0 : -2, 2), shift);
}

/* Bits of `odd` say which of them begin an element behind such a place. */
enum { ODD_X = 1, ODD_G = 2, ODD_STATE = 4, ODD_NEW = 8, ODD_COPY = 16, ODD_CASES = 6 };

static pair result(tk_dtype dtype, int64_t n, int64_t shift) { return pair_from(pair_result(dtype, n + shift), shift); }

static void make(tensor *t, const tk_update_op *u, tk_dtype g_dtype, int64_t n, int odd) {
    *t = (tensor){.x = operand(u->dtype, n, (odd & ODD_X) != 0, false),
                  .g = operand(g_dtype, n, (odd & ODD_G) != 0, false),
                  .x_new = result(u->dtype, n, 0)};
    for (int s = 0; s < tk_states_of(u->rule); s++) {
        t->state[s] = operand(u->dtype, n, (odd & ODD_STATE) != 0, s == 1 || u->rule == TK_ADAGRAD);
        t->state_new[s] = result(u->dtype, n, (odd & ODD_NEW) != 0);
    }
    if (u->copy_dtype)
        t->copy = result(u->copy_dtype, n, (odd & ODD_COPY) != 0);
}

/* A formula of ten operations; where it subtracts, what is left is as exact as its terms. */
static bounds of(tk_dtype dtype) {
    return tk_is_half(dtype)
               ? (bounds){.ulps = 1}
               : (bounds){.relative = dtype == TK_F64 ? 4e-15 : 2e-6, .absolute = dtype == TK_F64 ? 4e-15 : 2e-6};
}

typedef void (*update_fn)(tk_queue *q, const tk_update_op *u, const tk_update_tensor *t, int64_t n, void *workspace);

/* Where the numbers that all share lie on the side that runs. */
static const tk_update_op *with_numbers(tk_update_op *u, pair rate, pair step, pair scale) {
    u->rate = (tk_number){.data = AT(rate), .dtype = rate.dtype};
    u->scale = (tk_number){.data = scale.n ? AT(scale) : NULL, .dtype = scale.dtype, .otherwise = 1};
    u->step = AT(step);
    return u;
}

static void compare(const tensor *t, const tk_update_op *u, bool same, const char *text) {
    const bounds exact = {0};
    pair_compare(t->x_new, same ? exact : of(u->dtype), "x of %s", text);
    for (int s = 0; s < tk_states_of(u->rule); s++)
        pair_compare(t->state_new[s], same ? exact : of(u->dtype), "state %d of %s", s, text);
    if (t->copy.n)
        pair_compare(t->copy, same ? exact : of(u->copy_dtype), "copy of %s", text);
}

/* By the definition, then the CPU's kernel in its place, then over the operands. */
static void all_of(tk_update_op *u, int count, int64_t t, bool scaled, const char *text) {
    const int states = tk_states_of(u->rule);
    const double scale_number = 0.37, rate_number = 0.01;
    pair rate = pair_numbers(scaled ? TK_F32 : TK_F64, 1, &rate_number), step = pair_of(TK_I64, 1, &t),
         scale = scaled ? pair_numbers(TK_F32, 1, &scale_number) : (pair){.n = 0};
    ON_BOTH(update, with_numbers(u, rate, step, scale), at_side(count, states), count,
            workspace(OF_TABLE(update_workspace)(u)));
    for (int i = 0; i < count; i++)
        compare(&tensors[i], u, false, text);
    side = HOST;
    tk_update(queues[HOST], with_numbers(u, rate, step, scale), at_side(count, states), count, NULL);
    for (int i = 0; i < count; i++)
        compare(&tensors[i], u, true, text);
    for (int i = 0; i < count; i++) {
        const tensor once = tensors[i];
        tensors[i].x_new = once.x;
        for (int s = 0; s < states; s++)
            tensors[i].state_new[s] = once.state[s];
    }
    tk_update(queues[HOST], u, at_side(count, states), count, NULL);
    side = DEVICE;
    tables[DEVICE]->update(queues[DEVICE], with_numbers(u, rate, step, scale), at_side(count, states), count,
                           workspace(OF_TABLE(update_workspace)(u)));
    wait_for_both();
    for (int i = 0; i < count; i++)
        compare(&tensors[i], u, true, "results over operands");
}

static tk_update_op rule_of(tk_rule rule, tk_dtype dtype, tk_dtype copy_dtype, bool all) {
    return (tk_update_op){.rule = rule,
                          .dtype = dtype,
                          .copy_dtype = copy_dtype,
                          .alpha = 0.9,
                          .beta = 0.99,
                          .epsilon = 1e-6,
                          .norm_coefficient = all ? 0.1 : 0,
                          .norm_coefficient_post = all ? 0.05 : 0,
                          .weight_decay = 0.1,
                          .decay_factor = all ? 0.02 : 0};
}

static const tk_dtype narrow[] = {TK_F32, TK_BF16, TK_F16};

static void rules(void) {
    static const int64_t sizes[] = {1, 0, 3, 4, 1029, 8192, 8193};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int rule = TK_ADAGRAD; rule <= TK_SUM; rule++)
        for (int round = 0; round < 4 && rule != TK_LAMB; round++) {
            const bool wide = round == 3;
            const tk_dtype copies[] = {0, TK_BF16, TK_F16, 0};
            tk_update_op u = rule_of((tk_rule)rule, wide ? TK_F64 : TK_F32, copies[round], round % 2 == 1);
            char text[64];
            snprintf(text, sizeof text, "rule %d, round %d", rule, round);
            for (int i = 0; i < SIZES; i++)
                make(&tensors[i], &u, wide ? TK_F64 : narrow[(i + round) % 3], sizes[i],
                     (1 << (i + round) % ODD_CASES) >> 1);
            all_of(&u, SIZES, round * round, round != 2, text);
            pairs_give_back();
        }
}

/* Two launches and a half; of some nobody wants a result. */
static void many(void) {
    tk_update_op u = rule_of(TK_ADAMW, TK_F32, TK_BF16, false);
    for (int i = 0; i < MOST; i++)
        make(&tensors[i], &u, narrow[i % 3], i % 7 * 5, i % 32);
    all_of(&u, MOST, 3, true, "many tensors");
    const double rate_number = 0.5;
    const int64_t t = 1;
    pair rate = pair_numbers(TK_BF16, 1, &rate_number), step = pair_of(TK_I64, 1, &t);
    for (int i = 0; i < MOST; i++) {
        make(&tensors[i], &u, TK_F32, 5, 0);
        memset(tensors[i].x_new.at, 0, sizeof tensors[i].x_new.at);
        memset(tensors[i].state_new[i % 2].at, 0, sizeof tensors[i].state_new[i % 2].at);
        if (i % 3 == 0)
            memset(tensors[i].copy.at, 0, sizeof tensors[i].copy.at);
    }
    ON_BOTH(update, with_numbers(&u, rate, step, (pair){.n = 0}), at_side(MOST, 2), MOST,
            workspace(OF_TABLE(update_workspace)(&u)));
    for (int i = 0; i < MOST; i++) {
        pair_compare(tensors[i].state_new[(i + 1) % 2], of(TK_F32), "the other state of tensor %d", i);
        if (i % 3 != 0)
            pair_compare(tensors[i].copy, of(TK_BF16), "the copy of tensor %d alone", i);
    }
}

/* --- the norm ------------------------------------------------------------------------------------- */

static tk_gradient gradients[MOST];

static const tk_gradient *gradients_at_side(const pair *g, int count) {
    for (int i = 0; i < count; i++)
        gradients[i] = (tk_gradient){AT(g[i]), g[i].n, g[i].dtype};
    return gradients;
}

static void norm_of(const pair *g, int count, double max_norm, pair *norm, pair *scale) {
    const tk_dtype dtype = g[0].dtype == TK_F64 ? TK_F64 : TK_F32;
    *norm = pair_result(dtype, 1), *scale = pair_result(dtype, 1);
    ON_BOTH(global_norm, AT(*norm), AT(*scale), max_norm, gradients_at_side(g, count), count, dtype,
            workspace(OF_TABLE(global_norm_workspace)(gradients, count)));
}

/* Squares are not negative: a sum of n is as exact as one of 16 in float. */
static bounds of_norm(tk_dtype dtype) { return (bounds){.relative = dtype == TK_F64 ? 1e-14 : 1e-6}; }

static void norms(void) {
    static const int64_t sizes[] = {1, 0, 7, 8, 4099, 32768, 32769, 70001};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int round = 0; round < 4; round++) {
        pair g[SIZES], shifted[SIZES], norm, scale, again, scale_again;
        for (int i = 0; i < SIZES; i++) {
            const tk_dtype dtype = round == 3 ? TK_F64 : narrow[(i + round) % 3];
            pair all = pair_random(dtype, sizes[i] + 1, -2, 2);
            g[i] = all, g[i].n = sizes[i];
            shifted[i] = pair_from(pair_result(dtype, sizes[i] + 1), 1);
            for (side = HOST; side < SIDES; side++)
                tables[side]->copy(queues[side], AT(shifted[i]), AT(g[i]), (size_t)sizes[i] * tk_size(dtype));
        }
        norm_of(g, SIZES, round == 1 ? 1e6 : 2.5, &norm, &scale);
        pair_compare(norm, of_norm(norm.dtype), "norm, round %d", round);
        pair_compare(scale, of_norm(norm.dtype), "scale, round %d", round);
        norm_of(shifted, SIZES, round == 1 ? 1e6 : 2.5, &again, &scale_again);
        pair_same(norm, again, "the norm at other addresses");
        pair_same(scale, scale_again, "the scale at other addresses");
        pairs_give_back();
    }
}

/* More tensors than a launch takes, more chunks than a grid of one multiprocessor has blocks; of nothing; no scale. */
static void many_norms(void) {
    static pair g[MOST];
    pair norm, scale, again;
    for (int i = 0; i < MOST; i++)
        g[i] = pair_random(narrow[i % 3], i % 9 * 3, -1, 1);
    g[0] = pair_random(TK_BF16, 36 * 32768 + 5, -1, 1);
    norm_of(g, MOST, 1, &norm, &scale);
    pair_compare(norm, of_norm(TK_F32), "norm of many");
    pair_compare(scale, of_norm(TK_F32), "scale of many");
    tk_cuda *cuda = tk_queue_cuda(queues[DEVICE]);
    const int multiprocessors = cuda->multiprocessors;
    cuda->multiprocessors = multiprocessors == 1 ? 64 : 1;
    norm_of(g, MOST, 1, &again, &scale);
    cuda->multiprocessors = multiprocessors;
    pair_same(norm, again, "the norm on another grid");
    g[0] = pair_random(TK_F32, 0, 0, 1);
    norm = pair_result(TK_F32, 1);
    ON_BOTH(global_norm, AT(norm), NULL, 0, gradients_at_side(g, 1), 1, TK_F32,
            workspace(OF_TABLE(global_norm_workspace)(gradients, 1)));
    pair_compare(norm, (bounds){0}, "norm of nothing");
    const float none[] = {1, NAN};
    g[0] = pair_of(TK_F32, 2, none);
    norm_of(g, 1, 1, &norm, &scale);
    pair_compare(norm, (bounds){0}, "norm of no number");
    pair_compare(scale, (bounds){0}, "scale of no number");
}

const cuda_check checks[] = {
    {"rules", rules}, {"many", many}, {"norms", norms}, {"many_norms", many_norms}, {NULL, NULL}};
