/* attr.c: attributes of nodes. Setters drop the origin, so that the writer writes the new value. */
#include "ir.h"
#include <string.h>

tc_attr *tc_attr_find(const tc_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) == 0)
            return &node->attrs[i];
    return NULL;
}

static const tc_attr *find_kind(const tc_node *node, const char *name, tc_attr_kind kind) {
    const tc_attr *attr = tc_attr_find(node, name);
    return attr && attr->kind == kind && !attr->ref ? attr : NULL;
}

int64_t tc_attr_int(const tc_node *node, const char *name, int64_t otherwise) {
    const tc_attr *attr = find_kind(node, name, TC_ATTR_INT);
    return attr ? attr->i : otherwise;
}

float tc_attr_float(const tc_node *node, const char *name, float otherwise) {
    const tc_attr *attr = find_kind(node, name, TC_ATTR_FLOAT);
    return attr ? attr->f : otherwise;
}

const char *tc_attr_string(const tc_node *node, const char *name, const char *otherwise) {
    const tc_attr *attr = find_kind(node, name, TC_ATTR_STRING);
    return attr ? tc_arena_strndup(node->graph->model->arena, attr->s.data, attr->s.size) : otherwise;
}

const int64_t *tc_attr_ints(const tc_node *node, const char *name, size_t *count) {
    const tc_attr *attr = find_kind(node, name, TC_ATTR_INTS);
    *count = attr ? attr->count : 0;
    return attr ? attr->ints : NULL;
}

/* A position holds the index of the attribute in its upper 32 bits, that of the graph within the attribute in the
 * lower. */
tc_graph *tc_next_nested(const tc_node *node, uint64_t *at) {
    for (uint32_t a = (uint32_t)(*at >> 32); a < node->n_attrs; *at = (uint64_t)++a << 32) {
        const tc_attr *attr = &node->attrs[a];
        if (attr->ref || (attr->kind != TC_ATTR_GRAPH && attr->kind != TC_ATTR_GRAPHS))
            continue;
        while ((uint32_t)*at < attr->count) {
            tc_graph *nested = attr->kind == TC_ATTR_GRAPH ? attr->g : attr->graphs[(uint32_t)*at];
            ++*at;
            if (nested)
                return nested;
        }
    }
    return NULL;
}

bool tc_has_nested(const tc_node *node) { return tc_next_nested(node, &(uint64_t){0}) != NULL; }

/* Nested graphs that are removed give up their uses of the values around them. */
static void clear(tc_attr *attr) {
    if (attr->kind == TC_ATTR_GRAPH && attr->g && !attr->ref)
        tc_graph_clear(attr->g);
    for (size_t i = 0; attr->kind == TC_ATTR_GRAPHS && !attr->ref && i < attr->count; i++)
        tc_graph_clear(attr->graphs[i]);
}

/* The attribute of that name, emptied, or a new one. */
static tc_attr *reset(tc_node *node, const char *name, tc_attr_kind kind) {
    tc_attr *attr = tc_attr_find(node, name);
    if (!attr) {
        tc_attr *grown = TC_NEW_ARRAY(node->graph->model->arena, tc_attr, node->n_attrs + 1);
        if (node->n_attrs)
            memcpy(grown, node->attrs, node->n_attrs * sizeof *grown);
        node->attrs = grown;
        attr = &grown[node->n_attrs++];
        attr->name = tc_arena_strdup(node->graph->model->arena, name);
    }
    clear(attr);
    *attr = (tc_attr){.name = attr->name, .kind = kind, .count = 1};
    return attr;
}

void tc_attr_set_int(tc_node *node, const char *name, int64_t value) { reset(node, name, TC_ATTR_INT)->i = value; }

void tc_attr_set_float(tc_node *node, const char *name, float value) { reset(node, name, TC_ATTR_FLOAT)->f = value; }

void tc_attr_set_string(tc_node *node, const char *name, const char *value) {
    size_t n = strlen(value);
    const char *copy = tc_arena_strndup(node->graph->model->arena, value, n);
    reset(node, name, TC_ATTR_STRING)->s = (tc_bytes){copy, n};
}

void tc_attr_set_ints(tc_node *node, const char *name, const int64_t *values, size_t count) {
    int64_t *copy = TC_NEW_ARRAY(node->graph->model->arena, int64_t, count);
    if (count)
        memcpy(copy, values, count * sizeof *copy);
    tc_attr *attr = reset(node, name, TC_ATTR_INTS);
    attr->ints = copy;
    attr->count = count;
}

void tc_attr_set_tensor(tc_node *node, const char *name, const tc_tensor *value) {
    reset(node, name, TC_ATTR_TENSOR)->t = value;
}

void tc_attr_set_graph(tc_node *node, const char *name, tc_graph *value) {
    const tc_attr *old = tc_attr_find(node, name);
    if (old && old->kind == TC_ATTR_GRAPH && old->g == value)
        return;
    tc_graph_set_parent(value, node->graph);
    reset(node, name, TC_ATTR_GRAPH)->g = value;
}

void tc_attr_remove(tc_node *node, const char *name) {
    tc_attr *attr = tc_attr_find(node, name);
    if (!attr)
        return;
    clear(attr);
    uint32_t at = (uint32_t)(attr - node->attrs);
    memmove(attr, attr + 1, (node->n_attrs - at - 1) * sizeof *attr);
    node->n_attrs--;
}

/* Graphs belong to one node each: a copy gets clones. Values of the enclosing graph stay shared. */
void tc_attr_copy(tc_node *to, const tc_attr *attr) {
    if (tc_attr_find(to, attr->name) == attr)
        return;
    tc_attr *copy = reset(to, attr->name, attr->kind);
    *copy = *attr;
    tc_model *model = to->graph->model;
    if (attr->ref || (attr->kind != TC_ATTR_GRAPH && attr->kind != TC_ATTR_GRAPHS))
        return;
    copy->origin = NULL;
    if (attr->kind == TC_ATTR_GRAPH) {
        copy->g = tc_graph_clone(to->graph, attr->g, tc_map_create(model->arena));
        return;
    }
    tc_graph **graphs = TC_NEW_ARRAY(model->arena, tc_graph *, attr->count);
    for (size_t i = 0; i < attr->count; i++)
        graphs[i] = tc_graph_clone(to->graph, attr->graphs[i], tc_map_create(model->arena));
    copy->graphs = (tc_graph *const *)graphs;
}
