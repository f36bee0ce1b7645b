/* plan.c: from a graph to launches, one per node in the order of the file, and to storages, one for each value that a
 * launch reads or writes. place_buffers.c decides where they lie, set_addresses.c gives the launches their
 * addresses. */
#include "plan.h"
#include "compiler/contents/contents.h"
#include "compiler/ir/ops.h"
#include "runtime/fuse/fuse.h"
#include <stdlib.h>
#include <string.h>

typedef struct planner {
    tc_ctx *ctx;
    tc_model *model;
    rt_plan *plan;
    size_t cap_storages;
} planner;

rt_storage *rt_plan_storage(const rt_plan *plan, const tc_value *value) {
    size_t at = (size_t)(uintptr_t)tc_map_get_ptr(plan->index, value);
    return at ? &plan->storages[at - 1] : NULL;
}

rt_storage *rt_plan_root(const rt_plan *plan, const tc_value *value) {
    rt_storage *s = rt_plan_storage(plan, value);
    return s ? rt_storage_root(plan, s) : NULL;
}

static rt_storage *add_storage(planner *p, const tc_value *value, rt_home home, size_t bytes, const int64_t *dims) {
    rt_plan *plan = p->plan;
    plan->storages = tc_arena_grow(plan->launcher.arena, plan->storages, sizeof *plan->storages, &p->cap_storages,
                                   (size_t)plan->n_storages + 1);
    uint32_t at = plan->n_storages++;
    plan->storages[at] = (rt_storage){.value = value, .home = home, .root = at, .bytes = bytes, .dims = dims};
    tc_map_set_ptr(plan->index, value, (void *)(uintptr_t)(at + 1));
    return &plan->storages[at];
}

/* --- operands and results --------------------------------------------------------------------- */

static bool is_ours(tc_dtype dtype) {
    const uint32_t known = 1u << TK_F32 | 1u << TK_U8 | 1u << TK_I8 | 1u << TK_U16 | 1u << TK_I16 | 1u << TK_I32 |
                           1u << TK_I64 | 1u << TK_BOOL | 1u << TK_F16 | 1u << TK_F64 | 1u << TK_U32 | 1u << TK_U64 |
                           1u << TK_BF16;
    return (known >> dtype & 1) != 0;
}

static tc_status describe(planner *p, const tc_node *node, const tc_value *value, rt_arg *arg) {
    tc_arena *arena = p->plan->launcher.arena;
    const tc_type *type = value->type;
    if (!type || type->kind != TC_TENSOR || !is_ours(type->dtype))
        return tc_error(p->ctx, TC_UNSUPPORTED, node, "'%s' is of type %s, which the runtime does not hold",
                        tc_quote(p->ctx, value->name), tc_type_text(arena, type));
    if (!tc_type_is_static(type)) {
        tc_error(p->ctx, TC_UNSUPPORTED, node, "the shape of '%s' (%s) does not follow from the shapes of the inputs",
                 tc_quote(p->ctx, value->name), tc_type_text(arena, type));
        tc_hint(
            p->ctx,
            "the runtime needs every shape before it runs: mask elements (Where, Mul) instead of picking them by data; "
            "values of small inputs are used where they decide shapes, if they are finite and their sums and "
            "products fit in 63 bits");
        return TC_UNSUPPORTED;
    }
    int64_t *dims = TC_NEW_ARRAY(arena, int64_t, (size_t)type->rank + 1);
    for (int i = 0; i < type->rank; i++)
        dims[i] = type->dims[i].value;
    uint64_t count = 0;
    if (!tc_shape_count(type->rank, dims, &count) || count > INT64_MAX / 16)
        return tc_error(p->ctx, TC_LIMIT, node, "'%s' has more elements than can be addressed (%s)",
                        tc_quote(p->ctx, value->name), tc_type_text(arena, type));
    *arg = (rt_arg){NULL, (tk_dtype)type->dtype, type->rank, dims, (int64_t)count, true};
    return TC_OK;
}

/* One copy for all plans. The arena's memory is aligned: these are the bytes of a file, and their address identifies
 * them as long as the session lives. */
static const void *aligned_copy(rt_shared *shared, const void *data, size_t bytes) {
    void *copy = tc_map_get_ptr(shared->aligned, data);
    if (copy)
        return copy;
    copy = tc_arena_alloc(shared->arena, bytes, 1);
    memcpy(copy, data, bytes);
    tc_map_set_ptr(shared->aligned, data, copy);
    return copy;
}

/* Constants may lie in the file at any address: kernels want them aligned to their element. */
static tc_status parameter_data(planner *p, const tc_node *node, const tc_tensor *tensor, const void **out_data) {
    static const uint64_t nothing;
    const void *data = tensor->data;
    *out_data = &nothing;
    if (p->plan->shared->dry)
        return TC_OK;
    if (!data && tensor->external)
        TC_TRY(tc_tensor_map(p->ctx, p->model, tensor, &data));
    if (!data && tensor->bytes > 0)
        return tc_error(p->ctx, TC_UNSUPPORTED, node, "constant '%s' has no numbers to read",
                        tc_quote(p->ctx, tensor->name ? tensor->name : ""));
    size_t element = tc_dtype_bits(tensor->dtype) / 8;
    bool lies_well = element < 2 || (uintptr_t)data % element == 0;
    if (data)
        *out_data = lies_well ? data : aligned_copy(p->plan->shared, data, tensor->bytes);
    return TC_OK;
}

static tc_status add_parameter(planner *p, const tc_node *node, const tc_value *value, const tc_tensor *tensor) {
    const void *data = NULL;
    TC_TRY(parameter_data(p, node, tensor, &data));
    rt_set_host(p->plan, add_storage(p, value, RT_PARAMETER, tensor->bytes, tensor->dims), data);
    return TC_OK;
}

/* Operands that no launch computes get their storage at their first use: inputs have theirs, so it is a constant. */
static tc_status need_operand(planner *p, const tc_node *node, const tc_value *value) {
    if (rt_plan_storage(p->plan, value))
        return TC_OK;
    const tc_tensor *constant = value->init ? value->init : tc_value_constant(value);
    if (!constant)
        return tc_error(p->ctx, TC_BUG, node, "operand '%s' was not computed before", tc_quote(p->ctx, value->name));
    return add_parameter(p, node, value, constant);
}

/* Operands and results that launch functions may read without checking the count: those that a node lacks are
 * absent. */
enum { FEWEST_IN = 8, FEWEST_OUT = 4 };

static tc_status fill_args(planner *p, const tc_node *node, rt_launch *launch) {
    tc_arena *arena = p->plan->launcher.arena;
    launch->n_in = node->n_inputs;
    launch->n_out = node->n_outputs;
    launch->in = TC_NEW_ARRAY(arena, rt_arg, node->n_inputs > FEWEST_IN ? node->n_inputs : FEWEST_IN);
    launch->out = TC_NEW_ARRAY(arena, rt_arg, node->n_outputs > FEWEST_OUT ? node->n_outputs : FEWEST_OUT);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        if (!value)
            continue;
        TC_TRY(describe(p, node, value, &launch->in[i]));
        TC_TRY(need_operand(p, node, value));
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_value *value = node->outputs[i];
        if (value && (i == 0 || tc_value_is_used(value)))
            TC_TRY(describe(p, node, value, &launch->out[i]));
    }
    return TC_OK;
}

/* --- launches -------------------------------------------------------------------------------- */

/* Integers and flags that shape inference knows, as the kernel would write them; NULL: not known. The plan holds for
 * these alone: elements of inputs are among them only where the plan was made for them. */
static const void *known_elements(const planner *p, const tc_value *value, const rt_arg *out) {
    const tc_contents *known = value->contents;
    size_t size = tk_size(out->dtype);
    if (!known || tc_dtype_is_float(known->dtype) || !tc_contents_is_const(known) ||
        known->count != (uint64_t)out->count)
        return NULL;
    unsigned char *elements = tc_arena_alloc(p->plan->launcher.arena, (size_t)out->count + 1, size);
    for (int64_t i = 0; i < out->count; i++)
        memcpy(elements + (size_t)i * size, &known->items[i].i.value, size); /* little-endian: the low bytes */
    return elements;
}

static rt_launch *begin_launch(planner *p, const tc_node *node) {
    rt_launch *launch = &p->plan->launches[p->plan->n_launches];
    *launch = (rt_launch){.node = node, .kernels = p->plan->launcher.kernels, .view_of = -1};
    return launch;
}

/* Ends a launch: it is one of the plan's. */
static void add_results(planner *p, const rt_launch *launch) {
    const tc_node *node = launch->node;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const rt_arg *out = rt_out(launch, i);
        if (!out)
            continue;
        bool known = i == 0 && launch->constant, view = i == 0 && !known && launch->view_of >= 0;
        rt_storage *s = add_storage(p, node->outputs[i], known ? RT_PARAMETER : RT_ARENA,
                                    (size_t)out->count * tk_size(out->dtype), out->dims);
        s->launch = p->plan->n_launches;
        if (known)
            rt_set_host(p->plan, s, launch->constant);
        if (view) {
            const rt_storage *viewed = rt_plan_root(p->plan, tc_input(node, (uint32_t)launch->view_of));
            s->root = viewed->root;
            s->home = viewed->home;
        }
    }
    p->plan->n_launches++;
}

static tc_status choose_kernel(planner *p, const tc_node *node, const rt_kernel_row *row, rt_launch *launch) {
    const rt_device *device = p->plan->shared->device;
    if (!rt_has_kernel(device, node))
        return rt_tell_no_kernel(p->ctx, device, node);
    TC_TRY(row->launch(&p->plan->launcher, node, launch));
    if (!launch->constant && node->n_outputs == 1 && rt_out(launch, 0))
        launch->constant = known_elements(p, node->outputs[0], rt_out(launch, 0));
    return TC_OK;
}

static tc_status launch_node(planner *p, const tc_node *node) {
    const rt_kernel_row *row = rt_kernel_for(node);
    if (!row)
        return rt_tell_no_kernel(p->ctx, p->plan->shared->device, node);
    rt_launch *launch = begin_launch(p, node);
    TC_TRY(fill_args(p, node, launch));
    TC_TRY(choose_kernel(p, node, row, launch));
    add_results(p, launch);
    return TC_OK;
}

/* --- launches that are only estimated --------------------------------------------------------- */

static bool is_there(const planner *p, const tc_value *value) {
    return rt_plan_storage(p->plan, value) || value->init || tc_value_constant(value);
}

static bool has_operands(const planner *p, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_input(node, i) && !is_there(p, tc_input(node, i)))
            return false;
    return true;
}

/* For a branch or loop that is still there: its condition is known, so that other numbers may unroll it. */
static bool goes_otherwise(const tc_node *node) {
    bool known = tc_has_nested(node);
    for (uint32_t i = 0; known && i < 2; i++) {
        const tc_value *value = tc_input(node, i);
        known = !value || tc_value_constant(value) || (value->contents && tc_contents_is_const(value->contents)) ||
                (i == 1 && !tc_node_is(node, "", "Loop"));
    }
    return known;
}

/* In a dry plan, a node without a kernel is reported, and counted as a launch without workspace. A node without a shape
 * is reported, too, and left out with all its readers. */
static tc_status estimate_node(planner *p, const tc_node *node) {
    const rt_kernel_row *row = rt_kernel_for(node);
    bool ready = has_operands(p, node);
    p->plan->shared->gaps |= !ready;
    if (!row && !goes_otherwise(node))
        (void)rt_tell_no_kernel(p->ctx, p->plan->shared->device, node);
    if (!ready)
        return TC_OK;
    size_t n_diags = p->ctx->n_diags;
    rt_launch *launch = begin_launch(p, node);
    tc_status status = fill_args(p, node, launch);
    if (status == TC_UNSUPPORTED) {
        p->ctx->n_diags = row ? p->ctx->n_diags : n_diags; /* one reason is enough */
        p->plan->shared->gaps = true;
        return TC_OK;
    }
    TC_TRY(status);
    rt_launch bare = *launch;
    status = row ? choose_kernel(p, node, row, launch) : TC_OK;
    if (status == TC_UNSUPPORTED)
        *launch = bare;
    else
        TC_TRY(status);
    add_results(p, launch);
    return TC_OK;
}

/* --- all launches ------------------------------------------------------------------------------- */

static tc_status add_inputs(planner *p, const bool *bound) {
    const tc_graph *graph = p->model->graph;
    const rt_shared *shared = p->plan->shared;
    bool *kept = TC_NEW_ARRAY(p->plan->launcher.arena, bool, (size_t)graph->n_inputs + 1);
    for (uint32_t i = 0; i < shared->n_states; i++)
        kept[shared->states[i].input] = true;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_value *value = graph->inputs[i];
        rt_arg arg;
        if (!bound[i])
            continue;
        TC_TRY(describe(p, NULL, value, &arg));
        add_storage(p, value, kept[i] ? RT_STATE : RT_INPUT, (size_t)arg.count * tk_size(arg.dtype), arg.dims);
    }
    p->plan->n_bound = p->plan->n_storages;
    return TC_OK;
}

static tc_status launch_all(planner *p, const bool *bound) {
    const tc_graph *graph = p->model->graph;
    rt_shared *shared = p->plan->shared;
    TC_TRY(add_inputs(p, bound));
    p->plan->launches = TC_NEW_ARRAY(p->plan->launcher.arena, rt_launch, (size_t)graph->n_nodes + 1);
    TC_FOR_NODES(node, graph) {
        if (node->n_outputs > 0 && node->outputs[0] && tc_value_constant(node->outputs[0]))
            continue;
        TC_TRY(shared->dry ? estimate_node(p, node) : launch_node(p, node));
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        shared->gaps |= shared->dry && !is_there(p, graph->outputs[i]);
        if (!shared->gaps)
            TC_TRY(need_operand(p, NULL, graph->outputs[i]));
    }
    return TC_OK;
}

static tc_status make(planner *p, const bool *bound) {
    TC_TRY(launch_all(p, bound));
    if (p->plan->shared->gaps)
        return TC_OK;
    TC_TRY(rt_place_states(p->ctx, p->plan));
    TC_TRY(rt_find_averages(p->ctx, p->plan));
    TC_TRY(rt_place_buffers(p->ctx, p->plan));
    rt_schedule_averages(p->plan);
    rt_find_addresses(p->plan);
    p->plan->downloads = TC_NEW_ARRAY(p->plan->launcher.arena, void *, (size_t)p->plan->n_storages + 1);
    p->plan->host_blocks = TC_NEW_ARRAY(p->plan->launcher.arena, rt_device_memory *, 1);
    return TC_OK;
}

/* Whether nodes of this op, which only plans have, may be made. */
static bool has_kernel(const rt_shared *shared, const char *op) {
    return rt_kernel_find("ai.tempo", op)->dtypes[shared->device->kind] != 0 && !shared->dry;
}

tc_status rt_plan_create(tc_ctx *ctx, tc_model *model, const rt_random *random, const bool *bound, rt_shared *shared,
                         rt_plan **out_plan) {
    tc_arena *arena = tc_arena_create();
    rt_plan *plan = TC_NEW(arena, rt_plan);
    plan->launcher = (rt_launcher){.ctx = ctx,
                                   .model = model,
                                   .arena = arena,
                                   .kernels = shared->device->kernels,
                                   .slots = tk_queue_slots(shared->queue),
                                   .random = random};
    plan->model = model;
    plan->graph = model->graph;
    plan->shared = shared;
    plan->index = tc_map_create(arena);
    planner p = {ctx, model, plan, 0};
    rt_fuse_transposes(model->graph);
    rt_list_averaged(plan);
    if (shared->device->kernels->attention_spreads && !shared->dry)
        rt_fuse_heads(model->graph, shared->device->kernels, shared->queue);
    if (has_kernel(shared, "Product"))
        plan->launcher.products = rt_fuse_products(model->graph, arena, rt_averaged_values(plan));
    if (has_kernel(shared, "Chain"))
        plan->launcher.chains = rt_fuse_chains(model->graph, arena, rt_averaged_values(plan));
    if (has_kernel(shared, "PointwiseBoth"))
        rt_fuse_pointwise(model->graph);
    rt_delay_updates(plan);
    tc_status status = make(&p, bound);
    if (status != TC_OK) {
        rt_plan_destroy(plan);
        plan = NULL;
    }
    *out_plan = plan;
    return status;
}

void rt_plan_destroy(rt_plan *plan) {
    if (!plan)
        return;
    rt_forget_recordings(plan);
    rt_free_blocks(plan);
    tc_model_destroy(plan->model);
    tc_arena_destroy(plan->launcher.arena);
}
