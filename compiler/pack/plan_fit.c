/* plan_fit.c: asks the exact search for fewer and fewer bytes: the most that are live at one time, and some steps
 * between that and the best packing there is. Many short searches in different orders find more than a long one: their
 * lengths follow Luby, Sinclair and Zuckerman, "Optimal speedup of Las Vegas algorithms" (1993): 1 1 2 1 1 2 4 1 1 2
 * ... */
#include "plan_exact.h"
#include "plan_packer.h"
#include <stdlib.h>
#include <string.h>

#define MOST_STEPS (1u << 20) /* what the exact search can take */

static uint64_t luby(uint32_t i) {
    for (uint32_t bits = 32; bits-- > 1;) {
        uint32_t whole = (1u << bits) - 1;
        if (i == whole)
            return (uint64_t)1 << (bits - 1);
        i -= i > whole ? whole : 0;
    }
    return 1;
}

static bool is_aligned_alike(const tc_packer *p) {
    for (uint32_t k = 1; k < p->n_order; k++)
        if (p->units.units[p->order[k]].align != p->units.units[p->order[0]].align)
            return false;
    return true;
}

/* Units that lie over nothing, each with the whole life of its chain, not sorted. */
static uint32_t list_items(const tc_packer *p, tc_exact_item *items) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->n_order; k++) {
        const tc_plan_unit *unit = &p->units.units[p->order[k]];
        if (!unit->over)
            items[n++] = (tc_exact_item){
                p->order[k],           p->step[unit->first], p->step[tc_plan_chain_last(&p->units, p->order[k])],
                (uint32_t)unit->align, unit->bytes,          0};
    }
    return n;
}

/* A plain search with each way to choose first, then at random. */
static tc_exact_how next_how(tc_packer *p, uint64_t of_one) {
    uint32_t round = p->n_rounds++;
    tc_exact_how how = {(tc_exact_order)(round % TC_EXACT_ORDERS), TC_EXACT_TIGHT, 0, 1, 0};
    how.limit = of_one * luby(round + 1);
    if (round >= TC_EXACT_ORDERS) {
        how.order = (tc_exact_order)tc_packer_draw(p, TC_EXACT_ORDERS);
        how.where = (tc_exact_where)tc_packer_draw(p, TC_EXACT_WHERES);
        how.random = p->random * 0x9e3779b97f4a7c15u | 1; /* a sequence of its own */
        how.noise = 1 + tc_packer_draw(p, 4);
    }
    return how;
}

/* The bytes asked for next: between the bound and the best packing. */
static uint64_t next_capacity(const tc_packer *p, uint64_t lowest) {
    static const uint64_t parts[] = {0, 2, 0, 4, 16}; /* of the range between */
    uint64_t part = p->problem->enough > 0 ? 0 : parts[p->n_rounds % (sizeof parts / sizeof *parts)];
    return part == 0 ? lowest : lowest + (p->best - 1 - lowest) / part;
}

typedef struct by_offset {
    uint64_t offset;
    uint32_t index;
} by_offset;

static int compare_offsets(const void *a, const void *b) {
    const by_offset *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

bool tc_packer_keep_places(tc_packer *p) {
    by_offset *sorted = malloc((p->n_order + (size_t)1) * sizeof *sorted);
    uint64_t top = 0;
    if (!sorted)
        return false;
    for (uint32_t k = 0; k < p->n_order; k++) {
        const tc_plan_unit *unit = &p->units.units[p->order[k]];
        uint64_t offset = unit->over ? UINT64_MAX : p->offsets[p->order[k]];
        sorted[k] = (by_offset){offset, p->order[k]};
        if (!unit->over && offset + unit->bytes > top)
            top = offset + unit->bytes;
    }
    qsort(sorted, p->n_order, sizeof *sorted, compare_offsets);
    for (uint32_t k = 0; k < p->n_order; k++)
        p->order[k] = sorted[k].index;
    free(sorted);
    p->fit = TC_FIT_LOWEST;
    tc_packer_keep(p, top);
    return true;
}

static bool fit(tc_packer *p, tc_exact *exact, uint32_t n, uint64_t until) {
    bool ok = true, alike = is_aligned_alike(p);
    while (ok && p->best > p->enough && p->missing + 1 < p->best && p->spans.work < until) {
        uint64_t lowest = p->missing < p->enough ? p->enough : p->missing + 1;
        uint64_t capacity = next_capacity(p, lowest), left = until - p->spans.work;
        tc_exact_how how = next_how(p, n * (200 + 2 * (uint64_t)n));
        how.limit = how.limit < left ? how.limit : left;
        switch (tc_exact_search(exact, capacity, &how, p->offsets, &p->spans.work)) {
        case TC_EXACT_FOUND: ok = tc_packer_keep_places(p); break;
        case TC_EXACT_NONE:
            if (alike && capacity > p->missing)
                p->missing = capacity | (p->units.units[p->order[0]].align - 1);
            break;
        case TC_EXACT_LIMIT: break;
        }
        p->spans.work++;
    }
    return ok;
}

bool tc_packer_fit(tc_packer *p, uint64_t until) {
    if (p->n_steps > MOST_STEPS || p->n_order < 2 || p->best <= p->enough)
        return true;
    memcpy(p->order, p->kept, p->n_order * sizeof *p->order);
    tc_exact_item *items = malloc((p->n_order + (size_t)1) * sizeof *items);
    uint32_t n = items ? list_items(p, items) : 0;
    uint64_t one = (uint64_t)n * n; /* it takes about that to place all once */
    bool ok = items != NULL;
    if (ok && p->spans.work < until && one < until - p->spans.work) {
        tc_exact *exact = tc_exact_make(items, n, p->n_steps);
        ok = exact && fit(p, exact, n, until);
        tc_exact_free(exact);
    }
    free(items);
    return ok;
}
