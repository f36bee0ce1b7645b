/* remat_prices.c: prices of bytes at which the values kept across the turn fit the budget.
 *
 * A value that is kept pays for each step that it waits after the turn: a price times the step's weight. The search
 * finds the lowest price that meets the budget, which is the cheapest mixture of the best choices at two prices; as
 * blocks that are alike differ in how long they wait, they change over one after the other. Then steps at which much is
 * live get more weight, and those at which little is get less (multiplicative weights: Arora, Hazan, Kale, 2012), and
 * the price is searched again. All that is done for few stages and for many: a value that waits for long after it was
 * recomputed in one of few stages is recomputed once more in one of many, or kept. */
#include "remat_search.h"
#include "remat_turn.h"
#include <stdlib.h>
#include <string.h>

#define FINE 14                   /* 2^FINE prices from one power of two to the next */
#define COARSE (1u << (FINE - 1)) /* those that are tried first */
#define LAST_PRICE (28u << FINE)  /* at which nothing is kept */
#define LOWEST 8                  /* the power of two of the lowest price */
#define WHOLE 24                  /* the power of two of all weights together */
#define USUAL_STAGES 18           /* to begin with */
#define MOST_LEVELS 16            /* turns, one after the other */
#define PATIENCE 4                /* rounds that bring nothing */
#define MOST_TRIALS 128           /* of numbers of stages and of weights */
#define MORE_STEPS 4              /* times as many as given may a schedule have */
#define MOST_STEPS (UINT32_MAX / MORE_STEPS - 64)
#define NOTHING_YET ((tc_remat_live){UINT64_MAX, 0, UINT64_MAX})

typedef struct search {
    const tc_remat_problem *problem;
    uint64_t budget, work, max_work, limit; /* limit: of the work so far, for the time being */
    const volatile sig_atomic_t *stop;      /* NULL, or not 0: end with the best so far */
    tc_remat_turn turn;
    uint32_t n_slots;        /* steps after the turn, and the end */
    uint64_t *weight;        /* [n_slots] of a step: its share of the price, in 2^-WHOLE */
    uint64_t *price;         /* [n_slots] of a byte from the turn to a step */
    uint64_t *given;         /* [n_slots] live bytes where nothing is recomputed */
    uint64_t *top;           /* [n_slots] the most live bytes at and right before a step in the schedule tried last */
    uint64_t *live;          /* [max_steps] */
    uint32_t *steps, *slots; /* [max_steps] the schedule that was tried last; for which step after the turn */
    uint32_t n_steps, max_steps;
    uint32_t first_price;      /* below it all is kept */
    tc_remat_live here, local; /* of the schedule that was tried last; of the best one of a trial */
    tc_remat_schedule best;
    tc_remat_status status;
} search;

/* --- schedules -------------------------------------------------------------------------------- */

static bool is_better(const search *s, const tc_remat_live *a, const tc_remat_live *b) {
    return tc_remat_better(a, b, s->budget);
}

static bool is_stopped(const search *s) { return s->stop && *s->stop; }

static bool is_over(const search *s) {
    return s->status != TC_REMAT_OK || s->work + s->turn.work > s->limit || is_stopped(s);
}

/* From now on a part of all work may be done, but enough for a few schedules. */
static void set_limit(search *s, uint64_t part) {
    uint64_t share = s->max_work / part, least = 6 * (uint64_t)s->problem->n_steps;
    uint64_t limit = s->work + s->turn.work + (share > least ? share : least);
    s->limit = limit < s->max_work ? limit : s->max_work;
}

/* --- prices ----------------------------------------------------------------------------------- */

static uint64_t price_at(uint32_t e) {
    return ((UINT64_C(1) << FINE) + (e & ((1u << FINE) - 1))) << (e >> FINE) << LOWEST >> FINE;
}

static void find_tops(search *s) {
    memset(s->top, 0, s->n_slots * sizeof *s->top);
    for (uint32_t i = 0; i < s->n_steps; i++)
        if (s->slots[i] >= s->turn.turn && s->live[i] > s->top[s->slots[i] - s->turn.turn])
            s->top[s->slots[i] - s->turn.turn] = s->live[i];
}

/* Whether the schedule at this price fits; s->here is its cost and peak. */
static bool try_price(search *s, uint32_t e) {
    uint64_t price = price_at(e), sum = 0;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        sum += s->weight[i];
        s->price[i] = price * sum >> WHOLE;
    }
    s->here = NOTHING_YET;
    if (!tc_remat_turn_choose(&s->turn, s->price)) {
        s->status = TC_REMAT_MEMORY;
        return false;
    }
    s->n_steps = tc_remat_turn_build(&s->turn, s->steps, s->slots, s->max_steps);
    if (s->n_steps == 0)
        return false; /* far too long */
    s->work += s->n_steps / 32 + 1;
    s->status = tc_remat_simulate(s->problem, s->steps, s->n_steps, s->live, &s->here);
    if (s->status == TC_REMAT_OK && is_better(s, &s->here, &s->local))
        s->local = s->here;
    if (s->status == TC_REMAT_OK && is_better(s, &s->here, &s->best.live))
        s->status = tc_remat_schedule_set(&s->best, &(tc_remat_schedule){s->steps, s->n_steps, s->here});
    return s->here.peak_bytes <= s->budget;
}

/* Whether a higher price leads nowhere: a schedule that fits costs less already. */
static bool costs_too_much(const search *s) {
    return s->best.live.peak_bytes <= s->budget && s->here.cost != UINT64_MAX &&
           s->here.cost > s->best.live.cost + s->best.live.cost / 16;
}

/* The lowest price that meets the budget, to within `exact`, or that of the lowest peak. */
static uint32_t search_price(search *s, uint32_t from, uint32_t to, uint32_t exact) {
    uint32_t low = from, high = 0, lowest = from, idle = 0;
    uint64_t peak = UINT64_MAX;
    for (uint32_t e = from; e < to && high == 0 && idle < 8 && !is_over(s); e += COARSE) {
        tc_remat_live before = s->here;
        if (try_price(s, e))
            high = e;
        else
            low = e;
        idle = s->here.cost == before.cost && s->here.peak_bytes == before.peak_bytes ? idle + 1 : 0;
        if (high == 0 && costs_too_much(s))
            break;
        if (s->here.peak_bytes < peak) {
            peak = s->here.peak_bytes;
            lowest = e;
        }
    }
    while (low + exact < high && !is_over(s)) {
        uint32_t middle = (low + high) / 2;
        *(try_price(s, middle) ? &high : &low) = middle;
    }
    return high > 0 ? high : lowest;
}

/* --- weights ---------------------------------------------------------------------------------- */

static void make_whole(search *s) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n_slots; i++)
        sum += s->weight[i];
    for (uint32_t i = 0; i < s->n_slots; i++)
        s->weight[i] = (s->weight[i] << WHOLE) / sum;
}

/* All at the turn, but for a little. */
static void weigh_turn(search *s) {
    for (uint32_t i = 0; i < s->n_slots; i++)
        s->weight[i] = i == 0 ? 1 << 20 : (1 << 15) / s->n_slots + 1;
    make_whole(s);
}

/* As much as is live beyond the budget where nothing is recomputed. */
static void weigh_excess(search *s) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < s->n_slots; i++)
        most = s->given[i] > most ? s->given[i] : most;
    uint64_t unit = most / (1 << 16) + 1;
    for (uint32_t i = 0; i < s->n_slots; i++)
        s->weight[i] = 1 + (s->given[i] > s->budget ? (s->given[i] - s->budget) / unit : 0);
    make_whole(s);
}

/* Steps that have as much as the budget allows keep their weight. */
static void reweigh(search *s) {
    uint64_t allowed = (s->here.peak_bytes > s->budget ? s->budget : s->here.peak_bytes) / 1024 + 1;
    find_tops(s);
    for (uint32_t i = 0; i < s->n_slots; i++) {
        uint64_t ratio = s->top[i] / allowed;
        ratio = ratio > 2048 ? 2048 : ratio < 512 ? 512 : ratio;
        for (int k = 0; k < 4; k++)
            s->weight[i] = s->weight[i] * ratio >> 10;
        s->weight[i]++;
    }
    make_whole(s);
}

/* A number of stages, and weights to begin with. */
typedef struct trial {
    uint32_t n_stages, price;
    void (*weigh)(search *s);
    tc_remat_live live; /* the result */
    bool shares, done;  /* tc_remat_turn's; finely */
} trial;

static void begin_trial(search *s, const trial *t) {
    tc_remat_turn_stages(&s->turn, t->n_stages);
    s->turn.shares = t->shares;
    t->weigh(s);
    s->local = NOTHING_YET;
}

static void try_coarsely(search *s, trial *t, uint32_t from) {
    begin_trial(s, t);
    set_limit(s, 64);
    t->price = search_price(s, from, LAST_PRICE, COARSE / 64);
    t->live = s->local;
}

static void try_finely(search *s, const trial *t) {
    uint32_t e = t->price, idle = 0, back = 2 << FINE;
    begin_trial(s, t);
    set_limit(s, 8);
    search_price(s, e > COARSE ? e - COARSE : 0, e + COARSE, 16);
    while (idle++ < PATIENCE && !is_over(s)) {
        tc_remat_live before = s->local;
        try_price(s, e);
        if (s->n_steps == 0 || s->status != TC_REMAT_OK)
            return;
        reweigh(s);
        e = search_price(s, e > back ? e - back : 0, e + 2 * back < LAST_PRICE ? e + 2 * back : LAST_PRICE, 64);
        if (is_better(s, &s->local, &before))
            idle = 0;
    }
}

/* --- turns ------------------------------------------------------------------------------------ */

/* About the highest price that has led to nothing yet. */
static uint32_t find_first_price(search *s, uint64_t peak) {
    weigh_excess(s);
    uint32_t low = 0, high = LAST_PRICE;
    while (low + COARSE < high && !is_over(s)) {
        uint32_t middle = (low + high) / 2;
        try_price(s, middle);
        *(s->here.peak_bytes >= peak ? &low : &high) = middle;
    }
    return low;
}

static bool begin_turn(search *s, const uint32_t *steps, uint32_t n_steps, uint32_t at) {
    free(s->weight);
    free(s->price);
    free(s->top);
    free(s->given);
    s->n_slots = n_steps - at + 1;
    s->weight = malloc(s->n_slots * sizeof *s->weight);
    s->price = malloc(s->n_slots * sizeof *s->price);
    s->top = malloc(s->n_slots * sizeof *s->top);
    s->given = calloc(s->n_slots, sizeof *s->given);
    tc_remat_live live;
    if (!tc_remat_turn_make(&s->turn, s->problem, steps, n_steps, at) || !s->weight || !s->price || !s->top ||
        !s->given)
        s->status = TC_REMAT_MEMORY;
    else
        s->status = tc_remat_simulate(s->problem, steps, n_steps, s->live, &live);
    if (s->status == TC_REMAT_OK)
        memcpy(s->given, s->live + at, (n_steps - at) * sizeof *s->given);
    return s->status == TC_REMAT_OK;
}

#define KINDS 4 /* of trials of a number of stages */

static bool is_of_kind(const trial *t, uint32_t kind) {
    return t->shares == (kind < 2) && (t->weigh == weigh_excess) == (kind % 2 == 0);
}

/* Of those of a kind that are left. */
static trial *most_promising(const search *s, trial *trials, uint32_t n, uint32_t kind) {
    trial *best = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (!trials[i].done && is_of_kind(&trials[i], kind) && (!best || is_better(s, &trials[i].live, &best->live)))
            best = &trials[i];
    return best;
}

/* Nor are those tried that led to the same result. */
static void set_done(trial *trials, uint32_t n, const trial *one, uint32_t kind) {
    tc_remat_live live = one->live;
    for (uint32_t i = 0; i < n; i++)
        trials[i].done |= is_of_kind(&trials[i], kind) && trials[i].live.cost == live.cost &&
                          trials[i].live.peak_bytes == live.peak_bytes;
}

/* Numbers of stages, each about half as many again as the one before: first those in the middle, which fit soonest. */
static uint32_t list_stages(const search *s, uint32_t *numbers) {
    uint32_t n = 0, middle = 0, ladder[MOST_TRIALS / KINDS];
    for (uint32_t k = 1; k <= s->n_slots && n < MOST_TRIALS / KINDS; k += (k + 1) / 2) {
        middle = k <= USUAL_STAGES ? n : middle;
        ladder[n++] = k;
    }
    for (uint32_t i = 0, below = middle + 1, above = middle + 1; i < n;) {
        if (below > 0)
            numbers[i++] = ladder[--below];
        if (above < n)
            numbers[i++] = ladder[above++];
    }
    return n;
}

/* All trials coarsely, then the most promising more closely. */
static void search_trials(search *s) {
    trial trials[MOST_TRIALS];
    uint32_t numbers[MOST_TRIALS / KINDS], n_numbers = list_stages(s, numbers), n = 0, from = s->first_price;
    for (uint32_t k = 0; k < KINDS * n_numbers && s->work + s->turn.work < s->max_work / 2 && !is_stopped(s); k++) {
        trials[n] = (trial){
            .n_stages = numbers[k / KINDS], .shares = k % KINDS < 2, .weigh = k % 2 == 0 ? weigh_excess : weigh_turn};
        try_coarsely(s, &trials[n], from);
        /* The others fit at about the same price. */
        if (trials[n].live.peak_bytes <= s->budget && trials[n].price > from + 6 * COARSE)
            from = trials[n].price - 6 * COARSE;
        n++;
    }
    for (uint32_t k = 0; k < KINDS * n; k++) {
        set_limit(s, 1);
        if (is_over(s))
            break;
        trial *next = most_promising(s, trials, n, k % KINDS);
        if (next) {
            try_finely(s, next);
            set_done(trials, n, next, k % KINDS);
        }
    }
}

static void search_turn(search *s, const tc_remat_schedule *given, uint32_t at) {
    if (begin_turn(s, given->steps, given->n_steps, at)) {
        s->first_price = find_first_price(s, given->live.peak_bytes);
        search_trials(s);
    }
    s->work += s->turn.work;
    tc_remat_turn_free(&s->turn);
}

/* Where one turn is not enough, the schedule found for it has another. */
static void search_turns(search *s, uint32_t turn) {
    for (uint32_t level = 0; level < MOST_LEVELS && s->best.live.peak_bytes > s->budget; level++) {
        set_limit(s, 1);
        if (is_over(s))
            return;
        tc_remat_schedule from = {0};
        s->status = tc_remat_schedule_set(&from, &s->best);
        uint32_t at = level == 0 && turn != TC_REMAT_NONE ? turn : from.live.peak;
        if (s->status == TC_REMAT_OK)
            search_turn(s, &from, at);
        bool lower = s->best.live.peak_bytes < from.live.peak_bytes;
        tc_remat_schedule_free(&from);
        if (!lower)
            return;
    }
}

/* Up to three seconds or so. */
static uint64_t usual_work(uint32_t n_steps) {
    uint64_t work = 600000 + 150 * (uint64_t)n_steps;
    return work < 2500000 ? work : 2500000;
}

tc_remat_status tc_remat_prices(const tc_remat_problem *p, uint64_t budget, uint32_t turn, uint64_t work,
                                const volatile sig_atomic_t *stop, tc_remat_schedule *out) {
    *out = (tc_remat_schedule){0};
    tc_remat_schedule given = {(uint32_t *)p->steps, p->n_steps, {0}};
    if (turn != TC_REMAT_NONE && turn >= p->n_steps)
        return TC_REMAT_INVALID;
    if (p->n_steps > MOST_STEPS)
        return TC_REMAT_TOO_BIG;
    search s = {.problem = p,
                .budget = budget,
                .stop = stop,
                .max_work = work > 0 ? work : usual_work(p->n_steps),
                .max_steps = MORE_STEPS * p->n_steps + 64};
    s.status = tc_remat_simulate(p, p->steps, p->n_steps, NULL, &given.live);
    if (s.status != TC_REMAT_OK)
        return s.status;
    s.steps = malloc(s.max_steps * sizeof *s.steps);
    s.slots = malloc(s.max_steps * sizeof *s.slots);
    s.live = malloc(s.max_steps * sizeof *s.live);
    s.status = s.steps && s.slots && s.live ? tc_remat_schedule_set(&s.best, &given) : TC_REMAT_MEMORY;
    if (s.status == TC_REMAT_OK)
        search_turns(&s, turn);
    free(s.steps);
    free(s.slots);
    free(s.live);
    free(s.weight);
    free(s.price);
    free(s.top);
    free(s.given);
    if (s.status != TC_REMAT_OK)
        tc_remat_schedule_free(&s.best);
    *out = s.best;
    return s.status;
}
