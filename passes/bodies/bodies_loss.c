/* bodies_loss.c: the function body of SoftmaxCrossEntropyLossGrad, assembled from its reduction (mean, sum, none),
 * class weights (w), an ignored label (i) and 16-bit floats (h): dlogits = weight * (softmax - onehot) * dLoss. A
 * label's weight is its class's, divided by the sum of all weights for a mean. An ignored label gets 0 whatever that
 * sum is: if all labels are ignored, the sum is 0 and dLoss / 0 is NaN. 16-bit floats are widened first: float16
 * counts no further than 65504 labels. */
#include "bodies.h"
#include <string.h>

/* A label that is in range everywhere, and whether it counts. */
static void add_ignored(tc_body *body) {
    tc_body_add(body, "  ignored_number = Constant <value_int: int = @ignore_index> ()\n"
                      "  ignored = CastLike (ignored_number, labels)\n"
                      "  hit = Equal (labels, ignored)\n"
                      "  kept = Not (hit)\n"
                      "  counted = CastLike (kept, logs)\n"
                      "  zero_number = Constant <value_int: int = 0> ()\n"
                      "  zero_label = CastLike (zero_number, labels)\n"
                      "  label = Where (hit, zero_label, labels)\n");
}

static void add_weight(tc_body *body, bool weights, bool ignores, bool half) {
    if (weights) {
        tc_body_add(body, "  of_class = Gather <axis: int = 0> (weights, label)\n");
        tc_body_like(body, half, "of_class", "logs", "own");
    }
    if (weights && ignores)
        tc_body_add(body, "  weight = Mul (own, counted)\n");
    else if (weights || ignores)
        tc_body_add(body, "  weight = Identity (%s)\n", weights ? "own" : "counted");
    else
        tc_body_add(body, "  one_f = Constant <value_float: float = 1.0> ()\n"
                          "  one_t = CastLike (one_f, logs)\n"
                          "  label_shape = Shape (labels)\n"
                          "  weight = Expand (one_t, label_shape)\n");
}

bool tc_make_cross_entropy_grad(tc_body *body) {
    const char *reduction = tc_attr_string(body->node, "reduction", "mean");
    bool weights = tc_input(body->node, 3) != NULL, ignores = tc_attr_find(body->node, "ignore_index") != NULL;
    bool half = tc_dtype_is_half(tc_value_dtype(tc_input(body->node, 1)));
    if (strcmp(reduction, "mean") != 0 && strcmp(reduction, "sum") != 0 && strcmp(reduction, "none") != 0)
        return false;
    tc_body_suffix(body, "_%s%s%s%s", reduction, weights ? "_w" : "", ignores ? "_i" : "", half ? "_h" : "");
    tc_body_begin(body, "reduction: string = \"mean\", ignore_index: int = -100",
                  weights ? "dLoss, log_prob, labels, weights" : "dLoss, log_prob, labels", "dlogits");
    tc_body_wide(body, half, "log_prob", "logs");
    tc_body_wide(body, half, "dLoss", "seed");
    if (ignores)
        add_ignored(body);
    else
        tc_body_add(body, "  label = Identity (labels)\n");
    add_weight(body, weights, ignores, half);
    if (strcmp(reduction, "mean") == 0)
        tc_body_add(body, "  total = ReduceSum <keepdims: int = 0> (weight)\n  scale = Div (seed, total)\n");
    else
        tc_body_add(body, "  scale = Identity (seed)\n");
    tc_body_add(body, "  scaled = Mul (weight, scale)\n");
    if (ignores)
        tc_body_add(body, "  zero_f = Constant <value_float: float = 0.0> ()\n"
                          "  zero_t = CastLike (zero_f, logs)\n"
                          "  shared = Where (hit, zero_t, scaled)\n");
    tc_body_add(
        body,
        "  channel = Constant <value_ints: ints = [1]> ()\n"
        "  share = Unsqueeze (%s, channel)\n"
        "  softmax = Exp (logs)\n"
        "  spread = Mul (softmax, share)\n"
        "  place = Unsqueeze (label, channel)\n"
        "  taken = Neg (share)\n"
        "  dlogits_wide = ScatterElements <axis: int = 1, reduction: string = \"add\"> (spread, place, taken)\n",
        ignores ? "shared" : "scaled");
    tc_body_like(body, half, "dlogits_wide", "log_prob", "dlogits");
    tc_body_end(body);
    return true;
}
