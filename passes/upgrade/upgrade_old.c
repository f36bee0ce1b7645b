/* upgrade_old.c: rewrites of nodes that are older than the canonical opset. Each converts a node across one version,
 * given by its row in upgrade.def; a much older node goes through several. If one node becomes more, the node itself
 * is the last of them, so that its name and its results stay. */
#include "upgrade.h"
#include <ctype.h>
#include <string.h>

/* --- attributes that became operands ---------------------------------------------------------- */

/* An empty list of axes meant all of them, like an absent one now. */
tc_status tc_upgrade_reduce_axes(tc_upgrade *up, tc_node *node) {
    const tc_attr *axes = tc_attr_find(node, "axes");
    if (axes && axes->ref == NULL && axes->count == 0)
        tc_attr_remove(node, "axes");
    tc_upgrade_attr_to_input(up, node, "axes", 1);
    return TC_OK;
}

tc_status tc_upgrade_split_count(tc_upgrade *up, tc_node *node) {
    (void)up;
    if (tc_input(node, 1) == NULL && tc_attr_find(node, "num_outputs") == NULL)
        tc_attr_set_int(node, "num_outputs", (int64_t)node->n_outputs);
    return TC_OK;
}

tc_status tc_upgrade_clip_bounds(tc_upgrade *up, tc_node *node) {
    tc_upgrade_float_to_input(up, node, "min", 1);
    tc_upgrade_float_to_input(up, node, "max", 2);
    return TC_OK;
}

tc_status tc_upgrade_pad_name(tc_upgrade *up, tc_node *node) {
    (void)up;
    const tc_attr *paddings = tc_attr_find(node, "paddings");
    if (paddings == NULL)
        return TC_OK;
    tc_attr copy = *paddings;
    copy.name = "pads";
    copy.origin = NULL;
    tc_attr_remove(node, "paddings");
    tc_attr_copy(node, &copy);
    return TC_OK;
}

tc_status tc_upgrade_pad_amounts(tc_upgrade *up, tc_node *node) {
    tc_upgrade_attr_to_input(up, node, "pads", 1);
    tc_upgrade_float_to_input(up, node, "value", 2);
    return TC_OK;
}

/* The default axis was 1 and is -2 now. */
tc_status tc_upgrade_dft_axis(tc_upgrade *up, tc_node *node) {
    int64_t axis = tc_attr_int(node, "axis", 1);
    tc_attr_remove(node, "axis");
    tc_node_set_input(node, 2, tc_upgrade_constant(up, node, "axis", tc_tensor_scalar_int(up->model, axis)));
    return TC_OK;
}

/* --- defaults, names and types ---------------------------------------------------------------- */

tc_status tc_upgrade_concat_axis(tc_upgrade *up, tc_node *node) {
    (void)up;
    if (tc_attr_find(node, "axis") == NULL)
        tc_attr_set_int(node, "axis", 1);
    return TC_OK;
}

tc_status tc_upgrade_selu_defaults(tc_upgrade *up, tc_node *node) {
    (void)up;
    if (tc_attr_find(node, "alpha") == NULL)
        tc_attr_set_float(node, "alpha", 1.6732f);
    if (tc_attr_find(node, "gamma") == NULL)
        tc_attr_set_float(node, "gamma", 1.0507f);
    return TC_OK;
}

/* p was a float. */
tc_status tc_upgrade_norm_order(tc_upgrade *up, tc_node *node) {
    float p = tc_attr_float(node, "p", 2.0f);
    if (!(p >= 1.0f && p < 1e6f) || p != (float)(int64_t)p)
        return tc_upgrade_refuse(up, node, "an order p that is no whole number");
    tc_attr_remove(node, "p");
    tc_attr_set_int(node, "p", (int64_t)p);
    return TC_OK;
}

tc_status tc_upgrade_cast_name(tc_upgrade *up, tc_node *node) {
    const char *to = tc_attr_string(node, "to", NULL);
    if (to == NULL)
        return TC_OK;
    char lower[24] = "";
    for (size_t i = 0; to[i] && i + 1 < sizeof lower; i++)
        lower[i] = (char)tolower((unsigned char)to[i]);
    tc_dtype dtype = tc_dtype_from_name(lower);
    if (dtype == TC_UNDEFINED)
        return tc_error(up->ctx, TC_BAD_INPUT, node, "there is no element type '%s'", tc_quote(up->ctx, to));
    tc_attr_remove(node, "to");
    tc_attr_set_int(node, "to", (int64_t)dtype);
    return TC_OK;
}

tc_status tc_upgrade_grid_mode(tc_upgrade *up, tc_node *node) {
    (void)up;
    const char *mode = tc_attr_string(node, "mode", "bilinear");
    tc_attr_set_string(node, "mode",
                       strcmp(mode, "bilinear") == 0  ? "linear"
                       : strcmp(mode, "bicubic") == 0 ? "cubic"
                                                      : mode);
    return TC_OK;
}

tc_status tc_upgrade_roi_align(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_attr_set_string(node, "coordinate_transformation_mode", "output_half_pixel");
    return TC_OK;
}

tc_status tc_upgrade_scatter(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_node_set_op(node, "", "ScatterElements");
    return TC_OK;
}

tc_status tc_upgrade_drop_output_sequence(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_attr_remove(node, "output_sequence");
    return TC_OK;
}

tc_status tc_upgrade_refuse_scan(tc_upgrade *up, tc_node *node) {
    return tc_upgrade_refuse(up, node, "Scan with a batch axis");
}

tc_status tc_upgrade_refuse_tile(tc_upgrade *up, tc_node *node) {
    return tc_upgrade_refuse(up, node, "Tile along one axis");
}

/* --- broadcasting before numpy's rules -------------------------------------------------------- */

/* Operand `index` gets `extra` dims of size 1 at its end. */
static void append_dims(tc_upgrade *up, tc_node *node, uint32_t index, int rank, int extra) {
    int64_t axes[TC_MAX_RANK];
    for (int i = 0; i < extra; i++)
        axes[i] = rank + i;
    tc_value *operands[] = {tc_input(node, index), tc_upgrade_ints(up, node, "axes", axes, extra)};
    tc_node_set_input(node, index, tc_upgrade_emit(node, "Unsqueeze", "aligned", operands, 2));
}

/* With broadcast=1 and an axis, operand 1 was aligned at that axis of operand 0; today shapes are aligned at their
 * ends. */
tc_status tc_upgrade_broadcast(tc_upgrade *up, tc_node *node) {
    if (tc_attr_find(node, "axis") && tc_attr_int(node, "broadcast", 0)) {
        const int64_t given = tc_attr_int(node, "axis", 0);
        int rank_a = tc_value_rank(tc_input(node, 0)), rank_b = tc_value_rank(tc_input(node, 1));
        if (rank_a < 0 || rank_b < 0)
            return tc_error(up->ctx, TC_UNSUPPORTED, node, "broadcasting at axis %lld needs operands of known rank",
                            (long long)given);
        int64_t axis = given < 0 ? given + rank_a : given;
        if (axis < 0 || axis > rank_a - rank_b)
            return tc_error(up->ctx, TC_BAD_INPUT, node, "axis %lld does not fit operands of rank %d and %d",
                            (long long)given, rank_a, rank_b);
        int extra = rank_a - (int)axis - rank_b;
        if (extra > 0)
            append_dims(up, node, 1, rank_b, extra);
    }
    tc_attr_remove(node, "axis");
    tc_attr_remove(node, "broadcast");
    return TC_OK;
}

/* A slope per channel was aligned at axis 1. */
tc_status tc_upgrade_prelu_slope(tc_upgrade *up, tc_node *node) {
    int rank = tc_value_rank(tc_input(node, 0));
    const tc_type *slope = tc_input(node, 1) ? tc_input(node, 1)->type : NULL;
    bool one = slope && slope->rank == 1 && tc_dim_is_const(slope->dims[0]) && slope->dims[0].value == 1;
    if (one || rank == 2)
        return TC_OK;
    if (rank < 0 || slope == NULL || slope->rank != 1)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "a slope per channel needs operands of known rank");
    if (rank > 2)
        append_dims(up, node, 1, 1, rank - 2);
    return TC_OK;
}

tc_status tc_upgrade_gemm_broadcast(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_attr_remove(node, "broadcast");
    return TC_OK;
}

/* --- ops that took their operand as a matrix -------------------------------------------------- */

/* Softmax, LogSoftmax and Hardmax ran over all axes from `axis` on, as one. */
tc_status tc_upgrade_flat_softmax(tc_upgrade *up, tc_node *node) {
    const tc_attr *given = tc_attr_find(node, "axis");
    if (given && given->ref)
        return tc_upgrade_refuse(up, node, "an axis that the function's caller gives");
    int64_t axis = tc_attr_int(node, "axis", 1);
    int rank = tc_value_rank(tc_input(node, 0));
    if (axis == -1 || (rank >= 0 && axis == rank - 1)) {
        tc_attr_set_int(node, "axis", -1);
        return TC_OK;
    }
    tc_value *x = tc_input(node, 0);
    tc_value *flat = tc_upgrade_emit(node, "Flatten", "flat", &x, 1);
    tc_attr_set_int(flat->producer, "axis", axis);
    tc_value *inner = tc_upgrade_emit(node, node->op_type, "rows", &flat, 1);
    tc_attr_set_int(inner->producer, "axis", -1);
    tc_value *shape = tc_upgrade_emit(node, "Shape", "shape", &x, 1);
    tc_node_set_op(node, "", "Reshape");
    tc_attr_remove(node, "axis");
    tc_node_set_input(node, 0, inner);
    tc_node_set_input(node, 1, shape);
    return TC_OK;
}

/* --- training switches ------------------------------------------------------------------------ */

/* Until opset 6 an attribute selected the mode, and dropping was the default. */
tc_status tc_upgrade_dropout_is_test(tc_upgrade *up, tc_node *node) {
    bool training = tc_attr_int(node, "is_test", 0) == 0;
    tc_attr_remove(node, "is_test");
    if (training) {
        tc_tensor *yes = tc_tensor_create(up->model, TC_BOOL, 0, NULL, "\1");
        tc_node_set_input(node, 2, tc_upgrade_constant(up, node, "training", yes));
    }
    return TC_OK;
}

/* Until opset 9 the mask had the element type of the operand. */
tc_status tc_upgrade_dropout_mask(tc_upgrade *up, tc_node *node) {
    tc_value *mask = tc_output(node, 1);
    if (mask == NULL || !tc_value_is_used(mask))
        return TC_OK;
    return tc_upgrade_refuse(up, node, "the mask of Dropout as numbers");
}

tc_status tc_upgrade_dropout_ratio(tc_upgrade *up, tc_node *node) {
    /* Operand 1 is free: only operands of opset 12 and later are set here. */
    const tc_attr *attr = tc_attr_find(node, "ratio");
    if (attr && attr->ref)
        tc_upgrade_float_to_input(up, node, "ratio", 1);
    else
        tc_node_set_input(
            node, 1,
            tc_upgrade_constant(up, node, "ratio",
                                tc_tensor_scalar(up->model, TC_FLOAT, (double)tc_attr_float(node, "ratio", 0.5f))));
    tc_attr_remove(node, "ratio");
    return TC_OK;
}

tc_status tc_upgrade_batch_norm_spatial(tc_upgrade *up, tc_node *node) {
    if (tc_attr_int(node, "spatial", 1) != 1)
        return tc_upgrade_refuse(up, node, "BatchNormalization with spatial=0");
    tc_attr_remove(node, "spatial");
    return TC_OK;
}

/* More results than Y meant training; the saved statistics of that time have no successor. */
tc_status tc_upgrade_batch_norm_training(tc_upgrade *up, tc_node *node) {
    tc_attr_remove(node, "is_test");
    bool training = false;
    for (uint32_t i = 1; i < node->n_outputs; i++) {
        if (node->outputs[i] && i >= 3 && tc_value_is_used(node->outputs[i]))
            return tc_upgrade_refuse(up, node, "the saved mean or variance of BatchNormalization");
        training |= node->outputs[i] != NULL;
    }
    if (node->n_outputs > 3)
        tc_node_resize_outputs(node, 3);
    if (training)
        tc_attr_set_int(node, "training_mode", 1);
    return TC_OK;
}

/* Scale and bias were one number per group and are one per channel now: each is repeated channels / groups times. */
static tc_value *per_channel(tc_upgrade *up, tc_node *node, uint32_t index, tc_value *repeats) {
    static const int64_t one[] = {1}, flat[] = {-1};
    tc_value *column[] = {tc_input(node, index), tc_upgrade_ints(up, node, "axis", one, 1)};
    tc_value *spread[] = {tc_upgrade_emit(node, "Unsqueeze", "column", column, 2), repeats};
    tc_value *row[] = {tc_upgrade_emit(node, "Expand", "repeated", spread, 2),
                       tc_upgrade_ints(up, node, "all", flat, 1)};
    return tc_upgrade_emit(node, "Reshape", "channels", row, 2);
}

tc_status tc_upgrade_group_norm(tc_upgrade *up, tc_node *node) {
    static const int64_t one[] = {1};
    int64_t groups = tc_attr_int(node, "num_groups", 0);
    if (groups <= 0)
        return tc_error(up->ctx, TC_BAD_INPUT, node, "num_groups is %lld; expected a positive number",
                        (long long)groups);
    tc_value *x = tc_input(node, 0);
    tc_value *channels = tc_upgrade_emit(node, "Shape", "count", &x, 1);
    tc_attr_set_int(channels->producer, "start", 1);
    tc_attr_set_int(channels->producer, "end", 2);
    tc_value *ratio[] = {channels, tc_upgrade_ints(up, node, "groups", &groups, 1)};
    tc_value *target[] = {tc_upgrade_ints(up, node, "one", one, 1), tc_upgrade_emit(node, "Div", "ratio", ratio, 2)};
    tc_value *repeats = tc_upgrade_emit(node, "Concat", "repeats", target, 2);
    tc_attr_set_int(repeats->producer, "axis", 0);
    tc_node_set_input(node, 1, per_channel(up, node, 1, repeats));
    tc_node_set_input(node, 2, per_channel(up, node, 2, repeats));
    return TC_OK;
}

/* --- resizing --------------------------------------------------------------------------------- */

/* Resize of opset 10: operands (X, scales), coordinates by x / scale, nearest is the element below. */
tc_status tc_upgrade_resize_scales(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_node_set_input(node, 2, tc_input(node, 1));
    tc_node_set_input(node, 1, NULL);
    tc_attr_set_string(node, "coordinate_transformation_mode", "asymmetric");
    tc_attr_set_string(node, "nearest_mode", "floor");
    return TC_OK;
}

tc_status tc_upgrade_upsample_sides(tc_upgrade *up, tc_node *node) {
    float scales[] = {1.0f, 1.0f, tc_attr_float(node, "height_scale", 1.0f), tc_attr_float(node, "width_scale", 1.0f)};
    int64_t count = TC_COUNT(scales);
    tc_attr_remove(node, "height_scale");
    tc_attr_remove(node, "width_scale");
    tc_node_set_input(
        node, 1, tc_upgrade_constant(up, node, "scales", tc_tensor_create(up->model, TC_FLOAT, 1, &count, scales)));
    return TC_OK;
}

tc_status tc_upgrade_upsample_scales(tc_upgrade *up, tc_node *node) {
    tc_upgrade_attr_to_input(up, node, "scales", 1);
    return TC_OK;
}

tc_status tc_upgrade_upsample(tc_upgrade *up, tc_node *node) {
    if (strcmp(tc_attr_string(node, "mode", "nearest"), "nearest") != 0)
        tc_attr_set_string(node, "mode", "linear"); /* "linear", and "bilinear" in the first version */
    tc_node_set_op(node, "", "Resize");
    return tc_upgrade_resize_scales(up, node);
}
