/* budget_variants.c: variants without unread results. The search need not consider them, because they never take
 * more. */
#include "budget.h"
#include <string.h>

static bool makes(const tc_remat_node *node, uint32_t value) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] == value)
            return true;
    return false;
}

static bool is_within(const uint32_t *some, uint32_t n, const uint32_t *all, uint32_t n_all) {
    for (uint32_t i = 0; i < n; i++) {
        bool found = false;
        for (uint32_t k = 0; k < n_all && !found; k++)
            found = some[i] == all[k];
        if (!found)
            return false;
    }
    return true;
}

/* Makes fewer of the same results, and takes no more memory. */
static bool is_less(const tc_remat_node *variant, const tc_remat_node *node) {
    return variant->cost <= node->cost && variant->workspace <= node->workspace &&
           variant->n_outputs < node->n_outputs && !variant->pinned && !node->pinned &&
           is_within(variant->inputs, variant->n_inputs, node->inputs, node->n_inputs) &&
           is_within(variant->outputs, variant->n_outputs, node->outputs, node->n_outputs);
}

/* Whether a further result of `node` has readers: reads after this step and before the next run. */
static bool is_read(const tc_remat_node *node, const tc_remat_node *variant, const bool *wanted) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (wanted[node->outputs[i]] && !makes(variant, node->outputs[i]))
            return true;
    return false;
}

void tc_budget_forget(tc_arena *arena, const tc_budget *b, uint32_t *steps, uint32_t n_steps) {
    const tc_remat_problem *p = &b->problem;
    if (!b->units.has_variants)
        return;
    uint32_t *less = TC_NEW_ARRAY(arena, uint32_t, (size_t)p->n_nodes + 1);
    bool *wanted = TC_NEW_ARRAY(arena, bool, (size_t)p->n_values + 1);
    for (uint32_t n = 0; n < p->n_nodes; n++)
        less[n] = TC_REMAT_NONE;
    for (uint32_t n = 0; n < p->n_nodes; n++) {
        uint32_t of = b->units.units[b->nodes[n].unit].variant_of, original = of == TC_REMAT_NONE ? of : b->node_of[of];
        if (original != TC_REMAT_NONE && is_less(&p->nodes[n], &p->nodes[original]))
            less[original] = n;
    }
    for (uint32_t v = 0; v < p->n_values; v++)
        wanted[v] = p->values[v].is_output;
    for (uint32_t i = n_steps; i-- > 0;) {
        const tc_remat_node *node = &p->nodes[steps[i]];
        if (less[steps[i]] != TC_REMAT_NONE && !is_read(node, &p->nodes[less[steps[i]]], wanted)) {
            steps[i] = less[steps[i]];
            node = &p->nodes[steps[i]];
        }
        for (uint32_t k = 0; k < node->n_outputs; k++)
            wanted[node->outputs[k]] = false;
        for (uint32_t k = 0; k < node->n_inputs; k++)
            wanted[node->inputs[k]] = true;
    }
}
