/* plan_improve.c: changes the order of the best packing where it fails: a unit at the top of the arena is placed
 * earlier and then rests for a while, another one changes its turn, or a result lies over another operand. */
#include "plan_packer.h"
#include <string.h>

/* Returns how many keep their turns. */
static uint32_t move_to(tc_packer *p, uint32_t from, uint32_t to) {
    uint32_t index = p->order[from];
    if (to < from)
        memmove(p->order + to + 1, p->order + to, (from - to) * sizeof *p->order);
    else
        memmove(p->order + from, p->order + from + 1, (to - from) * sizeof *p->order);
    p->order[to] = index;
    return from < to ? from : to;
}

/* Places a unit that ends above the bound earlier, but not one that was raised just now. Returns how many keep their
 * turns. */
static uint32_t raise_top(tc_packer *p) {
    uint32_t from = 0, start = tc_packer_draw(p, p->n_order);
    for (uint32_t i = 0; i < p->n_order; i++) {
        uint32_t at = start + i < p->n_order ? start + i : start + i - p->n_order, index = p->order[at];
        if (!p->units.units[index].over && p->rests[index] <= p->n_moves &&
            p->best_offsets[index] + p->units.units[index].bytes > p->bound) {
            from = at;
            p->rests[index] = p->n_moves + 4 + tc_packer_draw(p, 8);
            break;
        }
    }
    return move_to(p, from, tc_packer_draw(p, from + 1));
}

/* Takes a choice, replacing those that it excludes, or drops it. */
static void change_choice(tc_packer *p) {
    tc_plan_problem *problem = p->problem;
    tc_plan_choice *change = &problem->choices[tc_packer_draw(p, problem->n_choices)];
    if (change->taken) {
        tc_plan_untake(&p->units, change);
        return;
    }
    for (uint32_t i = 0; i < problem->n_choices; i++) {
        tc_plan_choice *c = &problem->choices[i];
        if (c->taken && c->op == change->op && (c->result == change->result || c->operand == change->operand))
            tc_plan_untake(&p->units, c);
    }
    if (tc_plan_can_take(problem, &p->units, change))
        tc_plan_take(&p->units, change);
}

bool tc_packer_improve(tc_packer *p, uint64_t until) {
    uint64_t limit = p->limit;
    bool ok = true;
    p->limit = until; /* of an attempt, too */
    while (ok && p->best > p->enough && p->spans.work < until && p->n_order > 1) {
        uint64_t top;
        memcpy(p->order, p->kept, p->n_order * sizeof *p->order);
        p->fit = tc_packer_draw(p, 8) == 0 ? (tc_fit)tc_packer_draw(p, 2) : p->best_fit;
        uint32_t kind = tc_packer_draw(p, 8), same = 0; /* another choice changes lives: all are placed anew */
        if (kind < 4)
            same = raise_top(p);
        else if (kind < 6 || p->problem->n_choices == 0)
            same = move_to(p, tc_packer_draw(p, p->n_order), tc_packer_draw(p, p->n_order));
        else
            change_choice(p);
        p->n_moves++;
        ok = tc_packer_place(p, same, p->best, &top);
        if (ok && top != UINT64_MAX)
            tc_packer_keep(p, top);
        else if (ok)
            tc_packer_restore(p);
    }
    p->limit = limit;
    return ok;
}
