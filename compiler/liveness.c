/* liveness.c: from a graph in order to the lives of its values. One walk along the nodes; the curve is the sum of what
 * begins and ends at each node. */
#include "liveness.h"
#include "ledger.h"
#include "ops.h"

typedef struct living {
    tc_arena *arena;
    tc_liveness *out;
    size_t cap_lives;
    const tc_value **root; /* by value id: what a view shows; NULL: the value itself */
    size_t *life;          /* by value id: index + 1 of a root's life; 0: it has none */
} living;

static const tc_value *root_of(const living *l, const tc_value *value) {
    return l->root[value->id] ? l->root[value->id] : value;
}

static void read_at(living *l, const tc_value *value, uint32_t at) {
    size_t life = value ? l->life[root_of(l, value)->id] : 0;
    if (life && l->out->lives[life - 1].last < at)
        l->out->lives[life - 1].last = at;
}

static void read_graph(living *l, const tc_graph *graph, uint32_t at);

/* The operands of a node, and what its nested graphs read. Views made in nested graphs show what is outside, too. */
static void read_operands(living *l, const tc_node *node, uint32_t at) {
    bool view = tc_output(node, 0) && tc_input(node, 0) && tc_is_view(node);
    if (view)
        l->root[node->outputs[0]->id] = root_of(l, tc_input(node, 0));
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (i > 0 || !(tc_node_has(node, TC_SHAPE_ONLY) || view))
            read_at(l, tc_input(node, i), at);
    for (uint32_t a = 0; a < node->n_attrs; a++) {
        const tc_attr *attr = &node->attrs[a];
        if (attr->kind == TC_ATTR_GRAPH && attr->g && !attr->ref)
            read_graph(l, attr->g, at);
        for (size_t g = 0; attr->kind == TC_ATTR_GRAPHS && g < attr->count; g++)
            read_graph(l, attr->graphs[g], at);
    }
}

static void read_graph(living *l, const tc_graph *graph, uint32_t at) {
    TC_FOR_NODES(node, graph)
        read_operands(l, node, at);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        read_at(l, graph->outputs[i], at);
}

/* Results that nobody asks for are not made, but for the first, which has to be somewhere. */
static void begin_lives(living *l, const tc_node *node, uint32_t at) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_value *value = node->outputs[i];
        if (!value || (i > 0 && !tc_value_is_used(value)) || (i == 0 && l->root[value->id]) || tc_value_constant(value))
            continue;
        l->out->lives =
            tc_arena_grow(l->arena, l->out->lives, sizeof *l->out->lives, &l->cap_lives, l->out->n_lives + 1);
        l->out->lives[l->out->n_lives++] = (tc_life){value, at, at, tc_value_bytes(value->graph->model->dims, value)};
        l->life[value->id] = l->out->n_lives;
    }
}

/* --- bytes ------------------------------------------------------------------------------------ */

static bool sample_dim(void *user, const char *name, int64_t *value) {
    (void)user;
    (void)name;
    *value = TC_SAMPLE_DIM;
    return true;
}

static uint64_t sample(tc_dim_pool *pool, tc_dim bytes) {
    if (!tc_dim_is_const(bytes) && !tc_dim_is_unknown(bytes))
        bytes = tc_dim_substitute(pool, bytes, sample_dim, NULL);
    return tc_dim_is_const(bytes) && bytes.value > 0 ? (uint64_t)bytes.value : 0;
}

static uint64_t plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

/* Sums that would wrap stay at the top. */
static void draw_curve(living *l, tc_dim_pool *pool) {
    tc_liveness *out = l->out;
    uint64_t *begins = TC_NEW_ARRAY(l->arena, uint64_t, (size_t)out->n_nodes + 1),
             *ends = TC_NEW_ARRAY(l->arena, uint64_t, (size_t)out->n_nodes + 1);
    out->live = TC_NEW_ARRAY(l->arena, uint64_t, (size_t)out->n_nodes + 1);
    out->exact = true;
    for (size_t i = 0; i < out->n_lives; i++) {
        const tc_life *life = &out->lives[i];
        uint64_t bytes = sample(pool, life->bytes);
        out->exact = out->exact && tc_dim_is_const(life->bytes);
        begins[life->first] = plus(begins[life->first], bytes);
        ends[life->last] = plus(ends[life->last], bytes);
    }
    uint64_t now = 0;
    for (uint32_t i = 0; i < out->n_nodes; i++) {
        now = plus(now, begins[i]);
        out->live[i] = now;
        if (now > out->live[out->peak])
            out->peak = i;
        now -= now > ends[i] ? ends[i] : now;
    }
}

static void sum_peak(tc_liveness *out, tc_dim_pool *pool) {
    out->peak_bytes = tc_dim_const(0);
    for (size_t i = 0; i < out->n_lives; i++)
        if (out->lives[i].first <= out->peak && out->peak <= out->lives[i].last)
            out->peak_bytes = tc_dim_add(pool, out->peak_bytes, out->lives[i].bytes);
}

void tc_liveness_make(tc_arena *arena, const tc_graph *graph, tc_liveness *out_liveness) {
    tc_model *model = graph->model;
    *out_liveness = (tc_liveness){.nodes = TC_NEW_ARRAY(arena, const tc_node *, (size_t)graph->n_nodes + 1)};
    living l = {.arena = arena, .out = out_liveness};
    l.root = TC_NEW_ARRAY(arena, const tc_value *, model->next_id);
    l.life = TC_NEW_ARRAY(arena, size_t, model->next_id);
    TC_FOR_NODES(node, graph) {
        uint32_t at = out_liveness->n_nodes++;
        out_liveness->nodes[at] = node;
        read_operands(&l, node, at);
        begin_lives(&l, node, at);
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        read_at(&l, graph->outputs[i], out_liveness->n_nodes);
    draw_curve(&l, model->dims);
    sum_peak(out_liveness, model->dims);
}
