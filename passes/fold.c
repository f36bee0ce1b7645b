/* fold.c: what shape inference knows of the elements of values becomes constants. Exporters compute shapes by chains of Shape,
 * Gather, Unsqueeze, Concat; where dims are known nothing is left of a chain, where they are symbols each dim is read
 * by one Shape node from the graph input that has it.
 *
 * What depends on a weight (canonical.h) is left alone, small or not: training changes it, and folding would hide the
 * weight from the loss. */
#include "../compiler/ops.h"
#include "../compiler/shape.h"
#include "canonical.h"
#include <string.h>

/* --- constants --------------------------------------------------------------------------------------------------------- */

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
    return tc_is_weight(value) || (value->id < f->n && f->varies[value->id]);
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
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        if (node->attrs[i].kind == TC_ATTR_GRAPH && node->attrs[i].g)
            fold_graph(f, node->attrs[i].g);
        for (size_t g = 0; node->attrs[i].kind == TC_ATTR_GRAPHS && g < node->attrs[i].count; g++)
            fold_graph(f, node->attrs[i].graphs[g]);
    }
    tc_value *value = only_output(node);
    if (depends || !value || !node->op || tc_node_has(node, TC_RANDOM | TC_CONTROL | TC_SIDE_EFFECT))
        return;
    tc_tensor *tensor = value->contents ? tc_contents_to_tensor(f->model, value->contents) : NULL;
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

/* --- dims of graph inputs ---------------------------------------------------------------------------------------------- */

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

/* Shape <start = axis, end = axis + 1> (input), in either case as it is made below. */
static bool reads_home(const tc_node *node, const home *h) {
    return tc_node_is(node, "", "Shape") && tc_input(node, 0) == h->input && tc_attr_int(node, "start", 0) == h->axis &&
           tc_attr_int(node, "end", -1) == h->axis + 1;
}

static bool is_canonical(const tc_value *value, const home *h) {
    const tc_node *node = value->producer;
    if (value->contents->rank == 1)
        return reads_home(node, h);
    const tc_value *from = tc_node_is(node, "", "Squeeze") ? tc_input(node, 0) : NULL;
    return from && node->n_inputs == 1 && from->producer && reads_home(from->producer, h);
}

static tc_value *add_node(tc_graph *graph, const char *op, tc_value *operand, tc_node *before, const char *name) {
    tc_node *node = tc_node_create(graph, "", op, 1, 1);
    tc_node_set_input(node, 0, operand);
    tc_value *value = tc_node_add_output(node, 0, name, NULL);
    node->name = value->name;
    tc_node_insert_before(node, before);
    return value;
}

/* The value that holds the dim, made at the front of the graph when it is first asked for. */
static tc_status read_dim(tc_ctx *ctx, tc_graph *graph, home *h, int rank, tc_value **out_value) {
    const char *name = tc_arena_printf(graph->model->arena, "%s_dim_%d", h->input->name, h->axis);
    if (!h->vector) {
        h->vector = add_node(graph, "Shape", h->input, graph->first, name);
        tc_attr_set_int(h->vector->producer, "start", h->axis);
        tc_attr_set_int(h->vector->producer, "end", h->axis + 1);
        TC_TRY(tc_infer_node(ctx, h->vector->producer));
    }
    if (rank == 0 && !h->scalar) {
        h->scalar = add_node(graph, "Squeeze", h->vector, h->vector->producer->next, name);
        TC_TRY(tc_infer_node(ctx, h->scalar->producer));
    }
    *out_value = rank ? h->vector : h->scalar;
    return TC_OK;
}

uint32_t tc_fold_dims(tc_graph *graph) {
    tc_arena *scratch = tc_arena_create();
    tc_map *homes = find_homes(scratch, graph);
    tc_ctx ctx; /* what is built here is typed by construction: nothing to report */
    uint32_t changes = 0;
    tc_ctx_init(&ctx, "tempoc");
    TC_FOR_NODES_SAFE(node, graph) {
        tc_value *value = only_output(node), *dim = NULL;
        const tc_contents *c = value ? value->contents : NULL;
        if (!c || c->dtype != TC_INT64 || c->count != 1 || c->rank > 1 || value->n_graph_outputs || !value->uses)
            continue;
        home *h = tc_dim_is_const(c->items[0].i) ? NULL : tc_map_get_ptr(homes, c->items[0].i.sym);
        if (!h)
            continue;
        if (is_canonical(value, h)) {
            *(c->rank ? &h->vector : &h->scalar) = value;
            if (!c->rank && !h->vector)
                h->vector = tc_input(node, 0);
            continue;
        }
        if (read_dim(&ctx, graph, h, c->rank, &dim) != TC_OK)
            break;
        tc_value_replace(value, dim);
        changes++;
    }
    tc_ctx_fini(&ctx);
    tc_arena_destroy(scratch);
    return changes;
}
