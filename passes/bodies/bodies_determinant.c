/* bodies_determinant.c: the function body of DetGrad, by minors: n^2 determinants of matrices without a row and a
 * column. The kernel takes as long as one. */
#include "bodies.h"

bool tc_make_det_grad(tc_body *body) {
    int rank = tc_value_rank(tc_input(body->node, 1));
    const char *perm = "";
    if (rank < 2)
        return false;
    for (int i = 0; i < rank - 2; i++)
        perm = tc_arena_printf(body->arena, "%s%d, ", perm, i);
    tc_body_suffix(body, "_d%d", rank);
    tc_body_begin(body, "", "dY, X", "dX");
    tc_body_add(body, "  zero = Constant <value_int: int = 0> ()\n"
                      "  one = Constant <value_int: int = 1> ()\n"
                      "  two = Constant <value_int: int = 2> ()\n"
                      "  at_0 = Constant <value_ints: ints = [0]> ()\n"
                      "  at_1 = Constant <value_ints: ints = [1]> ()\n"
                      "  last_two = Constant <value_ints: ints = [-2, -1]> ()\n");
    tc_body_add(body,
                "  size_1 = Shape <start: int = -1> (X)\n"
                "  size = Squeeze (size_1, at_0)\n"
                "  less = Sub (size, one)\n"
                "  row = Range (zero, size, one)\n"
                "  column = Unsqueeze (row, at_1)\n"
                "  places = Range (zero, less, one)\n"
                "  is_behind = GreaterOrEqual (places, column)\n"
                "  behind = Cast <to: int = 7> (is_behind)\n"
                "  others = Add (places, behind)\n" /* row i: 0, 1, ... without i */
                "  rows = Gather <axis: int = -2> (X, others)\n"
                "  both = Gather <axis: int = -1> (rows, others)\n"
                "  matrices = Transpose <perm: ints = [%s%d, %d, %d, %d]> (both)\n"
                "  minors = Det (matrices)\n",
                perm, rank - 2, rank, rank - 1, rank + 1);
    tc_body_add(body, "  odd = Mod (row, two)\n"
                      "  twice = Mul (odd, two)\n"
                      "  sign_i = Sub (one, twice)\n"
                      "  sign = CastLike (sign_i, X)\n"
                      "  sign_column = Unsqueeze (sign, at_1)\n"
                      "  signs = Mul (sign_column, sign)\n"
                      "  cofactors = Mul (minors, signs)\n"
                      "  dy = Unsqueeze (dY, last_two)\n"
                      "  dX = Mul (cofactors, dy)\n");
    tc_body_end(body);
    return true;
}
