/* budget_certificate.c: why a budget cannot be met: the working set that every schedule needs. */
#include "compiler/memory/memory.h"
#include "budget.h"
#include <inttypes.h>

enum { TENSORS_LISTED = 8 };

const char *tc_budget_bytes(tc_ctx *ctx, uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    uint64_t size = 1024;
    while (unit + 1 < TC_COUNT(units) && bytes / size >= 1024) {
        unit++;
        size *= 1024;
    }
    if (bytes < 1024)
        return tc_arena_printf(ctx->arena, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
    return tc_arena_printf(ctx->arena, "%.2f %s (%" PRIu64 " bytes)", (double)bytes / (double)size, units[unit], bytes);
}

static const char *add_tensor(tc_ctx *ctx, const char *list, const char *name, const char *what, uint64_t bytes) {
    return tc_arena_printf(ctx->arena, "%s%s%s %s, %s", list, *list ? "; " : "", what, name,
                           tc_budget_bytes(ctx, bytes));
}

static const char *name_of(tc_ctx *ctx, const tc_budget *b, uint32_t value) {
    uint32_t result = b->result_of[value];
    if (result == TC_REMAT_NONE)
        return NULL;
    const tc_units *u = &b->units;
    const tc_unit *unit = &u->units[u->maker_of[result]];
    const tc_value *named = tc_output(u->nodes[unit->first], result - unit->results);
    return named ? tc_quote(ctx, named->name) : "";
}

static const char *list_values(tc_ctx *ctx, const tc_budget *b, const char *list, const char *what,
                               const uint32_t *values, uint32_t n) {
    uint32_t listed = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = name_of(ctx, b, values[i]);
        if (!name || b->problem.values[values[i]].bytes == 0)
            continue;
        if (listed++ == TENSORS_LISTED)
            return tc_arena_printf(ctx->arena, "%s; ...", list);
        list = add_tensor(ctx, list, name, what, b->problem.values[values[i]].bytes);
    }
    return list;
}

/* The largest come first: these matter among hundreds of a model's gradients. */
static const char *list_outputs(tc_ctx *ctx, const tc_budget *b) {
    const tc_remat_value *values = b->problem.values;
    uint32_t *outputs = TC_NEW_ARRAY(ctx->arena, uint32_t, b->problem.n_values), n = 0;
    for (uint32_t i = 0; i < b->problem.n_values; i++)
        if (values[i].is_output)
            outputs[n++] = i;
    for (uint32_t to = 0; to < n && to <= TENSORS_LISTED; to++) {
        uint32_t largest = to;
        for (uint32_t i = to + 1; i < n; i++)
            if (values[outputs[i]].bytes > values[outputs[largest]].bytes)
                largest = i;
        uint32_t kept = outputs[to];
        outputs[to] = outputs[largest];
        outputs[largest] = kept;
    }
    return list_values(ctx, b, "", "output", outputs, n);
}

tc_status tc_budget_refuse(tc_ctx *ctx, const tc_budget *budget, uint64_t wanted, uint64_t floor, uint32_t floor_node,
                           uint64_t nearest) {
    const char *list = "";
    const tc_node *node = NULL;
    if (floor_node != TC_REMAT_NONE) {
        const tc_remat_node *n = &budget->problem.nodes[floor_node];
        const tc_units *u = &budget->units;
        node = u->nodes[u->units[budget->nodes[floor_node].unit].first];
        list = list_values(ctx, budget, list, "reads", n->inputs, n->n_inputs);
        list = list_values(ctx, budget, list, "makes", n->outputs, n->n_outputs);
        if (n->workspace)
            list = add_tensor(ctx, list, "", "workspace", n->workspace);
    } else {
        list = list_outputs(ctx, budget);
    }
    tc_error(ctx, TC_LIMIT, node,
             "the memory budget of %s cannot be met: with any order and any recomputation it needs at least "
             "%s, which %s: %s",
             tc_budget_bytes(ctx, wanted), tc_budget_bytes(ctx, floor),
             node ? "this node takes together with the tensors that must exist while it runs" : "the outputs take",
             list);
    const char *less = node ? "use a smaller batch" : "compute fewer gradients (--freeze)";
    if (nearest)
        tc_hint(ctx, "the smallest budget found is --memory-budget=%" PRIu64 " (%s); %s", nearest,
                tc_budget_bytes(ctx, nearest), less);
    else
        tc_hint(ctx, "%s", less);
    return TC_LIMIT;
}
