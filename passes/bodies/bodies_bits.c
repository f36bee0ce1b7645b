/* bodies_bits.c: masks of one bit per element in standard ops: element i is bit i % 8 of byte i / 8. */
#include "bodies.h"

static const char powers[] = "  powers = Constant <value: tensor = int32[8] {1, 2, 4, 8, 16, 32, 64, 128}> ()\n";

/* A whole number of bytes: zeros follow the last element. */
void tc_body_pack(tc_body *body, const char *mask, const char *result) {
    tc_body_add(body, "%s", powers);
    tc_body_add(body,
                "  in_line = Constant <value_ints: ints = [-1]> ()\n"
                "  in_bytes = Constant <value_ints: ints = [-1, 8]> ()\n"
                "  eight = Constant <value_ints: ints = [8]> ()\n"
                "  axis_1 = Constant <value_ints: ints = [1]> ()\n"
                "  line = Reshape (%s, in_line)\n"
                "  ones = Cast <to: int = 6> (line)\n"
                "  elements = Shape (line)\n"
                "  minus = Neg (elements)\n"
                "  behind = Mod (minus, eight)\n"
                "  gap = ConstantOfShape <value: tensor = int32[1] {0}> (behind)\n"
                "  filled = Concat <axis: int = 0> (ones, gap)\n"
                "  rows = Reshape (filled, in_bytes)\n"
                "  weighed = Mul (rows, powers)\n"
                "  bytes = ReduceSum <keepdims: int = 0> (weighed, axis_1)\n"
                "  %s = Cast <to: int = 2> (bytes)\n",
                mask, result);
}

void tc_body_unpack(tc_body *body, const char *bits, const char *like, const char *result) {
    tc_body_add(body, "%s", powers);
    tc_body_add(body,
                "  in_line = Constant <value_ints: ints = [-1]> ()\n"
                "  axis_0 = Constant <value_ints: ints = [0]> ()\n"
                "  axis_1 = Constant <value_ints: ints = [1]> ()\n"
                "  two = Constant <value: tensor = int32 {2}> ()\n"
                "  bytes = Cast <to: int = 6> (%s)\n"
                "  column = Unsqueeze (bytes, axis_1)\n"
                "  shifted = Div (column, powers)\n"
                "  ones = Mod (shifted, two)\n"
                "  line = Reshape (ones, in_line)\n"
                "  elements_s = Size (%s)\n"
                "  elements = Unsqueeze (elements_s, axis_0)\n"
                "  cut = Slice (line, axis_0, elements, axis_0)\n"
                "  flags = Cast <to: int = 9> (cut)\n"
                "  map_shape = Shape (%s)\n"
                "  %s = Reshape <allowzero: int = 1> (flags, map_shape)\n",
                bits, like, like, result);
}
