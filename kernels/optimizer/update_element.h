/* update_element.h: one element of an update, in the type T with SUFFIX, which are set before including. Each operation
 * is rounded as a node of the op's function body is. */
#define FN(name) TK_CAT(name, SUFFIX)

/* tk_update_numbers, rounded. */
typedef struct FN(tk_update_numbers) {
    T alpha, alpha_rest, beta, beta_rest, epsilon, coefficient, rate, kept, share, scale, first;
    bool stays, begins;
} FN(tk_update_numbers);

TK_INLINE FN(tk_update_numbers) FN(tk_update_rounded)(const tk_update_numbers *k) {
    FN(tk_update_numbers)
    rounded = {(T)k->alpha,       (T)k->alpha_rest, (T)k->beta, (T)k->beta_rest, (T)k->epsilon,
               (T)k->coefficient, (T)k->rate,       (T)k->kept, (T)k->share,     (T)k->scale,
               (T)k->first,       k->stays,         k->begins};
    return rounded;
}

TK_INLINE void FN(tk_average)(const FN(tk_update_numbers) * k, T g, T *state) {
    state[0] = k->alpha * state[0] + k->alpha_rest * g;
    state[1] = k->beta * state[1] + k->beta_rest * (g * g);
}

/* LAMB's step for a weight, before the norms; `state`, V and H, becomes the new one. */
TK_INLINE T FN(tk_lamb_way)(const FN(tk_update_numbers) * k, T x, T gradient, T *state) {
    FN(tk_average)(k, k->scale * gradient, state);
    return state[0] / k->first / (FN(tk_sqrt)(state[1]) / k->share + k->epsilon) + k->kept * x;
}

/* The new weight; `state`, V and H in this order, becomes the new one. */
TK_INLINE T FN(tk_update_element)(tk_rule rule, const FN(tk_update_numbers) * k, T x, T gradient, T *state) {
    T g = k->scale * gradient;
    if (k->coefficient != 0)
        g = k->coefficient * x + g;
    switch (rule) {
    case TK_ADAGRAD: state[0] = state[0] + g * g; return x - k->rate * g / (FN(tk_sqrt)(state[0]) + k->epsilon);
    case TK_MOMENTUM:
    case TK_NESTEROV:
        state[0] = k->alpha * state[0] + k->share * g;
        return x - k->rate * (rule == TK_NESTEROV ? g + k->alpha * state[0] : state[0]);
    case TK_SGD: return x - k->rate * g;
    case TK_SUM: return (k->begins ? 0 : x) + (k->rate != 0 ? k->rate * g : 0);
    case TK_LAMB: return x - k->rate * FN(tk_lamb_way)(k, x, gradient, state);
    case TK_ADAM:
    case TK_ADAMW: break;
    }
    FN(tk_average)(k, g, state);
    T root = FN(tk_sqrt)(state[1]);
    if (rule == TK_ADAM)
        return k->kept * (x - k->rate * state[0] / (root + k->epsilon));
    return k->kept * x - k->rate * state[0] / (root / k->share + k->epsilon);
}
#undef FN
#undef T
#undef SUFFIX
