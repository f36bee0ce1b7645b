/* launch_util.c: helpers of launch functions. */
#include "launch_util.h"
#include "compiler/contents/contents.h"
#include <string.h>

tc_status rt_no_kernel(rt_launcher *launcher, const tc_node *node, const rt_launch *launch) {
    const char *first = launch->n_in > 0 ? tc_dtype_name((tc_dtype)launch->in[0].dtype) : "no operand";
    if (launch->n_in > 1 && launch->in[1].present && launch->in[1].dtype != launch->in[0].dtype)
        return tc_error(launcher->ctx, TC_UNSUPPORTED, node, "there is no kernel for operands of type %s and %s", first,
                        tc_dtype_name((tc_dtype)launch->in[1].dtype));
    return tc_error(launcher->ctx, TC_UNSUPPORTED, node, "there is no kernel for operands of type %s", first);
}

tc_status rt_axis(rt_launcher *launcher, const tc_node *node, int64_t axis, int rank, bool past_end, int *out_axis) {
    int64_t last = rank - 1 + past_end;
    if (axis < -rank || axis > last)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "axis %lld is out of range for rank %d", (long long)axis,
                        rank);
    *out_axis = (int)(axis < 0 ? axis + rank : axis);
    return TC_OK;
}

tc_status rt_expect(rt_launcher *launcher, const tc_node *node, bool holds) {
    return holds
               ? TC_OK
               : tc_error(launcher->ctx, TC_BAD_INPUT, node, "the shapes of operands and results do not fit together");
}

tc_status rt_broadcast(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, uint32_t first, int count,
                       tk_bcast *out_bc) {
    tk_shape shapes[TK_BCAST_MAX];
    for (int i = 0; i < count; i++)
        shapes[i] = rt_shape(&launch->in[first + (uint32_t)i]);
    if (!tk_bcast_init(out_bc, rt_shape(&launch->out[0]), shapes, count))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the operands' shapes don't broadcast to the result's");
    return TC_OK;
}

rt_table *rt_add_table(rt_launcher *launcher, const void *data, size_t bytes, void *pointer) {
    launcher->tables = tc_arena_grow(launcher->arena, launcher->tables, sizeof *launcher->tables, &launcher->cap_tables,
                                     launcher->n_tables + 1);
    launcher->tables[launcher->n_tables] = (rt_table){.data = data, .bytes = bytes, .pointer = pointer};
    memcpy(pointer, &data, sizeof data); /* where the device reads the host's memory it stays so */
    return &launcher->tables[launcher->n_tables++];
}

void rt_places(rt_launcher *launcher, const int64_t *at, int64_t n, tk_places *places) {
    *places = (tk_places){.step = n > 1 ? at[1] - at[0] : 0};
    for (int64_t i = 0; i < n; i++)
        if (at[i] != i * places->step) {
            rt_add_table(launcher, at, (size_t)n * sizeof *at, &places->at);
            return;
        }
}

int64_t rt_product(const rt_arg *arg, int begin, int end) {
    int64_t product = 1;
    for (int i = begin; i < end; i++)
        product *= arg->dims[i];
    return product;
}

uint64_t rt_inplace(const rt_launch *launch, uint32_t count) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < count && i < launch->n_in && i < 64; i++)
        if (launch->in[i].present && launch->in[i].count == launch->out[0].count &&
            tk_size(launch->in[i].dtype) == tk_size(launch->out[0].dtype))
            bits |= UINT64_C(1) << i;
    return bits;
}

tc_status rt_known_ints(rt_launcher *launcher, const tc_node *node, uint32_t input, const int64_t **out_ints,
                        int64_t *out_count) {
    const tc_value *value = tc_input(node, input);
    const tc_tensor *tensor = value ? tc_value_constant(value) : NULL;
    const tc_contents *contents = value ? value->contents : NULL;
    uint64_t count = tensor ? tensor->count : contents ? contents->count : 0;
    const void *data = tensor ? tensor->data : NULL;
    if (tensor && !data && tensor->external)
        TC_TRY(tc_tensor_map(launcher->ctx, launcher->model, tensor, &data));
    if ((!data && !contents && count > 0) || !value || (!tensor && !(contents && tc_contents_is_const(contents))) ||
        (contents && tc_dtype_is_float(contents->dtype)))
        return tc_error(launcher->ctx, TC_UNSUPPORTED, node,
                        "the elements of operand %u ('%s') must be known before the run", input,
                        value ? tc_quote(launcher->ctx, value->name) : "absent");
    int64_t *ints = TC_NEW_ARRAY(launcher->arena, int64_t, (size_t)count + 1);
    tc_tensor mapped;
    if (tensor) {
        mapped = *tensor;
        mapped.data = data;
    }
    for (uint64_t i = 0; i < count; i++)
        ints[i] = tensor ? tc_tensor_get_int(&mapped, i) : contents->items[i].i.value;
    *out_ints = ints;
    *out_count = (int64_t)count;
    return TC_OK;
}
