/* remat_check.c: whether a problem and a schedule are valid, and the schedule's cost and peak, the slow way: step by
 * step, life by life. It reads problem and schedule alone: it checks the search. */
#include "remat_problem.h"
#include <stdlib.h>
#include <string.h>

#define TOO_MUCH (UINT64_C(1) << 62)
#define NOT_CHECKED "memory ran out before it was checked"

/* --- problems --------------------------------------------------------------------------------- */

/* Sets bit `bit` of each; a value that has a bit of `bits` already is there twice. */
static const char *mark_all(const tc_remat_problem *p, const uint32_t *values, uint32_t n, uint8_t *marks,
                            uint8_t bit) {
    for (uint32_t i = 0; i < n; i++) {
        if (values[i] >= p->n_values)
            return "a node has a value that does not exist";
        if (marks[values[i]] != 0)
            return "a node has a value twice";
        marks[values[i]] = bit;
    }
    return NULL;
}

static void unmark_all(const tc_remat_problem *p, const uint32_t *values, uint32_t n, uint8_t *marks) {
    for (uint32_t i = 0; i < n; i++)
        if (values[i] < p->n_values)
            marks[values[i]] = 0;
}

enum { INPUT = 1, OUTPUT = 2 };

static const char *check_overs(const tc_remat_problem *p, const tc_remat_node *n, const uint8_t *marks) {
    for (uint32_t i = 0; i < n->n_overs; i++) {
        const tc_remat_over *over = &n->overs[i];
        if (over->operand >= p->n_values || over->result >= p->n_values || marks[over->operand] != INPUT ||
            marks[over->result] != OUTPUT)
            return "a node writes a result over an operand that are none of its own";
        if (over->bytes > p->values[over->operand].bytes || over->bytes > p->values[over->result].bytes)
            return "a node writes more over an operand than there is";
    }
    return NULL;
}

static const char *check_node(const tc_remat_problem *p, const tc_remat_node *n, uint8_t *marks) {
    const char *wrong = mark_all(p, n->inputs, n->n_inputs, marks, INPUT);
    if (!wrong)
        wrong = mark_all(p, n->outputs, n->n_outputs, marks, OUTPUT);
    if (!wrong)
        wrong = check_overs(p, n, marks);
    unmark_all(p, n->inputs, n->n_inputs, marks);
    unmark_all(p, n->outputs, n->n_outputs, marks);
    return wrong;
}

const char *tc_remat_check(const tc_remat_problem *p) {
    uint8_t *marks = calloc(p->n_values + (size_t)1, sizeof *marks);
    const char *wrong = marks ? NULL : NOT_CHECKED;
    for (uint32_t i = 0; i < p->n_nodes && !wrong; i++)
        wrong = check_node(p, &p->nodes[i], marks);
    free(marks);
    return wrong ? wrong : tc_remat_check_steps(p, p->steps, p->n_steps);
}

/* --- schedules -------------------------------------------------------------------------------- */

static const char *check_reads(const tc_remat_problem *p, const uint32_t *steps, uint32_t n_steps, uint8_t *made) {
    for (uint32_t t = 0; t < n_steps; t++) {
        if (steps[t] >= p->n_nodes)
            return "a step runs a node that does not exist";
        const tc_remat_node *n = &p->nodes[steps[t]];
        for (uint32_t i = 0; i < n->n_inputs; i++)
            if (!made[n->inputs[i]])
                return "a step reads a value that is not made before it";
        for (uint32_t i = 0; i < n->n_outputs; i++)
            made[n->outputs[i]] = 1;
    }
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->values[v].is_output && !made[v])
            return "an output is never made";
    return NULL;
}

/* The next pinned step from *t on, or TC_REMAT_NONE after the last. */
static uint32_t next_pinned(const tc_remat_problem *p, const uint32_t *steps, uint32_t n_steps, uint32_t *t) {
    while (*t < n_steps)
        if (p->nodes[steps[(*t)++]].pinned)
            return steps[*t - 1];
    return TC_REMAT_NONE;
}

/* Pinned nodes are those of the given schedule, in its order, and each of them is there once. */
static const char *check_pinned(const tc_remat_problem *p, const uint32_t *steps, uint32_t n_steps, uint8_t *ran) {
    uint32_t t = 0, given = 0, count = 0, of = 0;
    for (uint32_t n = next_pinned(p, steps, n_steps, &t);; n = next_pinned(p, steps, n_steps, &t)) {
        if (n != next_pinned(p, p->steps, p->n_steps, &given))
            return "pinned nodes run in another order than in the given schedule";
        if (n == TC_REMAT_NONE)
            break;
        if (ran[n]++)
            return "a pinned node runs twice";
        count++;
    }
    for (uint32_t n = 0; n < p->n_nodes; n++)
        of += p->nodes[n].pinned;
    return count == of ? NULL : "a pinned node does not run";
}

const char *tc_remat_check_steps(const tc_remat_problem *p, const uint32_t *steps, uint32_t n_steps) {
    uint8_t *made = calloc(p->n_values + (size_t)1, sizeof *made), *ran = calloc(p->n_nodes + (size_t)1, sizeof *ran);
    const char *wrong = made && ran ? check_reads(p, steps, n_steps, made) : NOT_CHECKED;
    if (!wrong)
        wrong = check_pinned(p, steps, n_steps, ran);
    free(made);
    free(ran);
    return wrong;
}

/* --- cost and peak of a schedule -------------------------------------------------------------- */

/* A production of a value, in the order of steps. */
typedef struct life {
    uint32_t value, first, last;
} life;

typedef struct simulation {
    const tc_remat_problem *p;
    const uint32_t *steps;
    uint32_t n_steps;
    life *lives;      /* [of all steps' outputs] */
    uint32_t *latest; /* [values] the life that a step reads */
    uint64_t *live;   /* [steps + 1] first how much more is live than in the step before, then how much is live */
    uint64_t *left;   /* [values] bytes of operands and results that no over has taken; of one step */
} simulation;

static uint64_t all_values(const tc_remat_problem *p) {
    uint64_t sum = 0;
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->values[v].bytes >= TOO_MUCH || (sum += p->values[v].bytes) >= TOO_MUCH)
            return TOO_MUCH;
    return sum;
}

/* No sum of live bytes, and none of costs, exceeds 2^63 then. */
static bool too_big(const tc_remat_problem *p, const uint32_t *steps, uint32_t n_steps) {
    uint64_t values = all_values(p), cost = 0;
    for (uint32_t t = 0; t < n_steps; t++) {
        const tc_remat_node *n = &p->nodes[steps[t]];
        if (n->workspace >= TOO_MUCH - values || n->cost >= TOO_MUCH - cost)
            return true;
        cost += n->cost;
    }
    return values >= TOO_MUCH;
}

static void find_lives(simulation *s) {
    uint32_t n_lives = 0;
    for (uint32_t t = 0; t < s->n_steps; t++) {
        const tc_remat_node *n = &s->p->nodes[s->steps[t]];
        for (uint32_t i = 0; i < n->n_inputs; i++)
            s->lives[s->latest[n->inputs[i]]].last = t;
        for (uint32_t i = 0; i < n->n_outputs; i++) {
            s->latest[n->outputs[i]] = n_lives;
            s->lives[n_lives++] = (life){n->outputs[i], t, t};
        }
    }
    /* A value that is there at the end ends in no step. */
    for (uint32_t v = 0; v < s->p->n_values; v++)
        if (s->p->values[v].is_output)
            s->lives[s->latest[v]].last = s->n_steps;
    for (uint32_t i = 0; i < n_lives; i++) {
        uint64_t bytes = s->p->values[s->lives[i].value].bytes;
        s->live[s->lives[i].first] += bytes;
        if (s->lives[i].last < s->n_steps)
            s->live[s->lives[i].last + 1] -= bytes;
    }
}

static uint64_t laid_over(simulation *s, uint32_t t, const tc_remat_node *n) {
    uint64_t taken = 0;
    for (uint32_t i = 0; i < n->n_overs; i++) {
        s->left[n->overs[i].operand] = s->p->values[n->overs[i].operand].bytes;
        s->left[n->overs[i].result] = s->p->values[n->overs[i].result].bytes;
    }
    for (uint32_t i = 0; i < n->n_overs; i++) {
        const tc_remat_over *over = &n->overs[i];
        uint64_t *operand = &s->left[over->operand], *result = &s->left[over->result];
        if (s->lives[s->latest[over->operand]].last != t || over->bytes > *operand || over->bytes > *result)
            continue;
        *operand -= over->bytes;
        *result -= over->bytes;
        taken += over->bytes;
    }
    return taken;
}

static void count_steps(simulation *s, uint64_t *live, tc_remat_live *out) {
    uint64_t now = 0;
    uint32_t n_lives = 0;
    *out = (tc_remat_live){0};
    for (uint32_t t = 0; t < s->n_steps; t++) {
        const tc_remat_node *n = &s->p->nodes[s->steps[t]];
        now += s->live[t];
        uint64_t here = now + n->workspace - laid_over(s, t, n);
        for (uint32_t i = 0; i < n->n_outputs; i++)
            s->latest[n->outputs[i]] = n_lives++;
        if (live)
            live[t] = here;
        if (here > out->peak_bytes) {
            out->peak_bytes = here;
            out->peak = t;
        }
        out->cost += n->cost;
    }
}

tc_remat_status tc_remat_simulate(const tc_remat_problem *p, const uint32_t *steps, uint32_t n_steps, uint64_t *live,
                                  tc_remat_live *out_live) {
    if (too_big(p, steps, n_steps))
        return TC_REMAT_TOO_BIG;
    size_t n_lives = 0;
    for (uint32_t t = 0; t < n_steps; t++)
        n_lives += p->nodes[steps[t]].n_outputs;
    if (n_lives >= TC_REMAT_NONE)
        return TC_REMAT_TOO_BIG;
    simulation s = {p,
                    steps,
                    n_steps,
                    malloc((n_lives + 1) * sizeof *s.lives),
                    malloc((p->n_values + (size_t)1) * sizeof *s.latest),
                    calloc(n_steps + (size_t)2, sizeof *s.live),
                    malloc((p->n_values + (size_t)1) * sizeof *s.left)};
    tc_remat_status status = TC_REMAT_MEMORY;
    if (s.lives && s.latest && s.live && s.left) {
        find_lives(&s);
        count_steps(&s, live, out_live);
        status = TC_REMAT_OK;
    }
    free(s.lives);
    free(s.latest);
    free(s.live);
    free(s.left);
    return status;
}
