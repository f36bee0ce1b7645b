/* clone.c: copies of nodes and of nested graphs. A copy means the same as its original: same op, same attributes, same
 * ordinal (dropout draws by it). Only the values are new, under names that are free. Tensors, types and strings are
 * shared, because nothing changes them in place. */
#include "clone.h"
#include "ops.h"
#include <string.h>

static tc_value absent; /* the image of values without a copy; only its address counts */

void tc_cloner_set_absent(tc_cloner *cloner, const tc_value *value) { tc_map_set_ptr(cloner->values, value, &absent); }

tc_value *tc_cloner_value(const tc_cloner *cloner, tc_value *value) {
    tc_value *copy = value ? tc_map_get_ptr(cloner->values, value) : NULL;
    return copy == &absent ? NULL : copy ? copy : value;
}

/* The part of the name after the path steps that both begin with. Names in nested graphs were prefixed when the outer
 * graph was copied; they must not double with each depth. */
static const char *own_steps(const char *prefix, const char *name) {
    size_t shared = 0;
    for (size_t i = 0;; i++) {
        bool ends = prefix[i] == '/' || prefix[i] == '\0';
        if (ends && (name[i] == '/' || name[i] == '\0'))
            shared = i + (name[i] == '/');
        if (prefix[i] == '\0' || prefix[i] != name[i])
            return name + shared;
    }
}

static const char *copy_name(const tc_cloner *cloner, tc_graph *graph, const char *name) {
    if (!cloner->prefix)
        return name;
    name = own_steps(cloner->prefix, name);
    return *name ? tc_arena_printf(graph->model->arena, "%s/%s", cloner->prefix, name) : cloner->prefix;
}

/* --- into another model ----------------------------------------------------------------------- */

static bool has_symbols(const tc_type *type) {
    for (int i = 0; type->dims && i < type->rank; i++)
        if (!tc_dim_is_const(type->dims[i]) && !tc_dim_is_unknown(type->dims[i]))
            return true;
    return type->elem && has_symbols(type->elem);
}

static bool no_value(void *user, const char *name, int64_t *value) {
    (void)user, (void)name, (void)value;
    return false;
}

/* Symbols belong to the pool of their model: an empty substitution rebuilds the dim in the other pool. */
static const tc_type *type_in(tc_model *model, const tc_type *type) {
    if (!type || !has_symbols(type))
        return type;
    tc_type *copy = TC_NEW(model->arena, tc_type);
    tc_dim *dims = TC_NEW_ARRAY(model->arena, tc_dim, (size_t)(type->rank > 0 ? type->rank : 0) + 1);
    for (int i = 0; type->dims && i < type->rank; i++)
        dims[i] = tc_dim_substitute(model->dims, type->dims[i], no_value, NULL);
    *copy = *type;
    copy->dims = type->dims ? dims : NULL;
    copy->elem = type_in(model, type->elem);
    return copy;
}

/* Names are copied as they are: unique in the original, they are unique in the copy. */
static tc_value *value_in(tc_graph *graph, const tc_value *value) {
    bool inferred = value->producer && value->producer->op && value->producer->op->has_shape;
    tc_value *copy = tc_value_create_exact(graph, value->name, inferred ? NULL : type_in(graph->model, value->type));
    copy->learned = value->learned;
    return copy;
}

/* --- values, graphs, nodes -------------------------------------------------------------------- */

static tc_value *copy_value(const tc_cloner *cloner, tc_graph *graph, const tc_value *value) {
    tc_value *copy, *of = value->gradient_of;
    if (cloner->whole) {
        copy = value_in(graph, value);
    } else {
        copy = tc_value_create(graph, copy_name(cloner, graph, value->name), value->type);
        copy->contents = value->contents;
    }
    copy->role = value->role;
    copy->gradient_of = cloner->whole && of ? tc_map_get_ptr(cloner->values, of) : tc_cloner_value(cloner, of);
    tc_map_set_ptr(cloner->values, value, copy);
    return copy;
}

static void fill_graph(const tc_cloner *cloner, tc_graph *copy, const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        tc_graph_add_input(copy, copy_value(cloner, copy, graph->inputs[i]));
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        const tc_value *value = graph->initializers[i];
        tc_value *image =
            value->is_input ? tc_cloner_value(cloner, graph->initializers[i]) : copy_value(cloner, copy, value);
        tc_graph_add_initializer(copy, image, value->init);
    }
    for (const tc_node *node = graph->first; node; node = node->next)
        tc_node_append(tc_cloner_node(cloner, copy, node));
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        tc_graph_add_output(copy, tc_cloner_value(cloner, graph->outputs[i]));
    copy->listed = TC_NEW_ARRAY(copy->model->arena, tc_value *, graph->n_listed);
    for (uint32_t i = 0; i < graph->n_listed; i++) {
        tc_value *image = tc_cloner_value(cloner, graph->listed[i]);
        if (image && image->graph == copy) /* else it was removed */
            copy->listed[copy->n_listed++] = image;
    }
}

static tc_graph *clone_graph(const tc_cloner *cloner, tc_graph *parent, const tc_graph *graph) {
    tc_graph *copy = tc_graph_create(parent->model, parent, graph->name);
    fill_graph(cloner, copy, graph);
    return copy;
}

/* The attribute in the copy; false: there is none, because the reference found no value. */
static bool copy_attr(const tc_cloner *cloner, tc_graph *graph, const tc_attr *attr, tc_attr *out_copy) {
    const tc_attr *source = attr;
    if (attr->ref && cloner->call) {
        source = tc_attr_find(cloner->call, attr->ref);
        for (size_t i = 0; !source && i < cloner->function->n_defaults; i++)
            if (strcmp(cloner->function->defaults[i].name, attr->ref) == 0)
                source = &cloner->function->defaults[i];
        if (!source)
            return false;
    }
    *out_copy = *source;
    if (source != attr) {
        out_copy->name = attr->name;
        out_copy->origin = NULL;
    }
    bool is_graph = source->kind == TC_ATTR_GRAPH, are_graphs = source->kind == TC_ATTR_GRAPHS;
    if (source->ref || (!is_graph && !are_graphs))
        return true;
    /* A graph that the caller passed belongs to the caller's scope: its references and values are not the body's. */
    tc_cloner outside = {.values = tc_map_create(graph->model->arena)};
    if (source != attr)
        cloner = &outside;
    out_copy->origin = NULL;
    if (is_graph) {
        out_copy->g = clone_graph(cloner, graph, source->g);
        return true;
    }
    tc_graph **graphs = TC_NEW_ARRAY(graph->model->arena, tc_graph *, source->count);
    for (size_t i = 0; i < source->count; i++)
        graphs[i] = clone_graph(cloner, graph, source->graphs[i]);
    out_copy->graphs = (tc_graph *const *)graphs;
    return true;
}

tc_node *tc_cloner_node(const tc_cloner *cloner, tc_graph *graph, const tc_node *node) {
    tc_node *copy = tc_node_create(graph, node->domain, node->op_type, node->n_inputs, node->n_outputs);
    copy->name = cloner->prefix || *node->name ? copy_name(cloner, graph, node->name) : "";
    copy->overload = node->overload;
    copy->ordinal = node->ordinal;
    copy->origin = node->origin;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        tc_node_set_input(copy, i, tc_cloner_value(cloner, node->inputs[i].value));
    copy->attrs = TC_NEW_ARRAY(graph->model->arena, tc_attr, node->n_attrs);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        copy->n_attrs += copy_attr(cloner, graph, &node->attrs[i], &copy->attrs[copy->n_attrs]);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        tc_value *value = node->outputs[i];
        tc_value *image = value ? tc_map_get_ptr(cloner->values, value) : NULL;
        if (value) /* a mapped output already waits for its producer: this is how inlining keeps the call's own
                    * outputs */
            tc_node_set_output(copy, i, cloner->call && image ? image : copy_value(cloner, graph, value));
    }
    return copy;
}

tc_node *tc_node_clone(tc_graph *graph, const tc_node *node, tc_map *values) {
    tc_cloner cloner = {.values = values};
    tc_node *copy = tc_cloner_node(&cloner, graph, node);
    tc_node_append(copy);
    return copy;
}

tc_graph *tc_graph_clone(tc_graph *parent, const tc_graph *graph, tc_map *values) {
    tc_cloner cloner = {.values = values};
    return clone_graph(&cloner, parent, graph);
}

/* Passes change functions, too. */
static void copy_functions(tc_model *copy, const tc_model *model) {
    for (size_t i = 0; i < model->n_functions; i++) {
        const tc_function *f = model->functions[i];
        tc_cloner cloner = {.values = tc_map_create(copy->arena), .whole = true};
        tc_function *function = TC_NEW(copy->arena, tc_function);
        *function = *f;
        function->body = tc_graph_create(copy, NULL, f->body->name);
        fill_graph(&cloner, function->body, f->body);
        tc_model_add_function(copy, function);
    }
}

tc_model *tc_model_clone(tc_model *model) {
    tc_model *copy = tc_model_create();
    copy->source = model->source ? model->source : model;
    copy->path = model->path;
    copy->ir_version = model->ir_version;
    for (size_t i = 0; i < model->n_opsets; i++)
        tc_model_set_opset(copy, model->opsets[i].domain, model->opsets[i].version);
    copy_functions(copy, model);
    copy->info = model->info;
    copy->next_ordinal = model->next_ordinal;
    copy->graph->name = model->graph->name;
    tc_cloner cloner = {.values = tc_map_create(copy->arena), .whole = true};
    fill_graph(&cloner, copy->graph, model->graph);
    return copy;
}
