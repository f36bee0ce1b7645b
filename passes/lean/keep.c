/* keep.c: the min cut of keep.h, as a network for min_cut.h: two vertices for each value, with an edge of its bytes
 * between them. The flow starts at the values that are read, so that of several cuts the one closest to them is
 * found. */
#include "keep.h"
#include "compiler/base/base.h"
#include "compiler/remat/remat.h"

enum { MADE, READ, FIRST }; /* the ends of the network: values that cannot be recomputed, values that are read */

static uint32_t entry_of(uint32_t value) { return FIRST + 2 * value; }
static uint32_t exit_of(uint32_t value) { return FIRST + 2 * value + 1; }

static uint32_t count_operands(const tc_keep_value *values, uint32_t n) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += values[i].n;
    return sum;
}

static void connect(tc_cut *cut, const tc_keep_value *values, uint32_t n, const uint32_t *operands) {
    for (uint32_t i = 0; i < n; i++) {
        const tc_keep_value *value = &values[i];
        if (value->there)
            continue;
        tc_cut_edge(cut, exit_of(i), entry_of(i), value->bytes);
        if (!value->makes)
            tc_cut_edge(cut, entry_of(i), MADE, TC_CUT_ENDLESS);
        if (value->read)
            tc_cut_edge(cut, READ, exit_of(i), TC_CUT_ENDLESS);
        for (uint32_t k = 0; value->makes && k < value->n; k++)
            if (!values[operands[value->first + k]].there)
                tc_cut_edge(cut, entry_of(i), exit_of(operands[value->first + k]), TC_CUT_ENDLESS);
    }
}

void tc_keep_least(const tc_keep_value *values, uint32_t n, const uint32_t *operands, bool *out_keep) {
    tc_cut cut = {0};
    uint32_t n_edges = 3 * n + count_operands(values, n);
    if (!tc_cut_begin(&cut, FIRST + 2 * n, n_edges))
        tc_out_of_memory(n_edges * sizeof *cut.left);
    connect(&cut, values, n, operands);
    tc_cut_find(&cut, READ, MADE);
    for (uint32_t i = 0; i < n; i++)
        out_keep[i] = !values[i].there && !tc_cut_is_behind(&cut, exit_of(i)) && tc_cut_is_behind(&cut, entry_of(i));
    tc_cut_free(&cut);
}
