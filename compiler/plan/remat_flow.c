/* remat_flow.c: Dinic's algorithm. Levels by breadth first search from the source, then as much as fits along arcs that
 * lead one level on, depth first; until the sink is out of reach. */
#include "remat_flow.h"
#include <stdlib.h>

#define NONE UINT32_MAX

void tc_flow_free(tc_flow *f) {
    free(f->to);
    free(f->next);
    free(f->left);
    free(f->head);
    free(f->level);
    free(f->at);
    free(f->queue);
    *f = (tc_flow){0};
}

bool tc_flow_begin(tc_flow *f, uint32_t n_vertices, uint32_t n_edges) {
    if (n_vertices > f->n_max || 2 * n_edges > f->max_arcs) {
        uint64_t work = f->work;
        tc_flow_free(f);
        size_t n = n_vertices + (size_t)1, arcs = 2 * (size_t)n_edges + 1;
        *f = (tc_flow){.n_max = n_vertices,
                       .max_arcs = 2 * n_edges,
                       .to = malloc(arcs * sizeof *f->to),
                       .next = malloc(arcs * sizeof *f->next),
                       .left = malloc(arcs * sizeof *f->left),
                       .head = malloc(n * sizeof *f->head),
                       .level = malloc(n * sizeof *f->level),
                       .at = malloc(n * sizeof *f->at),
                       .queue = malloc(n * sizeof *f->queue),
                       .work = work};
        if (!f->to || !f->next || !f->left || !f->head || !f->level || !f->at || !f->queue) {
            tc_flow_free(f);
            return false;
        }
    }
    f->n = n_vertices;
    f->n_arcs = 0;
    for (uint32_t v = 0; v < n_vertices; v++)
        f->head[v] = NONE;
    return true;
}

static void arc(tc_flow *f, uint32_t from, uint32_t to, uint64_t capacity) {
    uint32_t a = f->n_arcs++;
    f->to[a] = to;
    f->left[a] = capacity;
    f->next[a] = f->head[from];
    f->head[from] = a;
}

void tc_flow_edge(tc_flow *f, uint32_t from, uint32_t to, uint64_t capacity) {
    arc(f, from, to, capacity);
    arc(f, to, from, 0);
}

static bool find_levels(tc_flow *f, uint32_t source, uint32_t sink) {
    for (uint32_t v = 0; v < f->n; v++)
        f->level[v] = NONE;
    f->level[source] = 0;
    f->queue[0] = source;
    for (uint32_t first = 0, n = 1; first < n; first++) {
        uint32_t v = f->queue[first];
        for (uint32_t a = f->head[v]; a != NONE; a = f->next[a]) {
            f->work++;
            if (f->left[a] > 0 && f->level[f->to[a]] == NONE) {
                f->level[f->to[a]] = f->level[v] + 1;
                f->queue[n++] = f->to[a];
            }
        }
    }
    return f->level[sink] != NONE;
}

/* The path so far is at[] of queue[0] to queue[depth - 1]: what fits through all of it goes, and the walk falls back to
 * the first arc that is full. */
static uint64_t send(tc_flow *f, uint32_t *depth) {
    uint64_t fits = UINT64_MAX;
    for (uint32_t i = 0; i < *depth; i++)
        if (f->left[f->at[f->queue[i]]] < fits)
            fits = f->left[f->at[f->queue[i]]];
    uint32_t full = *depth;
    for (uint32_t i = *depth; i-- > 0;) {
        uint32_t a = f->at[f->queue[i]];
        f->left[a] -= fits;
        f->left[a ^ 1] += fits;
        if (f->left[a] == 0)
            full = i;
    }
    f->work += 2 * (uint64_t)*depth;
    *depth = full;
    return fits;
}

static uint64_t fill_levels(tc_flow *f, uint32_t source, uint32_t sink) {
    uint64_t sum = 0;
    uint32_t depth = 0, v = source;
    for (uint32_t i = 0; i < f->n; i++)
        f->at[i] = f->head[i];
    for (;;) {
        if (v == sink) {
            sum += send(f, &depth);
            v = f->queue[depth];
        }
        uint32_t a = f->at[v];
        while (a != NONE && (f->left[a] == 0 || f->level[f->to[a]] != f->level[v] + 1)) {
            a = f->next[a];
            f->work++;
        }
        f->at[v] = a;
        if (a != NONE) {
            f->queue[depth++] = v;
            v = f->to[a];
        } else {
            f->level[v] = NONE; /* leads nowhere */
            if (depth == 0)
                return sum;
            v = f->queue[--depth];
        }
    }
}

uint64_t tc_flow_cut(tc_flow *f, uint32_t source, uint32_t sink) {
    uint64_t sum = 0;
    while (find_levels(f, source, sink))
        sum += fill_levels(f, source, sink);
    return sum;
}

bool tc_flow_is_cut_off(const tc_flow *f, uint32_t vertex) { return f->level[vertex] == NONE; }
