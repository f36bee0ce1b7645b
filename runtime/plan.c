/* plan.c: from a graph to launches and offsets. Four steps: launches (one per node, which says what is a view and
 * what may be done in place), lifetimes of storages, in-place results, packing. Lifetimes follow the order of the
 * file: what the compiler decided about memory is what happens. */
#include "plan.h"
#include "../compiler/contents.h"
#include "../compiler/memory/storage.h"
#include "../compiler/ops.h"
#include "available.h"
#include "tempo.h"
#include <stdlib.h>
#include <string.h>

typedef struct planner {
    tc_ctx *ctx;
    tc_model *model;
    rt_plan *plan;
    size_t cap_storages;
} planner;

static rt_storage *storage_of(const rt_plan *plan, const tc_value *value) {
    size_t at = (size_t)(uintptr_t)tc_map_get_ptr(plan->index, value);
    return at ? &plan->storages[at - 1] : NULL;
}

static rt_storage *root_of(const rt_plan *plan, const tc_value *value) {
    rt_storage *s = storage_of(plan, value);
    while (s && &plan->storages[s->root] != s)
        s = &plan->storages[s->root];
    return s;
}

static rt_storage *add_storage(planner *p, const tc_value *value, rt_home home, size_t bytes, const int64_t *dims) {
    rt_plan *plan = p->plan;
    plan->storages = tc_arena_grow(plan->launcher.arena, plan->storages, sizeof *plan->storages, &p->cap_storages,
                                   (size_t)plan->n_storages + 1);
    uint32_t at = plan->n_storages++;
    plan->storages[at] =
        (rt_storage){.value = value, .home = home, .root = at, .bytes = bytes, .dims = dims, .first = UINT32_MAX};
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
        tc_hint(p->ctx,
                "the runtime needs every shape before it runs; values of small inputs are used where they decide "
                "shapes, if they are finite and their sums and products fit in 63 bits");
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

/* One copy for all plans. What the arena holds is aligned: these are the bytes of a file, and their address stands for
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
    const void *data = tensor->data;
    if (!data && tensor->external)
        TC_TRY(tc_tensor_map(p->ctx, p->model, tensor, &data));
    if (!data && tensor->bytes > 0)
        return tc_error(p->ctx, TC_UNSUPPORTED, node, "constant '%s' has no numbers to read",
                        tc_quote(p->ctx, tensor->name ? tensor->name : ""));
    size_t element = tc_dtype_bits(tensor->dtype) / 8;
    static const uint64_t nothing;
    bool lies_well = element < 2 || (uintptr_t)data % element == 0;
    *out_data = !data ? &nothing : lies_well ? data : aligned_copy(p->plan->shared, data, tensor->bytes);
    return TC_OK;
}

static tc_status add_parameter(planner *p, const tc_node *node, const tc_value *value, const tc_tensor *tensor) {
    const void *data = NULL;
    TC_TRY(parameter_data(p, node, tensor, &data));
    add_storage(p, value, RT_PARAMETER, tensor->bytes, tensor->dims)->data = data;
    return TC_OK;
}

/* Operands that no launch computes get their storage when first met: inputs have theirs, so it is a constant. */
static tc_status need_operand(planner *p, const tc_node *node, const tc_value *value) {
    if (storage_of(p->plan, value))
        return TC_OK;
    const tc_tensor *constant = value->init ? value->init : tc_value_constant(value);
    if (!constant)
        return tc_error(p->ctx, TC_BUG, node, "operand '%s' was not computed before", tc_quote(p->ctx, value->name));
    return add_parameter(p, node, value, constant);
}

/* Operands and results that launch functions may look at without counting: those a node does not have are absent. */
#define FEWEST_ARGS 8

static tc_status fill_args(planner *p, const tc_node *node, rt_launch *launch) {
    tc_arena *arena = p->plan->launcher.arena;
    launch->n_in = node->n_inputs;
    launch->n_out = node->n_outputs;
    launch->in = TC_NEW_ARRAY(arena, rt_arg, (size_t)node->n_inputs + FEWEST_ARGS);
    launch->out = TC_NEW_ARRAY(arena, rt_arg, (size_t)node->n_outputs + FEWEST_ARGS);
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

static tc_status check_dtype(planner *p, const tc_node *node, const rt_kernel_row *row, const rt_launch *launch) {
    const rt_arg *decides = rt_in(launch, 0);
    if (!decides)
        decides = rt_out(launch, 0);
    if (decides && (row->dtypes >> decides->dtype & 1) == 0)
        return tc_error(p->ctx, TC_UNSUPPORTED, node, "there is no %s kernel for this op",
                        tc_dtype_name((tc_dtype)decides->dtype));
    return TC_OK;
}

static tc_status launch_node(planner *p, const tc_node *node) {
    const rt_kernel_row *row = rt_kernel_for(node);
    if (!row) {
        const char *domain = node->domain[0] ? node->domain : "ai.onnx";
        tc_error(p->ctx, TC_UNSUPPORTED, node,
                 "there is no kernel for op %s of domain %s, and the model has no function for it",
                 tc_quote(p->ctx, node->op_type), tc_quote(p->ctx, domain));
        tc_hint(p->ctx, "tempo-run --list-kernels lists what there is");
        return TC_UNSUPPORTED;
    }
    rt_launch *launch = &p->plan->launches[p->plan->n_launches];
    *launch = (rt_launch){.node = node, .kernels = p->plan->launcher.kernels, .view_of = -1};
    TC_TRY(fill_args(p, node, launch));
    TC_TRY(check_dtype(p, node, row, launch));
    TC_TRY(row->launch(&p->plan->launcher, node, launch));
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const rt_arg *out = rt_out(launch, i);
        if (!out)
            continue;
        if (i == 0 && launch->constant) {
            size_t bytes = (size_t)out->count * tk_size(out->dtype);
            add_storage(p, node->outputs[i], RT_PARAMETER, bytes, out->dims)->data = launch->constant;
            continue;
        }
        bool view = i == 0 && launch->view_of >= 0;
        uint32_t viewed = view ? root_of(p->plan, tc_input(node, (uint32_t)launch->view_of))->root : 0;
        rt_storage *s = add_storage(p, node->outputs[i], RT_ARENA, (size_t)out->count * tk_size(out->dtype), out->dims);
        if (view) {
            s->root = viewed;
            s->home = p->plan->storages[viewed].home;
        }
        s->first = s->last = p->plan->n_launches;
    }
    p->plan->n_launches++;
    return TC_OK;
}

static tc_status launch_all(planner *p, const bool *bound) {
    const tc_graph *graph = p->model->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_value *value = graph->inputs[i];
        rt_arg arg;
        if (!bound[i])
            continue;
        TC_TRY(describe(p, NULL, value, &arg));
        add_storage(p, value, RT_INPUT, (size_t)arg.count * tk_size(arg.dtype), arg.dims);
    }
    p->plan->n_bound = p->plan->n_storages;
    p->plan->launches = TC_NEW_ARRAY(p->plan->launcher.arena, rt_launch, (size_t)graph->n_nodes + 1);
    TC_FOR_NODES(node, graph) {
        if (node->n_outputs > 0 && node->outputs[0] && tc_value_constant(node->outputs[0]))
            continue;
        TC_TRY(launch_node(p, node));
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        TC_TRY(need_operand(p, NULL, graph->outputs[i]));
    return TC_OK;
}

/* --- lifetimes and in-place results ----------------------------------------------------------- */

static void find_lifetimes(rt_plan *plan) {
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        const tc_node *node = plan->launches[i].node;
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            tc_read read = tc_operand_read(node, k);
            bool touches = read == TC_READ_ELEMENTS || read == TC_READ_VIEW; /* views may be copied after all */
            rt_storage *root = touches ? root_of(plan, tc_input(node, k)) : NULL;
            if (root)
                root->last = i;
        }
    }
    for (uint32_t i = 0; i < plan->graph->n_outputs; i++)
        root_of(plan, plan->graph->outputs[i])->last = plan->n_launches;
}

/* Result 0 of launch `at` may lie over operand k when that operand dies there and nothing else reads its bytes
 * meanwhile. */
static bool can_take_over(const rt_plan *plan, uint32_t at, uint32_t k, size_t bytes) {
    const rt_launch *launch = &plan->launches[at];
    if ((launch->inplace >> k & 1) == 0 || !rt_in(launch, k))
        return false;
    const rt_storage *root = root_of(plan, tc_input(launch->node, k));
    if (root->home != RT_ARENA || root->last != at || root->bytes != bytes)
        return false;
    for (uint32_t j = 0; j < launch->n_in; j++) {
        bool marked = j < 64 && (launch->inplace >> j & 1) != 0;
        if (j != k && !marked && rt_in(launch, j) && root_of(plan, tc_input(launch->node, j)) == root)
            return false;
    }
    return true;
}

static void choose_inplace(rt_plan *plan) {
    for (uint32_t at = 0; at < plan->n_launches; at++) {
        const rt_launch *launch = &plan->launches[at];
        if (launch->inplace == 0 || launch->view_of >= 0 || !rt_out(launch, 0))
            continue;
        rt_storage *result = storage_of(plan, launch->node->outputs[0]);
        for (uint32_t k = 0; k < launch->n_in && k < 64; k++) {
            if (!can_take_over(plan, at, k, result->bytes))
                continue;
            rt_storage *root = root_of(plan, tc_input(launch->node, k));
            root->last = result->last;
            result->root = root->root;
            break;
        }
    }
}

/* --- packing and addresses -------------------------------------------------------------------- */

static tc_status pack(planner *p) {
    rt_plan *plan = p->plan;
    size_t most = (size_t)plan->n_storages + plan->n_launches;
    plan->buffers = TC_NEW_ARRAY(plan->launcher.arena, rt_buffer, most + 1);
    plan->buffer_of = TC_NEW_ARRAY(plan->launcher.arena, uint32_t, most + 1);
    plan->workspaces = TC_NEW_ARRAY(plan->launcher.arena, size_t, (size_t)plan->n_launches + 1);
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        const rt_storage *s = &plan->storages[i];
        if (s->home != RT_ARENA || s->root != i)
            continue;
        plan->buffer_of[plan->n_buffers] = i;
        plan->buffers[plan->n_buffers++] = (rt_buffer){s->bytes, s->first, s->last, 0};
    }
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        if (plan->launches[i].workspace_bytes == 0)
            continue;
        plan->buffer_of[plan->n_buffers] = UINT32_MAX - i;
        plan->buffers[plan->n_buffers++] = (rt_buffer){plan->launches[i].workspace_bytes, i, i, 0};
    }
    if (rt_pack(plan->buffers, plan->n_buffers, plan->n_launches, &plan->packing) != 0)
        return tc_error(p->ctx, TC_LIMIT, NULL, "the buffers of this graph need more bytes than can be addressed");
    for (size_t i = 0; i < plan->n_buffers; i++) {
        uint32_t of = plan->buffer_of[i];
        if (of < plan->n_storages)
            plan->storages[of].offset = plan->buffers[i].offset;
        else
            plan->workspaces[UINT32_MAX - of] = plan->buffers[i].offset;
    }
    return TC_OK;
}

/* Kernels take `void *` for operands and results; only results are written. */
static void *storage_data(const rt_plan *plan, const rt_storage *root) {
    union {
        const void *in;
        void *out;
    } address = {.in = root->data};
    return root->home == RT_ARENA ? plan->shared->memory + root->offset : address.out;
}

/* Places in inputs, which are set before each run on other bytes, or all others. */
static void list_places(rt_plan *plan, rt_arg *args, const tc_node *node, bool results, bool in_inputs) {
    for (uint32_t k = 0; k < (results ? node->n_outputs : node->n_inputs); k++) {
        const rt_storage *root = args[k].present ? root_of(plan, results ? node->outputs[k] : tc_input(node, k)) : NULL;
        if (root && (root->home == RT_INPUT) == in_inputs)
            plan->places[plan->n_places++] = (rt_place){&args[k], root};
    }
}

static void find_places(rt_plan *plan) {
    size_t most = 0;
    for (uint32_t i = 0; i < plan->n_launches; i++)
        most += (size_t)plan->launches[i].n_in + plan->launches[i].n_out;
    plan->places = TC_NEW_ARRAY(plan->launcher.arena, rt_place, most + 1);
    for (int others = 0; others < 2; others++) {
        for (uint32_t i = 0; i < plan->n_launches; i++) {
            rt_launch *launch = &plan->launches[i];
            list_places(plan, launch->in, launch->node, false, !others);
            list_places(plan, launch->out, launch->node, true, !others);
        }
        if (!others)
            plan->n_input_places = plan->n_places;
    }
}

static void set_addresses(rt_plan *plan) {
    bool moved = plan->memory != plan->shared->memory;
    for (size_t i = 0; i < (moved ? plan->n_places : plan->n_input_places); i++)
        plan->places[i].arg->data = storage_data(plan, plan->places[i].root);
    for (uint32_t i = 0; moved && i < plan->n_launches; i++)
        if (plan->launches[i].workspace_bytes > 0)
            plan->launches[i].workspace = plan->shared->memory + plan->workspaces[i];
    plan->memory = plan->shared->memory;
}

static const tc_value *largest_result(const rt_plan *plan) {
    const rt_storage *largest = NULL;
    for (uint32_t i = 0; i < plan->n_storages; i++)
        if (plan->storages[i].home == RT_ARENA && (!largest || plan->storages[i].bytes > largest->bytes))
            largest = &plan->storages[i];
    return largest ? largest->value : NULL;
}

/* What is there is given back first: nothing of an earlier run is read again. */
static tc_status take_memory(tc_ctx *ctx, rt_plan *plan) {
    rt_shared *shared = plan->shared;
    size_t bytes = plan->packing.bytes + RT_ALIGN; /* zero-sized buffers point at the end */
    if (shared->memory && bytes <= shared->bytes)
        return TC_OK;
    free(shared->memory);
    shared->memory = NULL;
    tc_status status = rt_check_memory(ctx, "the arena of this graph", bytes);
    const tc_value *largest = status == TC_OK ? NULL : largest_result(plan);
    if (largest)
        tc_hint(ctx, "its largest tensor is %s '%s' of %s \"%s\"", tc_type_text(ctx->arena, largest->type),
                tc_quote(ctx, largest->name), tc_quote(ctx, largest->producer->op_type),
                tc_quote(ctx, tc_node_label(largest->producer)));
    TC_TRY(status);
    shared->bytes = rt_aligned(bytes);
    shared->memory = aligned_alloc(RT_ALIGN, shared->bytes);
    if (!shared->memory)
        return tc_error(ctx, TC_LIMIT, NULL, "not enough memory: the arena of this graph takes %zu bytes", bytes);
    return TC_OK;
}

static tc_status make(planner *p, const bool *bound) {
    TC_TRY(launch_all(p, bound));
    find_lifetimes(p->plan);
    choose_inplace(p->plan);
    TC_TRY(pack(p));
    find_places(p->plan);
    return TC_OK;
}

tc_status rt_plan_create(tc_ctx *ctx, tc_model *model, int slots, const rt_random *random, const bool *bound,
                         rt_shared *shared, rt_plan **out_plan) {
    tc_arena *arena = tc_arena_create();
    rt_plan *plan = TC_NEW(arena, rt_plan);
    plan->launcher = (rt_launcher){
        .ctx = ctx, .model = model, .arena = arena, .kernels = &tk_table_cpu, .slots = slots, .random = random};
    plan->model = model;
    plan->graph = model->graph;
    plan->shared = shared;
    plan->index = tc_map_create(arena);
    planner p = {ctx, model, plan, 0};
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
    tc_model_destroy(plan->model);
    tc_arena_destroy(plan->launcher.arena);
}

tc_status rt_plan_ready(tc_ctx *ctx, rt_plan *plan, const void *const *inputs) {
    uint32_t at = 0;
    for (uint32_t i = 0; at < plan->n_bound; i++)
        if (plan->graph->inputs[i] == plan->storages[at].value)
            plan->storages[at++].data = inputs[i];
    TC_TRY(take_memory(ctx, plan));
    set_addresses(plan);
    return TC_OK;
}

size_t rt_plan_bytes(const rt_plan *plan, const tc_value *value) { return storage_of(plan, value)->bytes; }

const rt_storage *rt_plan_root(const rt_plan *plan, const tc_value *value) { return root_of(plan, value); }

void rt_plan_tensor(const rt_plan *plan, const tc_value *value, tempo_tensor *out_tensor) {
    const rt_storage *s = storage_of(plan, value);
    *out_tensor = (tempo_tensor){(tempo_dtype)value->type->dtype, value->type->rank, s->dims,
                                 storage_data(plan, root_of(plan, value)), s->bytes};
}

/* --- for launch functions ----------------------------------------------------------------------- */

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
