/* bodies_norm.c: the function bodies of normalizations that leave xhat behind (LayerNormalizationXhat,
 * RMSNormalizationXhat), of RMSNormalization and of ScaleBias. `_a`: over more axes than the last; `_b`: with a bias;
 * `_i`: inv_std is a result, too. All factors up to xhat are in the precision of stash_type: xhat = (X - mean) *
 * inv_std with inv_std = 1 / sqrt(mean((X - mean)^2) + epsilon), without the mean for RMS. */
#include "bodies.h"

/* The axes that the node normalizes: from `axis` to the last. */
static void add_axes(tc_body *body, bool last) {
    if (last)
        tc_body_add(body, "  axes = Constant <value_ints: ints = [-1]> ()\n");
    else
        tc_body_add(body, "  shape = Shape (X)\n"
                          "  rank = Size (shape)\n"
                          "  zero = Constant <value_int: int = 0> ()\n"
                          "  one = Constant <value_int: int = 1> ()\n"
                          "  given = Constant <value_int: int = @axis> ()\n"
                          "  from_end = Add (given, rank)\n"
                          "  negative = Less (given, zero)\n"
                          "  first = Where (negative, from_end, given)\n"
                          "  axes = Range (first, rank, one)\n");
}

static void add_normal(tc_body *body, bool center, const char *result, const char *inv_std) {
    tc_body_add(body, "  x = Cast <to: int = @stash_type> (X)\n");
    if (center)
        tc_body_add(body, "  mean = ReduceMean <keepdims: int = 1> (x, axes)\n  centered = Sub (x, mean)\n");
    else
        tc_body_add(body, "  centered = Identity (x)\n");
    tc_body_add(body,
                "  squares = Mul (centered, centered)\n"
                "  variance = ReduceMean <keepdims: int = 1> (squares, axes)\n"
                "  eps = Constant <value_float: float = @epsilon> ()\n"
                "  eps_t = CastLike (eps, x)\n"
                "  shifted = Add (variance, eps_t)\n"
                "  std = Sqrt (shifted)\n"
                "  %s = Reciprocal (std)\n"
                "  normal = Mul (centered, %s)\n"
                "  %s = CastLike (normal, X)\n",
                inv_std, inv_std, result);
}

static void add_scale(tc_body *body, const char *xhat, bool bias) {
    if (bias)
        tc_body_add(body, "  scaled = Mul (%s, scale)\n  Y = Add (scaled, bias)\n", xhat);
    else
        tc_body_add(body, "  Y = Mul (%s, scale)\n", xhat);
}

static bool make_norm(tc_body *body, bool center, bool bias, bool xhat) {
    bool last = *tc_variant_last_axis(body->node) == '\0', statistic = !xhat && tc_output(body->node, 1);
    if (!last || bias || statistic)
        tc_body_suffix(body, "_%s%s%s", last ? "" : "a", bias ? "b" : "", statistic ? "i" : "");
    tc_body_begin(body, "epsilon: float = 0.00001, stash_type: int = 1, axis: int = -1",
                  bias ? "X, scale, bias" : "X, scale",
                  xhat        ? "Y, xhat, inv_std"
                  : statistic ? "Y, inv_std"
                              : "Y");
    add_axes(body, last);
    add_normal(body, center, "xhat", "inv_std");
    add_scale(body, "xhat", bias);
    tc_body_end(body);
    return true;
}

bool tc_make_layer_norm_xhat(tc_body *body) { return make_norm(body, true, tc_input(body->node, 2) != NULL, true); }
bool tc_make_rms_norm_xhat(tc_body *body) { return make_norm(body, false, false, true); }
bool tc_make_rms_norm(tc_body *body) { return make_norm(body, false, false, false); }

bool tc_make_scale_bias(tc_body *body) {
    bool bias = tc_input(body->node, 2) != NULL;
    if (bias)
        tc_body_suffix(body, "_b");
    tc_body_begin(body, "axis: int = -1", bias ? "xhat, scale, bias" : "xhat, scale", "Y");
    add_scale(body, "xhat", bias);
    tc_body_end(body);
    return true;
}
