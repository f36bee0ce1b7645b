/* liveness.c: from the storages of a graph in order (storage.h) to their lives and the curve of live bytes, a running
 * sum of the lives that begin and end at each node. */
#include "liveness.h"
#include "compiler/text/marks.h"
#include "storage.h"

/* Unused results are not made, except the first, which has to be written somewhere. */
static bool is_made(const tc_storages *storages, const tc_value *value) {
    return value && (value->out_index == 0 || tc_value_is_used(value)) && tc_storage_of(storages, value) == value &&
           !tc_value_constant(value);
}

static void list_lives(tc_arena *arena, const tc_storages *storages, tc_liveness *out) {
    tc_dim_pool *pool = storages->graph->model->dims;
    size_t cap = 0;
    TC_FOR_NODES(node, storages->graph) {
        out->nodes[out->n_nodes++] = node;
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            const tc_value *value = node->outputs[i];
            if (!is_made(storages, value) || tc_is_renewal(value))
                continue;
            const tc_place *place = &storages->places[value->id];
            out->lives = tc_arena_grow(arena, out->lives, sizeof *out->lives, &cap, out->n_lives + 1);
            out->lives[out->n_lives++] = (tc_life){value, place->first, place->last, tc_value_bytes(pool, value)};
        }
    }
}

/* --- bytes ------------------------------------------------------------------------------------ */

static bool sample_dim(void *user, const char *name, int64_t *value) {
    (void)user;
    (void)name;
    *value = TC_SAMPLE_DIM;
    return true;
}

uint64_t tc_sample_bytes(tc_dim_pool *pool, tc_dim bytes) {
    if (!tc_dim_is_const(bytes) && !tc_dim_is_unknown(bytes))
        bytes = tc_dim_substitute(pool, bytes, sample_dim, NULL);
    return tc_dim_is_const(bytes) && bytes.value > 0 ? (uint64_t)bytes.value : 0;
}

static uint64_t plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

/* Sums that would wrap saturate. */
static void draw_curve(tc_arena *arena, tc_liveness *out, tc_dim_pool *pool) {
    uint64_t *begins = TC_NEW_ARRAY(arena, uint64_t, (size_t)out->n_nodes + 1),
             *ends = TC_NEW_ARRAY(arena, uint64_t, (size_t)out->n_nodes + 1);
    out->live = TC_NEW_ARRAY(arena, uint64_t, (size_t)out->n_nodes + 1);
    out->exact = true;
    for (size_t i = 0; i < out->n_lives; i++) {
        const tc_life *life = &out->lives[i];
        uint64_t bytes = tc_sample_bytes(pool, life->bytes);
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
    tc_storages storages;
    *out_liveness = (tc_liveness){.nodes = TC_NEW_ARRAY(arena, const tc_node *, (size_t)graph->n_nodes + 1)};
    tc_storages_make(arena, graph, &storages);
    list_lives(arena, &storages, out_liveness);
    draw_curve(arena, out_liveness, graph->model->dims);
    sum_peak(out_liveness, graph->model->dims);
}
