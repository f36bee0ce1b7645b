/* bodies_dropout.c: the function bodies of Dropout and random numbers, and the draw that they share with attention:
 * Philox4x32 of 7 rounds (Salmon et al., SC 2011) in integer ops. Words are int64 in [0, 2^32); a product of two
 * wraps around 2^64, and a shift as uint64 gives its upper half. Block b holds the words of numbers 4 b to 4 b + 3,
 * or 16 bits for each of a Dropout's elements 8 b to 8 b + 7, low half first. Its counter is {b low, b high ^ step
 * high, node, step low}, its key the two words of seed. */
#include "bodies.h"

static void add_constants(tc_body *body) {
    tc_body_add(body, "  low = Constant <value_int: int = 4294967295> ()\n"
                      "  half = Constant <value: tensor = uint64 {32}> ()\n"
                      "  m0 = Constant <value_int: int = 3528531795> ()\n"
                      "  m1 = Constant <value_int: int = 3449720151> ()\n"
                      "  w0 = Constant <value_int: int = 2654435769> ()\n"
                      "  w1 = Constant <value_int: int = 3144134277> ()\n"
                      "  int_0 = Constant <value_int: int = 0> ()\n"
                      "  int_1 = Constant <value_int: int = 1> ()\n"
                      "  list_0 = Constant <value_ints: ints = [0]> ()\n"
                      "  list_rest = Constant <value_ints: ints = [-1]> ()\n");
}

/* The counter (c0_0 to c3_0) of every block and the key (k0_0, k1_0) from `shape_of` and `seed`; `in_block` elements
 * take their bits from one block. */
static void add_counters(tc_body *body, const char *shape_of, int in_block) {
    tc_body_add(body,
                "  in_block = Constant <value_int: int = %d> ()\n"
                "  but_one = Constant <value_int: int = %d> ()\n"
                "  drawn_shape = Shape (%s)\n"
                "  n = Size (%s)\n"
                "  n_up = Add (n, but_one)\n"
                "  blocks = Div (n_up, in_block)\n"
                "  block = Range (int_0, blocks, int_1)\n"
                "  c0_0 = BitwiseAnd (block, low)\n"
                "  block_u = Cast <to: int = 13> (block)\n"
                "  block_high = BitShift <direction: string = \"RIGHT\"> (block_u, half)\n"
                "  block_i = Cast <to: int = 7> (block_high)\n"
                "  node_number = Constant <value_int: int = @node> ()\n"
                "  c2_0 = BitwiseAnd (node_number, low)\n"
                "  step = Gather <axis: int = 0> (seed, int_1)\n"
                "  c3_0 = BitwiseAnd (step, low)\n"
                "  step_u = Cast <to: int = 13> (step)\n"
                "  step_high = BitShift <direction: string = \"RIGHT\"> (step_u, half)\n"
                "  step_i = Cast <to: int = 7> (step_high)\n"
                "  c1_0 = BitwiseXor (block_i, step_i)\n"
                "  key = Gather <axis: int = 0> (seed, int_0)\n"
                "  k0_0 = BitwiseAnd (key, low)\n"
                "  key_u = Cast <to: int = 13> (key)\n"
                "  key_high = BitShift <direction: string = \"RIGHT\"> (key_u, half)\n"
                "  k1_0 = Cast <to: int = 7> (key_high)\n",
                in_block, in_block - 1, shape_of, shape_of);
}

static void add_round(tc_body *body, int r) {
    for (int i = 0; i < 2; i++) /* p<i> = m<i> * c<2 i>: lower half a<i>, upper half b<i> */
        tc_body_add(body,
                    "  p%d_%d = Mul (c%d_%d, m%d)\n"
                    "  a%d_%d = BitwiseAnd (p%d_%d, low)\n"
                    "  u%d_%d = Cast <to: int = 13> (p%d_%d)\n"
                    "  v%d_%d = BitShift <direction: string = \"RIGHT\"> (u%d_%d, half)\n"
                    "  b%d_%d = Cast <to: int = 7> (v%d_%d)\n",
                    i, r, 2 * i, r, i, i, r, i, r, i, r, i, r, i, r, i, r, i, r, i, r);
    tc_body_add(body,
                "  x0_%d = BitwiseXor (b1_%d, c1_%d)\n"
                "  c0_%d = BitwiseXor (x0_%d, k0_%d)\n"
                "  c1_%d = Identity (a1_%d)\n"
                "  x2_%d = BitwiseXor (b0_%d, c3_%d)\n"
                "  c2_%d = BitwiseXor (x2_%d, k1_%d)\n"
                "  c3_%d = Identity (a0_%d)\n",
                r, r, r, r + 1, r, r, r + 1, r, r, r, r, r + 1, r, r, r + 1, r);
    for (int i = 0; i < 2; i++)
        tc_body_add(body, "  s%d_%d = Add (k%d_%d, w%d)\n  k%d_%d = BitwiseAnd (s%d_%d, low)\n", i, r, i, r, i, i,
                    r + 1, i, r);
}

/* `words` of every block, int64[blocks, 4, 1]. */
static void add_words(tc_body *body, const char *shape_of, int in_block) {
    enum { ROUNDS = 7 };
    add_constants(body);
    add_counters(body, shape_of, in_block);
    for (int r = 0; r < ROUNDS; r++)
        add_round(body, r);
    tc_body_add(body, "  lane_axes = Constant <value_ints: ints = [1, 2]> ()\n");
    for (int lane = 0; lane < 4; lane++)
        tc_body_add(body, "  lane%d = Unsqueeze (c%d_%d, lane_axes)\n", lane, lane, ROUNDS);
    tc_body_add(body, "  words = Concat <axis: int = 1> (lane0, lane1, lane2, lane3)\n");
}

/* result = int64[n] of the numbers in x, without those after the last element. */
static void add_flat(tc_body *body, const char *x, const char *result) {
    tc_body_add(body,
                "  %s_up = Reshape (%s, list_rest)\n"
                "  n_list = Unsqueeze (n, list_0)\n"
                "  %s = Slice (%s_up, list_0, n_list)\n",
                result, x, result, result);
}

/* `bits`: the upper 24 bits of a word for each element of `shape_of`, int64[n]. */
static void add_bits(tc_body *body, const char *shape_of) {
    add_words(body, shape_of, 4);
    add_flat(body, "words", "flat_words");
    tc_body_add(body, "  byte = Constant <value_int: int = 256> ()\n"
                      "  bits = Div (flat_words, byte)\n");
}

void tc_body_draw(tc_body *body, const char *shape_of) {
    add_words(body, shape_of, 8);
    tc_body_add(body, "  size_16 = Constant <value_int: int = 65536> ()\n"
                      "  low_16 = Constant <value_int: int = 65535> ()\n"
                      "  low_halves = BitwiseAnd (words, low_16)\n"
                      "  high_halves = Div (words, size_16)\n"
                      "  halves = Concat <axis: int = 2> (low_halves, high_halves)\n");
    add_flat(body, "halves", "bits");
    /* The threshold, as in kernels/dropout/dropout_math.h: Round takes halves to the even integer. */
    tc_body_add(body, "  drawn = Reshape <allowzero: int = 1> (bits, drawn_shape)\n"
                      "  ratio_number = Squeeze (ratio)\n"
                      "  ratio_d = Cast <to: int = 11> (ratio_number)\n"
                      "  size_d = Cast <to: int = 11> (size_16)\n"
                      "  least_scaled = Mul (ratio_d, size_d)\n"
                      "  least_rounded = Round (least_scaled)\n"
                      "  least_whole = Cast <to: int = 7> (least_rounded)\n"
                      "  ratio_sign = Sign (ratio_d)\n"
                      "  least_sign = Cast <to: int = 7> (ratio_sign)\n"
                      "  least_up = Max (least_whole, least_sign)\n"
                      "  least = Min (least_up, low_16)\n"
                      "  keep = GreaterOrEqual <" TC_SEED_MARK ": int = @seed> (drawn, least)\n");
}

void tc_body_drop(tc_body *body, const char *x, const char *mask, const char *result) {
    tc_body_add(body,
                "  %s_ratio = Squeeze (ratio)\n"
                "  %s_ratio_d = Cast <to: int = 11> (%s_ratio)\n"
                "  %s_one_d = Constant <value: tensor = double {1.0}> ()\n"
                "  %s_share_d = Sub (%s_one_d, %s_ratio_d)\n"
                "  %s_share = CastLike (%s_share_d, %s)\n"
                "  %s_zero_f = Constant <value_float: float = 0.0> ()\n"
                "  %s_zero = CastLike (%s_zero_f, %s)\n"
                "  %s_grown = Div (%s, %s_share)\n"
                "  %s = Where (%s, %s_grown, %s_zero)\n",
                result, result, result, result, result, result, result, result, result, x, result, result, result, x,
                result, x, result, result, mask, result, result);
}

bool tc_make_dropout(tc_body *body) {
    bool packed = tc_attr_int(body->node, "packed", 0) != 0;
    tc_body_suffix(body, packed ? "_p1" : "");
    tc_body_begin(body, packed ? "seed, node: int = 0, packed: int = 0" : "seed, node: int = 0", "X, ratio, seed",
                  "Y, mask");
    tc_body_draw(body, "X");
    if (packed)
        tc_body_pack(body, "keep", "mask");
    else
        tc_body_add(body, "  mask = Identity (keep)\n");
    tc_body_drop(body, "X", "keep", "Y");
    tc_body_end(body);
    return true;
}

bool tc_make_dropout_grad(tc_body *body) {
    bool packed = tc_value_dtype(tc_input(body->node, 1)) == TC_UINT8;
    tc_body_suffix(body, packed ? "_p1" : "");
    tc_body_begin(body, "", "dY, mask, ratio", "dX");
    if (packed)
        tc_body_unpack(body, "mask", "dY", "kept");
    tc_body_drop(body, "dY", packed ? "kept" : "mask", "dX");
    tc_body_end(body);
    return true;
}

/* --- random numbers ----------------------------------------------------------------------------- */

/* The type in which numbers are drawn, for the type they are rounded to. */
static int made_in(tc_dtype dtype) { return dtype == TC_DOUBLE ? TC_DOUBLE : TC_FLOAT; }

/* How many of 24 bits fit the significand of the type. */
static int bits_of(tc_dtype dtype) { return dtype == TC_FLOAT16 ? 11 : dtype == TC_BFLOAT16 ? 8 : 24; }

static void begin_random(tc_body *body, tc_dtype dtype, const char *params) {
    if (dtype != TC_FLOAT)
        tc_body_suffix(body, "_%s", tc_dtype_name(dtype));
    tc_body_begin(body, params, "shape, seed", "Y");
}

static void add_attr(tc_body *body, const char *attr, tc_dtype dtype) {
    tc_body_add(body,
                "  %s_f = Constant <value_float: float = @%s> ()\n"
                "  %s_n = Cast <to: int = %d> (%s_f)\n",
                attr, attr, attr, made_in(dtype), attr);
}

bool tc_make_random_uniform(tc_body *body) {
    tc_dtype dtype = (tc_dtype)tc_attr_int(body->node, "dtype", TC_FLOAT);
    begin_random(body, dtype, "dtype: int = 1, node: int = 0, low: float = 0.0, high: float = 1.0");
    tc_body_add(body, "  like = ConstantOfShape (shape)\n");
    add_bits(body, "like");
    add_attr(body, "low", dtype);
    add_attr(body, "high", dtype);
    tc_body_add(body,
                "  rest = Constant <value_int: int = %d> ()\n"
                "  fitting = Div (bits, rest)\n"
                "  fitting_n = Cast <to: int = %d> (fitting)\n"
                "  unit_f = Constant <value_float: float = %.17g> ()\n"
                "  unit = CastLike (unit_f, fitting_n)\n"
                "  u = Mul (fitting_n, unit)\n"
                "  width = Sub (high_n, low_n)\n"
                "  above = Mul (u, width)\n"
                "  flat = Add (low_n, above)\n"
                "  made = Reshape <allowzero: int = 1> (flat, shape)\n"
                "  Y = Cast <to: int = %d> (made)\n",
                1 << (24 - bits_of(dtype)), made_in(dtype), 1.0 / (1 << bits_of(dtype)), (int)dtype);
    tc_body_end(body);
    return true;
}

/* The Box-Muller transform: two words for an element; 1 - u is above 0. */
bool tc_make_random_normal(tc_body *body) {
    tc_dtype dtype = (tc_dtype)tc_attr_int(body->node, "dtype", TC_FLOAT);
    begin_random(body, dtype, "dtype: int = 1, node: int = 0, mean: float = 0.0, scale: float = 1.0");
    tc_body_add(body, "  two = Constant <value_ints: ints = [2]> ()\n"
                      "  twice = Concat <axis: int = 0> (shape, two)\n"
                      "  like = ConstantOfShape (twice)\n");
    add_bits(body, "like");
    add_attr(body, "mean", dtype);
    add_attr(body, "scale", dtype);
    tc_body_add(body,
                "  bits_n = Cast <to: int = %d> (bits)\n"
                "  unit_f = Constant <value_float: float = 5.9604644775390625e-08> ()\n"
                "  unit = CastLike (unit_f, bits_n)\n"
                "  uv_flat = Mul (bits_n, unit)\n"
                "  uv = Reshape <allowzero: int = 1> (uv_flat, twice)\n"
                "  u = Gather <axis: int = -1> (uv, int_0)\n"
                "  v = Gather <axis: int = -1> (uv, int_1)\n"
                "  one_f = Constant <value_float: float = 1.0> ()\n"
                "  one = CastLike (one_f, u)\n"
                "  above_0 = Sub (one, u)\n"
                "  ln = Log (above_0)\n"
                "  minus_2_f = Constant <value_float: float = -2.0> ()\n"
                "  minus_2 = CastLike (minus_2_f, u)\n"
                "  square = Mul (minus_2, ln)\n"
                "  radius = Sqrt (square)\n"
                "  turn_t = Constant <value: tensor = double {6.283185307179586}> ()\n"
                "  turn = CastLike (turn_t, u)\n"
                "  angle = Mul (turn, v)\n"
                "  cosine = Cos (angle)\n"
                "  z = Mul (radius, cosine)\n"
                "  wide = Mul (z, scale_n)\n"
                "  made = Add (mean_n, wide)\n"
                "  Y = Cast <to: int = %d> (made)\n",
                made_in(dtype), (int)dtype);
    tc_body_end(body);
    return true;
}
