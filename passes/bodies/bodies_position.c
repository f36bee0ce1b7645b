/* bodies_position.c: the function bodies of RotaryEmbedding (ONNX opset 23) and TensorScatter (opset 24). Their
 * texts depend on rank, axes and switches, so they are written per node; equal nodes share one. */
#include "bodies.h"
#include <string.h>

/* x is [B, S, heads, D]: the op rotates the first `rotary_embedding_dim` elements, the rest stays. */
static void cut(tc_body *body, bool partial) {
    if (partial)
        tc_body_add(body, "  from_0 = Constant <value_ints: ints = [0]> ()\n"
                          "  cut_0 = Constant <value_int: int = @rotary_embedding_dim> ()\n"
                          "  cut = Unsqueeze (cut_0, from_0)\n"
                          "  end = Constant <value_ints: ints = [9223372036854775807]> ()\n"
                          "  last = Constant <value_ints: ints = [3]> ()\n"
                          "  turning = Slice (x, from_0, cut, last)\n"
                          "  staying = Slice (x, cut, end, last)\n");
    else
        tc_body_add(body, "  turning = Identity (x)\n");
}

/* Pairs are neighbours, or come from the two halves. */
static void halves(tc_body *body, bool interleaved) {
    if (interleaved)
        tc_body_add(body, "  pair_shape = Constant <value_ints: ints = [0, 0, 0, -1, 2]> ()\n"
                          "  pairs = Reshape (turning, pair_shape)\n"
                          "  x1_pair, x2_pair = Split <axis: int = 4, num_outputs: int = 2> (pairs)\n"
                          "  pair_axis = Constant <value_ints: ints = [4]> ()\n"
                          "  x1 = Squeeze (x1_pair, pair_axis)\n"
                          "  x2 = Squeeze (x2_pair, pair_axis)\n");
    else
        tc_body_add(body, "  x1, x2 = Split <axis: int = 3, num_outputs: int = 2> (turning)\n");
}

static void rotate(tc_body *body, bool positions, bool interleaved) {
    static const char *const caches[] = {"cos", "sin"};
    tc_body_add(body, "  head_axis = Constant <value_ints: ints = [2]> ()\n");
    for (size_t i = 0; i < TC_COUNT(caches); i++) {
        const char *c = caches[i];
        if (positions)
            tc_body_add(body, "  %s_rows = Gather <axis: int = 0> (%s_cache, position_ids)\n", c, c);
        tc_body_add(body, "  %s = Unsqueeze (%s%s, head_axis)\n", c, c, positions ? "_rows" : "_cache");
    }
    tc_body_add(body, "  cos_x1 = Mul (cos, x1)\n  sin_x2 = Mul (sin, x2)\n  real = Sub (cos_x1, sin_x2)\n"
                      "  sin_x1 = Mul (sin, x1)\n  cos_x2 = Mul (cos, x2)\n  imag = Add (sin_x1, cos_x2)\n");
    if (interleaved)
        tc_body_add(body, "  real_column = Unsqueeze (real, pair_axis)\n"
                          "  imag_column = Unsqueeze (imag, pair_axis)\n"
                          "  woven = Concat <axis: int = 4> (real_column, imag_column)\n"
                          "  turning_shape = Shape (turning)\n"
                          "  turned = Reshape (woven, turning_shape)\n");
    else
        tc_body_add(body, "  turned = Concat <axis: int = 3> (real, imag)\n");
}

bool tc_make_rotary(tc_body *body) {
    const tc_node *node = body->node;
    int rank = tc_value_rank(tc_input(node, 0));
    bool rank3 = rank == 3 || (rank < 0 && tc_attr_int(node, "num_heads", 0) > 0);
    bool positions = tc_input(node, 3) != NULL, interleaved = tc_attr_int(node, "interleaved", 0) != 0;
    bool partial = tc_attr_int(node, "rotary_embedding_dim", 0) > 0;
    tc_body_suffix(body, "_%s%s%s%s", rank3 ? "d3" : "d4", positions ? "p1" : "", interleaved ? "i1" : "",
                   partial ? "r1" : "");
    tc_body_begin(body, "interleaved: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0",
                  positions ? "X, cos_cache, sin_cache, position_ids" : "X, cos_cache, sin_cache", "Y");
    if (rank3)
        tc_body_add(body, "  zero_at = Constant <value_ints: ints = [0]> ()\n"
                          "  zeros = Constant <value_ints: ints = [0, 0]> ()\n"
                          "  heads_0 = Constant <value_int: int = @num_heads> ()\n"
                          "  heads = Unsqueeze (heads_0, zero_at)\n"
                          "  rest = Constant <value_ints: ints = [-1]> ()\n"
                          "  split_shape = Concat <axis: int = 0> (zeros, heads, rest)\n"
                          "  x = Reshape (X, split_shape)\n");
    else
        tc_body_add(body, "  x = Transpose <perm: ints = [0, 2, 1, 3]> (X)\n");
    cut(body, partial);
    halves(body, interleaved);
    rotate(body, positions, interleaved);
    tc_body_add(body, partial ? "  y = Concat <axis: int = 3> (turned, staying)\n" : "  y = Identity (turned)\n");
    tc_body_add(body, rank3 ? "  x_shape = Shape (X)\n  Y = Reshape (y, x_shape)\n"
                            : "  Y = Transpose <perm: ints = [0, 2, 1, 3]> (y)\n");
    tc_body_end(body);
    return true;
}

/* [-1, 1, ..., 1] with the -1 at `axis`. */
static const char *along(tc_arena *arena, int rank, int axis) {
    const char *list = axis == 0 ? "-1" : "1";
    for (int i = 1; i < rank; i++)
        list = tc_arena_printf(arena, "%s, %s", list, i == axis ? "-1" : "1");
    return list;
}

/* update[b, ..., s, ...] goes to write_indices[b] + s along the axis. */
bool tc_make_tensor_scatter(tc_body *body) {
    const tc_node *node = body->node;
    int rank = tc_value_rank(tc_input(node, 0));
    int64_t axis = tc_attr_int(node, "axis", -2);
    if (rank < 0 && tc_input(node, 1))
        rank = tc_value_rank(tc_input(node, 1));
    if (rank < 0 || axis < -rank || axis >= rank)
        return false;
    int at = (int)(axis < 0 ? axis + rank : axis);
    bool indices = tc_input(node, 2) != NULL,
         circular = strcmp(tc_attr_string(node, "mode", "linear"), "circular") == 0;
    tc_body_suffix(body, "_d%da%d%s%s", rank, at, indices ? "i1" : "", circular ? "c1" : "");
    tc_body_begin(body, "axis: int = -2, mode: string = \"linear\"",
                  indices ? "past_cache, update, write_indices" : "past_cache, update", "present_cache");
    tc_body_add(body,
                "  zero_at = Constant <value_ints: ints = [0]> ()\n"
                "  first = Constant <value_int: int = 0> ()\n"
                "  step = Constant <value_int: int = 1> ()\n"
                "  count_1 = Shape <start: int = %d, end: int = %d> (update)\n"
                "  count = Squeeze (count_1, zero_at)\n"
                "  steps_1 = Range (first, count, step)\n"
                "  steps_shape = Constant <value_ints: ints = [%s]> ()\n"
                "  steps = Reshape (steps_1, steps_shape)\n",
                at, at + 1, along(body->arena, rank, at));
    if (indices)
        tc_body_add(body,
                    "  batch_shape = Constant <value_ints: ints = [%s]> ()\n"
                    "  starts = Reshape (write_indices, batch_shape)\n"
                    "  places_1 = Add (starts, steps)\n",
                    along(body->arena, rank, 0));
    else
        tc_body_add(body, "  places_1 = Identity (steps)\n");
    if (circular)
        tc_body_add(body,
                    "  room = Shape <start: int = %d, end: int = %d> (past_cache)\n"
                    "  places_2 = Mod (places_1, room)\n",
                    at, at + 1);
    else
        tc_body_add(body, "  places_2 = Identity (places_1)\n");
    tc_body_add(body,
                "  update_shape = Shape (update)\n"
                "  places = Expand (places_2, update_shape)\n"
                "  present_cache = ScatterElements <axis: int = %d> (past_cache, places, update)\n",
                at);
    tc_body_end(body);
    return true;
}
