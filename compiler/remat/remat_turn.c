/* remat_turn.c: which values are kept across a turn at given prices, and the schedule that follows.
 *
 * The network: a vertex for each value, "it is there after the turn", and for each node before the turn, "it runs
 * again". Values that are read after the turn hang on the source without end; a value's edge to its maker is cut where
 * the value is kept (its price); a node's edge to the sink where it runs again (its cost); a node's edges to its
 * operands are endless, as it needs them. The cheapest cut is the cheapest choice. A step with a variant is a vertex
 * too: "the given node runs", cut off from the source for the difference in cost, endless to what only it needs. */
#include "remat_turn.h"
#include "remat_nodes.h"
#include <stdlib.h>
#include <string.h>

#define NONE TC_REMAT_NONE
#define MOST_PRICE (UINT64_C(1) << 42) /* more than all costs together */
#define MOST_COSTS (UINT64_C(1) << 62) /* of all nodes, those of no schedule too */

void tc_remat_turn_free(tc_remat_turn *t) {
    void *all[] = {t->maker,   t->again,   t->form,      t->bytes,    t->cost,   t->stage, t->kept,
                   t->changed, t->members, t->member_at, t->nodes,    t->vertex, t->path,  t->both,
                   t->seen,    t->later,   t->stack,     t->stack_at, t->wanted};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    tc_cut_free(&t->cut);
    *t = (tc_remat_turn){0};
}

static bool take_memory(tc_remat_turn *t) {
    size_t values = t->problem->n_values + (size_t)1, nodes = t->problem->n_nodes + (size_t)1,
           steps = t->n_steps + (size_t)2;
    bool ok = (t->maker = malloc(values * sizeof *t->maker)) != NULL;
    ok = ok && (t->again = malloc(values * sizeof *t->again)) && (t->form = malloc(steps * sizeof *t->form));
    ok = ok && (t->bytes = malloc(values * sizeof *t->bytes)) && (t->cost = malloc(nodes * sizeof *t->cost));
    ok = ok && (t->stage = calloc(steps, sizeof *t->stage)) && (t->kept = malloc(values * sizeof *t->kept));
    ok = ok && (t->changed = calloc(steps, sizeof *t->changed)) && (t->both = malloc(steps * sizeof *t->both));
    ok = ok && (t->members = malloc(values * sizeof *t->members));
    ok = ok && (t->member_at = malloc(values * sizeof *t->member_at));
    ok = ok && (t->nodes = malloc(nodes * sizeof *t->nodes)) && (t->path = malloc(values * sizeof *t->path));
    ok = ok && (t->vertex = malloc((values + nodes) * sizeof *t->vertex));
    ok = ok && (t->seen = malloc(values * sizeof *t->seen)) && (t->stack = malloc(nodes * sizeof *t->stack));
    ok = ok && (t->later = malloc(nodes * sizeof *t->later));
    ok = ok && (t->stack_at = malloc(nodes * sizeof *t->stack_at));
    return ok && (t->wanted = malloc(values * sizeof *t->wanted));
}

/* --- units ------------------------------------------------------------------------------------ */

static uint64_t scaled(uint64_t x, int shift) { return shift >= 0 ? x << shift : x >> -shift; }

/* The shift that brings `sum` just below 2^bits. */
static int shift_to(uint64_t sum, int bits) {
    int shift = bits;
    for (; sum > 0; sum >>= 1)
        shift--;
    return shift;
}

static void find_units(tc_remat_turn *t) {
    const tc_remat_problem *p = t->problem;
    uint64_t bytes = 0, cost = 0, most = MOST_COSTS / (p->n_nodes + UINT64_C(1));
    for (uint32_t v = 0; v < p->n_values; v++)
        bytes += p->values[v].bytes;
    for (uint32_t n = 0; n < p->n_nodes; n++)
        cost += t->cost[n] = p->nodes[n].cost < most ? p->nodes[n].cost : most;
    int byte_shift = shift_to(bytes, 31), cost_shift = shift_to(cost, 39);
    for (uint32_t v = 0; v < p->n_values; v++)
        t->bytes[v] = scaled(p->values[v].bytes, byte_shift);
    for (uint32_t n = 0; n < p->n_nodes; n++)
        t->cost[n] = scaled(t->cost[n], cost_shift) + 1; /* whatever costs nothing still needs a reason to run */
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Whether the values read by a step after the turn were made before the turn. */
static bool is_from_before(const tc_remat_turn *t, uint32_t value, uint32_t step) {
    return t->maker[value] != NONE && t->again[value] >= step;
}

/* --- variants --------------------------------------------------------------------------------- */

/* Bytes made before the turn that `n` reads and `other` does not. */
static uint64_t reads_beside(const tc_remat_turn *t, const tc_remat_node *n, const tc_remat_node *other) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (t->maker[n->inputs[i]] != NONE && !tc_remat_reads(other, n->inputs[i]))
            sum += t->bytes[n->inputs[i]];
    return sum;
}

/* Whether all operands of the variant are there at this step, made before the turn or after. */
static bool can_run(const tc_remat_turn *t, const tc_remat_node *form, uint32_t step) {
    for (uint32_t i = 0; i < form->n_inputs; i++)
        if (t->maker[form->inputs[i]] == NONE && t->again[form->inputs[i]] >= step)
            return false;
    return !form->pinned;
}

/* The variant that saves the most bytes. `by_output`, `next` list the nodes that make the same first output. */
static void find_form(tc_remat_turn *t, uint32_t s, const uint32_t *by_output, const uint32_t *next) {
    const tc_remat_node *nodes = t->problem->nodes, *n = &nodes[t->steps[s]];
    uint64_t most = 0;
    for (uint32_t i = 0; i < n->n_outputs && !n->pinned; i++)
        for (uint32_t m = by_output[n->outputs[i]]; m != NONE; m = next[m]) {
            uint64_t saves = m == t->steps[s] ? 0 : reads_beside(t, n, &nodes[m]);
            uint64_t needs = m == t->steps[s] ? 0 : reads_beside(t, &nodes[m], n);
            if (saves <= needs + most || !tc_remat_same_outputs(n, &nodes[m]) || !can_run(t, &nodes[m], s))
                continue;
            most = saves - needs;
            t->form[s] = m;
        }
}

static void find_forms(tc_remat_turn *t) {
    const tc_remat_problem *p = t->problem;
    uint32_t *by_output = t->seen, *next = t->stack;
    for (uint32_t v = 0; v < p->n_values; v++)
        by_output[v] = NONE;
    for (uint32_t n = p->n_nodes; n-- > 0;)
        if (p->nodes[n].n_outputs > 0) {
            next[n] = by_output[p->nodes[n].outputs[0]];
            by_output[p->nodes[n].outputs[0]] = n;
        }
    for (uint32_t s = t->turn; s < t->n_steps; s++)
        find_form(t, s, by_output, next);
}

bool tc_remat_turn_make(tc_remat_turn *t, const tc_remat_problem *p, const uint32_t *steps, uint32_t n_steps,
                        uint32_t at) {
    *t = (tc_remat_turn){.problem = p, .steps = steps, .n_steps = n_steps, .turn = at, .n_stages = 1};
    if (!take_memory(t))
        return false;
    for (uint32_t v = 0; v < p->n_values; v++) {
        t->maker[v] = NONE;
        t->again[v] = n_steps;
    }
    for (uint32_t i = 0; i < p->n_values + p->n_nodes; i++)
        t->vertex[i] = NONE;
    for (uint32_t s = 0; s < n_steps; s++)
        t->form[s] = NONE;
    for (uint32_t s = 0; s < at; s++)
        for (uint32_t i = 0; i < p->nodes[steps[s]].n_outputs; i++)
            t->maker[p->nodes[steps[s]].outputs[i]] = steps[s];
    for (uint32_t s = n_steps; s-- > at;)
        for (uint32_t i = 0; i < p->nodes[steps[s]].n_outputs; i++)
            t->again[p->nodes[steps[s]].outputs[i]] = s;
    find_units(t);
    find_forms(t);
    return true;
}

/* --- stages ----------------------------------------------------------------------------------- */

/* Bytes made before the turn that are read both before a step and from it on; [n_steps - turn + 1]. */
static void count_both_sides(tc_remat_turn *t, uint64_t *both) {
    uint32_t *first = t->seen;
    for (uint32_t v = 0; v < t->problem->n_values; v++)
        first[v] = NONE;
    memset(both, 0, (t->n_steps - t->turn + (size_t)2) * sizeof *both);
    for (uint32_t s = t->turn; s < t->n_steps; s++) {
        const tc_remat_node *n = &t->problem->nodes[t->steps[s]];
        for (uint32_t i = 0; i < n->n_inputs; i++) {
            uint32_t v = n->inputs[i];
            if (!is_from_before(t, v, s))
                continue;
            if (first[v] != NONE) {
                both[first[v] + 1 - t->turn] += t->bytes[v];
                both[s + 1 - t->turn] -= t->bytes[v];
            }
            first[v] = s;
        }
    }
    for (uint32_t s = 1; s <= t->n_steps - t->turn; s++)
        both[s] += both[s - 1];
}

void tc_remat_turn_stages(tc_remat_turn *t, uint32_t n) {
    uint32_t n_slots = t->n_steps - t->turn, begin = 0;
    uint64_t *both = t->both;
    count_both_sides(t, both);
    t->n_stages = 0;
    for (uint32_t k = 1; k <= n && begin < n_slots; k++) {
        /* The best border within half a stage of where it would be if all were equally long. */
        uint32_t middle = (uint32_t)((uint64_t)n_slots * k / n), half = n_slots / n / 2, end = middle;
        for (uint32_t s = middle > half ? middle - half : 1; k < n && s <= middle + half && s < n_slots; s++)
            if (s > begin && (end <= begin || both[s] < both[end]))
                end = s;
        if (k == n || end > n_slots)
            end = n_slots;
        if (end <= begin)
            continue;
        for (; begin < end; begin++)
            t->stage[t->turn + begin] = t->n_stages;
        t->n_stages++;
    }
    if (t->n_stages == 0)
        t->n_stages = 1;
    t->stage[t->n_steps] = t->n_stages - 1;
}

/* --- the network of a stage -------------------------------------------------------------------- */

static uint64_t price_of(uint64_t bytes, uint64_t price) {
    if (price > 0 && bytes > (MOST_PRICE << 16) / price)
        return MOST_PRICE;
    return (bytes * price) >> 16;
}

static uint64_t keep_price(const tc_remat_turn *t, uint32_t value, uint32_t step) {
    return price_of(t->bytes[value], t->price[step - t->turn]);
}

/* The cost of running again: no more than keeping the results of an earlier stage, which then need not run again. */
static uint64_t cost_again(const tc_remat_turn *t, uint32_t node, uint32_t step) {
    const tc_remat_node *n = &t->problem->nodes[node];
    uint64_t sum = 1;
    if (t->later[node] == NONE)
        return t->cost[node];
    for (uint32_t i = 0; i < n->n_outputs && sum < t->cost[node]; i++)
        sum += price_of(t->bytes[n->outputs[i]], t->price[t->later[node] - t->turn] - t->price[step - t->turn]);
    return sum < t->cost[node] ? sum : t->cost[node];
}

/* Adds a value to the network, needed at `step`; `path` is the cost when everything from there to it runs again. */
static void take_member(tc_remat_turn *t, uint32_t value, uint32_t step, uint64_t path, uint32_t stage) {
    if (t->kept[value] > stage || t->vertex[value] != NONE)
        return;
    t->vertex[value] = t->n_members;
    t->member_at[t->n_members] = step;
    t->path[t->n_members] = path;
    t->members[t->n_members++] = value;
}

/* The values that the stage reads. Returns the cost of keeping all of them. */
static uint64_t take_reads(tc_remat_turn *t, uint32_t begin, uint32_t end, uint32_t stage) {
    const tc_remat_problem *p = t->problem;
    uint64_t bound = 0;
    for (uint32_t s = begin; s < end; s++) {
        const tc_remat_node *n = &p->nodes[t->steps[s]], *form = t->form[s] == NONE ? n : &p->nodes[t->form[s]];
        for (uint32_t i = 0; i < form->n_inputs; i++)
            if (is_from_before(t, form->inputs[i], s))
                take_member(t, form->inputs[i], s, 0, stage);
    }
    for (uint32_t v = 0; end == t->n_steps && v < p->n_values; v++)
        if (p->values[v].is_output && is_from_before(t, v, t->n_steps))
            take_member(t, v, end, 0, stage);
    t->n_direct = t->n_members;
    for (uint32_t s = begin; s < end; s++) {
        const tc_remat_node *n = &p->nodes[t->steps[s]];
        for (uint32_t i = 0; t->form[s] != NONE && i < n->n_inputs; i++)
            if (is_from_before(t, n->inputs[i], s))
                take_member(t, n->inputs[i], s, 0, stage);
    }
    for (uint32_t i = 0; i < t->n_members; i++)
        bound += keep_price(t, t->members[i], t->member_at[i]);
    return bound;
}

/* And all values that these can be made of, except where reaching them costs more than keeping all would. Returns how
 * many edges that takes. */
static uint32_t take_makers(tc_remat_turn *t, uint64_t bound, uint32_t begin, uint32_t stage) {
    const tc_remat_problem *p = t->problem;
    uint32_t edges = 0;
    for (uint32_t i = 0; i < t->n_members; i++, edges += 2) {
        uint32_t node = t->maker[t->members[i]];
        const tc_remat_node *n = &p->nodes[node];
        uint64_t path = t->path[i] + cost_again(t, node, begin);
        if (n->pinned || path > bound || t->vertex[p->n_values + node] != NONE)
            continue;
        t->vertex[p->n_values + node] = t->n_member_nodes;
        t->nodes[t->n_member_nodes++] = node;
        edges += n->n_inputs + 1;
        for (uint32_t k = 0; k < n->n_inputs; k++)
            take_member(t, n->inputs[k], t->member_at[i], path, stage);
    }
    return edges;
}

/* Vertices: values, nodes, steps of the stage, source, sink. */
static void connect(tc_remat_turn *t, uint32_t begin, uint32_t source) {
    const tc_remat_problem *p = t->problem;
    for (uint32_t i = 0; i < t->n_members; i++) {
        uint32_t v = t->members[i], at = t->vertex[p->n_values + t->maker[v]];
        if (i < t->n_direct)
            tc_cut_edge(&t->cut, source, i, TC_CUT_ENDLESS);
        tc_cut_edge(&t->cut, i, at == NONE ? source + 1 : t->n_members + at, keep_price(t, v, t->member_at[i]));
    }
    for (uint32_t i = 0; i < t->n_member_nodes; i++) {
        const tc_remat_node *n = &p->nodes[t->nodes[i]];
        tc_cut_edge(&t->cut, t->n_members + i, source + 1, cost_again(t, t->nodes[i], begin));
        for (uint32_t k = 0; k < n->n_inputs; k++)
            if (t->vertex[n->inputs[k]] != NONE)
                tc_cut_edge(&t->cut, t->n_members + i, t->vertex[n->inputs[k]], TC_CUT_ENDLESS);
    }
}

static void connect_form(tc_remat_turn *t, uint32_t step, uint32_t vertex, uint32_t source) {
    const tc_remat_node *n = &t->problem->nodes[t->steps[step]], *form = &t->problem->nodes[t->form[step]];
    uint64_t given = t->cost[t->steps[step]], other = t->cost[t->form[step]];
    tc_cut_edge(&t->cut, source, vertex, other > given ? other - given : 0);
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (t->vertex[n->inputs[i]] != NONE && is_from_before(t, n->inputs[i], step) &&
            !tc_remat_reads(form, n->inputs[i]))
            tc_cut_edge(&t->cut, vertex, t->vertex[n->inputs[i]], TC_CUT_ENDLESS);
}

static void cut_stage(tc_remat_turn *t, uint32_t begin, uint32_t end, uint32_t stage) {
    uint32_t first_step = t->n_members + t->n_member_nodes, source = first_step + end - begin;
    connect(t, begin, source);
    for (uint32_t s = begin; s < end; s++)
        if (t->form[s] != NONE)
            connect_form(t, s, first_step + s - begin, source);
    tc_cut_find(&t->cut, source, source + 1);
    for (uint32_t i = 0; i < t->n_members; i++) {
        uint32_t at = t->vertex[t->problem->n_values + t->maker[t->members[i]]];
        if (!tc_cut_is_behind(&t->cut, i) && (at == NONE || tc_cut_is_behind(&t->cut, t->n_members + at)))
            t->kept[t->members[i]] = stage + 1;
    }
    for (uint32_t i = 0; i < t->n_member_nodes; i++)
        if (t->shares && !tc_cut_is_behind(&t->cut, t->n_members + i))
            t->later[t->nodes[i]] = begin;
    for (uint32_t s = begin; s < end; s++)
        t->changed[s] = t->form[s] != NONE && tc_cut_is_behind(&t->cut, first_step + s - begin);
}

static bool choose_stage(tc_remat_turn *t, uint32_t begin, uint32_t end, uint32_t stage) {
    t->n_members = t->n_member_nodes = 0;
    uint64_t bound = take_reads(t, begin, end, stage);
    uint32_t edges = take_makers(t, bound, begin, stage);
    for (uint32_t s = begin; s < end; s++)
        edges += t->form[s] == NONE ? 0 : t->problem->nodes[t->steps[s]].n_inputs + 1;
    bool ok = tc_cut_begin(&t->cut, t->n_members + t->n_member_nodes + end - begin + 2, edges);
    if (ok)
        cut_stage(t, begin, end, stage);
    for (uint32_t i = 0; i < t->n_members; i++)
        t->vertex[t->members[i]] = NONE;
    for (uint32_t i = 0; i < t->n_member_nodes; i++)
        t->vertex[t->problem->n_values + t->nodes[i]] = NONE;
    t->work += (edges + end - begin) / 64 + 1;
    return ok;
}

/* From the last stage to the first: values kept for a later one are there for all before it. */
bool tc_remat_turn_choose(tc_remat_turn *t, const uint64_t *price) {
    t->price = price;
    memset(t->kept, 0, t->problem->n_values * sizeof *t->kept);
    for (uint32_t n = 0; n < t->problem->n_nodes; n++)
        t->later[n] = NONE;
    uint64_t arcs = t->cut.work;
    for (uint32_t end = t->n_steps; end > t->turn;) {
        uint32_t begin = end - 1;
        while (begin > t->turn && t->stage[begin - 1] == t->stage[end - 1])
            begin--;
        if (!choose_stage(t, begin, end, t->stage[begin]))
            return false;
        end = begin;
    }
    t->work += (t->cut.work - arcs) / 1024;
    return true;
}

/* --- the schedule ----------------------------------------------------------------------------- */

typedef struct builder {
    tc_remat_turn *t;
    uint32_t *steps, *slots;
    uint32_t n, max, now; /* now: the current step of the old schedule */
} builder;

/* Whether a value is to be recomputed before the step that reads it now. */
static bool is_missing(builder *b, uint32_t value) {
    tc_remat_turn *t = b->t;
    if (!is_from_before(t, value, b->now) || t->kept[value] > t->stage[b->now])
        return false;
    uint32_t seen = t->seen[value];
    if (seen == NONE)
        return true;
    return t->stage[seen] != t->stage[b->now] &&
           price_of(t->bytes[value], t->price[b->now - t->turn] - t->price[seen - t->turn]) > t->cost[t->maker[value]];
}

static bool emit(builder *b, uint32_t node) {
    if (b->n == b->max)
        return false;
    b->slots[b->n] = b->now;
    b->steps[b->n++] = node;
    const tc_remat_node *n = &b->t->problem->nodes[node];
    for (uint32_t i = 0; i < n->n_inputs; i++)
        b->t->seen[n->inputs[i]] = b->now;
    for (uint32_t i = 0; i < n->n_outputs; i++)
        b->t->seen[n->outputs[i]] = b->now;
    return true;
}

/* Makes a value, and first what its maker needs. */
static bool make_again(builder *b, uint32_t value) {
    tc_remat_turn *t = b->t;
    uint32_t depth = 1;
    t->stack[0] = t->maker[value];
    t->stack_at[0] = 0;
    while (depth > 0) {
        uint32_t node = t->stack[depth - 1];
        const tc_remat_node *n = &t->problem->nodes[node];
        uint32_t i = t->stack_at[depth - 1];
        while (i < n->n_inputs && !is_missing(b, n->inputs[i]))
            i++;
        t->stack_at[depth - 1] = i;
        if (i < n->n_inputs) {
            if (depth == t->problem->n_nodes)
                return false; /* two variants that make each other's operands */
            t->stack[depth] = t->maker[n->inputs[i]];
            t->stack_at[depth++] = 0;
        } else {
            depth--;
            if (!emit(b, node))
                return false;
        }
    }
    return true;
}

/* Leaves out steps without a reader, from `begin` on. */
static uint32_t drop_unread(tc_remat_turn *t, uint32_t *steps, uint32_t *slots, uint32_t begin, uint32_t n) {
    const tc_remat_problem *p = t->problem;
    for (uint32_t v = 0; v < p->n_values; v++)
        t->wanted[v] = p->values[v].is_output;
    uint32_t to = n;
    for (uint32_t s = n; s-- > begin;) {
        const tc_remat_node *node = &p->nodes[steps[s]];
        bool used = node->pinned || node->n_outputs == 0;
        for (uint32_t i = 0; i < node->n_outputs; i++)
            used |= t->wanted[node->outputs[i]];
        if (!used)
            continue;
        for (uint32_t i = 0; i < node->n_outputs; i++)
            t->wanted[node->outputs[i]] = false;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            t->wanted[node->inputs[i]] = true;
        steps[--to] = steps[s];
        slots[to] = slots[s];
    }
    memmove(steps + begin, steps + to, (n - to) * sizeof *steps);
    memmove(slots + begin, slots + to, (n - to) * sizeof *slots);
    return begin + n - to;
}

static bool run(builder *b, uint32_t node) {
    const tc_remat_node *n = &b->t->problem->nodes[node];
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (is_missing(b, n->inputs[i]) && !make_again(b, n->inputs[i]))
            return false;
    return emit(b, node);
}

uint32_t tc_remat_turn_build(tc_remat_turn *t, uint32_t *steps, uint32_t *slots, uint32_t max_steps) {
    builder b = {t, steps, slots, 0, max_steps, 0};
    for (uint32_t v = 0; v < t->problem->n_values; v++)
        t->seen[v] = NONE;
    if (t->n_steps > max_steps)
        return 0;
    memcpy(steps, t->steps, t->turn * sizeof *steps);
    for (; b.n < t->turn; b.n++)
        slots[b.n] = b.n;
    for (b.now = t->turn; b.now < t->n_steps; b.now++)
        if (!run(&b, t->changed[b.now] ? t->form[b.now] : t->steps[b.now]))
            return 0;
    /* Outputs that were not kept. */
    for (uint32_t v = 0; v < t->problem->n_values; v++)
        if (t->problem->values[v].is_output && is_missing(&b, v) && !make_again(&b, v))
            return 0;
    t->work += b.n / 64 + 1;
    return drop_unread(t, steps, slots, t->turn, b.n);
}
