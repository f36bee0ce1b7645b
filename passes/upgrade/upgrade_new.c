/* upgrade_new.c: nodes that are newer than the canonical opset. Most ops only allow more element types since then. A
 * node that an older op cannot express is refused by name. Ops that did not exist become ops of ai.tempo with the
 * same operands, attributes and meaning. */
#include "upgrade.h"
#include <string.h>

/* The op of ai.tempo with the same name: bodies.c writes it in standard ops. */
tc_status tc_upgrade_to_tempo(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_node_set_op(node, TC_TEMPO_DOMAIN, node->op_type);
    return TC_OK;
}

/* Whether a scale repeats one number, by its producer: returns the operand with its shape, else -1. */
static int shape_of_repeated(const tc_value *scale) {
    const tc_node *maker = scale ? scale->producer : NULL;
    if (maker && tc_node_is(maker, "", "ConstantOfShape"))
        return 0;
    const tc_value *number = maker && tc_node_is(maker, "", "Expand") ? tc_input(maker, 0) : NULL;
    const tc_tensor *tensor = number ? tc_value_constant(number) : NULL;
    return tensor && tensor->count == 1 ? 1 : -1;
}

static bool is_uniform(const tc_tensor *tensor) {
    bool same = tensor && tensor->data && tensor->count > 0 && tc_dtype_is_float(tensor->dtype);
    for (uint64_t i = 1; same && i < tensor->count; i++)
        same = tc_tensor_get(tensor, i) == tc_tensor_get(tensor, 0);
    return same;
}

/* PyTorch writes a norm without a weight with ones of X's whole shape. They are made for the normalized dims alone,
 * as ONNX and the kernels require. */
tc_status tc_upgrade_rms_normalization(tc_upgrade *up, tc_node *node) {
    tc_value *x = tc_input(node, 0), *scale = tc_input(node, 1);
    int64_t axis = tc_attr_int(node, "axis", -1);
    int index = shape_of_repeated(scale), rank = scale && scale->type ? tc_value_rank(scale) : TC_RANK_UNKNOWN;
    const tc_tensor *ones = scale && axis < 0 && rank > -axis ? tc_value_constant(scale) : NULL;
    if (index >= 0) {
        tc_value *shape = tc_upgrade_emit(node, "Shape", "normalized", &x, 1);
        tc_attr_set_int(shape->producer, "start", axis);
        tc_value *operands[] = {index ? tc_input(scale->producer, 0) : shape, shape};
        tc_value *fresh = tc_upgrade_emit(node, scale->producer->op_type, "scale", operands, index ? 2 : 1);
        if (tc_attr_find(scale->producer, "value"))
            tc_attr_copy(fresh->producer, tc_attr_find(scale->producer, "value"));
        tc_node_set_input(node, 1, fresh);
    } else if (is_uniform(ones)) {
        const int64_t *dims = ones->dims + rank + axis;
        tc_tensor *fresh = tc_tensor_create(up->model, ones->dtype, (int)-axis, dims, NULL);
        memcpy((void *)(uintptr_t)fresh->data, ones->data, tc_tensor_bytes(fresh->dtype, fresh->count));
        tc_node_set_input(node, 1, tc_upgrade_constant(up, node, "scale", fresh));
        tc_input(node, 1)->learned = TC_LEARNED_NO; /* a parameter would have one element per channel */
    }
    return tc_upgrade_to_tempo(up, node);
}

tc_status tc_upgrade_refuse_op(tc_upgrade *up, tc_node *node) { return tc_upgrade_refuse(up, node, "this op"); }

/* round_mode matters for float8e8m0 only, which the canonical opset lacks, as it lacks all types numbered from
 * float4e2m1 on. */
tc_status tc_upgrade_cast_round(tc_upgrade *up, tc_node *node) {
    if (tc_attr_int(node, "to", 0) >= TC_FLOAT4E2M1)
        return tc_upgrade_refuse(up, node, "the element type");
    tc_attr_remove(node, "round_mode");
    return TC_OK;
}

/* An attribute whose default 0 was the only possible value before. */
static tc_status only_zero(tc_upgrade *up, tc_node *node, const char *name) {
    if (tc_attr_int(node, name, 0) != 0)
        return tc_upgrade_refuse(up, node, tc_arena_printf(up->ctx->arena, "the attribute %s", name));
    tc_attr_remove(node, name);
    return TC_OK;
}

tc_status tc_upgrade_quantize_precision(tc_upgrade *up, tc_node *node) { return only_zero(up, node, "precision"); }
tc_status tc_upgrade_dequantize_type(tc_upgrade *up, tc_node *node) { return only_zero(up, node, "output_dtype"); }

/* stash_type names the type in which 16-bit floats are added up, float by default; older versions left that open. */
tc_status tc_upgrade_range_stash(tc_upgrade *up, tc_node *node) {
    tc_dtype dtype = tc_value_dtype(tc_input(node, 0));
    int64_t stash = tc_attr_int(node, "stash_type", TC_FLOAT);
    tc_attr_remove(node, "stash_type");
    if (!tc_dtype_is_half(dtype))
        return TC_OK;
    if (stash != TC_FLOAT)
        return tc_upgrade_refuse(up, node, "Range of 16-bit floats that add up in another type than float");
    static const char *const names[] = {"start", "limit", "delta"};
    tc_value *operands[3];
    for (uint32_t i = 0; i < 3; i++) {
        operands[i] = tc_upgrade_emit(node, "Cast", names[i], (tc_value *[]){tc_input(node, i)}, 1);
        tc_attr_set_int(operands[i]->producer, "to", TC_FLOAT);
    }
    tc_value *wide = tc_upgrade_emit(node, "Range", "wide", operands, 3);
    tc_node_set_op(node, "", "Cast");
    tc_node_set_input(node, 0, wide);
    tc_node_resize_inputs(node, 1);
    tc_attr_set_int(node, "to", dtype);
    return TC_OK;
}

tc_status tc_upgrade_space_mode(tc_upgrade *up, tc_node *node) {
    if (strcmp(tc_attr_string(node, "mode", "DCR"), "DCR") != 0)
        return tc_upgrade_refuse(up, node, "the column-row-depth order");
    tc_attr_remove(node, "mode");
    return TC_OK;
}

tc_status tc_upgrade_shift_signed(tc_upgrade *up, tc_node *node) {
    switch (tc_value_dtype(tc_input(node, 0))) {
    case TC_INT8:
    case TC_INT16:
    case TC_INT32:
    case TC_INT64: return tc_upgrade_refuse(up, node, "shifting signed integers");
    default: return TC_OK;
    }
}

/* The floored remainder of floats from the truncated one, r = fmod(x, y), which has the sign of x. If that is not
 * the sign of y, r + y has it and is x modulo y, too. A remainder of zero has the sign of y. */
tc_status tc_upgrade_mod_floor(tc_upgrade *up, tc_node *node) {
    tc_dtype dtype = tc_value_dtype(tc_input(node, 0));
    if (tc_attr_int(node, "fmod", 0) != 0 || !tc_dtype_is_float(dtype))
        return TC_OK;
    tc_value *x = tc_input(node, 0), *y = tc_input(node, 1);
    tc_value *zero = tc_upgrade_constant(up, node, "zero", tc_tensor_scalar(up->model, dtype, 0));
    tc_value *r = tc_upgrade_emit(node, "Mod", "truncated", (tc_value *[]){x, y}, 2);
    tc_attr_set_int(r->producer, "fmod", 1);
    tc_value *sign = tc_upgrade_emit(node, "Sign", "sign", &y, 1);
    tc_value *towards = tc_upgrade_emit(node, "Mul", "towards", (tc_value *[]){r, sign}, 2);
    tc_value *apart = tc_upgrade_emit(node, "Less", "apart", (tc_value *[]){towards, zero}, 2);
    tc_value *moved = tc_upgrade_emit(node, "Add", "moved", (tc_value *[]){r, y}, 2);
    tc_value *floored = tc_upgrade_emit(node, "Where", "floored", (tc_value *[]){apart, moved, r}, 3);
    tc_value *nothing = tc_upgrade_emit(node, "Equal", "nothing", (tc_value *[]){r, zero}, 2);
    tc_value *signed_zero = tc_upgrade_emit(node, "Mul", "signed_zero", (tc_value *[]){sign, zero}, 2);
    tc_value *operands[] = {nothing, signed_zero, floored};
    tc_attr_remove(node, "fmod");
    tc_node_set_op(node, "", "Where");
    for (uint32_t i = 0; i < 3; i++)
        tc_node_set_input(node, i, operands[i]);
    return TC_OK;
}
