/* verify.c: the invariants of ir.h as code. Graphs are walked in order with the set of values defined so far: one pass
 * finds operands that are defined nowhere, later, or in a graph that does not enclose their user. Use lists are walked
 * from either end: a link missing on one side is found. Everything is linear. */
#include "verify.h"
#include "ops.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_REPORTS = 20, FEW_ATTRS = 16 };

typedef struct verifier {
    tc_ctx *ctx;
    const tc_model *model;
    tc_arena *arena; /* scratch */
    tc_map *defined; /* values seen so far */
    tc_map *outputs; /* value -> how often it was found among graph outputs */
    tc_map *nodes;   /* nodes that are in a graph */
    tc_map *domains; /* imported */
    bool in_function;
    unsigned n_reports;
} verifier;

#define REPORT(v, node, ...)                                                                                           \
    do {                                                                                                               \
        if ((v)->n_reports++ < MAX_REPORTS)                                                                            \
            tc_error((v)->ctx, TC_BAD_INPUT, (node), __VA_ARGS__);                                                     \
    } while (0)

static const char *quote(const verifier *v, const char *text) { return tc_quote(v->ctx, text ? text : "(null)"); }

static bool encloses(const tc_graph *outer, const tc_graph *inner) {
    while (inner && inner != outer)
        inner = inner->parent;
    return inner != NULL;
}

/* --- values ----------------------------------------------------------------------------------- */

static void verify_uses(verifier *v, const tc_value *value) {
    const tc_use *prev = NULL;
    TC_FOR_USES(use, value) {
        if (use->prev != prev || use->value != value || !use->user || use->index >= use->user->n_inputs ||
            &use->user->inputs[use->index] != use) {
            REPORT(v, use->user, "use list of \"%s\" is broken", quote(v, value->name));
            return;
        }
        if (!tc_map_get_ptr(v->nodes, use->user))
            REPORT(v, use->user, "use list of \"%s\" holds a node that is in no graph", quote(v, value->name));
        prev = use;
    }
}

static void verify_name(verifier *v, const tc_graph *graph, const tc_value *value) {
    if (!value->name || !*value->name)
        REPORT(v, value->producer, "a value of graph \"%s\" has no name", quote(v, graph->name));
    else if (tc_map_get(graph->names, value->name) != value)
        REPORT(v, value->producer, "name \"%s\" does not lead to its value", quote(v, value->name));
    else if (graph->parent && tc_graph_find(graph->parent, value->name))
        REPORT(v, value->producer, "name \"%s\" is also in use in an enclosing graph", quote(v, value->name));
}

/* A value comes to life: at the start of its graph, or after its producer. */
static void define(verifier *v, const tc_graph *graph, tc_value *value) {
    if (tc_map_get_ptr(v->defined, value)) {
        REPORT(v, value->producer, "\"%s\" is defined twice", quote(v, value->name));
        return;
    }
    tc_map_set_ptr(v->defined, value, value);
    if (value->graph != graph)
        REPORT(v, value->producer, "\"%s\" belongs to another graph", quote(v, value->name));
    if (value->type && value->type->rank > TC_MAX_RANK)
        REPORT(v, value->producer, "\"%s\" has %d dims, at most %d are supported", quote(v, value->name),
               value->type->rank, TC_MAX_RANK);
    verify_name(v, graph, value);
}

static void define_sources(verifier *v, const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        define(v, graph, graph->inputs[i]);
        if (!graph->inputs[i]->is_input || graph->inputs[i]->producer)
            REPORT(v, NULL, "input \"%s\" is not marked as one, or a node produces it",
                   quote(v, graph->inputs[i]->name));
    }
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        tc_value *value = graph->initializers[i];
        if (!value->is_input)
            define(v, graph, value);
        if (!value->init || value->producer)
            REPORT(v, NULL, "initializer \"%s\" has no tensor, or a node produces it", quote(v, value->name));
    }
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void verify_operands(verifier *v, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_use *use = &node->inputs[i];
        if (use->user != node || use->index != i)
            REPORT(v, node, "operand %u does not know its node", i);
        if (!use->value)
            continue;
        if (!tc_map_get_ptr(v->defined, use->value))
            REPORT(v, node, "operand \"%s\" is not defined before its use", quote(v, use->value->name));
        else if (!encloses(use->value->graph, node->graph))
            REPORT(v, node, "operand \"%s\" is of a graph that does not enclose the node", quote(v, use->value->name));
        if (use->prev ? use->prev->next != use : use->value->uses != use)
            REPORT(v, node, "operand \"%s\" is missing in the value's use list", quote(v, use->value->name));
    }
}

static void verify_results(verifier *v, tc_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        tc_value *value = node->outputs[i];
        if (!value)
            continue;
        if (value->producer != node || value->out_index != i || value->is_input || value->init)
            REPORT(v, node, "result \"%s\" does not know its producer", quote(v, value->name));
        define(v, node->graph, value);
    }
}

static void verify_graph(verifier *v, const tc_graph *graph);

static void verify_attr(verifier *v, const tc_node *node, const tc_attr *attr) {
    if (!attr->name || !*attr->name)
        REPORT(v, node, "an attribute has no name");
    if (attr->ref && !v->in_function)
        REPORT(v, node, "attribute '%s' refers to '%s', but only bodies of functions may refer", quote(v, attr->name),
               quote(v, attr->ref));
    if (attr->ref)
        return;
    size_t n = attr->kind == TC_ATTR_GRAPH || attr->kind == TC_ATTR_GRAPHS ? attr->count : 0;
    for (size_t i = 0; i < n; i++) {
        const tc_graph *nested = attr->kind == TC_ATTR_GRAPH ? attr->g : attr->graphs[i];
        if (!nested || nested->parent != node->graph)
            REPORT(v, node, "the graph in attribute '%s' is missing or has another parent", quote(v, attr->name));
        else
            verify_graph(v, nested);
    }
}

static void verify_attrs(verifier *v, const tc_node *node) {
    tc_map *seen = node->n_attrs > FEW_ATTRS ? tc_map_create(v->arena) : NULL;
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const tc_attr *attr = &node->attrs[i];
        verify_attr(v, node, attr);
        bool twice = seen && attr->name && tc_map_get(seen, attr->name);
        for (uint32_t k = 0; !seen && attr->name && k < i; k++)
            twice = twice || (node->attrs[k].name && strcmp(node->attrs[k].name, attr->name) == 0);
        if (twice)
            REPORT(v, node, "two attributes are named '%s'", quote(v, attr->name));
        if (seen && attr->name)
            tc_map_set(seen, attr->name, &node->attrs[i]);
    }
}

static void verify_node(verifier *v, tc_node *node) {
    if (!node->op_type || !*node->op_type || !node->domain) {
        REPORT(v, NULL, "a node of graph \"%s\" has no op type", quote(v, node->graph->name));
        return;
    }
    if (node->op != tc_op_find(node->domain, node->op_type))
        REPORT(v, node, "the node's row of ops.def is not that of its op");
    if (!tc_map_get(v->domains, node->domain))
        REPORT(v, node, "domain \"%s\" is imported by no opset_import",
               *node->domain ? quote(v, node->domain) : "ai.onnx");
    verify_operands(v, node);
    verify_attrs(v, node);
    verify_results(v, node);
}

/* --- graphs ----------------------------------------------------------------------------------- */

static void verify_list(verifier *v, const tc_graph *graph) {
    const tc_node *prev = NULL;
    uint32_t n = 0;
    TC_FOR_NODES(node, graph) {
        if (node->prev != prev || node->graph != graph || (prev && prev->order >= node->order)) {
            REPORT(v, node, "the node list of graph \"%s\" is broken", quote(v, graph->name));
            return;
        }
        tc_map_set_ptr(v->nodes, node, node);
        prev = node;
        n++;
    }
    if (n != graph->n_nodes || graph->last != prev)
        REPORT(v, NULL, "graph \"%s\" has %u nodes, but counts %u", quote(v, graph->name), n, graph->n_nodes);
}

static void verify_outputs(verifier *v, const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const tc_value *value = graph->outputs[i];
        if (!value || !tc_map_get_ptr(v->defined, value) || !encloses(value->graph, graph)) {
            REPORT(v, NULL, "output %u (\"%s\") of graph \"%s\" is defined by no node", i,
                   quote(v, value ? value->name : NULL), quote(v, graph->name));
            continue;
        }
        uintptr_t found = (uintptr_t)tc_map_get_ptr(v->outputs, value);
        tc_map_set_ptr(v->outputs, value, (void *)(found + 1));
    }
}

static void verify_graph(verifier *v, const tc_graph *graph) {
    if (graph->model != v->model)
        REPORT(v, NULL, "graph \"%s\" is of another model", quote(v, graph->name));
    verify_list(v, graph);
    define_sources(v, graph);
    TC_FOR_NODES(node, graph) {
        verify_node(v, node);
        if (v->n_reports > MAX_REPORTS)
            return;
    }
    verify_outputs(v, graph);
}

/* Checks that are possible only once all graphs were seen. */
static void verify_values(verifier *v) {
    const void *key = NULL;
    void *entry = NULL;
    for (size_t cursor = 0; tc_map_next(v->defined, &cursor, &key, &entry) && v->n_reports <= MAX_REPORTS;) {
        const tc_value *value = entry;
        verify_uses(v, value);
        uintptr_t found = (uintptr_t)tc_map_get_ptr(v->outputs, value);
        if (found != value->n_graph_outputs)
            REPORT(v, value->producer, "\"%s\" is %" PRIuPTR " times among graph outputs, but counts %u",
                   quote(v, value->name), found, value->n_graph_outputs);
    }
}

static void use_opsets(verifier *v, const tc_opset *opsets, size_t n) {
    v->domains = tc_map_create(v->arena);
    for (size_t i = 0; i < n; i++)
        tc_map_set(v->domains, strcmp(opsets[i].domain, "ai.onnx") == 0 ? "" : opsets[i].domain, v);
}

tc_status tc_verify(tc_ctx *ctx, const tc_model *model) {
    tc_arena *arena = tc_arena_create();
    verifier v = {.ctx = ctx, .model = model, .arena = arena};
    v.defined = tc_map_create(arena);
    v.nodes = tc_map_create(arena);
    v.outputs = tc_map_create(arena);
    use_opsets(&v, model->opsets, model->n_opsets);
    verify_graph(&v, model->graph);
    v.in_function = true;
    for (size_t i = 0; i < model->n_functions; i++) {
        use_opsets(&v, model->functions[i]->opsets, model->functions[i]->n_opsets);
        verify_graph(&v, model->functions[i]->body);
    }
    verify_values(&v);
    tc_arena_destroy(arena);
    return v.n_reports ? TC_BAD_INPUT : TC_OK;
}

/* --- ops -------------------------------------------------------------------------------------- */

static tc_status verify_counts(tc_ctx *ctx, const tc_node *node) {
    const tc_op *op = node->op;
    if (node->n_inputs > op->max_inputs)
        return tc_error(ctx, TC_BAD_INPUT, node, "%u operands, at most %u expected", node->n_inputs, op->max_inputs);
    if (node->n_outputs > op->max_outputs)
        return tc_error(ctx, TC_BAD_INPUT, node, "%u results, at most %u expected", node->n_outputs, op->max_outputs);
    if (node->n_inputs < op->min_inputs)
        return tc_error(ctx, TC_BAD_INPUT, node, "%u operands, at least %u expected", node->n_inputs, op->min_inputs);
    if (node->n_outputs < op->min_outputs)
        return tc_error(ctx, TC_BAD_INPUT, node, "%u results, at least %u expected", node->n_outputs, op->min_outputs);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!node->inputs[i].value && !(op->traits & TC_CONTROL) &&
            (i < op->min_inputs || op->max_inputs == TC_VARIADIC))
            return tc_error(ctx, TC_BAD_INPUT, node, "operand %u is absent (\"\"), but the op needs it", i);
    return TC_OK;
}

static const char *kind_name(tc_attr_kind kind) {
    static const char *const names[] = {"nothing", "a float",         "an int",         "a string", "a tensor",
                                        "a graph", "floats",          "ints",           "strings",  "tensors",
                                        "graphs",  "a sparse tensor", "sparse tensors", "a type",   "types"};
    return (size_t)kind < TC_COUNT(names) ? names[kind] : "?";
}

static tc_status verify_attr_kinds(tc_ctx *ctx, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const tc_attr *attr = &node->attrs[i];
        tc_attr_kind kind = TC_ATTR_NONE;
        bool required = false;
        if (strncmp(attr->name, "__", 2) == 0)
            continue; /* ONNX allows tools to mark nodes so */
        if (!tc_op_attr(node->op, attr->name, &kind, &required))
            return tc_error(ctx, TC_BAD_INPUT, node, "the op has no attribute '%s' at opset %d",
                            tc_quote(ctx, attr->name), TC_CANONICAL_OPSET);
        if (kind != attr->kind && !(attr->ref && attr->kind == TC_ATTR_NONE))
            return tc_error(ctx, TC_BAD_INPUT, node, "attribute '%s' is %s, expected %s", attr->name,
                            kind_name(attr->kind), kind_name(kind));
    }
    return TC_OK;
}

/* Walks the op's own list, "axis:i to:i!". */
static tc_status verify_required(tc_ctx *ctx, const tc_node *node) {
    for (const char *at = node->op->attrs; *at; at += strcspn(at, " "), at += *at == ' ') {
        size_t n = strcspn(at, ":");
        if (at[n] != ':' || at[n + 2] != '!')
            continue;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (!tc_attr_find(node, name))
            return tc_error(ctx, TC_BAD_INPUT, node, "attribute '%s' is missing", name);
    }
    return TC_OK;
}

static tc_status (*const op_checks[])(tc_ctx *, const tc_node *) = {verify_counts, verify_attr_kinds, verify_required};

tc_status tc_verify_op(tc_ctx *ctx, const tc_node *node) {
    for (size_t i = 0; node->op && i < TC_COUNT(op_checks); i++)
        TC_TRY(op_checks[i](ctx, node));
    return TC_OK;
}

/* Goes on after an error: one run reports them all. */
tc_status tc_verify_ops(tc_ctx *ctx, const tc_graph *graph) {
    tc_status status = TC_OK;
    size_t before = ctx->n_diags;
    TC_FOR_NODES(node, graph) {
        for (size_t i = 0; node->op && i < TC_COUNT(op_checks) && ctx->n_diags - before < MAX_REPORTS; i++) {
            tc_status found = op_checks[i](ctx, node);
            status = status == TC_OK ? found : status;
        }
        TC_FOR_NESTED(nested, node) {
            tc_status found = tc_verify_ops(ctx, nested);
            status = status == TC_OK ? found : status;
        }
    }
    return status;
}
