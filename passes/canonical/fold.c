/* fold.c: turns elements that shape inference knows into constants. Exporters compute shapes by chains of Shape,
 * Gather, Unsqueeze, Concat. If the dims are numbers, the whole chain is folded; if they are symbols, one Shape node
 * reads each dim from its graph input. Values that depend on a weight (canonical.h) stay, of any size: training changes
 * them, and folding would hide the weight from the loss. */
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "canonical.h"
#include <string.h>

/* --- constants -------------------------------------------------------------------------------- */

static void detach(tc_value *value) {
    value->producer->outputs[value->out_index] = NULL;
    value->producer = NULL;
}

void tc_make_constant(tc_value *value, const tc_tensor *tensor) {
    tc_node *node = value->producer;
    tc_graph *graph = value->graph;
    bool as_node = value->n_graph_outputs || (tensor->count > 1 && tc_dtype_is_float(tensor->dtype));
    detach(value);
    if (!value->type)
        value->type = tc_type_tensor_static(graph->model, tensor->dtype, tensor->rank, tensor->dims);
    if (as_node) {
        tc_node *constant = tc_node_create(graph, "", "Constant", 0, 1);
        constant->name = node->name;
        tc_attr_set_tensor(constant, "value", tensor);
        tc_node_set_output(constant, 0, value);
        tc_node_insert_before(constant, node);
    } else {
        tc_graph_add_initializer(graph, value, tensor);
    }
    tc_node_erase(node);
}

typedef struct folder {
    tc_model *model;
    bool *varies; /* by value id: depends on a weight */
    uint32_t n;
    uint32_t changes;
} folder;

static bool varies(const folder *f, const tc_value *value) {
    return tc_may_be_trained(value) || (value->id < f->n && f->varies[value->id]);
}

static bool node_varies(const folder *f, const tc_node *node) {
    for (uint32_t i = tc_node_has(node, TC_SHAPE_ONLY) ? 1 : 0; i < node->n_inputs; i++)
        if (tc_input(node, i) && varies(f, tc_input(node, i)))
            return true;
    return false;
}

static tc_value *only_output(const tc_node *node) {
    tc_value *only = NULL;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (node->outputs[i] && only)
            return NULL;
        only = node->outputs[i] ? node->outputs[i] : only;
    }
    return only;
}

/* --- a part of a large constant --------------------------------------------------------------- */

/* Elements of an integer operand as numbers: at most `most`. False when they are not known. */
static bool known_ints(folder *f, tc_value *value, int64_t *out, uint64_t most, uint64_t *out_n) {
    const tc_contents *c = value ? tc_value_contents(f->model, value) : NULL;
    if (!c || c->count > most || tc_dtype_is_float(c->dtype) || !tc_contents_is_const(c))
        return false;
    for (uint64_t i = 0; i < c->count; i++)
        out[i] = c->items[i].i.value;
    *out_n = c->count;
    return true;
}

typedef struct part {
    int64_t start[TC_MAX_RANK], step[TC_MAX_RANK];
} part;

/* The start of a Slice and its step on each axis; its extent is the type of its result. */
static bool read_part(folder *f, const tc_node *node, const tc_tensor *from, part *out) {
    int64_t starts[TC_MAX_RANK], axes[TC_MAX_RANK], steps[TC_MAX_RANK];
    uint64_t n = 0, n_axes = 0, n_steps = 0;
    bool has_axes = known_ints(f, tc_input(node, 3), axes, TC_MAX_RANK, &n_axes);
    bool has_steps = known_ints(f, tc_input(node, 4), steps, TC_MAX_RANK, &n_steps);
    if (!known_ints(f, tc_input(node, 1), starts, TC_MAX_RANK, &n) || n > (uint64_t)from->rank ||
        (tc_input(node, 3) && n_axes != n) || (tc_input(node, 4) && n_steps != n))
        return false;
    for (int i = 0; i < from->rank; i++) {
        out->start[i] = 0;
        out->step[i] = 1;
    }
    for (uint64_t i = 0; i < n; i++) {
        int64_t axis = has_axes ? axes[i] : (int64_t)i, step = has_steps ? steps[i] : 1, start = starts[i];
        axis += axis < 0 ? from->rank : 0;
        if (axis < 0 || axis >= from->rank || step == 0)
            return false;
        int64_t dim = from->dims[axis], last = step < 0 ? dim - 1 : dim;
        start += start < 0 ? dim : 0;
        out->start[axis] = start < 0 ? 0 : start > last ? last : start;
        out->step[axis] = step;
    }
    return true;
}

/* Row-major copy of the part; false if it would leave the tensor. */
static bool copy_part(const tc_tensor *from, const part *p, tc_tensor *to) {
    size_t size = tc_tensor_bytes(from->dtype, 1);
    for (uint64_t i = 0; i < to->count; i++) {
        uint64_t rest = i, at = 0, stride = 1;
        for (int axis = from->rank - 1; axis >= 0; axis--) {
            int64_t index = p->start[axis] + p->step[axis] * (int64_t)(rest % (uint64_t)to->dims[axis]);
            rest /= (uint64_t)to->dims[axis];
            if (index < 0 || index >= from->dims[axis])
                return false;
            at += (uint64_t)index * stride;
            stride *= (uint64_t)from->dims[axis];
        }
        memcpy((char *)(uintptr_t)to->data + i * size, (const char *)from->data + at * size, size);
    }
    return true;
}

/* Mask buffers are larger than the limit for folding, but the used part is not: folds a Slice of a constant with a
 * small result. */
static tc_tensor *slice_constant(folder *f, const tc_node *node) {
    tc_value *operand = tc_input(node, 0);
    const tc_tensor *from = operand && !tc_may_be_trained(operand) ? tc_value_constant(operand) : NULL;
    const tc_type *type = node->outputs[0] ? node->outputs[0]->type : NULL;
    int64_t dims[TC_MAX_RANK];
    uint64_t count;
    part p;
    if (!tc_node_is(node, "", "Slice") || !from || !from->data || tc_dtype_bits(from->dtype) < 8 || !type ||
        !tc_type_is_static(type) || type->rank != from->rank)
        return NULL;
    for (int i = 0; i < type->rank; i++)
        dims[i] = type->dims[i].value;
    if (!tc_shape_count(type->rank, dims, &count) || count == 0 ||
        tc_tensor_bytes(from->dtype, count) > TC_CONTENTS_LIMIT || !read_part(f, node, from, &p))
        return NULL;
    tc_tensor *to = tc_tensor_create(f->model, from->dtype, type->rank, dims, NULL);
    return copy_part(from, &p, to) ? to : NULL;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static bool fold_constant_node(folder *f, tc_node *node) {
    tc_value *value = node->outputs[0];
    const tc_tensor *tensor = value ? tc_value_constant(value) : NULL;
    if (!tensor || value->n_graph_outputs || (tensor->count > 1 && tc_dtype_is_float(tensor->dtype)))
        return false;
    tc_make_constant(value, tensor);
    f->changes++;
    return true;
}

static void fold_graph(folder *f, tc_graph *graph);

static void visit(folder *f, tc_node *node) {
    if (tc_node_is(node, "", "Constant")) {
        fold_constant_node(f, node);
        return;
    }
    bool depends = node_varies(f, node);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && node->outputs[i]->id < f->n)
            f->varies[node->outputs[i]->id] = depends;
    TC_FOR_NESTED(nested, node)
        fold_graph(f, nested);
    tc_value *value = only_output(node);
    if (depends || !value || !node->op || tc_node_has(node, TC_RANDOM | TC_CONTROL | TC_SIDE_EFFECT))
        return;
    tc_tensor *tensor = value->contents ? tc_contents_to_tensor(f->model, value->contents) : slice_constant(f, node);
    if (!tensor || tensor->bytes > TC_CONTENTS_LIMIT)
        return;
    tc_make_constant(value, tensor);
    f->changes++;
}

static void fold_graph(folder *f, tc_graph *graph) {
    TC_FOR_NODES_SAFE(node, graph)
        visit(f, node);
}

uint32_t tc_fold_constants(tc_graph *graph) {
    tc_arena *scratch = tc_arena_create();
    folder f = {.model = graph->model, .n = graph->model->next_id};
    f.varies = TC_NEW_ARRAY(scratch, bool, f.n + 1);
    fold_graph(&f, graph);
    tc_arena_destroy(scratch);
    return f.changes;
}

/* --- dims of graph inputs --------------------------------------------------------------------- */

typedef struct home {
    tc_value *input;
    int axis;
    tc_value *vector, *scalar; /* int64[1] and int64 that hold the dim; NULL until needed */
} home;

static tc_map *find_homes(tc_arena *scratch, const tc_graph *graph) {
    tc_map *homes = tc_map_create(scratch);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        tc_value *input = graph->inputs[i];
        for (int axis = 0; axis < tc_value_rank(input); axis++) {
            tc_dim dim = input->type->dims[axis];
            if (tc_dim_is_const(dim) || tc_dim_is_unknown(dim) || tc_map_get_ptr(homes, dim.sym))
                continue;
            home *h = TC_NEW(scratch, home);
            *h = (home){.input = input, .axis = axis};
            tc_map_set_ptr(homes, dim.sym, h);
        }
    }
    return homes;
}

/* The source of a value's elements: an input that has them as dims from h->axis on; NULL if there is none. */
static home *home_of(const tc_map *homes, const tc_contents *c) {
    if (!c || c->dtype != TC_INT64 || c->rank > 1 || c->count == 0 || tc_dim_is_const(c->items[0].i))
        return NULL;
    home *h = tc_map_get_ptr(homes, c->items[0].i.sym);
    if (!h || (uint64_t)h->axis + c->count > (uint64_t)tc_value_rank(h->input))
        return NULL;
    for (uint64_t i = 0; i < c->count; i++)
        if (!tc_dim_equal(h->input->type->dims[(uint64_t)h->axis + i], c->items[i].i))
            return NULL;
    return h;
}

/* Shape <start = axis, end = axis + count> (input), both written. */
static bool reads_home(const tc_node *node, const home *h, uint64_t count) {
    return tc_node_is(node, "", "Shape") && tc_input(node, 0) == h->input &&
           tc_attr_int(node, "start", -1) == h->axis && tc_attr_int(node, "end", -1) == h->axis + (int64_t)count;
}

static bool is_canonical(const tc_value *value, const home *h) {
    const tc_node *node = value->producer;
    if (value->contents->rank == 1)
        return reads_home(node, h, value->contents->count);
    const tc_value *from = tc_node_is(node, "", "Squeeze") ? tc_input(node, 0) : NULL;
    return from && node->n_inputs == 1 && from->producer && reads_home(from->producer, h, 1);
}

static tc_status add_node(tc_ctx *ctx, tc_node *node, tc_value *operand, tc_node *before, const char *name,
                          tc_value **out_value) {
    tc_node_set_input(node, 0, operand);
    *out_value = tc_node_add_output(node, 0, name, NULL);
    node->name = (*out_value)->name;
    tc_node_insert_before(node, before);
    return tc_infer_node(ctx, node);
}

static tc_status read_dims(tc_ctx *ctx, tc_graph *graph, const home *h, uint64_t count, tc_value **out_value) {
    const char *name = tc_arena_printf(graph->model->arena, "%s_dim_%d", h->input->name, h->axis);
    tc_node *node = tc_node_create(graph, "", "Shape", 1, 1);
    tc_attr_set_int(node, "start", h->axis);
    tc_attr_set_int(node, "end", h->axis + (int64_t)count);
    return add_node(ctx, node, h->input, graph->first, name, out_value);
}

/* The value that holds these dims, made at the beginning of the graph; a single dim, which many nodes read, is made
 * once. */
static tc_status find_dims(tc_ctx *ctx, tc_graph *graph, home *h, const tc_contents *c, tc_value **out_value) {
    if (c->count > 1)
        return read_dims(ctx, graph, h, c->count, out_value);
    if (!h->vector)
        TC_TRY(read_dims(ctx, graph, h, 1, &h->vector));
    if (c->rank == 0 && !h->scalar) {
        tc_node *node = tc_node_create(graph, "", "Squeeze", 1, 1), *made = h->vector->producer;
        TC_TRY(add_node(ctx, node, h->vector, made->next, h->vector->name, &h->scalar));
    }
    *out_value = c->rank ? h->vector : h->scalar;
    return TC_OK;
}

static void remember(home *h, tc_value *value) {
    if (value->contents->rank == 0) {
        h->scalar = value;
        h->vector = tc_input(value->producer, 0);
    } else if (value->contents->count == 1) {
        h->vector = value;
    }
}

uint32_t tc_fold_dims(tc_graph *graph) {
    tc_arena *scratch = tc_arena_create();
    tc_map *homes = find_homes(scratch, graph);
    tc_ctx ctx; /* nodes built here are typed by construction: there is nothing to report */
    uint32_t changes = 0;
    tc_ctx_init(&ctx, "tempoc");
    TC_FOR_NODES_SAFE(node, graph) {
        tc_value *value = only_output(node), *dims = NULL;
        home *h = value && value->uses && !value->n_graph_outputs ? home_of(homes, value->contents) : NULL;
        if (!h)
            continue;
        if (is_canonical(value, h)) {
            remember(h, value);
            continue;
        }
        if (find_dims(&ctx, graph, h, value->contents, &dims) != TC_OK)
            break;
        tc_value_replace(value, dims);
        changes++;
    }
    tc_ctx_fini(&ctx);
    tc_arena_destroy(scratch);
    return changes;
}
