/* min_cut.h: the cheapest cut between two vertices of a network, which is the greatest flow from one to the other.
 * Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970. */
#ifndef TC_MIN_CUT_H
#define TC_MIN_CUT_H
#include <stdbool.h>
#include <stdint.h>

#define TC_CUT_ENDLESS (UINT64_C(1) << 60) /* the capacity of an edge that is never cut */

/* Arcs 2k and 2k + 1 are an edge and its way back. */
typedef struct tc_cut {
    uint32_t n, n_arcs;       /* vertices; arcs so far */
    uint32_t n_max, max_arcs; /* for which there is memory */
    uint32_t *to, *next;      /* [arcs] where to; the next arc from the same vertex */
    uint64_t *left;           /* [arcs] what may still flow */
    uint32_t *head;           /* [n] the first arc of a vertex */
    uint32_t *level, *at;     /* [n] steps from the source; the arc that is tried */
    uint32_t *queue;          /* [n] */
    uint64_t work;            /* arcs visited so far */
} tc_cut;

/* Memory for as many; false: there is none. The previous network is forgotten, its memory used again. */
bool tc_cut_begin(tc_cut *cut, uint32_t n_vertices, uint32_t n_edges);
void tc_cut_free(tc_cut *cut);
/* `capacity` is less than 2^60, or TC_CUT_ENDLESS. */
void tc_cut_edge(tc_cut *cut, uint32_t from, uint32_t to, uint64_t capacity);
/* Returns the cost of the cheapest cut: the capacities of its edges must add up to less than 2^62. Of several the one
 * with the fewest vertices beside the source; tc_cut_is_behind shows it until the next tc_cut_begin. */
uint64_t tc_cut_find(tc_cut *cut, uint32_t source, uint32_t sink);
/* Whether a vertex is on the sink's side. */
bool tc_cut_is_behind(const tc_cut *cut, uint32_t vertex);
#endif
