/* bodies_optimizer.c: the function bodies of the optimizers (ops.def). Adam, Momentum and Adagrad follow the ONNX
 * operators of ai.onnx.preview.training; AdamW follows its authors (Loshchilov and Hutter, arXiv 1711.05101, algorithm
 * 2) as PyTorch writes it, with epsilon added to the corrected root; Lamb follows its authors (You et al., arXiv
 * 1904.00962, algorithm 2). Numbers that all tensors share are computed in double precision, elements in their own.
 * `_N`: N tensors; `r` with norm_coefficient, `p` with norm_coefficient_post, `n` for Nesterov's momentum, `s` with
 * Scale, `g` with gradients of another type, `c10` and `c16` with copies, `w` if updates may wait. A part without its
 * letter costs no pass over memory. And the norm of all gradients, in double: `s` with Scale, `d` for doubles. */
#include "bodies.h"
#include <string.h>

/* "X0, X1, G0, G1, ...": one list for each letter. */
static const char *names(tc_body *body, const char *text, const char *letters, const char *suffix, uint32_t n) {
    for (; *letters; letters++)
        for (uint32_t i = 0; i < n; i++)
            text = tc_arena_printf(body->arena, "%s%s%c%u%s", text, *text ? ", " : "", *letters, i, suffix);
    return text;
}

static uint32_t tensors_of(const tc_node *node, const char *states) {
    return (node->n_inputs - 2) / (2 + (uint32_t)strlen(states));
}

/* Whether a number follows the states. */
static bool has_scale(const tc_node *node, const char *states) {
    return (node->n_inputs - 2) % (2 + strlen(states)) == 1;
}

/* Whether any of n gradients has another type than its weights. */
static bool has_other_gradients(const tc_node *node, uint32_t n) {
    bool other = false;
    for (uint32_t i = 0; i < n; i++)
        other |= tc_value_dtype(tc_input(node, 2 + i)) != tc_value_dtype(tc_input(node, 2 + n + i));
    return other;
}

static long long copy_type(const tc_node *node) { return (long long)tc_attr_int(node, "copy_type", 0); }

static bool waits(const tc_node *node) { return tc_attr_int(node, "waits", 0) != 0; }

/* `states` are the letters of the states that the optimizer keeps. Returns the number of tensors. */
static uint32_t begin(tc_body *body, const char *params, const char *states) {
    const tc_node *node = body->node;
    uint32_t n = tensors_of(node, states);
    const char *made = waits(node) ? "_out" : "_new",
               *operands = names(body, names(body, "R, T", "XG", "", n), states, "", n),
               *results = names(body, names(body, "", "X", made, n), states, made, n);
    bool scaled = has_scale(node, states);
    if (scaled)
        operands = tc_arena_printf(body->arena, "%s, Scale", operands);
    if (copy_type(node) != 0)
        results = names(body, results, "C", "", n);
    tc_body_suffix(body, "_%u", n);
    if (tc_attr_float(node, "norm_coefficient", 0) != 0)
        tc_body_suffix(body, "r");
    if (tc_attr_float(node, "norm_coefficient_post", 0) != 0)
        tc_body_suffix(body, "p");
    if (strcmp(tc_attr_string(node, "mode", ""), "nesterov") == 0)
        tc_body_suffix(body, "n");
    if (scaled)
        tc_body_suffix(body, "s");
    if (has_other_gradients(node, n))
        tc_body_suffix(body, "g");
    if (copy_type(node) != 0)
        tc_body_suffix(body, "c%lld", copy_type(node));
    if (waits(node))
        tc_body_suffix(body, "w");
    tc_body_begin(body, params, operands, results);
    tc_body_add(body, "  one = Constant <value: tensor = double {1.0}> ()\n"
                      "  zero = Constant <value: tensor = double {0.0}> ()\n"
                      "  r_number = Squeeze (R)\n"
                      "  r = Cast <to: int = 11> (r_number)\n"
                      "  t_number = Squeeze (T)\n"
                      "  t = Cast <to: int = 11> (t_number)\n"
                      "  begun = Greater (t, zero)\n");
    if (waits(node))
        tc_body_add(body, "  waits = Less (t, zero)\n");
    if (scaled)
        tc_body_add(body, "  scale = Squeeze (Scale)\n");
    return n;
}

static void add_attribute(tc_body *body, const char *name) {
    tc_body_add(body, "  %s_f = Constant <value_float: float = @%s> ()\n  %s = Cast <to: int = 11> (%s_f)\n", name,
                name, name, name);
}

/* For tensor i: `name`i is the shared number `name` in the tensor's type. */
static void add_typed(tc_body *body, uint32_t i, const char *name) {
    tc_body_add(body, "  %s%u = CastLike (%s, X%u)\n", name, i, name, i);
}

/* g = G in X's type, times Scale, plus norm_coefficient X. */
static void add_gradient(tc_body *body, const char *states, uint32_t i) {
    const char *g = tc_arena_printf(body->arena, "G%u", i);
    if (has_other_gradients(body->node, tensors_of(body->node, states))) {
        tc_body_add(body, "  wide%u = CastLike (%s, X%u)\n", i, g, i);
        g = tc_arena_printf(body->arena, "wide%u", i);
    }
    if (has_scale(body->node, states)) {
        add_typed(body, i, "scale");
        tc_body_add(body, "  scaled%u = Mul (scale%u, %s)\n", i, i, g);
        g = tc_arena_printf(body->arena, "scaled%u", i);
    }
    if (tc_attr_float(body->node, "norm_coefficient", 0) == 0) {
        tc_body_add(body, "  g%u = Identity (%s)\n", i, g);
        return;
    }
    add_typed(body, i, "norm_coefficient");
    tc_body_add(body, "  decay%u = Mul (norm_coefficient%u, X%u)\n  g%u = Add (decay%u, %s)\n", i, i, i, i, i, g);
}

/* While the update waits, results are the old values; copies are made of the results. */
static void end_update(tc_body *body, const char *states, uint32_t n) {
    const char *letters = tc_arena_printf(body->arena, "X%s", states);
    const bool may_wait = waits(body->node);
    for (uint32_t i = 0; i < n; i++) {
        for (const char *at = letters; may_wait && *at; at++)
            tc_body_add(body, "  %c%u_out = Where (waits, %c%u, %c%u_new)\n", *at, i, *at, i, *at, i);
        if (copy_type(body->node) != 0)
            tc_body_add(body, "  C%u = Cast <to: int = %lld> (X%u_%s)\n", i, copy_type(body->node), i,
                        may_wait ? "out" : "new");
    }
    tc_body_end(body);
}

/* new = factor old + rest term */
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

/* 1 - alpha^T and sqrt(1 - beta^T), or 1 if T is not above 0; 1 - alpha, 1 - beta. */
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

/* X_new = X - factor term */
static void add_step(tc_body *body, uint32_t i, const char *factor, const char *what) {
    tc_body_add(body, "  step%u = Mul (%s%u, %s%u)\n", i, factor, i, what, i);
    tc_body_add(body, "  X%u_new = Sub (X%u, step%u)\n", i, i, i);
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
        add_gradient(body, "VH", i);
        add_averages(body, i);
        add_typed(body, i, "rate");
        tc_body_add(body, "  below%u = Add (root%u, epsilon%u)\n", i, i, i);
        tc_body_add(body, "  above%u = Mul (rate%u, V%u_new)\n", i, i, i);
        tc_body_add(body, "  step%u = Div (above%u, below%u)\n", i, i, i);
        tc_body_add(body, "  X%u_%s = Sub (X%u, step%u)\n", i, post ? "moved" : "new", i, i);
        if (post) {
            add_typed(body, i, "kept");
            tc_body_add(body, "  X%u_new = Mul (kept%u, X%u_moved)\n", i, i, i);
        }
    }
    end_update(body, "VH", n);
    return true;
}

/* X_new = (1 - R weight_decay) X - R / (1 - alpha^T) * V_new / (sqrt(H_new) / sqrt(1 - beta^T) + epsilon). */
bool tc_make_adamw(tc_body *body) {
    uint32_t n = begin(body,
                       "alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.00000001, "
                       "norm_coefficient: float = 0.0, weight_decay: float = 0.01",
                       "VH");
    add_corrections(body);
    add_attribute(body, "norm_coefficient");
    add_attribute(body, "weight_decay");
    tc_body_add(body, "  rate = Div (r, alpha_share)\n"
                      "  lost = Mul (r, weight_decay)\n"
                      "  kept = Sub (one, lost)\n");
    for (uint32_t i = 0; i < n; i++) {
        static const char *const numbers[] = {"rate", "kept", "beta_share"};
        add_gradient(body, "VH", i);
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
    end_update(body, "VH", n);
    return true;
}

static void add_flat(tc_body *body) { tc_body_add(body, "  flat = Constant <value_ints: ints = [-1]> ()\n"); }

/* The sum of the squares of `letter`i, in double. */
static void add_squares(tc_body *body, char letter, uint32_t i) {
    tc_body_add(body,
                "  %c%u_row = Reshape (%c%u, flat)\n"
                "  %c%u_wide = Cast <to: int = 11> (%c%u_row)\n"
                "  %c%u_squares = ReduceSumSquare <keepdims: int = 0> (%c%u_wide)\n",
                letter, i, letter, i, letter, i, letter, i, letter, i, letter, i);
}

/* The norm of `letter`i, in double, and whether it is above 0. */
static void add_norm(tc_body *body, char letter, uint32_t i) {
    add_squares(body, letter, i);
    tc_body_add(body, "  %c%u_norm = Sqrt (%c%u_squares)\n", letter, i, letter, i);
    tc_body_add(body, "  %c%u_is = Greater (%c%u_norm, zero)\n", letter, i, letter, i);
}

/* W = V_new / (1 - alpha^T) / (sqrt(H_new) / sqrt(1 - beta^T) + epsilon) + weight_decay X, X_new = X - R ratio W.
 * ratio is the norm of X over that of W, 1 if one of them is 0. */
bool tc_make_lamb(tc_body *body) {
    uint32_t n = begin(body,
                       "alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.00000001, "
                       "weight_decay: float = 0.01",
                       "VH");
    add_corrections(body);
    add_attribute(body, "weight_decay");
    add_flat(body);
    for (uint32_t i = 0; i < n; i++) {
        add_gradient(body, "VH", i);
        add_averages(body, i);
        add_typed(body, i, "alpha_share");
        add_typed(body, i, "beta_share");
        add_typed(body, i, "weight_decay");
        tc_body_add(body, "  mean%u = Div (V%u_new, alpha_share%u)\n", i, i, i);
        tc_body_add(body, "  even%u = Div (root%u, beta_share%u)\n", i, i, i);
        tc_body_add(body, "  below%u = Add (even%u, epsilon%u)\n", i, i, i);
        tc_body_add(body, "  way%u = Div (mean%u, below%u)\n", i, i, i);
        tc_body_add(body, "  lost%u = Mul (weight_decay%u, X%u)\n", i, i, i);
        tc_body_add(body, "  W%u = Add (way%u, lost%u)\n", i, i, i);
        add_norm(body, 'X', i);
        add_norm(body, 'W', i);
        tc_body_add(body, "  both%u = And (X%u_is, W%u_is)\n", i, i, i);
        tc_body_add(body, "  norms%u = Div (X%u_norm, W%u_norm)\n", i, i, i);
        tc_body_add(body, "  ratio%u = Where (both%u, norms%u, one)\n", i, i, i);
        tc_body_add(body, "  factor%u_wide = Mul (r, ratio%u)\n", i, i);
        tc_body_add(body, "  factor%u = CastLike (factor%u_wide, X%u)\n", i, i, i);
        add_step(body, i, "factor", "W");
    }
    end_update(body, "VH", n);
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
        add_gradient(body, "V", i);
        add_typed(body, i, "alpha");
        add_typed(body, i, "share");
        add_typed(body, i, "r");
        add_average(body, i, 'V', "alpha", "share", "g");
        if (nesterov)
            tc_body_add(body, "  ahead%u = Mul (alpha%u, V%u_new)\n  way%u = Add (g%u, ahead%u)\n", i, i, i, i, i, i);
        else
            tc_body_add(body, "  way%u = Identity (V%u_new)\n", i, i);
        add_step(body, i, "r", "way");
    }
    end_update(body, "V", n);
    return true;
}

/* X_new = (T > 0 ? X : 0) + R g; without g, R is 0, because g may be NaN */
bool tc_make_accumulate(tc_body *body) {
    uint32_t n = begin(body, "", "");
    for (uint32_t i = 0; i < n; i++) {
        add_gradient(body, "", i);
        add_typed(body, i, "r");
        add_typed(body, i, "zero");
        tc_body_add(body, "  X%u_kept = Where (begun, X%u, zero%u)\n", i, i, i);
        tc_body_add(body, "  X%u_idle = Equal (r%u, zero%u)\n  X%u_part = Mul (r%u, g%u)\n", i, i, i, i, i, i);
        tc_body_add(body, "  X%u_add = Where (X%u_idle, zero%u, X%u_part)\n", i, i, i, i);
        tc_body_add(body, "  X%u_new = Add (X%u_kept, X%u_add)\n", i, i, i);
    }
    end_update(body, "", n);
    return true;
}

/* X_new = X - R g */
bool tc_make_sgd(tc_body *body) {
    uint32_t n = begin(body, "norm_coefficient: float = 0.0", "");
    add_attribute(body, "norm_coefficient");
    for (uint32_t i = 0; i < n; i++) {
        add_gradient(body, "", i);
        add_typed(body, i, "r");
        add_step(body, i, "r", "g");
    }
    end_update(body, "", n);
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
        add_gradient(body, "H", i);
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
    end_update(body, "H", n);
    return true;
}

/* Norm = sqrt (sum of all squares), Scale = min (1, max_norm / (Norm + 1e-6)). */
bool tc_make_global_norm(tc_body *body) {
    const tc_node *node = body->node;
    bool scaled = tc_attr_find(node, "max_norm") != NULL;
    int type = tc_value_dtype(tc_input(node, 0)) == TC_DOUBLE ? TC_DOUBLE : TC_FLOAT;
    tc_body_suffix(body, "_%u%s%s", node->n_inputs, scaled ? "s" : "", type == TC_DOUBLE ? "d" : "");
    tc_body_begin(body, scaled ? "max_norm: float = 1.0" : "", names(body, "", "G", "", node->n_inputs),
                  scaled ? "Norm, Scale" : "Norm");
    add_flat(body);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        add_squares(body, 'G', i);
    tc_body_add(body,
                "  squares = Sum (%s)\n"
                "  norm = Sqrt (squares)\n"
                "  Norm = Cast <to: int = %d> (norm)\n",
                names(body, "", "G", "_squares", node->n_inputs), type);
    if (scaled) {
        add_attribute(body, "max_norm");
        tc_body_add(body,
                    "  one = Constant <value: tensor = double {1.0}> ()\n"
                    "  tiny = Constant <value: tensor = double {0.000001}> ()\n"
                    "  below = Add (norm, tiny)\n"
                    "  share = Div (max_norm, below)\n"
                    "  least = Min (share, one)\n"
                    "  Scale = Cast <to: int = %d> (least)\n",
                    type);
    }
    tc_body_end(body);
    return true;
}
