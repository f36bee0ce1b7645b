/* bodies_linear_loss.c: the function body of LinearCrossEntropy, unchunked, with the scores as a whole. It is
 * assembled from the parts of the node: a bias (b), class weights (w), a gradient of the loss (d), an ignored label
 * (i), smoothing (s), a share of the label's own (l), squares (z), a type of its own for the loss (c), W transposed
 * (t), gradients (g), 16-bit floats (h), whose sums and counts are computed in float. With p = softmax(z), row by
 * row:
 *   target = (1 - e) weight[label] onehot + e / classes weights
 *   loss = -sum of target log p + z_loss lse^2;  dz = (sum of target + 2 z_loss lse) p - target
 * An ignored label contributes nothing. */
#include "bodies.h"
#include <string.h>

typedef struct variant {
    bool bias, weights, dloss, ignores, smooths, shares, squares, casts, transposed, gradients, half, none, mean;
} variant;

static variant variant_of(const tc_node *node, uint32_t weights) {
    const char *reduction = tc_attr_string(node, "reduction", "mean");
    return (variant){.weights = tc_input(node, weights),
                     .ignores = tc_attr_find(node, "ignore_index"),
                     .smooths = tc_attr_float(node, "label_smoothing", 0) != 0,
                     .shares = tc_attr_find(node, "label_share"),
                     .squares = tc_attr_float(node, "z_loss", 0) != 0,
                     .none = strcmp(reduction, "none") == 0,
                     .mean = strcmp(reduction, "mean") == 0};
}

static bool known_reduction(const tc_node *node, const variant *f) {
    return f->mean || f->none || strcmp(tc_attr_string(node, "reduction", "mean"), "sum") == 0;
}

static void add_scores(tc_body *body, const variant *f) {
    tc_body_add(body, "  x = Flatten <axis: int = -1> (X)\n");
    if (f->transposed)
        tc_body_add(body, "  w = Transpose <perm: ints = [1, 0]> (W)\n");
    else
        tc_body_add(body, "  w = Identity (W)\n");
    tc_body_add(body, f->bias ? "  product = MatMul (x, w)\n  own_scores = Add (product, B)\n"
                              : "  own_scores = MatMul (x, w)\n");
    tc_body_add(body, f->casts ? "  scores_given = Cast <to: int = @loss_type> (own_scores)\n"
                               : "  scores_given = Identity (own_scores)\n");
}

static void add_logs(tc_body *body) {
    tc_body_add(body, "  column = Constant <value_ints: ints = [1]> ()\n"
                      "  flat = Constant <value_ints: ints = [-1]> ()\n"
                      "  zero_f = Constant <value_float: float = 0.0> ()\n"
                      "  zero = CastLike (zero_f, scores)\n"
                      "  logs = LogSoftmax <axis: int = 1> (scores)\n");
}

/* `label`: in range everywhere, [rows]; `weight`: the label's weight, 0 if it is ignored; `counted`: 1 or 0. */
static void add_labels(tc_body *body, const variant *f) {
    tc_body_add(body, "  given = Reshape (labels, flat)\n");
    if (f->ignores)
        tc_body_add(body, "  ignored_number = Constant <value_int: int = @ignore_index> ()\n"
                          "  ignored = CastLike (ignored_number, given)\n"
                          "  hit = Equal (given, ignored)\n"
                          "  kept = Not (hit)\n"
                          "  counted = CastLike (kept, scores)\n"
                          "  zero_number = Constant <value_int: int = 0> ()\n"
                          "  zero_label = CastLike (zero_number, given)\n"
                          "  label = Where (hit, zero_label, given)\n");
    else
        tc_body_add(body, "  label = Identity (given)\n"
                          "  one_f = Constant <value_float: float = 1.0> ()\n"
                          "  one = CastLike (one_f, scores)\n"
                          "  label_shape = Shape (given)\n"
                          "  counted = Expand (one, label_shape)\n");
    if (f->weights)
        tc_body_like(body, f->half, "weights", "scores", "class_weights");
    if (f->weights)
        tc_body_add(body, "  of_class = Gather <axis: int = 0> (class_weights, label)\n"
                          "  weight = Mul (of_class, counted)\n");
    else
        tc_body_add(body, "  weight = Identity (counted)\n");
}

/* `result` = `x` where the label counts, else 0. */
static void add_counted(tc_body *body, const variant *f, const char *x, const char *result) {
    if (f->ignores)
        tc_body_add(body, "  %s = Where (hit, zero, %s)\n", result, x);
    else
        tc_body_add(body, "  %s = Identity (%s)\n", result, x);
}

/* `own_share`: the label's share; `uniform` [classes]: the share of each class; `mass_0`: the sum of both. */
static void add_targets(tc_body *body, const variant *f) {
    if (f->smooths)
        tc_body_add(body, "  e_f = Constant <value_float: float = @label_smoothing> ()\n"
                          "  e = CastLike (e_f, scores)\n");
    if (f->shares)
        tc_body_add(body, "  rest_f = Constant <value_float: float = @label_share> ()\n"
                          "  rest = CastLike (rest_f, scores)\n");
    else if (f->smooths)
        tc_body_add(body, "  whole_f = Constant <value_float: float = 1.0> ()\n"
                          "  whole = CastLike (whole_f, scores)\n"
                          "  rest = Sub (whole, e)\n");
    tc_body_add(body,
                f->shares || f->smooths ? "  own_share = Mul (weight, rest)\n" : "  own_share = Identity (weight)\n");
    if (!f->smooths) {
        tc_body_add(body, "  mass_0 = Identity (own_share)\n");
        return;
    }
    tc_body_add(body, "  class_shape = Shape <start: int = 1, end: int = 2> (scores)\n"
                      "  classes = CastLike (class_shape, scores)\n"
                      "  each_class = Div (e, classes)\n");
    tc_body_add(body, f->weights ? "  uniform = Mul (class_weights, each_class)\n"
                                 : "  uniform = Expand (each_class, class_shape)\n");
    tc_body_add(body, "  uniform_sum = ReduceSum <keepdims: int = 0> (uniform)\n"
                      "  uniform_mass = Mul (counted, uniform_sum)\n"
                      "  mass_0 = Add (own_share, uniform_mass)\n");
}

static void add_loss(tc_body *body, const variant *f) {
    tc_body_add(body, "  place = Unsqueeze (label, column)\n"
                      "  picked_column = GatherElements <axis: int = 1> (logs, place)\n"
                      "  picked = Squeeze (picked_column, column)\n"
                      "  own_terms = Mul (own_share, picked)\n");
    if (f->smooths)
        tc_body_add(body, "  uniform_terms = Mul (logs, uniform)\n"
                          "  uniform_part = ReduceSum <keepdims: int = 0> (uniform_terms, column)\n"
                          "  gain = Add (own_terms, uniform_part)\n");
    else
        tc_body_add(body, "  gain = Identity (own_terms)\n");
    tc_body_add(body, "  plain = Neg (gain)\n");
    if (f->squares)
        tc_body_add(body, "  z_f = Constant <value_float: float = @z_loss> ()\n"
                          "  z = CastLike (z_f, scores)\n"
                          "  lse = ReduceLogSumExp <keepdims: int = 0> (scores, column)\n"
                          "  z_lse = Mul (z, lse)\n"
                          "  squared = Mul (z_lse, lse)\n"
                          "  all = Add (plain, squared)\n"
                          "  twice = Add (z_lse, z_lse)\n"
                          "  mass = Add (mass_0, twice)\n");
    else
        tc_body_add(body, "  all = Identity (plain)\n  mass = Identity (mass_0)\n");
    add_counted(body, f, "all", "each");
    if (f->mean)
        tc_body_add(body, "  total = ReduceSum <keepdims: int = 0> (weight)\n");
    if (f->none)
        tc_body_add(body, "  loss_shape = Shape (labels)\n  loss_wide = Reshape (each, loss_shape)\n");
    else
        tc_body_add(body, "  %s = ReduceSum <keepdims: int = 0> (each)\n", f->mean ? "sum" : "loss_wide");
    if (f->mean)
        tc_body_add(body, "  loss_wide = Div (sum, total)\n");
    tc_body_like(body, f->half, "loss_wide", "scores_given", "loss");
}

/* The factor of each row's gradient: dLoss, over the divisor of a mean. */
static void add_scale(tc_body *body, const variant *f) {
    if (f->dloss)
        tc_body_add(body, "  seed_given = Reshape (dLoss, %s)\n", f->none ? "seed_shape" : "no_dims");
    if (f->dloss)
        tc_body_like(body, f->half, "seed_given", "scores", "seed");
    else
        tc_body_add(body, "  seed_f = Constant <value_float: float = 1.0> ()\n  seed = CastLike (seed_f, scores)\n");
    tc_body_add(body, f->mean ? "  scale = Div (seed, total)\n" : "  scale = Identity (seed)\n");
}

static void add_gradients(tc_body *body, const variant *f) {
    tc_body_add(body, "  no_dims = Constant <value_ints: ints = []> ()\n"
                      "  seed_shape = Constant <value_ints: ints = [-1, 1]> ()\n");
    add_scale(body, f);
    tc_body_add(body, "  p = Exp (logs)\n"
                      "  mass_column = Unsqueeze (mass, column)\n"
                      "  spread = Mul (p, mass_column)\n");
    tc_body_add(body, f->smooths ? "  lessened = Sub (spread, uniform)\n" : "  lessened = Identity (spread)\n");
    tc_body_add(body, "  own_column = Unsqueeze (own_share, column)\n"
                      "  scores_shape = Shape (scores)\n"
                      "  zeros = Expand (zero, scores_shape)\n"
                      "  taken = ScatterElements <axis: int = 1> (zeros, place, own_column)\n"
                      "  unscaled = Sub (lessened, taken)\n"
                      "  scaled = Mul (unscaled, scale)\n");
    if (f->ignores)
        tc_body_add(body, "  hit_column = Unsqueeze (hit, column)\n  counted_dz = Where (hit_column, zero, scaled)\n");
    else
        tc_body_add(body, "  counted_dz = Identity (scaled)\n");
    tc_body_add(body, "  dz = CastLike (counted_dz, X)\n"
                      "  w_back = Transpose <perm: ints = [1, 0]> (w)\n"
                      "  dx = MatMul (dz, w_back)\n"
                      "  x_shape = Shape (X)\n"
                      "  dX = Reshape <allowzero: int = 1> (dx, x_shape)\n");
    tc_body_add(body, f->transposed ? "  dz_back = Transpose <perm: ints = [1, 0]> (dz)\n  dW = MatMul (dz_back, x)\n"
                                    : "  x_back = Transpose <perm: ints = [1, 0]> (x)\n  dW = MatMul (x_back, dz)\n");
    tc_body_add(body, "  rows = Constant <value_ints: ints = [0]> ()\n"
                      "  dB = ReduceSum <keepdims: int = 0> (dz, rows)\n");
}

static void suffix(tc_body *body, const variant *f) {
    tc_body_suffix(body, "_%s_%s%s%s%s%s%s%s%s%s%s%s", tc_attr_string(body->node, "reduction", "mean"),
                   f->bias ? "b" : "", f->weights ? "w" : "", f->dloss ? "d" : "", f->ignores ? "i" : "",
                   f->smooths ? "s" : "", f->shares ? "l" : "", f->squares ? "z" : "", f->casts ? "c" : "",
                   f->transposed ? "t" : "", f->gradients ? "g" : "", f->half ? "h" : "");
}

#define ATTRIBUTES                                                                                                     \
    "ignore_index: int = -100, label_share: float = 1.0, label_smoothing: float = 0.0, reduction: string = \"mean\", " \
    "z_loss: float = 0.0"

bool tc_make_linear_loss(tc_body *body) {
    const tc_node *node = body->node;
    variant f = variant_of(node, 4);
    if (!known_reduction(node, &f))
        return false;
    f.bias = tc_input(node, 3);
    f.dloss = tc_input(node, 5);
    f.casts = tc_attr_find(node, "loss_type");
    f.transposed = tc_attr_int(node, "transB", 0) != 0;
    f.gradients = node->n_outputs > 1;
    f.half =
        tc_dtype_is_half(f.casts ? (tc_dtype)tc_attr_int(node, "loss_type", 0) : tc_value_dtype(tc_input(node, 0)));
    suffix(body, &f);
    tc_body_begin(body, ATTRIBUTES ", loss_type: int = 1, transB: int = 0",
                  f.dloss     ? "X, W, labels, B, weights, dLoss"
                  : f.weights ? "X, W, labels, B, weights"
                  : f.bias    ? "X, W, labels, B"
                              : "X, W, labels",
                  f.gradients ? "loss, dX, dW, dB" : "loss");
    add_scores(body, &f);
    tc_body_wide(body, f.half, "scores_given", "scores");
    add_logs(body);
    add_labels(body, &f);
    add_targets(body, &f);
    add_loss(body, &f);
    if (f.gradients)
        add_gradients(body, &f);
    tc_body_end(body);
    return true;
}

/* ScoresCrossEntropy, of scores [rows, classes]. */
bool tc_make_scores_loss(tc_body *body) {
    variant f = variant_of(body->node, 2);
    if (!known_reduction(body->node, &f))
        return false;
    f.half = tc_dtype_is_half(tc_value_dtype(tc_input(body->node, 0)));
    suffix(body, &f);
    tc_body_begin(body, ATTRIBUTES, f.weights ? "scores_given, labels, weights" : "scores_given, labels", "loss");
    tc_body_wide(body, f.half, "scores_given", "scores");
    add_logs(body);
    add_labels(body, &f);
    add_targets(body, &f);
    add_loss(body, &f);
    tc_body_end(body);
    return true;
}
