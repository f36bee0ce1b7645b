/* bodies_attention.c: the function body of Attention, as defined by ONNX opset 25, assembled from the parts that a
 * node uses. Masks are added as 0 and -inf, which is written log(0). A row whose keys are all masked gives zeros. */
#include "bodies.h"
#include <string.h>

/* The parts of Attention that a node uses; each field shows in the function's name. */
typedef struct attention {
    bool rank3, repeat_heads, mask, bool_mask, pad_mask, past, nonpad, causal, left, right, scale, softcap, bias;
    int64_t precision; /* element type of the softmax, 0: the type of Q */
    int mode;          /* the meaning of result 3; -1: it has no reader */
    uint32_t n_outputs;
} attention;

static tc_dim dim_of(const tc_value *value, int axis) {
    int rank = tc_value_rank(value);
    return rank < 0 || axis >= rank || rank + axis < 0 ? tc_dim_unknown()
                                                       : value->type->dims[axis < 0 ? rank + axis : axis];
}

/* A mask may have fewer keys than there are; the rest is masked. */
static bool mask_may_be_short(const tc_node *node, const attention *a) {
    tc_dim masked = dim_of(tc_input(node, 3), -1), keys = dim_of(tc_input(node, 1), a->rank3 ? 1 : 2);
    bool broadcast = tc_dim_is_const(masked) && masked.value == 1;
    return !broadcast && (a->past || !tc_dim_equal(masked, keys));
}

static attention inspect(const tc_node *node) {
    attention a = {0};
    int rank = tc_value_rank(tc_input(node, 0));
    int64_t q_heads = tc_attr_int(node, "q_num_heads", 0), kv_heads = tc_attr_int(node, "kv_num_heads", 0);
    a.rank3 = rank == 3 || (rank < 0 && q_heads > 0);
    a.repeat_heads =
        a.rank3 ? q_heads != kv_heads : !tc_dim_equal(dim_of(tc_input(node, 0), 1), dim_of(tc_input(node, 1), 1));
    a.past = tc_input(node, 4) != NULL;
    a.nonpad = tc_input(node, 6) != NULL;
    a.mask = tc_input(node, 3) != NULL;
    a.bool_mask = a.mask && tc_value_dtype(tc_input(node, 3)) == TC_BOOL;
    a.pad_mask = a.mask && mask_may_be_short(node, &a);
    a.causal = tc_attr_int(node, "is_causal", 0) != 0;
    a.left = tc_attr_int(node, "left_window_size", -1) >= 0;
    a.right = tc_attr_int(node, "right_window_size", -1) >= 0;
    a.scale = tc_attr_find(node, "scale") != NULL;
    a.softcap = tc_attr_float(node, "softcap", 0.0f) != 0.0f;
    a.precision = tc_attr_int(node, "softmax_precision", 0);
    a.mode = tc_output(node, 3) ? (int)tc_attr_int(node, "qk_matmul_output_mode", 0) : -1;
    a.bias = a.mask || a.causal || a.left || a.right || a.nonpad;
    a.n_outputs = node->n_outputs;
    return a;
}

static void name_it(tc_body *body, const attention *a) {
    tc_body_suffix(body, "_%s%s", a->rank3 ? "d3" : "d4", a->repeat_heads ? "g1" : "");
    if (a->mask)
        tc_body_suffix(body, "m%d%s", a->bool_mask ? 2 : 1, a->pad_mask ? "x1" : "");
    tc_body_suffix(body, "%s%s%s%s%s%s%s", a->past ? "p1" : "", a->nonpad ? "n1" : "", a->causal ? "c1" : "",
                   a->left ? "l1" : "", a->right ? "r1" : "", a->scale ? "s1" : "", a->softcap ? "t1" : "");
    if (a->precision)
        tc_body_suffix(body, "e%d", (int)a->precision);
    if (a->n_outputs > 1)
        tc_body_suffix(body, "o%u", a->n_outputs);
    if (a->mode >= 0)
        tc_body_suffix(body, "q%d", a->mode);
}

/* [B, S, heads * D] -> [B, heads, S, D] */
static void split_heads(tc_body *body, const char *from, const char *to, const char *heads) {
    tc_body_add(body,
                "  %s_flat = Concat <axis: int = 0> (zeros, %s, minus_one)\n"
                "  %s_split = Reshape (%s, %s_flat)\n"
                "  %s = Transpose <perm: ints = [0, 2, 1, 3]> (%s_split)\n",
                to, heads, to, from, to, to, to);
}

static void operands(tc_body *body, const attention *a) {
    tc_body_add(body, "  zero_at = Constant <value_ints: ints = [0]> ()\n"
                      "  zero_f = Constant <value_float: float = 0.0> ()\n"
                      "  zero = CastLike (zero_f, Q)\n");
    if (!a->rank3) {
        tc_body_add(body, "  q = Identity (Q)\n  k_new = Identity (K)\n  v_new = Identity (V)\n");
        return;
    }
    tc_body_add(body, "  zeros = Constant <value_ints: ints = [0, 0]> ()\n"
                      "  minus_one = Constant <value_ints: ints = [-1]> ()\n"
                      "  q_heads_0 = Constant <value_int: int = @q_num_heads> ()\n"
                      "  kv_heads_0 = Constant <value_int: int = @kv_num_heads> ()\n"
                      "  q_heads = Unsqueeze (q_heads_0, zero_at)\n"
                      "  kv_heads = Unsqueeze (kv_heads_0, zero_at)\n");
    split_heads(body, "Q", "q", "q_heads");
    split_heads(body, "K", "k_new", "kv_heads");
    split_heads(body, "V", "v_new", "kv_heads");
}

static void cache(tc_body *body, const attention *a) {
    if (a->past)
        tc_body_add(body, "  k_all = Concat <axis: int = 2> (past_key, k_new)\n"
                          "  v_all = Concat <axis: int = 2> (past_value, v_new)\n");
    else
        tc_body_add(body, "  k_all = Identity (k_new)\n  v_all = Identity (v_new)\n");
    if (a->n_outputs > 1)
        tc_body_add(body, "  present_key = Identity (k_all)\n");
    if (a->n_outputs > 2)
        tc_body_add(body, "  present_value = Identity (v_all)\n");
}

/* Each head of keys and values serves several heads of queries: [B, kv, S, D] -> [B, kv, n, S, D] -> [B, kv * n, S, D]
 */
static void repeat(tc_body *body, const char *from, const char *to) {
    tc_body_add(body,
                "  %s_column = Unsqueeze (%s, two_at)\n"
                "  %s_wide = Expand (%s_column, repeats)\n"
                "  %s_first = Shape <start: int = 0, end: int = 1> (%s)\n"
                "  %s_rest = Shape <start: int = 2> (%s)\n"
                "  %s_shape = Concat <axis: int = 0> (%s_first, all_heads, %s_rest)\n"
                "  %s = Reshape (%s_wide, %s_shape)\n",
                to, from, to, to, to, from, to, from, to, to, to, to, to, to);
}

static void heads(tc_body *body, const attention *a) {
    if (!a->repeat_heads) {
        tc_body_add(body, "  k = Identity (k_all)\n  v = Identity (v_all)\n");
        return;
    }
    tc_body_add(body, "  two_at = Constant <value_ints: ints = [2]> ()\n"
                      "  ones = Constant <value_ints: ints = [1, 1]> ()\n"
                      "  all_heads = Shape <start: int = 1, end: int = 2> (q)\n"
                      "  own_heads = Shape <start: int = 1, end: int = 2> (k_all)\n"
                      "  times = Div (all_heads, own_heads)\n"
                      "  repeats = Concat <axis: int = 0> (ones, times, ones)\n");
    repeat(body, "k_all", "k");
    repeat(body, "v_all", "v");
}

static void scores(tc_body *body, const attention *a) {
    if (a->scale)
        tc_body_add(body, "  scale_f = Constant <value_float: float = @scale> ()\n");
    else
        tc_body_add(body, "  width = Shape <start: int = 3, end: int = 4> (q)\n"
                          "  width_f = Cast <to: int = 1> (width)\n"
                          "  width_root = Sqrt (width_f)\n"
                          "  scale_f = Reciprocal (width_root)\n");
    tc_body_add(body, "  scale_root = Sqrt (scale_f)\n"
                      "  factor = CastLike (scale_root, Q)\n"
                      "  q_scaled = Mul (q, factor)\n"
                      "  k_turned = Transpose <perm: ints = [0, 1, 3, 2]> (k)\n"
                      "  k_scaled = Mul (k_turned, factor)\n"
                      "  raw = MatMul (q_scaled, k_scaled)\n");
    if (a->softcap)
        tc_body_add(body, "  cap_f = Constant <value_float: float = @softcap> ()\n"
                          "  cap = CastLike (cap_f, Q)\n"
                          "  capped_in = Div (raw, cap)\n"
                          "  capped_out = Tanh (capped_in)\n"
                          "  capped = Mul (capped_out, cap)\n");
    else
        tc_body_add(body, "  capped = Identity (raw)\n");
}

static void given_mask(tc_body *body, const attention *a) {
    const char *mask = "attn_mask";
    if (a->bool_mask) {
        tc_body_add(body, "  mask_bias = Where (attn_mask, zero, masked)\n");
        mask = "mask_bias";
    }
    if (a->pad_mask)
        tc_body_add(body,
                    "  mask_keys = Shape <start: int = -1> (%s)\n"
                    "  all_keys = Shape <start: int = 2, end: int = 3> (k)\n"
                    "  one_key = Constant <value_ints: ints = [1]> ()\n"
                    "  is_one = Equal (mask_keys, one_key)\n"
                    "  missing_keys = Sub (all_keys, mask_keys)\n"
                    "  pad_keys = Where (is_one, zero_at, missing_keys)\n"
                    "  pads = Concat <axis: int = 0> (zero_at, pad_keys)\n"
                    "  last_axis = Constant <value_ints: ints = [-1]> ()\n"
                    "  bias_mask = Pad (%s, pads, masked, last_axis)\n",
                    mask, mask);
    else
        tc_body_add(body, "  bias_mask = Identity (%s)\n", mask);
}

/* Positions of queries, [Sq, 1] or [B, 1, Sq, 1], and of keys, [Sk], as int64. */
static void positions(tc_body *body, const attention *a) {
    tc_body_add(body, "  first = Constant <value_int: int = 0> ()\n"
                      "  step = Constant <value_int: int = 1> ()\n"
                      "  key_dim = Shape <start: int = 2, end: int = 3> (k)\n"
                      "  key_count = Squeeze (key_dim, zero_at)\n"
                      "  keys = Range (first, key_count, step)\n"
                      "  query_dim = Shape <start: int = 2, end: int = 3> (q)\n"
                      "  query_count = Squeeze (query_dim, zero_at)\n"
                      "  query_index = Range (first, query_count, step)\n"
                      "  one_at = Constant <value_ints: ints = [1]> ()\n"
                      "  query_column = Unsqueeze (query_index, one_at)\n");
    if (a->nonpad)
        tc_body_add(body, "  batch_shape = Constant <value_ints: ints = [-1, 1, 1, 1]> ()\n"
                          "  valid_keys = Reshape (nonpad_kv_seqlen, batch_shape)\n"
                          "  offset = Sub (valid_keys, query_dim)\n");
    else if (a->past)
        tc_body_add(body, "  offset = Shape <start: int = 2, end: int = 3> (past_key)\n");
    else
        tc_body_add(body, "  offset = Identity (zero_at)\n");
    tc_body_add(body, "  queries = Add (query_column, offset)\n");
}

/* `condition` masks keys: it adds one more term to the bias. */
static void add_term(tc_body *body, const char **bias, const char *name, const char *condition) {
    tc_body_add(body, "  bias_%s = Where (%s, zero, masked)\n", name, condition);
    if (*bias)
        tc_body_add(body, "  sum_%s = Add (%s, bias_%s)\n", name, *bias, name);
    *bias = tc_arena_printf(body->arena, "%s_%s", *bias ? "sum" : "bias", name);
}

static void bias(tc_body *body, const attention *a) {
    if (!a->bias) {
        tc_body_add(body, "  biased = Identity (capped)\n");
        return;
    }
    const char *sum = NULL;
    tc_body_add(body, "  masked = Log (zero)\n");
    if (a->mask) {
        given_mask(body, a);
        sum = "bias_mask";
    }
    if (a->causal || a->left || a->right || a->nonpad)
        positions(body, a);
    if (a->causal) {
        tc_body_add(body, "  seen = LessOrEqual (keys, queries)\n");
        add_term(body, &sum, "causal", "seen");
    }
    if (a->left) {
        tc_body_add(body, "  left = Constant <value_int: int = @left_window_size> ()\n"
                          "  leftmost = Sub (queries, left)\n"
                          "  in_left = GreaterOrEqual (keys, leftmost)\n");
        add_term(body, &sum, "left", "in_left");
    }
    if (a->right) {
        tc_body_add(body, "  right = Constant <value_int: int = @right_window_size> ()\n"
                          "  rightmost = Add (queries, right)\n"
                          "  in_right = LessOrEqual (keys, rightmost)\n");
        add_term(body, &sum, "right", "in_right");
    }
    if (a->nonpad) {
        tc_body_add(body, "  valid = Less (keys, valid_keys)\n");
        add_term(body, &sum, "padding", "valid");
    }
    tc_body_add(body, "  bias = Identity (%s)\n  biased = Add (capped, bias)\n", sum);
}

/* The causal limit alone leaves each query at least one key, unless the cache is shorter than the queries. */
static bool rows_may_be_empty(const attention *a) { return a->mask || a->left || a->right || a->nonpad; }

static void softmax(tc_body *body, const attention *a) {
    const char *in = "biased";
    bool guard = rows_may_be_empty(a);
    if (guard) {
        /* The operand is guarded too, so that neither the row nor its gradient is ever NaN. */
        tc_body_add(body, "  row_end = Constant <value_ints: ints = [-1]> ()\n"
                          "  row_best = ReduceMax <keepdims: int = 1> (bias, row_end)\n"
                          "  row_empty = IsInf <detect_positive: int = 0> (row_best)\n"
                          "  guarded = Where (row_empty, zero, biased)\n");
        in = "guarded";
    }
    if (a->precision) {
        tc_body_add(body, "  precise = Cast <to: int = %d> (%s)\n", (int)a->precision, in);
        in = "precise";
    }
    tc_body_add(body, "  map_0 = Softmax <axis: int = -1> (%s)\n  map_1 = CastLike (map_0, Q)\n", in);
    tc_body_add(body, guard ? "  map = Where (row_empty, zero, map_1)\n" : "  map = Identity (map_1)\n");
}

static void results(tc_body *body, const attention *a) {
    static const char *const shown[] = {"raw", "capped", "biased", "map"};
    if (a->n_outputs > 3)
        tc_body_add(body, "  qk_matmul_output = Identity (%s)\n", shown[a->mode < 0 || a->mode > 3 ? 0 : a->mode]);
    if (a->rank3)
        tc_body_add(body, "  y = MatMul (map, v)\n"
                          "  y_turned = Transpose <perm: ints = [0, 2, 1, 3]> (y)\n"
                          "  y_shape = Concat <axis: int = 0> (zeros, minus_one)\n"
                          "  Y = Reshape (y_turned, y_shape)\n");
    else
        tc_body_add(body, "  Y = MatMul (map, v)\n");
}

/* The first `count` of several names. */
static const char *first_names(tc_arena *arena, const char *const *names, uint32_t count) {
    const char *list = names[0];
    for (uint32_t i = 1; i < count; i++)
        list = tc_arena_printf(arena, "%s, %s", list, names[i]);
    return list;
}

bool tc_make_attention(tc_body *body) {
    static const char *const inputs[] = {"Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"};
    static const char *const outputs[] = {"Y", "present_key", "present_value", "qk_matmul_output"};
    const tc_node *node = body->node;
    if (node->n_inputs > TC_COUNT(inputs) || node->n_outputs > TC_COUNT(outputs) || node->n_inputs < 3)
        return false;
    attention a = inspect(node);
    if (a.mask && tc_value_dtype(tc_input(node, 3)) == TC_UNDEFINED)
        return false;
    name_it(body, &a);
    tc_body_begin(
        body,
        "is_causal: int = 0, kv_num_heads: int = 0, left_window_size: int = -1, q_num_heads: int = 0, "
        "qk_matmul_output_mode: int = 0, right_window_size: int = -1, scale: float = 0.0, softcap: float = 0.0, "
        "softmax_precision: int = 0",
        first_names(body->arena, inputs, node->n_inputs), first_names(body->arena, outputs, node->n_outputs));
    operands(body, &a);
    cache(body, &a);
    heads(body, &a);
    scores(body, &a);
    bias(body, &a);
    softmax(body, &a);
    results(body, &a);
    tc_body_end(body);
    return true;
}
