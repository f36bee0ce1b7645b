/* update_tmpl.h: weights, gradients, state [n] -> weights, state [n].
 * Updates of one type, float or double. Set before including: T, SUFFIX. Declares update_SUFFIX, a part of one tensor.
 * */
#define FN(name) TK_CAT(name, SUFFIX)

#define STEP(rule, RULE)                                                                                               \
    TK_VECTOR static void FN(rule)(T *restrict x, const T *restrict g, T *restrict v, T *restrict h, int64_t n,        \
                                   const FN(tk_update_numbers) * k) {                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T state[TK_STATES] = {v[i], h[i]};                                                                         \
            x[i] = FN(tk_update_element)(RULE, k, x[i], g[i], state);                                                  \
            v[i] = state[0];                                                                                           \
            h[i] = state[1];                                                                                           \
        }                                                                                                              \
    }
STEP(adagrad, TK_ADAGRAD)
STEP(adam, TK_ADAM)
STEP(adamw, TK_ADAMW)
STEP(momentum, TK_MOMENTUM)
STEP(nesterov, TK_NESTEROV)
STEP(sgd, TK_SGD)
STEP(lamb, TK_LAMB)
STEP(sum, TK_SUM)
#undef STEP

TK_VECTOR static bool FN(are_finite)(const T *x, int64_t n) {
    int others = 0;
    for (int64_t i = 0; i < n; i++)
        others |= x[i] - x[i] != 0;
    return !others;
}

/* n elements, at most BLOCK, from `at` on. */
static void FN(load)(const tk_update_tensor *tensor, int states, int64_t at, int64_t n, T *x, T *g, T (*state)[BLOCK]) {
    const size_t bytes = (size_t)n * sizeof(T);
    memcpy(x, (const T *)tensor->x + at, bytes);
    if (sizeof(T) == sizeof(float) && tk_is_half(tensor->g.dtype))
        tk_widen((void *)g, (const uint16_t *)tensor->g.data + at, n, tensor->g.dtype);
    else
        memcpy(g, (const T *)tensor->g.data + at, bytes);
    for (int s = 0; s < states; s++)
        memcpy(state[s], (const T *)tensor->state[s] + at, bytes);
}

/* Adds to `sums` the squares of the weights of [begin, end) and of LAMB's steps. */
static void FN(lamb_squares)(const tk_update_numbers *numbers, const tk_update_tensor *tensor, int64_t begin,
                             int64_t end, double *sums) {
    const FN(tk_update_numbers) k = FN(tk_update_rounded)(numbers);
    T x[BLOCK], g[BLOCK], state[TK_STATES][BLOCK];
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = end - at < BLOCK ? end - at : BLOCK;
        FN(load)(tensor, TK_STATES, at, n, x, g, state);
        for (int64_t i = 0; i < n; i++) {
            T own[TK_STATES] = {state[0][i], state[1][i]};
            const double way = (double)FN(tk_lamb_way)(&k, x[i], g[i], own);
            sums[0] += (double)x[i] * (double)x[i];
            sums[1] += way * way;
        }
    }
}

/* Elements [begin, end): blocks on the stack, so that results may lie over operands. */
static void FN(update)(tk_queue *q, const tk_update_op *u, const tk_update_numbers *numbers,
                       const tk_update_tensor *tensor, int64_t begin, int64_t end) {
    static void (*const steps[])(T *, const T *, T *, T *, int64_t, const FN(tk_update_numbers) *) = {
        FN(adagrad), FN(adam), FN(adamw), FN(momentum), FN(nesterov), FN(sgd), FN(lamb), FN(sum)};
    const FN(tk_update_numbers) k = FN(tk_update_rounded)(numbers);
    const int states = tk_states_of(u->rule);
    T x[BLOCK], g[BLOCK], state[TK_STATES][BLOCK] = {{0}};
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = end - at < BLOCK ? end - at : BLOCK;
        const size_t bytes = (size_t)n * sizeof(T);
        FN(load)(tensor, states, at, n, x, g, state);
        const bool usable = k.stays || u->rule == TK_SUM || FN(are_finite)(g, n);
        if (!usable)
            tk_fault(q, TK_NOT_FINITE);
        if (usable && !k.stays) /* the cause of a bad gradient is looked for on the old weight */
            steps[u->rule](x, g, state[0], state[1], n, &k);
        if (tensor->x_new)
            memcpy((T *)tensor->x_new + at, x, bytes);
        for (int s = 0; s < states; s++)
            if (tensor->state_new[s])
                memcpy((T *)tensor->state_new[s] + at, state[s], bytes);
        if (sizeof(T) == sizeof(float) && tensor->copy)
            tk_narrow((uint16_t *)tensor->copy + at, (const void *)x, n, u->copy_dtype);
    }
}
#undef FN
#undef T
#undef SUFFIX
