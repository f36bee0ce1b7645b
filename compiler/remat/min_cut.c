/* min_cut.c: Dinic's algorithm. Levels by breadth first search from the source, then as much as fits along arcs that
 * lead one level on, depth first; until the sink is out of reach. */
#include "min_cut.h"
#include <stdlib.h>

#define NONE UINT32_MAX

void tc_cut_free(tc_cut *c) {
    free(c->to);
    free(c->next);
    free(c->left);
    free(c->head);
    free(c->level);
    free(c->at);
    free(c->queue);
    *c = (tc_cut){0};
}

bool tc_cut_begin(tc_cut *c, uint32_t n_vertices, uint32_t n_edges) {
    if (n_vertices > c->n_max || 2 * n_edges > c->max_arcs) {
        uint64_t work = c->work;
        tc_cut_free(c);
        size_t n = n_vertices + (size_t)1, arcs = 2 * (size_t)n_edges + 1;
        *c = (tc_cut){.n_max = n_vertices,
                      .max_arcs = 2 * n_edges,
                      .to = malloc(arcs * sizeof *c->to),
                      .next = malloc(arcs * sizeof *c->next),
                      .left = malloc(arcs * sizeof *c->left),
                      .head = malloc(n * sizeof *c->head),
                      .level = malloc(n * sizeof *c->level),
                      .at = malloc(n * sizeof *c->at),
                      .queue = malloc(n * sizeof *c->queue),
                      .work = work};
        if (!c->to || !c->next || !c->left || !c->head || !c->level || !c->at || !c->queue) {
            tc_cut_free(c);
            return false;
        }
    }
    c->n = n_vertices;
    c->n_arcs = 0;
    for (uint32_t v = 0; v < n_vertices; v++)
        c->head[v] = NONE;
    return true;
}

static void arc(tc_cut *c, uint32_t from, uint32_t to, uint64_t capacity) {
    uint32_t a = c->n_arcs++;
    c->to[a] = to;
    c->left[a] = capacity;
    c->next[a] = c->head[from];
    c->head[from] = a;
}

void tc_cut_edge(tc_cut *c, uint32_t from, uint32_t to, uint64_t capacity) {
    arc(c, from, to, capacity);
    arc(c, to, from, 0);
}

static bool find_levels(tc_cut *c, uint32_t source, uint32_t sink) {
    for (uint32_t v = 0; v < c->n; v++)
        c->level[v] = NONE;
    c->level[source] = 0;
    c->queue[0] = source;
    for (uint32_t first = 0, n = 1; first < n; first++) {
        uint32_t v = c->queue[first];
        for (uint32_t a = c->head[v]; a != NONE; a = c->next[a]) {
            c->work++;
            if (c->left[a] > 0 && c->level[c->to[a]] == NONE) {
                c->level[c->to[a]] = c->level[v] + 1;
                c->queue[n++] = c->to[a];
            }
        }
    }
    return c->level[sink] != NONE;
}

/* The path so far is at[] of queue[0] to queue[depth - 1]: sends as much as fits through all of it, and goes back to
 * the first arc that is full. */
static uint64_t send(tc_cut *c, uint32_t *depth) {
    uint64_t fits = UINT64_MAX;
    for (uint32_t i = 0; i < *depth; i++)
        if (c->left[c->at[c->queue[i]]] < fits)
            fits = c->left[c->at[c->queue[i]]];
    uint32_t full = *depth;
    for (uint32_t i = *depth; i-- > 0;) {
        uint32_t a = c->at[c->queue[i]];
        c->left[a] -= fits;
        c->left[a ^ 1] += fits;
        if (c->left[a] == 0)
            full = i;
    }
    c->work += 2 * (uint64_t)*depth;
    *depth = full;
    return fits;
}

static uint64_t fill_levels(tc_cut *c, uint32_t source, uint32_t sink) {
    uint64_t sum = 0;
    uint32_t depth = 0, v = source;
    for (uint32_t i = 0; i < c->n; i++)
        c->at[i] = c->head[i];
    for (;;) {
        if (v == sink) {
            sum += send(c, &depth);
            v = c->queue[depth];
        }
        uint32_t a = c->at[v];
        while (a != NONE && (c->left[a] == 0 || c->level[c->to[a]] != c->level[v] + 1)) {
            a = c->next[a];
            c->work++;
        }
        c->at[v] = a;
        if (a != NONE) {
            c->queue[depth++] = v;
            v = c->to[a];
        } else {
            c->level[v] = NONE; /* leads nowhere */
            if (depth == 0)
                return sum;
            v = c->queue[--depth];
        }
    }
}

uint64_t tc_cut_find(tc_cut *c, uint32_t source, uint32_t sink) {
    uint64_t sum = 0;
    while (find_levels(c, source, sink))
        sum += fill_levels(c, source, sink);
    return sum;
}

bool tc_cut_is_behind(const tc_cut *c, uint32_t vertex) { return c->level[vertex] == NONE; }
