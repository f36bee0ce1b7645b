/* ir.c: building and changing graphs. Every function keeps the invariants of ir.h: use lists exact, names unique,
 * producers known. Erased nodes and values stay in the arena, unlinked. */
#include "ir.h"
#include "ops.h"
#include <string.h>

/* --- models ----------------------------------------------------------------------------------- */

static void destroy(void *model) { tc_model_destroy(model); }

void tc_model_hold(tc_model *model) {
    tc_let_go(&model->held);
    tc_hold(&model->held, destroy, model);
}

tc_model *tc_model_create(void) {
    tc_arena *arena = tc_arena_create();
    tc_model *model = TC_NEW(arena, tc_model);
    model->arena = arena;
    model->dims = tc_dim_pool_create(arena);
    model->ir_version = 10;
    model->graph = tc_graph_create(model, NULL, "main");
    tc_model_hold(model);
    return model;
}

/* "ai.onnx" is another spelling of the default domain. */
static bool same_domain(const char *a, const char *b) {
    if (strcmp(a, "ai.onnx") == 0)
        a = "";
    if (strcmp(b, "ai.onnx") == 0)
        b = "";
    return strcmp(a, b) == 0;
}

static tc_opset *find_opset(const tc_model *model, const char *domain) {
    for (size_t i = 0; i < model->n_opsets; i++)
        if (same_domain(model->opsets[i].domain, domain))
            return &model->opsets[i];
    return NULL;
}

int64_t tc_model_opset(const tc_model *model, const char *domain) {
    const tc_opset *opset = find_opset(model, domain);
    return opset ? opset->version : 0;
}

void tc_model_set_opset(tc_model *model, const char *domain, int64_t version) {
    tc_opset *opset = find_opset(model, domain);
    if (opset) {
        opset->version = version;
        return;
    }
    tc_opset *grown = TC_NEW_ARRAY(model->arena, tc_opset, model->n_opsets + 1);
    if (model->n_opsets)
        memcpy(grown, model->opsets, model->n_opsets * sizeof *grown);
    grown[model->n_opsets++] = (tc_opset){tc_arena_strdup(model->arena, domain), version};
    model->opsets = grown;
}

void tc_function_import(tc_model *model, tc_function *function, const char *domain, int64_t version) {
    for (size_t i = 0; i < function->n_opsets; i++)
        if (same_domain(function->opsets[i].domain, domain))
            return;
    tc_opset *opsets = TC_NEW_ARRAY(model->arena, tc_opset, function->n_opsets + 1);
    if (function->n_opsets)
        memcpy(opsets, function->opsets, function->n_opsets * sizeof *opsets);
    opsets[function->n_opsets++] = (tc_opset){domain, version};
    function->opsets = opsets;
}

tc_function *tc_model_function(const tc_model *model, const char *domain, const char *name, const char *overload) {
    for (size_t i = 0; i < model->n_functions; i++) {
        tc_function *f = model->functions[i];
        if (strcmp(f->name, name) == 0 && same_domain(f->domain, domain) && strcmp(f->overload, overload) == 0)
            return f;
    }
    return NULL;
}

void tc_model_add_function(tc_model *model, tc_function *function) {
    if (model->n_functions >=
        model->cap_functions) { /* also where a reader has set an array of its own, of exact size */
        size_t cap = model->n_functions * 2 + 4;
        tc_function **grown = TC_NEW_ARRAY(model->arena, tc_function *, cap);
        if (model->n_functions)
            memcpy(grown, model->functions, model->n_functions * sizeof *grown);
        model->functions = grown;
        model->cap_functions = cap;
    }
    model->functions[model->n_functions++] = function;
}

/* --- graphs ----------------------------------------------------------------------------------- */

tc_graph *tc_graph_create(tc_model *model, tc_graph *parent, const char *name) {
    tc_graph *graph = TC_NEW(model->arena, tc_graph);
    graph->model = model;
    graph->parent = parent;
    graph->name = name;
    graph->names = tc_map_create(model->arena);
    return graph;
}

tc_value *tc_graph_find(const tc_graph *graph, const char *name) {
    for (; graph; graph = graph->parent) {
        tc_value *value = tc_map_get(graph->names, name);
        if (value)
            return value;
    }
    return NULL;
}

tc_value *tc_graph_output(const tc_graph *graph, const char *name) {
    tc_value *value = tc_map_get(graph->names, name);
    return value && value->n_graph_outputs > 0 ? value : NULL;
}

static bool is_taken(const tc_graph *graph, const char *name) {
    const tc_map *nested = graph->model->nested_names;
    return tc_graph_find(graph, name) || (nested && tc_map_get(nested, name));
}

static void note_nested(const tc_value *value) {
    tc_model *model = value->graph->model;
    if (!value->graph->parent)
        return;
    if (!model->nested_names)
        model->nested_names = tc_map_create(model->arena);
    tc_map_set(model->nested_names, value->name, (void *)(uintptr_t)value);
}

void tc_graph_set_parent(tc_graph *graph, tc_graph *parent) {
    const void *name = NULL;
    void *value = NULL;
    graph->parent = parent;
    for (size_t cursor = 0; tc_map_next(graph->names, &cursor, &name, &value);)
        note_nested(value);
}

/* `base` is tried first, then small suffixes. After a few tries suffixes start near the model's id counter, so that
 * thousands of values with one base take linear time. */
const char *tc_graph_unique_name(tc_graph *graph, const char *base) {
    tc_arena *arena = graph->model->arena;
    if (!is_taken(graph, base))
        return tc_arena_strdup(arena, base);
    size_t n = strlen(base) + 24;
    char *name = tc_arena_alloc(arena, n, 1);
    for (uint32_t suffix = 1;; suffix++) {
        if (suffix == 8)
            suffix = graph->model->next_id + 8;
        snprintf(name, n, "%s_%u", base, suffix);
        if (!is_taken(graph, name))
            return name;
    }
}

/* Appends to one of the graph's value arrays. */
static void push(tc_graph *graph, tc_value ***array, uint32_t *count, uint32_t *cap, tc_value *value) {
    if (*count >= *cap) {
        uint32_t room = *count * 2 + 4;
        tc_value **grown = TC_NEW_ARRAY(graph->model->arena, tc_value *, room);
        if (*count)
            memcpy(grown, *array, *count * sizeof *grown);
        *array = grown;
        *cap = room;
    }
    (*array)[(*count)++] = value;
}

/* Searched from the end: most removed values were added late, and passes remove as many as there are layers. */
static void drop(tc_value **array, uint32_t *count, const tc_value *value) {
    for (uint32_t i = *count; i-- > 0;) {
        if (array[i] != value)
            continue;
        memmove(array + i, array + i + 1, (*count - i - 1) * sizeof *array);
        --*count;
        return;
    }
}

void tc_graph_add_input(tc_graph *graph, tc_value *value) {
    value->is_input = true;
    push(graph, &graph->inputs, &graph->n_inputs, &graph->cap_inputs, value);
}

void tc_graph_add_output(tc_graph *graph, tc_value *value) {
    value->n_graph_outputs++;
    push(graph, &graph->outputs, &graph->n_outputs, &graph->cap_outputs, value);
}

void tc_graph_set_output(tc_graph *graph, uint32_t index, tc_value *value) {
    TC_ASSERT(index < graph->n_outputs);
    graph->outputs[index]->n_graph_outputs--;
    value->n_graph_outputs++;
    graph->outputs[index] = value;
}

void tc_graph_remove_output(tc_graph *graph, uint32_t index) {
    TC_ASSERT(index < graph->n_outputs);
    graph->outputs[index]->n_graph_outputs--;
    graph->n_outputs--;
    memmove(graph->outputs + index, graph->outputs + index + 1, (graph->n_outputs - index) * sizeof(*graph->outputs));
}

void tc_graph_add_initializer(tc_graph *graph, tc_value *value, const tc_tensor *tensor) {
    TC_ASSERT(!value->producer && !value->init);
    value->init = tensor;
    push(graph, &graph->initializers, &graph->n_initializers, &graph->cap_initializers, value);
}

static void forget_value(tc_value *value) {
    if (tc_map_get(value->graph->names, value->name) == value)
        tc_map_set(value->graph->names, value->name, NULL);
}

void tc_graph_remove_input(tc_graph *graph, tc_value *value) {
    TC_ASSERT(value->is_input && !value->init && !tc_value_is_used(value));
    drop(graph->inputs, &graph->n_inputs, value);
    value->is_input = false;
    forget_value(value);
}

void tc_graph_remove_initializer(tc_graph *graph, tc_value *value) {
    drop(graph->initializers, &graph->n_initializers, value);
    value->init = NULL;
    if (value->is_input)
        return;
    TC_ASSERT(!tc_value_is_used(value));
    forget_value(value);
}

void tc_graph_remove_unused_initializers(tc_graph *graph) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        tc_value *value = graph->initializers[i];
        if (value->is_input || tc_value_is_used(value)) {
            graph->initializers[kept++] = value;
            continue;
        }
        value->init = NULL;
        forget_value(value);
    }
    graph->n_initializers = kept;
}

/* --- values ----------------------------------------------------------------------------------- */

tc_value *tc_value_create_exact(tc_graph *graph, const char *name, const tc_type *type) {
    tc_value *value = TC_NEW(graph->model->arena, tc_value);
    value->name = name;
    value->graph = graph;
    value->type = type;
    value->id = graph->model->next_id++;
    TC_ASSERT(!tc_map_get(graph->names, name));
    tc_map_set(graph->names, name, value);
    note_nested(value);
    return value;
}

tc_value *tc_value_create(tc_graph *graph, const char *name, const tc_type *type) {
    return tc_value_create_exact(graph, tc_graph_unique_name(graph, name && *name ? name : "t"), type);
}

void tc_value_rename(tc_value *value, const char *name) {
    tc_map *names = value->graph->names;
    if (strcmp(value->name, name) == 0)
        return;
    TC_ASSERT(!tc_map_get(names, name));
    forget_value(value);
    value->name = tc_arena_strdup(value->graph->model->arena, name);
    tc_map_set(names, value->name, value);
    note_nested(value);
}

static void unlink_use(tc_use *use) {
    if (!use->value)
        return;
    if (use->prev)
        use->prev->next = use->next;
    else
        use->value->uses = use->next;
    if (use->next)
        use->next->prev = use->prev;
    use->value = NULL;
    use->prev = use->next = NULL;
}

static void link_use(tc_use *use, tc_value *value) {
    use->value = value;
    if (!value)
        return;
    use->next = value->uses;
    if (value->uses)
        value->uses->prev = use;
    value->uses = use;
}

/* Outputs are looked for in the value's own graph alone, also for values of enclosing graphs: an output of a nested
 * graph is its own value, or is found through its users' graphs below. */
static void replace_outputs(tc_graph *graph, tc_value *from, tc_value *to) {
    for (uint32_t i = 0; from->n_graph_outputs && i < graph->n_outputs; i++)
        if (graph->outputs[i] == from)
            tc_graph_set_output(graph, i, to);
}

static void replace_nested_outputs(tc_graph *graph, tc_value *from, tc_value *to) {
    replace_outputs(graph, from, to);
    if (!from->n_graph_outputs)
        return;
    TC_FOR_NODES(node, graph) {
        TC_FOR_NESTED(nested, node)
            replace_nested_outputs(nested, from, to);
    }
}

void tc_value_replace(tc_value *from, tc_value *to) {
    TC_ASSERT(from != to);
    while (from->uses) {
        tc_use *use = from->uses;
        unlink_use(use);
        link_use(use, to);
    }
    if (from->n_graph_outputs == 0)
        return;
    if (from->role == TC_ROLE_LOSS || from->role == TC_ROLE_GRADIENT) {
        to->role = from->role;
        to->gradient_of = from->gradient_of;
    }
    replace_nested_outputs(from->graph, from, to);
}

bool tc_value_is_used(const tc_value *value) { return value->uses || value->n_graph_outputs; }

size_t tc_value_use_count(const tc_value *value) {
    size_t n = value->n_graph_outputs;
    TC_FOR_USES(use, value)
        n++;
    return n;
}

/* --- nodes ------------------------------------------------------------------------------------ */

tc_node *tc_node_create(tc_graph *graph, const char *domain, const char *op_type, uint32_t n_inputs,
                        uint32_t n_outputs) {
    tc_arena *arena = graph->model->arena;
    tc_node *node = TC_NEW(arena, tc_node);
    node->name = "";
    node->domain = domain;
    node->op_type = op_type;
    node->overload = "";
    node->op = tc_op_find(domain, op_type);
    node->graph = graph;
    node->inputs = TC_NEW_ARRAY(arena, tc_use, n_inputs);
    node->n_inputs = node->cap_inputs = n_inputs;
    for (uint32_t i = 0; i < n_inputs; i++)
        node->inputs[i] = (tc_use){.user = node, .index = i};
    node->outputs = TC_NEW_ARRAY(arena, tc_value *, n_outputs);
    node->n_outputs = n_outputs;
    node->id = graph->model->next_id++;
    node->ordinal = UINT32_MAX;
    return node;
}

/* Orders are spaced so that most insertions find a gap. Without a gap, the smallest neighbourhood whose orders leave
 * gaps as wide as it has nodes is spaced evenly: many insertions at one place cost a logarithm each, not the whole
 * list. */
enum { ORDER_STEP = 1 << 16 };

static void spread(tc_node *node) {
    tc_node *first = node, *last = node;
    uint64_t count = 1, low, step;
    for (;;) {
        low = first->prev ? first->prev->order : 0;
        if (!last->next) {
            step = ORDER_STEP;
            break;
        }
        step = (last->next->order - low) / (count + 1);
        if (step > count)
            break;
        for (uint64_t more = count + 1; more; more--) { /* twice as many, half of them on either side */
            if (more % 2 && first->prev)
                first = first->prev;
            else if (last->next)
                last = last->next;
            else
                break;
            count++;
        }
    }
    for (uint64_t order = low + step; first != last->next; first = first->next, order += step)
        first->order = order;
}

static void link_between(tc_node *node, tc_node *prev, tc_node *next) {
    tc_graph *graph = node->graph;
    node->prev = prev;
    node->next = next;
    if (prev)
        prev->next = node;
    else
        graph->first = node;
    if (next)
        next->prev = node;
    else
        graph->last = node;
    graph->n_nodes++;
    uint64_t low = prev ? prev->order : 0, high = next ? next->order : low + 2 * (uint64_t)ORDER_STEP;
    node->order = low + (high - low) / 2;
    if (node->order == low)
        spread(node);
}

static void unlink_node(tc_node *node) {
    tc_graph *graph = node->graph;
    if (node->prev)
        node->prev->next = node->next;
    else
        graph->first = node->next;
    if (node->next)
        node->next->prev = node->prev;
    else
        graph->last = node->prev;
    node->prev = node->next = NULL;
    graph->n_nodes--;
}

void tc_node_append(tc_node *node) { link_between(node, node->graph->last, NULL); }

void tc_node_insert_before(tc_node *node, tc_node *where) {
    TC_ASSERT(node->graph == where->graph);
    link_between(node, where->prev, where);
}

void tc_node_insert_after(tc_node *node, tc_node *where) {
    TC_ASSERT(node->graph == where->graph);
    link_between(node, where, where->next);
}

void tc_node_move_before(tc_node *node, tc_node *where) {
    if (node == where)
        return;
    unlink_node(node);
    tc_node_insert_before(node, where);
}

bool tc_node_before(const tc_node *a, const tc_node *b) {
    TC_ASSERT(a->graph == b->graph);
    return a->order < b->order;
}

void tc_graph_clear(tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        graph->outputs[i]->n_graph_outputs--;
    graph->n_outputs = 0;
    while (graph->last)
        tc_node_erase(graph->last);
}

void tc_node_erase(tc_node *node) {
    TC_FOR_NESTED(nested, node) /* nested graphs use values of this one */
        tc_graph_clear(nested);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!node->outputs[i])
            continue;
        TC_ASSERT(!tc_value_is_used(node->outputs[i]));
        node->outputs[i]->producer = NULL;
        forget_value(node->outputs[i]);
    }
    for (uint32_t i = 0; i < node->n_inputs; i++)
        unlink_use(&node->inputs[i]);
    unlink_node(node);
}

void tc_node_set_op(tc_node *node, const char *domain, const char *op_type) {
    node->domain = domain;
    node->op_type = op_type;
    node->op = tc_op_find(domain, op_type);
}

void tc_node_resize_inputs(tc_node *node, uint32_t n_inputs) {
    tc_use *old = node->inputs;
    uint32_t n_old = node->n_inputs;
    for (uint32_t i = n_inputs; i < n_old; i++)
        unlink_use(&old[i]);
    node->n_inputs = n_inputs;
    if (n_inputs > node->cap_inputs) {
        node->cap_inputs = n_old == 0 ? n_inputs : n_inputs + n_inputs / 2;
        node->inputs = TC_NEW_ARRAY(node->graph->model->arena, tc_use, node->cap_inputs);
        for (uint32_t i = 0; i < n_old; i++) { /* uses are links of lists: each moves by itself */
            tc_value *value = old[i].value;
            unlink_use(&old[i]);
            node->inputs[i] = (tc_use){.user = node, .index = i};
            link_use(&node->inputs[i], value);
        }
    }
    for (uint32_t i = n_old; i < n_inputs; i++)
        node->inputs[i] = (tc_use){.user = node, .index = i};
}

void tc_node_set_input(tc_node *node, uint32_t index, tc_value *value) {
    if (index >= node->n_inputs)
        tc_node_resize_inputs(node, index + 1);
    unlink_use(&node->inputs[index]);
    link_use(&node->inputs[index], value);
}

void tc_node_resize_outputs(tc_node *node, uint32_t n_outputs) {
    for (uint32_t i = n_outputs; i < node->n_outputs; i++) {
        tc_value *value = node->outputs[i];
        if (!value)
            continue;
        TC_ASSERT(!tc_value_is_used(value));
        value->producer = NULL;
        forget_value(value);
    }
    if (n_outputs > node->n_outputs) {
        tc_value **grown = TC_NEW_ARRAY(node->graph->model->arena, tc_value *, n_outputs);
        if (node->n_outputs)
            memcpy(grown, node->outputs, node->n_outputs * sizeof *grown);
        node->outputs = grown;
    }
    node->n_outputs = n_outputs;
}

void tc_node_set_output(tc_node *node, uint32_t index, tc_value *value) {
    TC_ASSERT(!value->producer && !value->init && !value->is_input);
    if (index >= node->n_outputs)
        tc_node_resize_outputs(node, index + 1);
    TC_ASSERT(!node->outputs[index]);
    node->outputs[index] = value;
    value->producer = node;
    value->out_index = index;
}

tc_value *tc_node_take_output(tc_node *node, uint32_t index) {
    tc_value *value = node->outputs[index];
    value->producer = NULL;
    node->outputs[index] = NULL;
    return value;
}

tc_value *tc_node_add_output(tc_node *node, uint32_t index, const char *name, const tc_type *type) {
    tc_value *value = tc_value_create(node->graph, name, type);
    tc_node_set_output(node, index, value);
    return value;
}

bool tc_node_is(const tc_node *node, const char *domain, const char *op_type) {
    return strcmp(node->op_type, op_type) == 0 && same_domain(node->domain, domain);
}
