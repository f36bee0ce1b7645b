/* bodies_resize.c: the function body of ResizeGrad. Resize is linear along each axis by itself. So Resize of an
 * identity matrix gives the weights, as a matrix [read, made]. The gradient along that axis is the product of this
 * matrix with dY, seen as [before, made, after]. */
#include "compiler/shape/shape.h"
#include "bodies.h"
#include <string.h>

enum { SHAPE = 1, ROI, SCALES, SIZES };

/* Whether the operand is there and not empty; opset 11 wrote absent ones as empty tensors. */
static bool given(const tc_node *node, uint32_t operand) {
    const tc_value *value = tc_input(node, operand);
    return value &&
           !(tc_value_rank(value) == 1 && tc_dim_is_const(value->type->dims[0]) && value->type->dims[0].value == 0);
}

static bool by_factor(const tc_node *node) { return given(node, SCALES) && !given(node, SIZES); }

static bool crops(const tc_node *node) {
    return strcmp(tc_attr_string(node, "coordinate_transformation_mode", ""), "tf_crop_and_resize") == 0;
}

/* Whether axis `axis`, item `item` of scales, certainly keeps its length, with every place reading itself. */
static bool stays(const tc_node *node, int axis, int item) {
    const tc_type *to = node->outputs[0]->type, *from = tc_input(node, 0)->type;
    const tc_tensor *factors = by_factor(node) ? tc_value_constant(tc_input(node, SCALES)) : NULL;
    if (!to || !from || to->rank != from->rank || !tc_dim_equal(to->dims[axis], from->dims[axis]) ||
        strncmp(tc_attr_string(node, "coordinate_transformation_mode", ""), "tf_", 3) == 0)
        return false;
    return !by_factor(node) ||
           (factors && factors->data && factors->count > (uint64_t)item && tc_tensor_get(factors, (uint64_t)item) == 1);
}

/* g<axis> = the gradient so far, summed up along the axis; `before` is its previous name. */
static void sum_along(tc_body *body, int axis, int listed, const char *before) {
    tc_body_add(body,
                "  at_%d = Constant <value_ints: ints = [%d]> ()\n"
                "  behind_%d = Constant <value_ints: ints = [%d]> ()\n"
                "  read_%d = Slice (shape, at_%d, behind_%d)\n"
                "  made_%d = Slice (dims, at_%d, behind_%d)\n"
                "  square_%d = Concat <axis: int = 0> (read_%d, read_%d)\n"
                "  zeros_%d = ConstantOfShape (square_%d)\n"
                "  unit_%d = EyeLike (zeros_%d)\n",
                axis, axis, axis, axis + 1, axis, axis, axis, axis, axis, axis, axis, axis, axis, axis, axis, axis,
                axis);
    const char *factor = "", *roi = "";
    if (by_factor(body->node) || crops(body->node))
        tc_body_add(body,
                    "  item_%d = Constant <value_ints: ints = [%d]> ()\n"
                    "  next_%d = Constant <value_ints: ints = [%d]> ()\n",
                    axis, listed, axis, listed + 1);
    if (by_factor(body->node)) {
        factor = tc_arena_printf(body->arena, "factor_%d", axis);
        tc_body_add(body, "  %s = Slice (scales, item_%d, next_%d)\n", factor, axis, axis);
    }
    if (crops(body->node) && given(body->node, ROI)) {
        roi = tc_arena_printf(body->arena, "roi_%d", axis);
        tc_body_add(body,
                    "  ends_%d = Reshape (roi, two_rows)\n"
                    "  part_%d = Slice (ends_%d, item_%d, next_%d, one)\n"
                    "  %s = Reshape (part_%d, all)\n",
                    axis, axis, axis, axis, axis, roi, axis);
    }
    tc_body_add(body,
                "  weights_%d = Resize <antialias: int = @antialias, axes: ints = [1], coordinate_transformation_mode: "
                "string = @coordinate_transformation_mode, cubic_coeff_a: float = @cubic_coeff_a, exclude_outside: int "
                "= @exclude_outside, mode: string = @mode, nearest_mode: string = @nearest_mode> (unit_%d, %s, %s%s)\n"
                "  like_%d = CastLike (weights_%d, wide)\n",
                axis, axis, *roi ? roi : "\"\"", *factor ? factor : "\"\"",
                *factor ? "" : tc_arena_printf(body->arena, ", made_%d", axis), axis, axis);
    tc_body_add(body,
                "  before_%d = Slice (shape, zero, at_%d)\n"
                "  after_%d = Slice (dims, behind_%d, end)\n"
                "  before_1_%d = Concat <axis: int = 0> (one, before_%d)\n"
                "  after_1_%d = Concat <axis: int = 0> (one, after_%d)\n"
                "  rows_%d = ReduceProd <keepdims: int = 1> (before_1_%d)\n"
                "  inner_%d = ReduceProd <keepdims: int = 1> (after_1_%d)\n"
                "  view_%d = Concat <axis: int = 0> (rows_%d, made_%d, inner_%d)\n"
                "  seen_%d = Reshape <allowzero: int = 1> (%s, view_%d)\n"
                "  g%d = MatMul (like_%d, seen_%d)\n",
                axis, axis, axis, axis, axis, axis, axis, axis, axis, axis, axis, axis, axis, axis, axis, axis, axis,
                before, axis, axis, axis, axis);
}

/* The axis of item `i` of scales and sizes; -1: none. */
static int axis_of(const tc_node *node, int rank, int i) {
    size_t n = 0;
    const int64_t *axes = tc_attr_ints(node, "axes", &n);
    int64_t axis = !axes || n == 0 ? i : (size_t)i < n ? axes[i] : -1 - rank;
    axis += axis < 0 ? rank : 0;
    return axis >= 0 && axis < rank ? (int)axis : -1;
}

bool tc_make_resize_grad(tc_body *body) {
    const tc_node *node = body->node;
    int rank = tc_value_rank(tc_input(node, 0));
    bool half = tc_dtype_bits(tc_value_dtype(tc_input(node, 0))) == 16;
    if (rank < 1 || strcmp(tc_attr_string(node, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return false;
    int item[TC_MAX_RANK]; /* the item of scales for each axis; -1: the axis keeps its length */
    for (int i = 0; i < rank; i++)
        item[i] = -1;
    for (int i = 0, axis; i < rank; i++)
        if ((axis = axis_of(node, rank, i)) >= 0 && !stays(node, axis, i))
            item[axis] = i;
    tc_body_suffix(body, "_%s%s%s", by_factor(node) ? "f" : "s", half ? "h" : "", crops(node) ? "c" : "");
    for (int i = 0; i < rank; i++)
        tc_body_suffix(body, item[i] < 0 ? "x" : item[i] == i ? "r" : "r%d", item[i]);
    tc_body_begin(body,
                  "antialias: int = 0, axes: ints = [0], coordinate_transformation_mode: string = \"half_pixel\", "
                  "cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0, "
                  "keep_aspect_ratio_policy: string = \"stretch\", mode: string = \"nearest\", nearest_mode: string = "
                  "\"round_prefer_floor\"",
                  "dY, shape, roi, scales, sizes", "dX");
    tc_body_add(body, "  zero = Constant <value_ints: ints = [0]> ()\n"
                      "  one = Constant <value_ints: ints = [1]> ()\n"
                      "  end = Constant <value_ints: ints = [9223372036854775807]> ()\n"
                      "  dims = Shape (dY)\n");
    if (crops(node))
        tc_body_add(body, "  all = Constant <value_ints: ints = [-1]> ()\n"
                          "  two_rows = Constant <value_ints: ints = [2, -1]> ()\n");
    tc_body_wide(body, half, "dY", "wide");
    const char *so_far = "wide";
    for (int i = 0; i < rank; i++)
        if (item[i] >= 0) {
            sum_along(body, i, item[i], so_far);
            so_far = tc_arena_printf(body->arena, "g%d", i);
        }
    tc_body_add(body, "  summed = Reshape <allowzero: int = 1> (%s, shape)\n", so_far);
    tc_body_like(body, half, "summed", "dY", "dX");
    tc_body_end(body);
    return true;
}
