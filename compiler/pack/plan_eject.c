/* plan_eject.c: a search below a capacity by ejection: each unit without a place gets the cheapest one, on or under
 * another, and the units that lay there wait for another place. A unit that had to eject others is harder to eject from
 * then on: this keeps the search from going in circles. A move looks only at units that are live together with this
 * one, where another order (plan_improve.c) places all of them anew.
 *
 * Source: Nagata and Braysy, "A powerful route minimization heuristic for the vehicle routing problem with time
 * windows", 2009: it ejects least often those that were hard to place. */
#include "plan_packer.h"
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT64_MAX
#define SHARE 8       /* the next capacity is the best minus an eighth of its distance to the bound */
#define MOST_BITS 20u /* of bytes in a weight */

typedef struct item {
    uint64_t bytes, align, offset; /* offset NOWHERE: it waits */
    uint64_t once, weight;         /* of ejecting it: at first, and now */
    uint32_t unit, first, last;
} item;

/* Where an item that has a place begins, or ends. */
typedef struct edge {
    uint64_t at;
    uint32_t item, first, last;
} edge;

typedef struct ejection {
    tc_packer *p;
    item *items; /* [n] units that lie over nothing, with the whole life of their chain */
    uint32_t n;
    uint32_t *item_of; /* [units] */
    uint32_t *partners_from,
        *partners;               /* those of item i: partners_from[i] to partners_from[i + 1]: may share a place */
    uint32_t *waiting;           /* [n_waiting] */
    edge *begins, *ends;         /* [n_placed] in order */
    edge *met_begins, *met_ends; /* [n_met] those live together with the item to be placed */
    uint64_t *good;              /* [n] offsets of the best packing */
    uint64_t *live;              /* [n_ops + 2] */
    uint64_t capacity, lowest;   /* no packing searched for here has fewer bytes than `lowest` */
    uint32_t n_waiting, n_placed, n_met;
} ejection;

/* The cheapest place so far; of equal ones any. */
typedef struct place {
    uint64_t cost, offset;
    uint32_t n_equal;
} place;

/* --- placed items ----------------------------------------------------------------------------- */

/* Choices are given up where that keeps all live bytes within the lowest arena: result and operand are two items again,
 * which may share a place but need not. */
static void free_choices(ejection *e) {
    tc_packer *p = e->p;
    tc_plan_problem *problem = p->problem;
    tc_plan_units_profile(problem, &p->units, e->live);
    e->lowest = p->enough;
    for (uint32_t i = 0; i <= problem->n_ops; i++)
        e->lowest = e->live[i] > e->lowest ? e->live[i] : e->lowest;
    for (uint32_t i = 0; i < problem->n_choices; i++) {
        tc_plan_choice *c = &problem->choices[i];
        uint64_t bytes = p->units.units[p->units.root[c->operand]].bytes;
        if (!c->taken || e->live[c->op] + bytes > e->lowest)
            continue;
        e->live[c->op] += bytes;
        tc_plan_untake(&p->units, c);
    }
}

/* Rounded down. */
static uint64_t root_of(uint64_t x) {
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 31; bit > 0; bit /= 2)
        root += (root + bit) * (root + bit) <= x ? bit : 0;
    return root;
}

static void add_items(ejection *e, const uint64_t *offsets) {
    tc_packer *p = e->p;
    uint64_t most = 0;
    uint32_t shift = 0;
    for (uint32_t i = 0; i < p->units.n; i++) {
        const tc_plan_unit *unit = &p->units.units[i];
        if (unit->over || unit->bytes == 0)
            continue;
        uint32_t last = tc_plan_chain_last(&p->units, i);
        most = unit->bytes > most ? unit->bytes : most;
        for (uint32_t k = i; k != TC_PLAN_NONE; k = p->units.units[k].next)
            e->item_of[k] = e->n;
        e->good[e->n] = offsets[i];
        e->items[e->n++] =
            (item){.bytes = unit->bytes, .align = unit->align, .unit = i, .first = unit->first, .last = last};
    }
    while (most >> shift >= 1u << MOST_BITS)
        shift++;
    for (uint32_t i = 0; i < e->n; i++) {
        item *it = &e->items[i];
        it->once = 1 + root_of(((it->bytes >> shift) + 1) * (it->last - it->first + (uint64_t)1));
    }
}

/* Pairs of choices that can be taken. */
static void add_partners(ejection *e) {
    const tc_packer *p = e->p;
    const tc_plan_problem *problem = p->problem;
    uint32_t *from = e->partners_from + 1; /* [i]: where those of item i end, in the end */
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < problem->n_choices; i++) {
            const tc_plan_choice *c = &problem->choices[i];
            if (!tc_plan_can_take(problem, &p->units, c))
                continue;
            uint32_t a = e->item_of[p->units.root[c->operand]], b = e->item_of[p->units.root[c->result]];
            if (pass == 1) {
                e->partners[from[a]] = b;
                e->partners[from[b]] = a;
            }
            from[a]++;
            from[b]++;
        }
        if (pass == 1)
            break;
        uint32_t sum = 0;
        for (uint32_t i = 0; i < e->n; i++) {
            uint32_t n = from[i];
            from[i] = sum;
            sum += n;
        }
    }
}

static bool are_partners(const ejection *e, uint32_t a, uint32_t b) {
    for (uint32_t k = e->partners_from[a]; k < e->partners_from[a + 1]; k++)
        if (e->partners[k] == b)
            return true;
    return false;
}

/* --- places ----------------------------------------------------------------------------------- */

static void insert(edge *list, uint32_t n, edge x) {
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list[middle].at < x.at)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(list + low + 1, list + low, (n - low) * sizeof *list);
    list[low] = x;
}

static void settle(ejection *e, uint32_t index, uint64_t offset) {
    item *it = &e->items[index];
    it->offset = offset;
    insert(e->begins, e->n_placed, (edge){offset, index, it->first, it->last});
    insert(e->ends, e->n_placed, (edge){offset + it->bytes, index, it->first, it->last});
    e->n_placed++;
}

static void unsettle(ejection *e, uint32_t index) {
    e->items[index].offset = NOWHERE;
    e->waiting[e->n_waiting++] = index;
}

static uint32_t without_waiting(const ejection *e, edge *list) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_placed; i++) {
        list[n] = list[i];
        n += e->items[list[i].item].offset != NOWHERE;
    }
    return n;
}

static uint32_t list_met(const ejection *e, const item *it, const edge *list, edge *met) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_placed; i++) {
        met[n] = list[i];
        n += list[i].first <= it->last && it->first <= list[i].last;
    }
    return n;
}

/* --- one move --------------------------------------------------------------------------------- */

static void consider(const ejection *e, place *best, uint64_t cost, uint64_t offset) {
    if (cost < best->cost)
        *best = (place){cost, offset, 1};
    else if (cost == best->cost && tc_packer_draw(e->p, ++best->n_equal) == 0)
        best->offset = offset;
}

/* The items in a range that only moves up: their weight, and the next edges. */
typedef struct sweep {
    uint64_t cost;
    uint32_t begin, end;
} sweep;

static uint64_t cost_at(const ejection *e, sweep *s, uint64_t from, uint64_t to) {
    for (; s->begin < e->n_met && e->met_begins[s->begin].at < to; s->begin++)
        s->cost += e->items[e->met_begins[s->begin].item].weight;
    for (; s->end < e->n_met && e->met_ends[s->end].at <= from; s->end++)
        s->cost -= e->items[e->met_ends[s->end].item].weight;
    return s->cost;
}

/* At the bottom, and on each item that is live with it. */
static void look_upon(const ejection *e, const item *it, place *best) {
    sweep s = {0};
    uint64_t before = NOWHERE;
    for (uint32_t i = 0; i <= e->n_met; i++) {
        uint64_t offset = i == 0 ? 0 : tc_plan_round(e->met_ends[i - 1].at, it->align), to = offset + it->bytes;
        if (to > e->capacity)
            return;
        if (offset != before)
            consider(e, best, cost_at(e, &s, offset, to), offset);
        before = offset;
    }
}

/* Under each, and at the top. */
static void look_under(const ejection *e, const item *it, place *best) {
    sweep s = {0};
    uint64_t before = NOWHERE;
    for (uint32_t i = 0; i <= e->n_met; i++) {
        uint64_t to = i == e->n_met ? e->capacity : e->met_begins[i].at;
        if (to < it->bytes)
            continue;
        uint64_t offset = (to - it->bytes) & ~(it->align - 1);
        if (offset != before)
            consider(e, best, cost_at(e, &s, offset, offset + it->bytes), offset);
        before = offset;
    }
}

/* At the place of each partner. */
static void look_over(const ejection *e, uint32_t index, place *best) {
    const item *it = &e->items[index];
    for (uint32_t k = e->partners_from[index]; k < e->partners_from[index + 1]; k++) {
        uint64_t offset = e->items[e->partners[k]].offset, end = offset + it->bytes;
        sweep s = {0};
        if (offset != NOWHERE && offset % it->align == 0)
            consider(e, best, cost_at(e, &s, offset, end) - e->items[e->partners[k]].weight, offset);
    }
}

static void throw_out(ejection *e, uint32_t index, uint64_t offset) {
    uint64_t end = offset + e->items[index].bytes;
    for (uint32_t i = 0; i < e->n_met && e->met_begins[i].at < end; i++) {
        uint32_t other = e->met_begins[i].item;
        const item *it = &e->items[other];
        bool shares = it->offset == offset && are_partners(e, index, other);
        if (it->offset + it->bytes > offset && !shares)
            unsettle(e, other);
    }
    uint32_t n = without_waiting(e, e->begins);
    without_waiting(e, e->ends);
    e->n_placed = n;
}

/* Places any of those that wait. */
static void move(ejection *e) {
    uint32_t at = tc_packer_draw(e->p, e->n_waiting), index = e->waiting[at];
    item *it = &e->items[index];
    place best = {.cost = UINT64_MAX};
    e->waiting[at] = e->waiting[--e->n_waiting];
    e->n_met = list_met(e, it, e->begins, e->met_begins);
    list_met(e, it, e->ends, e->met_ends);
    e->p->spans.work += e->n_placed / 2 + 2 * (uint64_t)e->n_met + 16;
    look_upon(e, it, &best);
    look_under(e, it, &best);
    look_over(e, index, &best);
    if (best.cost > 0) {
        it->weight += it->once;
        throw_out(e, index, best.offset);
    }
    settle(e, index, best.offset);
}

/* --- the search ------------------------------------------------------------------------------- */

/* The best places, but for items that reach above the capacity. */
static void begin(ejection *e) {
    e->n_waiting = e->n_placed = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        e->items[i].weight = e->items[i].once;
        if (e->good[i] + e->items[i].bytes > e->capacity)
            unsettle(e, i);
        else
            settle(e, i, e->good[i]);
    }
    e->p->spans.work += 4 * (uint64_t)e->n;
}

/* The places found become the best packing, with their choices. */
static bool keep(ejection *e) {
    tc_packer *p = e->p;
    tc_plan_problem *problem = p->problem;
    for (uint32_t i = 0; i < e->n; i++)
        p->offsets[e->items[i].unit] = e->good[i];
    for (uint32_t i = 0; i < problem->n_choices; i++) {
        tc_plan_choice *c = &problem->choices[i];
        uint32_t a = p->units.root[c->operand], b = p->units.root[c->result];
        if (tc_plan_can_take(problem, &p->units, c) && e->good[e->item_of[a]] == e->good[e->item_of[b]])
            tc_plan_take(&p->units, c);
    }
    return tc_packer_keep_places(p);
}

static uint64_t next_capacity(const ejection *e, uint64_t best) {
    uint64_t above = best - e->lowest;
    return e->p->problem->enough > 0 || above < SHARE ? e->lowest : best - above / SHARE;
}

/* Below fewer and fewer bytes. Returns the bytes of the packing in `good`. */
static uint64_t search(ejection *e, uint64_t until) {
    uint64_t best = e->p->best;
    while (best > e->lowest && e->p->spans.work < until) {
        e->capacity = next_capacity(e, best);
        begin(e);
        while (e->n_waiting > 0 && e->p->spans.work < until)
            move(e);
        if (e->n_waiting > 0)
            return best;
        best = 0;
        for (uint32_t i = 0; i < e->n; i++) {
            uint64_t end = e->items[i].offset + e->items[i].bytes;
            e->good[i] = e->items[i].offset;
            best = end > best ? end : best;
        }
    }
    return best;
}

static bool make(ejection *e) {
    size_t n = e->p->n_order + (size_t)1, units = e->p->units.n + (size_t)1;
    e->items = malloc(n * sizeof *e->items);
    e->item_of = malloc(units * sizeof *e->item_of);
    e->partners_from = calloc(n + 1, sizeof *e->partners_from);
    e->partners = malloc((2 * (size_t)e->p->problem->n_choices + 1) * sizeof *e->partners);
    e->waiting = malloc(n * sizeof *e->waiting);
    e->begins = malloc(4 * n * sizeof *e->begins);
    e->good = malloc(n * sizeof *e->good);
    e->live = malloc((e->p->problem->n_ops + (size_t)2) * sizeof *e->live);
    if (!e->items || !e->item_of || !e->partners_from || !e->partners || !e->waiting || !e->begins || !e->good ||
        !e->live)
        return false;
    e->ends = e->begins + n;
    e->met_begins = e->ends + n;
    e->met_ends = e->met_begins + n;
    return true;
}

static void release(ejection *e) {
    free(e->items);
    free(e->item_of);
    free(e->partners_from);
    free(e->partners);
    free(e->waiting);
    free(e->begins);
    free(e->good);
    free(e->live);
}

/* The choices of the best packing, too. */
static void spread_offsets(tc_packer *p) {
    const tc_plan_unit *units = p->units.units;
    for (uint32_t i = 0; i < p->units.n; i++)
        for (uint32_t k = i; !units[i].over && k != TC_PLAN_NONE; k = units[k].next)
            p->offsets[k] = p->best_offsets[i];
}

bool tc_packer_eject(tc_packer *p, uint64_t until) {
    ejection e = {.p = p};
    uint64_t random = p->random;
    bool ok = make(&e);
    p->random = p->thrown;
    if (ok && p->best > p->enough && p->spans.work < until && p->n_order > 1) {
        memcpy(p->order, p->kept, p->n_order * sizeof *p->order);
        spread_offsets(p);
        free_choices(&e);
        add_items(&e, p->offsets);
        add_partners(&e);
        uint64_t found = p->best > e.lowest ? search(&e, until) : p->best;
        ok = found == p->best || keep(&e);
        tc_packer_restore(p);
    }
    p->thrown = p->random;
    p->random = random;
    release(&e);
    return ok;
}
