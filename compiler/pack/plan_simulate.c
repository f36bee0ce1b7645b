/* plan_simulate.c: a problem becomes units, and units the bytes that are live at each operation, in one sweep over the
 * beginnings and ends of lives. */
#include "plan_units.h"
#include <stdlib.h>
#include <string.h>

/* --- units ------------------------------------------------------------------------------------ */

static bool is_power(uint64_t align) { return align != 0 && (align & (align - 1)) == 0 && align <= UINT32_MAX; }

static bool find_root(const tc_plan_problem *p, uint32_t index, tc_plan_units *u) {
    uint32_t at = index, steps = 0;
    uint64_t bytes = 0;
    for (; p->buffers[at].root != TC_PLAN_NONE; at = p->buffers[at].root) {
        const tc_plan_buffer *b = &p->buffers[at];
        if (b->root >= p->n_buffers || steps++ > p->n_buffers || b->bytes > p->buffers[b->root].bytes ||
            b->at > p->buffers[b->root].bytes - b->bytes)
            return false;
        bytes += b->at;
    }
    u->root[index] = at;
    u->at[index] = bytes;
    return true;
}

static tc_plan_status add_buffer(const tc_plan_problem *p, uint32_t index, tc_plan_units *u, uint64_t *total) {
    const tc_plan_buffer *b = &p->buffers[index];
    if (!is_power(b->align) || b->first > b->last || b->last > p->n_ops || !find_root(p, index, u))
        return TC_PLAN_INVALID;
    tc_plan_unit *unit = &u->units[u->root[index]];
    unit->first = b->first < unit->first ? b->first : unit->first;
    unit->last = b->last > unit->last ? b->last : unit->last;
    if (u->root[index] != index)
        return TC_PLAN_OK;
    if (b->bytes >= INT64_MAX / 2)
        return TC_PLAN_TOO_BIG;
    unit->align = b->align;
    unit->bytes = tc_plan_round(b->bytes, b->align);
    *total += unit->bytes;
    return *total >= INT64_MAX / 2 ? TC_PLAN_TOO_BIG : TC_PLAN_OK;
}

static tc_plan_status fill(const tc_plan_problem *p, tc_plan_units *u) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < u->n; i++)
        u->units[i] = (tc_plan_unit){0, 1, UINT32_MAX, 0, TC_PLAN_NONE, false};
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        tc_plan_status status = add_buffer(p, i, u, &total);
        if (status != TC_PLAN_OK)
            return status;
    }
    for (uint32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].workspace >= INT64_MAX / 2 || total >= INT64_MAX / 2)
            return TC_PLAN_TOO_BIG;
        uint64_t bytes = tc_plan_round(p->ops[i].workspace, p->align);
        u->units[p->n_buffers + i] = (tc_plan_unit){bytes, p->align, i, i, TC_PLAN_NONE, false};
        total += bytes;
    }
    for (uint32_t i = 0; i < p->n_choices; i++) {
        const tc_plan_choice *c = &p->choices[i];
        if (c->op >= p->n_ops || c->result >= p->n_buffers || c->operand >= p->n_buffers)
            return TC_PLAN_INVALID;
    }
    return TC_PLAN_OK;
}

tc_plan_status tc_plan_units_make(const tc_plan_problem *p, tc_plan_units *u) {
    *u = (tc_plan_units){0};
    if ((uint64_t)p->n_buffers + p->n_ops >= TC_PLAN_NONE)
        return TC_PLAN_TOO_BIG;
    if (!is_power(p->align))
        return TC_PLAN_INVALID;
    u->n = p->n_buffers + p->n_ops;
    u->units = malloc((u->n + (size_t)1) * sizeof *u->units);
    u->root = malloc((p->n_buffers + (size_t)1) * sizeof *u->root);
    u->at = malloc((p->n_buffers + (size_t)1) * sizeof *u->at);
    tc_plan_status status = u->units && u->root && u->at ? fill(p, u) : TC_PLAN_MEMORY;
    if (status != TC_PLAN_OK)
        tc_plan_units_free(u);
    return status;
}

void tc_plan_units_free(tc_plan_units *u) {
    free(u->units);
    free(u->root);
    free(u->at);
    *u = (tc_plan_units){0};
}

/* --- results over operands -------------------------------------------------------------------- */

bool tc_plan_can_take(const tc_plan_problem *p, const tc_plan_units *u, const tc_plan_choice *c) {
    uint32_t result = u->root[c->result], operand = u->root[c->operand];
    const tc_plan_unit *over = &u->units[result], *under = &u->units[operand];
    return result != operand && !over->over && under->next == TC_PLAN_NONE && over->first == c->op &&
           under->last == c->op && under->first < c->op && u->at[c->result] == 0 && u->at[c->operand] == 0 &&
           over->bytes == under->bytes && over->align <= under->align &&
           p->buffers[c->result].bytes <= p->buffers[c->operand].bytes;
}

void tc_plan_take(tc_plan_units *u, tc_plan_choice *c) {
    u->units[u->root[c->operand]].next = u->root[c->result];
    u->units[u->root[c->result]].over = c->taken = true;
}

void tc_plan_untake(tc_plan_units *u, tc_plan_choice *c) {
    u->units[u->root[c->operand]].next = TC_PLAN_NONE;
    u->units[u->root[c->result]].over = c->taken = false;
}

uint32_t tc_plan_chain_last(const tc_plan_units *u, uint32_t unit) {
    while (u->units[unit].next != TC_PLAN_NONE)
        unit = u->units[unit].next;
    return u->units[unit].last;
}

tc_plan_status tc_plan_take_choices(tc_plan_problem *p) {
    tc_plan_units u;
    tc_plan_status status = tc_plan_units_make(p, &u);
    if (status != TC_PLAN_OK)
        return status;
    for (uint32_t i = 0; i < p->n_choices; i++) {
        p->choices[i].taken = false;
        if (tc_plan_can_take(p, &u, &p->choices[i]))
            tc_plan_take(&u, &p->choices[i]);
    }
    tc_plan_units_free(&u);
    return TC_PLAN_OK;
}

/* --- live bytes ------------------------------------------------------------------------------- */

void tc_plan_units_profile(const tc_plan_problem *p, const tc_plan_units *u, uint64_t *live) {
    memset(live, 0, (p->n_ops + (size_t)2) * sizeof *live);
    for (uint32_t i = 0; i < u->n; i++) {
        const tc_plan_unit *unit = &u->units[i];
        if (unit->over || unit->bytes == 0)
            continue;
        live[unit->first] += unit->bytes;
        live[tc_plan_chain_last(u, i) + (size_t)1] -= unit->bytes; /* sums wrap back */
    }
    for (uint32_t i = 1; i <= p->n_ops; i++)
        live[i] += live[i - 1];
}

tc_plan_status tc_plan_units_live(const tc_plan_problem *p, const tc_plan_units *u, tc_plan_live *out) {
    uint64_t *live = malloc((p->n_ops + (size_t)2) * sizeof *live);
    *out = (tc_plan_live){0};
    if (!live)
        return TC_PLAN_MEMORY;
    tc_plan_units_profile(p, u, live);
    for (uint32_t i = 0; i <= p->n_ops; i++) {
        out->cost += i < p->n_ops ? p->ops[i].cost : 0;
        if (live[i] > out->peak_bytes) {
            out->peak_bytes = live[i];
            out->peak = i;
        }
    }
    free(live);
    return TC_PLAN_OK;
}

tc_plan_status tc_plan_simulate(const tc_plan_problem *p, tc_plan_live *out_live) {
    tc_plan_units u;
    tc_plan_status status = tc_plan_units_make(p, &u);
    if (status != TC_PLAN_OK)
        return status;
    for (uint32_t i = 0; i < p->n_choices && status == TC_PLAN_OK; i++) {
        tc_plan_choice choice = p->choices[i];
        if (!choice.taken)
            continue;
        if (tc_plan_can_take(p, &u, &choice))
            tc_plan_take(&u, &choice);
        else
            status = TC_PLAN_INVALID;
    }
    if (status == TC_PLAN_OK)
        status = tc_plan_units_live(p, &u, out_live);
    tc_plan_units_free(&u);
    return status;
}
