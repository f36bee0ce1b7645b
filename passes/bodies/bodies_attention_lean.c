/* bodies_attention_lean.c: the function bodies of DotProductAttention and of its gradient (meanings:
 * compiler/ir/ops.def), assembled from the parts in use: b1 a bias, m1 a bool mask, f1 a value for masked scores
 * (else -inf), g1 the guard against NaN, c1 a softcap, l1 a mask after the bias, d1 dropout, s1 dropout with its
 * flags in the sign bits of P, p1 a bit for each flag. In the gradient: d1 the dropped map and flags are operands,
 * k1 flags alone, s1 neither: they are read from P; m1 a mask that products do not reach through; rN, rNNNN the
 * ranks of Q, K^T, V and P, which Transpose needs. In the tiled gradient: the letters of the forward op, the ranks
 * of Q, K^T and V, a1 a sum over axes. t1 a row's statistics in float, t11 in double: results of the forward op and
 * operands of the tiled gradient, whose body ignores them and recomputes the rows. */
#include "bodies.h"

static void add_scale(tc_body *body) {
    tc_body_add(body, "  scale_f = Constant <value_float: float = @scale> ()\n"
                      "  scale_t = CastLike (scale_f, Q)\n");
}

/* The parts that an attention uses; operands Q, K^T, V, bias, mask, ratio and seed from `first` on. */
typedef struct variant {
    bool bias, mask, fill, guard, cap, last, drop;
} variant;

static variant variant_of(const tc_node *node, uint32_t first) {
    bool mask = tc_input(node, first + 4) != NULL, bias = tc_input(node, first + 3) != NULL;
    return (variant){.bias = bias,
                     .mask = mask,
                     .fill = mask && tc_attr_find(node, "fill"),
                     .guard = tc_attr_int(node, "guard", 0) != 0,
                     .cap = tc_attr_float(node, "softcap", 0) != 0,
                     .last = mask && bias && tc_attr_int(node, "bias_first", 0) != 0,
                     .drop = tc_input(node, first + 6) != NULL};
}

/* `to` = `from`, with the fill where the mask is false. */
static void add_mask(tc_body *body, bool fill, const char *from, const char *to) {
    tc_body_add(body,
                "  fill_f = Constant <%s> ()\n"
                "  fill_t = CastLike (fill_f, Q)\n"
                "  %s = Where (mask, %s, fill_t)\n",
                fill ? "value_float: float = @fill" : "value: tensor = float {-inf}", to, from);
}

static void add_scores(tc_body *body, variant use) {
    const char *scores = "scaled";
    tc_body_add(body, "  products = MatMul (Q, KT)\n"
                      "  scaled = Mul (products, scale_t)\n");
    if (use.cap) {
        tc_body_add(body, "  cap_f = Constant <value_float: float = @softcap> ()\n"
                          "  cap = CastLike (cap_f, Q)\n"
                          "  of_cap = Div (scaled, cap)\n"
                          "  bent = Tanh (of_cap)\n"
                          "  capped = Mul (bent, cap)\n");
        scores = "capped";
    }
    if (use.mask && !use.last) {
        add_mask(body, use.fill, scores, "allowed");
        scores = "allowed";
    }
    if (use.bias)
        tc_body_add(body, "  %s = Add (%s, bias)\n", use.last ? "biased" : "scores", scores);
    if (use.last)
        add_mask(body, use.fill, "biased", "scores");
    else if (!use.bias)
        tc_body_add(body, "  scores = Identity (%s)\n", scores);
}

static void add_softmax(tc_body *body, bool guard, const char *result) {
    tc_body_add(body, "  %s = Softmax <axis: int = -1> (scores)\n", guard ? "raw" : result);
    if (guard)
        tc_body_add(body,
                    "  nan = IsNaN (raw)\n"
                    "  none_f = Constant <value_float: float = 0.0> ()\n"
                    "  none = CastLike (none_f, Q)\n"
                    "  %s = Where (nan, none, raw)\n",
                    result);
}

static void add_suffix(tc_body *body, variant use) {
    tc_body_suffix(body, "%s%s%s%s%s%s", use.bias ? "b1" : "", use.mask ? "m1" : "", use.fill ? "f1" : "",
                   use.guard ? "g1" : "", use.cap ? "c1" : "", use.last ? "l1" : "");
}

/* Of `scores`, or of these; "" if there is none. */
static const char *statistics_suffix(const tc_node *node, const tc_value *statistics) {
    return !statistics ? "" : tc_value_dtype(tc_input(node, 1)) == TC_DOUBLE ? "t11" : "t1";
}

/* The maximum of each row of scores, and the sum of exponentials relative to it. */
static void add_statistics(tc_body *body, bool is_double) {
    tc_body_add(body,
                "  wide = Cast <to: int = %d> (scores)\n"
                "  in_row = Constant <value_ints: ints = [-1]> ()\n"
                "  most = ReduceMax <keepdims: int = 1> (wide, in_row)\n"
                "  less = Sub (wide, most)\n"
                "  powers = Exp (less)\n"
                "  sum = ReduceSum <keepdims: int = 1> (powers, in_row)\n"
                "  Statistics = Concat <axis: int = -1> (most, sum)\n",
                is_double ? TC_DOUBLE : TC_FLOAT);
}

static const char *operand_list(variant use) {
    return use.drop   ? "Q, KT, V, bias, mask, ratio, seed"
           : use.mask ? "Q, KT, V, bias, mask"
           : use.bias ? "Q, KT, V, bias"
                      : "Q, KT, V";
}

bool tc_make_dot_attention(tc_body *body) {
    variant use = variant_of(body->node, 0);
    bool drop = use.drop, sign = drop && tc_attr_int(body->node, "signed", 0) != 0;
    bool packed = drop && !sign && tc_attr_int(body->node, "packed", 0) != 0;
    const char *statistics = statistics_suffix(body->node, tc_output(body->node, 4));
    if (use.bias || use.mask || use.guard || use.cap || drop || *statistics)
        tc_body_suffix(body, "_");
    add_suffix(body, use);
    tc_body_suffix(body, "%s%s%s", sign ? "s1" : drop ? "d1" : "", packed ? "p1" : "", statistics);
    const char *keep = packed ? "packed_keep" : "keep", *results = "Y, P";
    if (*statistics || (drop && !sign))
        results = tc_arena_printf(body->arena, "Y, P, dropped, %s%s", keep, *statistics ? ", Statistics" : "");
    tc_body_begin(
        body,
        tc_arena_printf(
            body->arena,
            "seed, bias_first: int = 0, fill: float = -3.4e38, guard: int = 0, node: int = 0, %sscale: float = 1.0, "
            "signed: int = 0, softcap: float = 0.0",
            packed ? "packed: int = 0, " : ""),
        operand_list(use), results);
    add_scale(body);
    add_scores(body, use);
    add_softmax(body, use.guard, sign ? "share" : "P");
    if (drop) {
        tc_body_draw(body, "scores");
        tc_body_drop(body, sign ? "share" : "P", "keep", "dropped");
    }
    if (packed)
        tc_body_pack(body, "keep", "packed_keep");
    if (sign)
        tc_body_add(body, "  negative = Neg (share)\n  P = Where (keep, share, negative)\n");
    tc_body_add(body, "  Y = MatMul (%s, V)\n", drop ? "dropped" : "P");
    if (*statistics && !drop) /* results without readers keep the position of the next one */
        tc_body_add(body, "  dropped = Identity (P)\n  keep = Equal (P, P)\n");
    if (*statistics)
        add_statistics(body, tc_value_dtype(tc_input(body->node, 1)) == TC_DOUBLE);
    tc_body_end(body);
    return true;
}

/* --- gradient --------------------------------------------------------------------------------- */

/* "0, 1, ..., rank - 1" with the last two exchanged. */
static const char *swapped(tc_arena *arena, int rank) {
    const char *list = "";
    for (int i = 0; i < rank - 2; i++)
        list = tc_arena_printf(arena, "%s%d, ", list, i);
    return tc_arena_printf(arena, "%s%d, %d", list, rank - 1, rank - 2);
}

static void add_transpose(tc_body *body, const char *x, int rank, const char *result) {
    tc_body_add(body, "  %s = Transpose <perm: ints = [%s]> (%s)\n", result, swapped(body->arena, rank), x);
}

static const char no_reach[] = "  reached = Identity (d_scores)\n";
static const char reach[] = "  no_grad = Constant <value_float: float = 0.0> ()\n"
                            "  no_grad_t = CastLike (no_grad, d_scores)\n"
                            "  reached = Where (mask, d_scores, no_grad_t)\n";

/* The place of the dropout flags: in the signs of P, or in a kept tensor, a bool or a bit per element, with the
 * dropped map or without. */
typedef struct dropping {
    bool any, sign, map, packed;
} dropping;

static dropping dropping_of(const tc_node *node) {
    const tc_value *keep = tc_input(node, 6);
    bool any = tc_input(node, 7) != NULL, sign = any && tc_attr_int(node, "signed", 0) != 0;
    return (dropping){any, sign, any && !sign && tc_input(node, 5), any && keep && tc_value_dtype(keep) == TC_UINT8};
}

static const char *dropping_suffix(dropping use) {
    if (!use.any || use.sign)
        return use.any ? "s1" : "";
    return use.map ? use.packed ? "d1p1" : "d1" : use.packed ? "k1p1" : "k1";
}

/* share: P without its flags; with dropout, kept: the flags, and map: the dropped map. */
static void add_dropped(tc_body *body, dropping use) {
    if (use.sign) {
        tc_body_add(body, "  no_share = Constant <value_float: float = 0.0> ()\n"
                          "  no_share_t = CastLike (no_share, P)\n"
                          "  share = Abs (P)\n"
                          "  kept = Greater (P, no_share_t)\n");
        tc_body_drop(body, "share", "kept", "map");
        return;
    }
    tc_body_add(body, "  share = Identity (P)\n");
    if (use.packed)
        tc_body_unpack(body, "keep", "P", "kept");
    else
        tc_body_add(body, "  kept = Identity (keep)\n");
    if (use.map)
        tc_body_add(body, "  map = Identity (dropped)\n");
    else
        tc_body_drop(body, "share", "kept", "map");
}

/* With a mask, the products omit masked elements. */
static void add_products(tc_body *body, bool mask, bool cap) {
    tc_body_add(body, "  last = Constant <value_ints: ints = [-1]> ()\n"
                      "  dV = MatMul (map_t, dY)\n"
                      "  weighted = Mul (dP, share)\n"
                      "  sums = ReduceSum <keepdims: int = 1> (weighted, last)\n"
                      "  rest = Sub (dP, sums)\n"
                      "  d_scores = Mul (share, rest)\n");
    tc_body_add(body, "%s", mask ? reach : no_reach);
    if (cap)
        tc_body_add(body, "  bent_square = Mul (bent, bent)\n"
                          "  one_f = Constant <value_float: float = 1.0> ()\n"
                          "  one = CastLike (one_f, Q)\n"
                          "  slope = Sub (one, bent_square)\n"
                          "  of_products = Mul (reached, slope)\n");
    else
        tc_body_add(body, "  of_products = Identity (reached)\n");
    tc_body_add(body, "  dQ_0 = MatMul (of_products, kt_t)\n"
                      "  dQ = Mul (dQ_0, scale_t)\n"
                      "  dKT_0 = MatMul (q_t, of_products)\n"
                      "  dKT = Mul (dKT_0, scale_t)\n");
}

bool tc_make_dot_attention_grad(tc_body *body) {
    const tc_node *node = body->node;
    int ranks[4];
    const dropping use = dropping_of(node);
    bool same = true, mask = tc_input(node, 8) != NULL;
    for (uint32_t i = 0; i < 4; i++) {
        ranks[i] = tc_value_rank(tc_input(node, i + 1));
        if (ranks[i] < 2)
            return false;
        same = same && ranks[i] == ranks[0];
    }
    if (use.any && !use.sign && !tc_input(node, 6))
        return false;
    if (same)
        tc_body_suffix(body, "_r%d", ranks[0]);
    else
        tc_body_suffix(body, "_r%d_%d_%d_%d", ranks[0], ranks[1], ranks[2], ranks[3]);
    const bool last = mask && tc_attr_int(node, "bias_first", 0) != 0;
    tc_body_suffix(body, "%s%s%s", mask ? "m1" : "", last ? "l1" : "", dropping_suffix(use));
    tc_body_begin(body, "bias_first: int = 0, scale: float = 1.0, signed: int = 0",
                  mask      ? "dY, Q, KT, V, P, dropped, keep, ratio, mask"
                  : use.any ? "dY, Q, KT, V, P, dropped, keep, ratio"
                            : "dY, Q, KT, V, P",
                  "dQ, dKT, dV, dS");
    add_scale(body);
    add_transpose(body, "V", ranks[2], "v_t");
    tc_body_add(body, "  dD = MatMul (dY, v_t)\n");
    if (use.any) {
        add_dropped(body, use);
        tc_body_drop(body, "dD", "kept", "dP");
    } else {
        tc_body_add(body, "  share = Identity (P)\n  map = Identity (P)\n  dP = Identity (dD)\n");
    }
    add_transpose(body, "map", ranks[3], "map_t");
    add_transpose(body, "KT", ranks[1], "kt_t");
    add_transpose(body, "Q", ranks[0], "q_t");
    add_products(body, mask, false);
    tc_body_add(body, "  dS = Identity (%s)\n", last ? "reached" : "d_scores");
    tc_body_end(body);
    return true;
}

/* The forward body up to the scores' softmax and the draw, then the gradient's. */
bool tc_make_dot_attention_tiled_grad(tc_body *body) {
    const tc_node *node = body->node;
    variant use = variant_of(node, 1);
    bool sums = tc_attr_find(node, "sum_axes") != NULL;
    int ranks[3];
    for (uint32_t i = 0; i < 3; i++) {
        ranks[i] = tc_value_rank(tc_input(node, i + 1));
        if (ranks[i] < 2)
            return false;
    }
    tc_body_suffix(body, "_r%d_%d_%d", ranks[0], ranks[1], ranks[2]);
    add_suffix(body, use);
    const char *statistics = statistics_suffix(node, tc_input(node, 8) ? tc_input(node, 8) : tc_input(node, 9));
    tc_body_suffix(body, "%s%s%s", use.drop ? "d1" : "", sums ? "a1" : "", statistics);
    tc_body_begin(body,
                  tc_arena_printf(body->arena,
                                  "seed, bias_first: int = 0, fill: float = -3.4e38, guard: int = 0, node: int = 0, "
                                  "scale: float = 1.0, softcap: float = 0.0%s",
                                  sums ? ", sum_axes: ints = [0]" : ""),
                  tc_arena_printf(body->arena, "dY, %s",
                                  *statistics ? "Q, KT, V, bias, mask, ratio, seed, statistics, y" : operand_list(use)),
                  "dQ, dKT, dV, dS");
    add_scale(body);
    add_scores(body, use);
    add_softmax(body, use.guard, "share");
    add_transpose(body, "V", ranks[2], "v_t");
    tc_body_add(body, "  dD = MatMul (dY, v_t)\n");
    if (use.drop) {
        tc_body_draw(body, "scores");
        tc_body_drop(body, "share", "keep", "map");
        tc_body_drop(body, "dD", "keep", "dP");
    } else {
        tc_body_add(body, "  map = Identity (share)\n  dP = Identity (dD)\n");
    }
    add_transpose(body, "map", ranks[0] > ranks[1] ? ranks[0] : ranks[1], "map_t");
    add_transpose(body, "KT", ranks[1], "kt_t");
    add_transpose(body, "Q", ranks[0], "q_t");
    add_products(body, use.fill || use.last, use.cap);
    if (sums)
        tc_body_add(body,
                    "  axes = Constant <value_ints: ints = @sum_axes> ()\n"
                    "  dS = ReduceSum <keepdims: int = 1> (%s, axes)\n",
                    use.last ? "reached" : "d_scores");
    else
        tc_body_add(body, "  dS = Identity (%s)\n", use.last ? "reached" : "d_scores");
    tc_body_end(body);
    return true;
}
