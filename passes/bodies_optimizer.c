/* bodies_optimizer.c: the function bodies of the optimizers (ops.def): Adam, Momentum and Adagrad as the ONNX operators
 * of ai.onnx.preview.training define them, AdamW as its authors do (Loshchilov and Hutter, arXiv 1711.05101, algorithm
 * 2) in PyTorch's form: epsilon is added to the corrected root. Numbers that all tensors share are computed in double
 * precision, elements in their own. `_N`: of N tensors; `r` with norm_coefficient, `p` with norm_coefficient_post, `n`
 * for Nesterov's momentum: what an attribute of 0 leaves out costs no pass over memory. */
#include "bodies.h"
#include <string.h>

/* "X0, X1, G0, G1, ...": one list for each letter. */
static const char *names(tc_body *body, const char *text, const char *letters, const char *suffix, uint32_t n) {
    for (; *letters; letters++)
        for (uint32_t i = 0; i < n; i++)
            text = tc_arena_printf(body->arena, "%s%s%c%u%s", text, *text ? ", " : "", *letters, i, suffix);
    return text;
}

/* `states` are the letters of what the optimizer keeps. Returns how many tensors there are. */
static uint32_t begin(tc_body *body, const char *params, const char *states) {
    const tc_node *node = body->node;
    uint32_t n = (node->n_inputs - 2) / (2 + (uint32_t)strlen(states));
    const char *operands = names(body, names(body, "R, T", "XG", "", n), states, "", n),
               *results = names(body, names(body, "", "X", "_new", n), states, "_new", n);
    tc_body_suffix(body, "_%u", n);
    if (tc_attr_float(node, "norm_coefficient", 0) != 0)
        tc_body_suffix(body, "r");
    if (tc_attr_float(node, "norm_coefficient_post", 0) != 0)
        tc_body_suffix(body, "p");
    if (strcmp(tc_attr_string(node, "mode", ""), "nesterov") == 0)
        tc_body_suffix(body, "n");
    tc_body_begin(body, params, operands, results);
    tc_body_add(body, "  one = Constant <value: tensor = double {1.0}> ()\n"
                      "  zero = Constant <value: tensor = double {0.0}> ()\n"
                      "  r_number = Squeeze (R)\n"
                      "  r = Cast <to: int = 11> (r_number)\n"
                      "  t_number = Squeeze (T)\n"
                      "  t = Cast <to: int = 11> (t_number)\n"
                      "  begun = Greater (t, zero)\n");
    return n;
}

static void add_attribute(tc_body *body, const char *name) {
    tc_body_add(body, "  %s_f = Constant <value_float: float = @%s> ()\n  %s = Cast <to: int = 11> (%s_f)\n", name,
                name, name, name);
}

/* For tensor i: `name`i is the shared number `name` as a number of its type. */
static void add_typed(tc_body *body, uint32_t i, const char *name) {
    tc_body_add(body, "  %s%u = CastLike (%s, X%u)\n", name, i, name, i);
}

/* g = G, or norm_coefficient X + G. */
static void add_gradient(tc_body *body, uint32_t i) {
    if (tc_attr_float(body->node, "norm_coefficient", 0) == 0) {
        tc_body_add(body, "  g%u = Identity (G%u)\n", i, i);
        return;
    }
    add_typed(body, i, "norm_coefficient");
    tc_body_add(body, "  decay%u = Mul (norm_coefficient%u, X%u)\n  g%u = Add (decay%u, G%u)\n", i, i, i, i, i, i);
}

/* new = factor old + rest what */
static void add_average(tc_body *body, uint32_t i, char state, const char *factor, const char *rest, const char *what) {
    tc_body_add(body, "  %c%u_old = Mul (%s%u, %c%u)\n", state, i, factor, i, state, i);
    tc_body_add(body, "  %c%u_add = Mul (%s%u, %s%u)\n", state, i, rest, i, what, i);
    tc_body_add(body, "  %c%u_new = Add (%c%u_old, %c%u_add)\n", state, i, state, i, state, i);
}

/* V and H, the averages of g and of g^2, and the root of H. */
static void add_averages(tc_body *body, uint32_t i) {
    static const char *const numbers[] = {"alpha", "alpha_rest", "beta", "beta_rest", "epsilon"};
    for (size_t k = 0; k < TC_COUNT(numbers); k++)
        add_typed(body, i, numbers[k]);
    tc_body_add(body, "  square%u = Mul (g%u, g%u)\n", i, i, i);
    add_average(body, i, 'V', "alpha", "alpha_rest", "g");
    add_average(body, i, 'H', "beta", "beta_rest", "square");
    tc_body_add(body, "  root%u = Sqrt (H%u_new)\n", i, i);
}

/* 1 - alpha^T and sqrt(1 - beta^T), 1 where T is not above 0; 1 - alpha, 1 - beta. */
static void add_corrections(tc_body *body) {
    add_attribute(body, "alpha");
    add_attribute(body, "beta");
    add_attribute(body, "epsilon");
    tc_body_add(body, "  alpha_rest = Sub (one, alpha)\n"
                      "  beta_rest = Sub (one, beta)\n"
                      "  alpha_t = Pow (alpha, t)\n"
                      "  alpha_gone = Sub (one, alpha_t)\n"
                      "  alpha_share = Where (begun, alpha_gone, one)\n"
                      "  beta_t = Pow (beta, t)\n"
                      "  beta_gone = Sub (one, beta_t)\n"
                      "  beta_part = Where (begun, beta_gone, one)\n"
                      "  beta_share = Sqrt (beta_part)\n");
}

/* X_new = X - rate * V_new / (sqrt(H_new) + epsilon), rate = R * sqrt(1 - beta^T) / (1 - alpha^T). */
bool tc_make_adam(tc_body *body) {
    bool post = tc_attr_float(body->node, "norm_coefficient_post", 0) != 0;
    uint32_t n = begin(body,
                       "alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.000001, "
                       "norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0",
                       "VH");
    add_corrections(body);
    add_attribute(body, "norm_coefficient");
    add_attribute(body, "norm_coefficient_post");
    tc_body_add(body, "  raised = Mul (r, beta_share)\n"
                      "  rate = Div (raised, alpha_share)\n"
                      "  kept = Sub (one, norm_coefficient_post)\n");
    for (uint32_t i = 0; i < n; i++) {
        add_gradient(body, i);
        add_averages(body, i);
        add_typed(body, i, "rate");
        tc_body_add(body, "  below%u = Add (root%u, epsilon%u)\n", i, i, i);
        tc_body_add(body, "  above%u = Mul (rate%u, V%u_new)\n", i, i, i);
        tc_body_add(body, "  step%u = Div (above%u, below%u)\n", i, i, i);
        tc_body_add(body, "  X%u_%s = Sub (X%u, step%u)\n", i, post ? "moved" : "new", i, i);
        if (!post)
            continue;
        add_typed(body, i, "kept");
        tc_body_add(body, "  X%u_new = Mul (kept%u, X%u_moved)\n", i, i, i);
    }
    tc_body_end(body);
    return true;
}

/* X_new = (1 - R weight_decay) X - R / (1 - alpha^T) * V_new / (sqrt(H_new) / sqrt(1 - beta^T) + epsilon). */
bool tc_make_adamw(tc_body *body) {
    uint32_t n = begin(body,
                       "alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.00000001, "
                       "weight_decay: float = 0.01",
                       "VH");
    add_corrections(body);
    add_attribute(body, "weight_decay");
    tc_body_add(body, "  rate = Div (r, alpha_share)\n"
                      "  lost = Mul (r, weight_decay)\n"
                      "  kept = Sub (one, lost)\n");
    for (uint32_t i = 0; i < n; i++) {
        static const char *const numbers[] = {"rate", "kept", "beta_share"};
        add_gradient(body, i);
        add_averages(body, i);
        for (size_t k = 0; k < TC_COUNT(numbers); k++)
            add_typed(body, i, numbers[k]);
        tc_body_add(body, "  X%u_kept = Mul (kept%u, X%u)\n", i, i, i);
        tc_body_add(body, "  corrected%u = Div (root%u, beta_share%u)\n", i, i, i);
        tc_body_add(body, "  below%u = Add (corrected%u, epsilon%u)\n", i, i, i);
        tc_body_add(body, "  above%u = Mul (rate%u, V%u_new)\n", i, i, i);
        tc_body_add(body, "  step%u = Div (above%u, below%u)\n", i, i, i);
        tc_body_add(body, "  X%u_new = Sub (X%u_kept, step%u)\n", i, i, i);
    }
    tc_body_end(body);
    return true;
}

/* X_new = X - R V_new, Nesterov's X - R (g + alpha V_new); V_new = alpha V + (T > 0 ? beta : 1) g. */
bool tc_make_momentum(tc_body *body) {
    bool nesterov = strcmp(tc_attr_string(body->node, "mode", ""), "nesterov") == 0;
    uint32_t n = begin(body,
                       "alpha: float = 0.9, beta: float = 1.0, mode: string = \"standard\", "
                       "norm_coefficient: float = 0.0",
                       "V");
    add_attribute(body, "alpha");
    add_attribute(body, "beta");
    add_attribute(body, "norm_coefficient");
    tc_body_add(body, "  share = Where (begun, beta, one)\n");
    for (uint32_t i = 0; i < n; i++) {
        add_gradient(body, i);
        add_typed(body, i, "alpha");
        add_typed(body, i, "share");
        add_typed(body, i, "r");
        add_average(body, i, 'V', "alpha", "share", "g");
        if (nesterov)
            tc_body_add(body, "  ahead%u = Mul (alpha%u, V%u_new)\n  way%u = Add (g%u, ahead%u)\n", i, i, i, i, i, i);
        else
            tc_body_add(body, "  way%u = Identity (V%u_new)\n", i, i);
        tc_body_add(body, "  step%u = Mul (r%u, way%u)\n", i, i, i);
        tc_body_add(body, "  X%u_new = Sub (X%u, step%u)\n", i, i, i);
    }
    tc_body_end(body);
    return true;
}

/* X_new = X - rate g / (sqrt(H_new) + epsilon), rate = R / (1 + T decay_factor); H_new = H + g^2. */
bool tc_make_adagrad(tc_body *body) {
    uint32_t n =
        begin(body, "decay_factor: float = 0.0, epsilon: float = 0.000001, norm_coefficient: float = 0.0", "H");
    add_attribute(body, "decay_factor");
    add_attribute(body, "epsilon");
    add_attribute(body, "norm_coefficient");
    tc_body_add(body, "  aged = Mul (t, decay_factor)\n"
                      "  age = Add (one, aged)\n"
                      "  rate = Div (r, age)\n");
    for (uint32_t i = 0; i < n; i++) {
        add_gradient(body, i);
        add_typed(body, i, "epsilon");
        add_typed(body, i, "rate");
        tc_body_add(body, "  square%u = Mul (g%u, g%u)\n", i, i, i);
        tc_body_add(body, "  H%u_new = Add (H%u, square%u)\n", i, i, i);
        tc_body_add(body, "  root%u = Sqrt (H%u_new)\n", i, i);
        tc_body_add(body, "  below%u = Add (root%u, epsilon%u)\n", i, i, i);
        tc_body_add(body, "  above%u = Mul (rate%u, g%u)\n", i, i, i);
        tc_body_add(body, "  step%u = Div (above%u, below%u)\n", i, i, i);
        tc_body_add(body, "  X%u_new = Sub (X%u, step%u)\n", i, i, i);
    }
    tc_body_end(body);
    return true;
}
