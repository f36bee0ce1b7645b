/* keep.c: the min cut of keep.h, by Dinic's algorithm ("Algorithm for solution of a problem of maximum flow in networks
 * with power estimation", 1970): flows along shortest paths, as many as block each other, then longer ones. */
#include "keep.h"
#include <string.h>

enum { SOURCE, SINK, FIRST }; /* then two nodes for each value: its bytes flow from the one to the other */
#define NO_ARC UINT32_MAX
#define UNLIMITED (UINT64_MAX / 2)

typedef struct arc {
    uint32_t to, next; /* next of the node it leaves; the arc back has this number with the lowest bit turned */
    uint64_t left;     /* capacity */
} arc;

typedef struct network {
    tc_arena *arena;
    arc *arcs;
    size_t n_arcs, cap_arcs;
    uint32_t n_nodes;
    uint32_t *heads, *at; /* by node: first arc, and the one that is tried next */
    uint32_t *levels;     /* arcs to the sink; UINT32_MAX: there is no way */
    uint32_t *queue;
} network;

static uint32_t entry_of(uint32_t value) { return FIRST + 2 * value; }
static uint32_t exit_of(uint32_t value) { return FIRST + 2 * value + 1; }

static void add_half(network *net, uint32_t from, uint32_t to, uint64_t capacity) {
    net->arcs = tc_arena_grow(net->arena, net->arcs, sizeof *net->arcs, &net->cap_arcs, net->n_arcs + 1);
    net->arcs[net->n_arcs] = (arc){to, net->heads[from], capacity};
    net->heads[from] = (uint32_t)net->n_arcs++;
}

static void add_arc(network *net, uint32_t from, uint32_t to, uint64_t capacity) {
    add_half(net, from, to, capacity);
    add_half(net, to, from, 0);
}

static void build(network *net, const tc_keep_value *values, uint32_t n, const uint32_t *operands) {
    net->n_nodes = FIRST + 2 * n;
    net->heads = TC_NEW_ARRAY(net->arena, uint32_t, net->n_nodes);
    net->at = TC_NEW_ARRAY(net->arena, uint32_t, net->n_nodes);
    net->levels = TC_NEW_ARRAY(net->arena, uint32_t, net->n_nodes);
    net->queue = TC_NEW_ARRAY(net->arena, uint32_t, net->n_nodes);
    memset(net->heads, 0xff, sizeof(uint32_t) * net->n_nodes);
    for (uint32_t i = 0; i < n; i++) {
        const tc_keep_value *value = &values[i];
        if (value->there)
            continue;
        add_arc(net, entry_of(i), exit_of(i), value->bytes);
        if (!value->makes)
            add_arc(net, SOURCE, entry_of(i), UNLIMITED);
        if (value->read)
            add_arc(net, exit_of(i), SINK, UNLIMITED);
        for (uint32_t k = 0; value->makes && k < value->n; k++)
            if (!values[operands[value->first + k]].there)
                add_arc(net, exit_of(operands[value->first + k]), entry_of(i), UNLIMITED);
    }
}

/* Distances from the sink, against the arcs that still carry something; whether the source has one. */
static bool measure(network *net) {
    memset(net->levels, 0xff, sizeof(uint32_t) * net->n_nodes);
    uint32_t n = 0;
    net->levels[SINK] = 0;
    net->queue[n++] = SINK;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t a = net->heads[net->queue[i]]; a != NO_ARC; a = net->arcs[a].next) {
            uint32_t from = net->arcs[a].to;
            if (net->arcs[a ^ 1].left == 0 || net->levels[from] != UINT32_MAX)
                continue;
            net->levels[from] = net->levels[net->queue[i]] + 1;
            net->queue[n++] = from;
        }
    return net->levels[SOURCE] != UINT32_MAX;
}

/* Sends along the path in the queue (arcs) what fits; returns how much of the path's start stays usable. */
static uint32_t send(network *net, uint32_t length) {
    uint64_t fits = UNLIMITED;
    for (uint32_t i = 0; i < length; i++)
        fits = net->arcs[net->queue[i]].left < fits ? net->arcs[net->queue[i]].left : fits;
    uint32_t full = length;
    for (uint32_t i = length; i-- > 0;) {
        net->arcs[net->queue[i]].left -= fits;
        net->arcs[net->queue[i] ^ 1].left += fits;
        full = net->arcs[net->queue[i]].left == 0 ? i : full;
    }
    return full;
}

/* All that shortest paths carry: a walk that goes back where there is no way on. */
static void fill(network *net) {
    memcpy(net->at, net->heads, sizeof(uint32_t) * net->n_nodes);
    uint32_t node = SOURCE, length = 0;
    for (;;) {
        if (node == SINK) {
            length = send(net, length);
            node = net->arcs[net->queue[length] ^ 1].to;
        }
        uint32_t a = net->at[node];
        for (; a != NO_ARC; a = net->arcs[a].next)
            if (net->arcs[a].left > 0 && net->levels[net->arcs[a].to] + 1 == net->levels[node])
                break;
        net->at[node] = a;
        if (a != NO_ARC) {
            net->queue[length++] = a;
            node = net->arcs[a].to;
        } else if (node == SOURCE) {
            return;
        } else {
            a = net->queue[--length];
            node = net->arcs[a ^ 1].to;
            net->at[node] = net->arcs[a].next;
        }
    }
}

void tc_keep_least(tc_arena *arena, const tc_keep_value *values, uint32_t n, const uint32_t *operands, bool *out_keep) {
    network net = {.arena = arena};
    build(&net, values, n, operands);
    while (measure(&net))
        fill(&net);
    for (uint32_t i = 0; i < n; i++)
        out_keep[i] = !values[i].there && net.levels[exit_of(i)] != UINT32_MAX && net.levels[entry_of(i)] == UINT32_MAX;
}
