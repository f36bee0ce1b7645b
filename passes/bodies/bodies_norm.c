/* bodies_norm.c: the function bodies of normalizations that return xhat (LayerNormalizationXhat,
 * RMSNormalizationXhat), or return y and xhat of some channels (LayerNormalizationFromY, RMSNormalizationFromY); of
 * their gradients; of RMSNormalization and of ScaleBias. `_a`: over more axes than the last; `_b`: with a bias;
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

/* --- gradients -------------------------------------------------------------------------------- */

/* xhat as rows of the normalized dims, g = dY * Scale: dX = InvStdDev * (g - mean(g) - xhat * mean(g * xhat)),
 * without mean(g) if the op does not center; dScale = sum of dY * xhat and dBias = sum of dY over rows. `like`: the
 * operand of dX's shape and type. */
static void add_gradient(tc_body *body, bool center, const char *like) {
    tc_body_add(body,
                "  rows = Constant <value_ints: ints = [0]> ()\n"
                "  columns = Constant <value_ints: ints = [1]> ()\n"
                "  dy = Flatten <axis: int = @axis> (dY)\n"
                "  inv_s = Flatten <axis: int = @axis> (InvStdDev)\n"
                "  inv = CastLike (inv_s, %s)\n"
                "  g = Mul (dy, scale)\n"
                "  gx = Mul (g, xhat)\n"
                "  gx_mean = ReduceMean <keepdims: int = 1> (gx, columns)\n"
                "  along = Mul (xhat, gx_mean)\n",
                like);
    if (center)
        tc_body_add(body, "  g_mean = ReduceMean <keepdims: int = 1> (g, columns)\n  rest = Sub (g, g_mean)\n");
    tc_body_add(body,
                "  across = Sub (%s, along)\n"
                "  dx = Mul (across, inv)\n"
                "  x_shape = Shape (%s)\n"
                "  dX = Reshape <allowzero: int = 1> (dx, x_shape)\n"
                "  scale_shape = Shape (Scale)\n"
                "  dyx = Mul (dy, xhat)\n"
                "  dscale = ReduceSum <keepdims: int = 0> (dyx, rows)\n"
                "  dScale = Reshape <allowzero: int = 1> (dscale, scale_shape)\n",
                center ? "rest" : "g", like);
    if (center)
        tc_body_add(body, "  dbias = ReduceSum <keepdims: int = 0> (dy, rows)\n"
                          "  dBias = Reshape <allowzero: int = 1> (dbias, scale_shape)\n");
    tc_body_end(body);
}

static const char *gradients(bool center) { return center ? "dX, dScale, dBias" : "dX, dScale"; }

static bool make_xhat_grad(tc_body *body, bool center) {
    tc_body_begin(body, "axis: int = -1", "dY, XHat, Scale, InvStdDev", gradients(center));
    tc_body_add(body, "  xhat = Flatten <axis: int = @axis> (XHat)\n  scale = Flatten <axis: int = 0> (Scale)\n");
    add_gradient(body, center, "XHat");
    return true;
}

bool tc_make_layer_norm_xhat_grad(tc_body *body) { return make_xhat_grad(body, true); }
bool tc_make_rms_norm_xhat_grad(tc_body *body) { return make_xhat_grad(body, false); }

/* --- from y ----------------------------------------------------------------------------------- */

/* sides [n]: whether a channel keeps xhat. In double, where comparisons of every type are exact. */
static void add_sides(tc_body *body, bool bias) {
    tc_body_add(body, "  gamma_d = Cast <to: int = 11> (scale)\n"
                      "  gamma = Abs (gamma_d)\n"
                      "  least_f = Constant <value_float: float = @least> ()\n"
                      "  least = Cast <to: int = 11> (least_f)\n"
                      "  tiny = Less (gamma, least)\n");
    if (bias)
        tc_body_add(body, "  beta_d = Cast <to: int = 11> (bias)\n"
                          "  beta = Abs (beta_d)\n"
                          "  limit_f = Constant <value_float: float = @limit> ()\n"
                          "  limit = Cast <to: int = 11> (limit_f)\n"
                          "  most = Mul (gamma, limit)\n"
                          "  far = Greater (beta, most)\n"
                          "  sides_s = Or (tiny, far)\n");
    else
        tc_body_add(body, "  sides_s = Identity (tiny)\n");
    tc_body_add(body, "  flat = Constant <value_ints: ints = [-1]> ()\n  sides = Reshape (sides_s, flat)\n");
}

/* The first channels have the largest keys, so that TopK lists the side channels in order. If they are more than the
 * capacity, the Gather reads past the last channel, which every runtime refuses; so there is no wrong result. */
static void add_kept(tc_body *body) {
    tc_body_add(body, "  nothing = Constant <value_int: int = 0> ()\n"
                      "  no_channel = Constant <value_int: int = -1> ()\n"
                      "  n = Size (scale)\n"
                      "  places = Range (n, nothing, no_channel)\n"
                      "  keys = Where (sides, places, nothing)\n"
                      "  capacity = Constant <value_int: int = @capacity> ()\n"
                      "  one_dim = Constant <value_ints: ints = [1]> ()\n"
                      "  room = Reshape (capacity, one_dim)\n"
                      "  top, top_at = TopK <axis: int = 0> (keys, room)\n"
                      "  used = Greater (top, nothing)\n"
                      "  listed = Sub (n, top)\n"
                      "  channels = Where (used, listed, no_channel)\n"
                      "  Channels = Cast <to: int = 6> (channels)\n"
                      "  counted = Cast <to: int = 7> (sides)\n"
                      "  count = ReduceSum <keepdims: int = 0> (counted)\n"
                      "  too_many = Greater (count, capacity)\n"
                      "  inside = Where (used, listed, nothing)\n"
                      "  read = Where (too_many, n, inside)\n"
                      "  xhat_rows = Flatten <axis: int = @axis> (xhat)\n"
                      "  columns = Gather <axis: int = 1> (xhat_rows, read)\n"
                      "  zero_i = CastLike (nothing, xhat)\n"
                      "  kept = Where (used, columns, zero_i)\n"
                      "  lead = Shape <start: int = 0, end: int = @axis> (X)\n"
                      "  kept_shape = Concat <axis: int = 0> (lead, room)\n"
                      "  Kept = Reshape <allowzero: int = 1> (kept, kept_shape)\n");
}

static bool make_from_y(tc_body *body, bool center, bool bias) {
    bool last = *tc_variant_last_axis(body->node) == '\0';
    if (!last || bias)
        tc_body_suffix(body, "_%s%s", last ? "" : "a", bias ? "b" : "");
    tc_body_begin(body,
                  "epsilon: float = 0.00001, stash_type: int = 1, axis: int = -1, capacity: int = 1, least: float = "
                  "1.1754944e-38, limit: float = 2.0",
                  bias ? "X, scale, bias" : "X, scale", "Y, inv_std, Channels, Kept");
    add_axes(body, last);
    add_normal(body, center, "xhat", "inv_std");
    add_scale(body, "xhat", bias);
    add_sides(body, bias);
    add_kept(body);
    tc_body_end(body);
    return true;
}

bool tc_make_layer_norm_from_y(tc_body *body) { return make_from_y(body, true, tc_input(body->node, 2) != NULL); }
bool tc_make_rms_norm_from_y(tc_body *body) { return make_from_y(body, false, false); }

/* xhat = (Y - Bias) / Scale, and a column of Kept for each channel in Channels. */
static bool make_from_y_grad(tc_body *body, bool center, bool bias) {
    if (bias)
        tc_body_suffix(body, "_b");
    tc_body_begin(body, "axis: int = -1",
                  bias ? "dY, Y, Scale, InvStdDev, Channels, Kept, Bias" : "dY, Y, Scale, InvStdDev, Channels, Kept",
                  gradients(center));
    tc_body_add(body, "  y = Flatten <axis: int = @axis> (Y)\n  scale = Flatten <axis: int = 0> (Scale)\n");
    tc_body_add(body, bias ? "  bias = Flatten <axis: int = 0> (Bias)\n  unbiased = Sub (y, bias)\n"
                           : "  unbiased = Identity (y)\n");
    tc_body_add(body, "  divided = Div (unbiased, scale)\n"
                      "  nothing = Constant <value_int: int = 0> ()\n"
                      "  step = Constant <value_int: int = 1> ()\n"
                      "  n = Size (Scale)\n"
                      "  numbers = Range (nothing, n, step)\n"
                      "  one_column = Constant <value_ints: ints = [-1, 1]> ()\n"
                      "  channels = Cast <to: int = 7> (Channels)\n"
                      "  down = Reshape (channels, one_column)\n"
                      "  named = Equal (down, numbers)\n"
                      "  named_i = Cast <to: int = 6> (named)\n"
                      "  column = ArgMax <axis: int = 0, keepdims: int = 0> (named_i)\n"
                      "  first_dim = Constant <value_ints: ints = [0]> ()\n"
                      "  any_i = ReduceMax <keepdims: int = 0> (named_i, first_dim)\n"
                      "  any = Cast <to: int = 9> (any_i)\n"
                      "  n_rows = Shape <start: int = 0, end: int = 1> (y)\n"
                      "  n_kept = Shape (Channels)\n"
                      "  kept_shape = Concat <axis: int = 0> (n_rows, n_kept)\n"
                      "  kept = Reshape <allowzero: int = 1> (Kept, kept_shape)\n"
                      "  copies = Gather <axis: int = 1> (kept, column)\n"
                      "  xhat = Where (any, copies, divided)\n");
    add_gradient(body, center, "Y");
    return true;
}

bool tc_make_layer_norm_from_y_grad(tc_body *body) {
    return make_from_y_grad(body, true, tc_input(body->node, 6) != NULL);
}
bool tc_make_rms_norm_from_y_grad(tc_body *body) { return make_from_y_grad(body, false, false); }
