/* remat_graphs.c: the nodes of training steps, one layer after the other, then their gradients in reverse. */
#include "remat_graphs.h"
#include "test/unit/random_below.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *grown(void *old, size_t bytes) {
    void *p = realloc(old, bytes);
    if (!p) {
        fputs("remat_graphs: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

uint32_t graph_value(remat_graph *g, uint64_t bytes, bool is_output) {
    if (g->n_values == g->max_values) {
        g->max_values = 2 * g->max_values + 64;
        g->values = grown(g->values, g->max_values * sizeof *g->values);
    }
    g->values[g->n_values] = (tc_remat_value){bytes, is_output};
    return g->n_values++;
}

static uint32_t *copied(const uint32_t *list, size_t n) {
    uint32_t *copy = grown(NULL, (n + 1) * sizeof *copy);
    if (n > 0)
        memcpy(copy, list, n * sizeof *copy);
    return copy;
}

uint32_t graph_node(remat_graph *g, uint64_t cost, const uint32_t *inputs, size_t n_inputs, const uint32_t *outputs,
                    size_t n_outputs) {
    if (g->n_nodes == g->max_nodes) {
        g->max_nodes = 2 * g->max_nodes + 64;
        g->nodes = grown(g->nodes, g->max_nodes * sizeof *g->nodes);
    }
    g->nodes[g->n_nodes] = (tc_remat_node){.cost = g->unit_costs ? 1 : cost,
                                           .inputs = copied(inputs, n_inputs),
                                           .outputs = copied(outputs, n_outputs),
                                           .n_inputs = (uint32_t)n_inputs,
                                           .n_outputs = (uint32_t)n_outputs};
    return g->n_nodes++;
}

void graph_over(remat_graph *g, uint32_t node, uint32_t operand, uint32_t result) {
    tc_remat_node *n = &g->nodes[node];
    tc_remat_over *overs = grown((void *)(uintptr_t)n->overs, (n->n_overs + (size_t)1) * sizeof *overs);
    uint64_t a = g->values[operand].bytes, b = g->values[result].bytes;
    overs[n->n_overs++] = (tc_remat_over){operand, result, a < b ? a : b};
    n->overs = overs;
}

void graph_end(remat_graph *g) {
    bool *made = calloc(g->n_values + (size_t)1, sizeof *made);
    uint32_t n_steps = 0;
    g->steps = grown(NULL, (g->n_nodes + (size_t)1) * sizeof *g->steps);
    for (uint32_t n = 0; n < g->n_nodes && made; n++) {
        if (!made[g->nodes[n].outputs[0]])
            g->steps[n_steps++] = n;
        made[g->nodes[n].outputs[0]] = true;
    }
    free(made);
    g->problem = (tc_remat_problem){g->nodes, g->values, g->n_nodes, g->n_values, g->steps, n_steps};
}

void graph_free(remat_graph *g) {
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        free((void *)(uintptr_t)g->nodes[n].inputs);
        free((void *)(uintptr_t)g->nodes[n].outputs);
        free((void *)(uintptr_t)g->nodes[n].overs);
    }
    free(g->nodes);
    free(g->values);
    free(g->steps);
    *g = (remat_graph){0};
}

/* --- costs ------------------------------------------------------------------------------------ */

#define FLOPS_A_NS 15000 /* 15 Tflop/s */
#define BYTES_A_NS 900
#define LAUNCH_NS 5000

static uint64_t bytes_of(const remat_graph *g, const uint32_t *list, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += g->values[list[i]].bytes;
    return sum;
}

/* A node of so many floating point operations; what it reads of values counts, parameters do not. */
static uint32_t op(remat_graph *g, uint64_t flops, const uint32_t *in, size_t n_in, const uint32_t *out, size_t n_out) {
    uint64_t by_flops = flops / FLOPS_A_NS, by_bytes = (bytes_of(g, in, n_in) + bytes_of(g, out, n_out)) / BYTES_A_NS;
    return graph_node(g, LAUNCH_NS + (by_flops > by_bytes ? by_flops : by_bytes), in, n_in, out, n_out);
}

/* The same with one result, which is returned. */
static uint32_t make(remat_graph *g, uint64_t bytes, uint64_t flops, const uint32_t *in, size_t n_in) {
    uint32_t out = graph_value(g, bytes, false);
    op(g, flops, in, n_in, &out, 1);
    return out;
}

/* A gradient of parameters. */
static void give(remat_graph *g, uint64_t bytes, uint64_t flops, const uint32_t *in, size_t n_in) {
    uint32_t out = graph_value(g, bytes, true);
    op(g, flops, in, n_in, &out, 1);
}

#define MAKE(bytes, flops, ...) make(g, bytes, flops, GRAPH_LIST(__VA_ARGS__))
#define GIVE(bytes, flops, ...) give(g, bytes, flops, GRAPH_LIST(__VA_ARGS__))

/* --- transformers ----------------------------------------------------------------------------- */

/* What a layer's backward pass reads of its forward pass. */
typedef struct layer {
    uint32_t x, n1, stats1, qt, kt, vt, map, mask, dropped, merged, mask1, r1, n2, stats2, ff1, gelu, mask2;
} layer;

typedef struct sizes {
    uint64_t act, wide, map, mask, map_mask, stats, product, wide_product, map_product, w, wide_w, row, wide_row;
} sizes;

static sizes sizes_of(const transformer *t) {
    uint64_t rows = (uint64_t)t->batch * t->length, h = t->width, map = rows * t->heads * t->length;
    return (sizes){.act = rows * h * 4,
                   .wide = rows * h * 16,
                   .map = map * 4,
                   .mask = rows * h,
                   .map_mask = map,
                   .stats = rows * 8,
                   .product = 2 * rows * h * h,
                   .wide_product = 8 * rows * h * h,
                   .map_product = 2 * rows * t->length * h,
                   .w = 4 * h * h,
                   .wide_w = 16 * h * h,
                   .row = 4 * h,
                   .wide_row = 16 * h};
}

/* A node with a second result: a norm's statistics, a dropout's mask. */
static uint32_t make_two(remat_graph *g, uint64_t bytes, uint64_t more, uint32_t in, uint32_t *second) {
    uint32_t out[2] = {graph_value(g, bytes, false), graph_value(g, more, false)};
    op(g, 0, &in, 1, out, 2);
    *second = out[1];
    return out[0];
}

/* A node whose result lies over its first operand. */
static uint32_t over(remat_graph *g, const transformer *t, uint32_t result) {
    const tc_remat_node *n = &g->nodes[g->n_nodes - 1];
    if (t->overs)
        graph_over(g, g->n_nodes - 1, n->inputs[0], result);
    return result;
}

static uint32_t layer_forward(remat_graph *g, const transformer *t, uint32_t x, layer *l) {
    sizes s = sizes_of(t);
    l->x = x;
    l->n1 = make_two(g, s.act, s.stats, x, &l->stats1);
    uint32_t q = MAKE(s.act, s.product, l->n1), k = MAKE(s.act, s.product, l->n1), v = MAKE(s.act, s.product, l->n1);
    l->qt = MAKE(s.act, 0, q);
    l->kt = MAKE(s.act, 0, k);
    l->vt = MAKE(s.act, 0, v);
    uint32_t scores = MAKE(s.map, s.map_product, l->qt, l->kt), masked = over(g, t, MAKE(s.map, 0, scores));
    l->map = over(g, t, MAKE(s.map, 0, masked));
    l->dropped = make_two(g, s.map, s.map_mask, l->map, &l->mask);
    uint32_t context = MAKE(s.act, s.map_product, l->dropped, l->vt);
    l->merged = MAKE(s.act, 0, context);
    uint32_t projected = MAKE(s.act, s.product, l->merged), d1 = make_two(g, s.act, s.mask, projected, &l->mask1);
    l->r1 = over(g, t, MAKE(s.act, 0, d1, x));
    l->n2 = make_two(g, s.act, s.stats, l->r1, &l->stats2);
    uint32_t product = MAKE(s.wide, s.wide_product, l->n2);
    l->ff1 = over(g, t, MAKE(s.wide, 0, product));
    l->gelu = MAKE(s.wide, 0, l->ff1);
    uint32_t ff2 = MAKE(s.act, s.wide_product, l->gelu), d2 = make_two(g, s.act, s.mask, ff2, &l->mask2);
    return over(g, t, MAKE(s.act, 0, d2, l->r1));
}

static uint32_t feed_forward_backward(remat_graph *g, const transformer *t, uint32_t dx, const layer *l) {
    sizes s = sizes_of(t);
    uint32_t d = MAKE(s.act, 0, dx, l->mask2);
    GIVE(s.row, 0, d);
    GIVE(s.wide_w, s.wide_product, l->gelu, d);
    uint32_t dgelu = MAKE(s.wide, s.wide_product, d), dff1 = over(g, t, MAKE(s.wide, 0, dgelu, l->ff1));
    GIVE(s.wide_row, 0, dff1);
    GIVE(s.wide_w, s.wide_product, l->n2, dff1);
    uint32_t dn2 = MAKE(s.act, s.wide_product, dff1);
    GIVE(2 * s.row, 0, dn2, l->r1, l->stats2);
    uint32_t through = over(g, t, MAKE(s.act, 0, dn2, l->r1, l->stats2));
    return over(g, t, MAKE(s.act, 0, through, dx));
}

/* Another form of the last node: it makes the map again, tile by tile, from queries and keys. */
static void add_form(remat_graph *g, const transformer *t, uint32_t operand, const layer *l) {
    const tc_remat_node *first = &g->nodes[g->n_nodes - 1];
    uint64_t cost = first->cost + sizes_of(t).map_product / FLOPS_A_NS;
    uint32_t result = first->outputs[0];
    if (t->forms)
        graph_node(g, cost, GRAPH_LIST(operand, l->mask, l->qt, l->kt), &result, 1);
}

static uint32_t attention_backward(remat_graph *g, const transformer *t, uint32_t dr1, const layer *l) {
    sizes s = sizes_of(t);
    uint32_t d = MAKE(s.act, 0, dr1, l->mask1);
    GIVE(s.row, 0, d);
    GIVE(s.w, s.product, l->merged, d);
    uint32_t dmerged = MAKE(s.act, s.product, d), dcontext = MAKE(s.act, 0, dmerged);
    uint32_t ddropped = MAKE(s.map, s.map_product, dcontext, l->vt);
    uint32_t dvt = MAKE(s.act, s.map_product, l->dropped, dcontext);
    add_form(g, t, dcontext, l);
    uint32_t dmap = over(g, t, MAKE(s.map, 0, ddropped, l->mask)), dmasked = over(g, t, MAKE(s.map, 0, dmap, l->map));
    add_form(g, t, dmap, l);
    uint32_t dscores = over(g, t, MAKE(s.map, 0, dmasked));
    uint32_t dqt = MAKE(s.act, s.map_product, dscores, l->kt), dkt = MAKE(s.act, s.map_product, dscores, l->qt);
    uint32_t each[3] = {MAKE(s.act, 0, dqt), MAKE(s.act, 0, dkt), MAKE(s.act, 0, dvt)}, dn1 = TC_REMAT_NONE;
    for (int i = 0; i < 3; i++) {
        GIVE(s.w, s.product, l->n1, each[i]);
        GIVE(s.row, 0, each[i]);
        uint32_t part = MAKE(s.act, s.product, each[i]);
        dn1 = i == 0 ? part : over(g, t, MAKE(s.act, 0, dn1, part));
    }
    GIVE(2 * s.row, 0, dn1, l->x, l->stats1);
    uint32_t through = over(g, t, MAKE(s.act, 0, dn1, l->x, l->stats1));
    return over(g, t, MAKE(s.act, 0, through, dr1));
}

void graph_transformer(remat_graph *g, const transformer *t) {
    sizes s = sizes_of(t);
    *g = (remat_graph){.unit_costs = t->unit_costs};
    layer *layers = grown(NULL, (t->layers + (size_t)1) * sizeof *layers);
    uint32_t x = make(g, s.act, 0, NULL, 0);
    for (uint32_t i = 0; i < t->layers; i++)
        x = layer_forward(g, t, x, &layers[i]);
    g->turn = g->n_nodes;
    uint32_t loss[2] = {graph_value(g, s.act, false), graph_value(g, 256, true)};
    op(g, 0, &x, 1, loss, 2);
    uint32_t dx = loss[0];
    for (uint32_t i = t->layers; i-- > 0;)
        dx = attention_backward(g, t, feed_forward_backward(g, t, dx, &layers[i]), &layers[i]);
    free(layers);
    graph_end(g);
}

/* --- convolutions ----------------------------------------------------------------------------- */

typedef struct conv_layer {
    uint32_t x, y, stats, normed, out, from, skip;
    uint64_t bytes, flops, w;
} conv_layer;

static uint32_t conv_forward(remat_graph *g, conv_layer *c, uint32_t x, uint32_t plus, uint64_t bytes, uint64_t w) {
    *c = (conv_layer){.x = x, .skip = plus, .bytes = bytes, .w = w, .flops = bytes / 2 * (w / 64)};
    c->y = MAKE(bytes, c->flops, x);
    c->normed = make_two(g, bytes, 4096, c->y, &c->stats);
    c->out = plus == TC_REMAT_NONE ? MAKE(bytes, 0, c->normed) : MAKE(bytes, 0, c->normed, plus);
    return c->out;
}

/* dy, the gradient of c's result, has come from several readers: those after the first are added. */
static void add_to(remat_graph *g, uint32_t *gradients, uint32_t value, uint32_t gradient) {
    uint32_t old = gradients[value];
    gradients[value] = old == TC_REMAT_NONE ? gradient : MAKE(g->values[gradient].bytes, 0, old, gradient);
}

static void conv_backward(remat_graph *g, const conv_layer *c, uint32_t *gradients) {
    uint32_t d = MAKE(c->bytes, 0, gradients[c->out], c->out);
    if (c->skip != TC_REMAT_NONE)
        add_to(g, gradients, c->skip, d);
    uint32_t dy = MAKE(c->bytes, 0, d, c->y, c->stats);
    GIVE(8192, 0, d, c->y, c->stats);
    GIVE(c->w, c->flops, c->x, dy);
    add_to(g, gradients, c->x, MAKE(g->values[c->x].bytes, c->flops, dy));
}

void graph_convolutions(remat_graph *g, uint32_t stages, uint32_t blocks, bool skips) {
    *g = (remat_graph){0};
    uint32_t n = 0, max = (skips ? 2 : 1) * stages * (2 * blocks + 1), last = TC_REMAT_NONE;
    conv_layer *layers = grown(NULL, max * sizeof *layers);
    uint32_t *at_stage = grown(NULL, (stages + (size_t)1) * sizeof *at_stage);
    uint32_t x = make(g, UINT64_C(1) << 27, 0, NULL, 0);
    for (uint32_t i = 0; i < (skips ? 2 * stages - 1 : stages); i++) {
        uint32_t stage = i < stages ? i : 2 * stages - 2 - i;
        uint64_t bytes = UINT64_C(1) << 27 >> stage, w = UINT64_C(147456) << (2 * stage < 16 ? 2 * stage : 16);
        x = conv_forward(g, &layers[n++], x, i < stages ? TC_REMAT_NONE : at_stage[stage], bytes, w);
        for (uint32_t b = 0; b < blocks; b++) {
            uint32_t begin = x;
            x = conv_forward(g, &layers[n++], x, TC_REMAT_NONE, bytes, w);
            x = conv_forward(g, &layers[n++], x, begin, bytes, w);
        }
        if (i < stages)
            at_stage[stage] = x;
    }
    g->turn = g->n_nodes;
    last = MAKE(g->values[x].bytes, 0, x);
    /* Values of the forward pass alone have gradients here; no more are made of them. */
    uint32_t n_forward = g->n_values, *gradients = grown(NULL, n_forward * sizeof *gradients);
    for (uint32_t v = 0; v < n_forward; v++)
        gradients[v] = TC_REMAT_NONE;
    gradients[x] = last;
    while (n-- > 0)
        conv_backward(g, &layers[n], gradients);
    g->values[gradients[layers[0].x]].is_output = true;
    free(layers);
    free(at_stage);
    free(gradients);
    graph_end(g);
}

/* --- random layers ---------------------------------------------------------------------------- */

#define MOST_READ 64

/* Operands of node `k` of a layer: its share of the layer before it, so that everything is read, and some at random. */
static uint32_t read_layers(const uint32_t *begin, uint32_t l, uint32_t k, uint32_t *state, uint32_t *in) {
    uint32_t n = 0, before = begin[l] - begin[l - 1], width = begin[l + 1] - begin[l];
    for (uint32_t i = k % before; i < before && n < MOST_READ / 2; i += width)
        in[n++] = begin[l - 1] + i;
    for (uint32_t more = random_below(state, 7); more > 0; more--) {
        uint32_t from = l < 2 || random_below(state, 7) > 0 ? l - 1 : random_below(state, l - 1), i = 0;
        uint32_t value = begin[from] + random_below(state, begin[from + 1] - begin[from]);
        while (i < n && in[i] != value)
            i++;
        in[i] = value;
        n += i == n;
    }
    return n;
}

void graph_random(remat_graph *g, uint32_t n_nodes, uint32_t layers, uint32_t seed) {
    *g = (remat_graph){.turn = TC_REMAT_NONE};
    uint32_t state = seed * 2654435761u + 1, *begin = grown(NULL, (layers + (size_t)1) * sizeof *begin);
    begin[0] = 0;
    for (uint32_t l = 1; l <= layers; l++) {
        uint32_t left = (n_nodes - begin[l - 1]) / (layers - l + 1);
        begin[l] = l == layers ? n_nodes : begin[l - 1] + 1 + random_below(&state, 2 * left - 1);
    }
    for (uint32_t l = 0; l < layers; l++)
        for (uint32_t n = begin[l]; n < begin[l + 1]; n++) {
            uint32_t in[MOST_READ], n_in = l == 0 ? 0 : read_layers(begin, l, n - begin[l], &state, in);
            uint32_t out = graph_value(g, 10 + 10 * random_below(&state, 400), l + 1 == layers);
            graph_node(g, random_below(&state, 1000), in, n_in, &out, 1);
        }
    free(begin);
    graph_end(g);
}
