/* test_remat_search.c: what the search finds, against every schedule of tiny problems, and what holds for its results
 * whatever the problem. */
#include "compiler/remat/remat.h"
#include "test/unit/remat_case.h"

static remat_case it;

/* --- every schedule of a tiny problem --------------------------------------------------------- */

typedef struct brute {
    uint32_t steps[12], n, longest;
    uint64_t budget, least_cost, least_peak;
} brute;

/* Appends steps in all ways, up to `longest`; none after which a node's results were there already unread would help,
 * but all are tried. */
static void try_all(brute *b, const bool *made, uint64_t cost) {
    const tc_remat_problem *p = &it.problem;
    if (!tc_remat_check_steps(p, b->steps, b->n)) {
        tc_remat_live live = case_live(p, b->steps, b->n);
        b->least_peak = live.peak_bytes < b->least_peak ? live.peak_bytes : b->least_peak;
        if (live.peak_bytes <= b->budget && live.cost < b->least_cost)
            b->least_cost = live.cost;
    }
    for (uint32_t n = 0; b->n < b->longest && n < p->n_nodes; n++) {
        bool ready = b->n == 0 || b->steps[b->n - 1] != n, now[CASE_MOST];
        for (uint32_t i = 0; i < p->nodes[n].n_inputs; i++)
            ready = ready && made[p->nodes[n].inputs[i]];
        if (!ready || cost + p->nodes[n].cost >= b->least_cost)
            continue;
        memcpy(now, made, sizeof now);
        for (uint32_t i = 0; i < p->nodes[n].n_outputs; i++)
            now[p->nodes[n].outputs[i]] = true;
        b->steps[b->n++] = n;
        try_all(b, now, cost + p->nodes[n].cost);
        b->n--;
    }
}

static void assert_outcome(const tc_remat_options *options, const tc_remat_outcome *o) {
    tc_remat_live live = case_live(&it.problem, o->best.steps, o->best.n_steps);
    uint32_t node;
    assert_int_equal(live.peak_bytes, o->best.live.peak_bytes);
    assert_int_equal(live.cost, o->best.live.cost);
    assert_int_equal(live.peak, o->best.live.peak);
    assert_int_equal(o->met, live.peak_bytes <= options->budget);
    assert_true(tc_remat_floor(&it.problem, &node) <= live.peak_bytes);
}

static tc_remat_outcome search(const tc_remat_options *options) {
    tc_remat_outcome outcome;
    assert_int_equal(tc_remat_search(&it.problem, options, &outcome), TC_REMAT_OK);
    assert_outcome(options, &outcome);
    return outcome;
}

TEST(against_all_schedules) {
    static const uint32_t kinds[] = {0, CASE_OVERS, CASE_WORKSPACES, CASE_SECOND | CASE_OVERS, CASE_PINNED, CASE_FORMS};
    uint32_t dearer = 0;
    for (uint32_t seed = 0; seed < 24; seed++) {
        case_generate(&it, seed, 5 + seed % 2, kinds[seed % 6]);
        tc_remat_live plain = case_live(&it.problem, it.steps, it.problem.n_steps);
        for (uint64_t part = 60; part < 100; part += 13) {
            bool made[CASE_MOST] = {0};
            brute b = {.longest = it.problem.n_steps + 2,
                       .budget = plain.peak_bytes * part / 100,
                       .least_cost = UINT64_MAX,
                       .least_peak = UINT64_MAX};
            try_all(&b, made, 0);
            tc_remat_outcome o = search(&(tc_remat_options){.budget = b.budget, .work = 60000, .seed = seed});
            /* More steps than all that were tried are allowed here. */
            assert_true(o.met || b.least_cost == UINT64_MAX);
            assert_true(!o.met || o.best.live.cost <= b.least_cost || o.best.live.cost <= plain.cost);
            dearer += o.met && o.best.live.cost > plain.cost;
            tc_remat_schedule_free(&o.best);
        }
    }
    assert_true(dearer > 3);
}

/* --- whatever the problem --------------------------------------------------------------------- */

TEST(fits_already) {
    for (uint32_t seed = 0; seed < 4; seed++) {
        case_generate(&it, seed, 60, CASE_ALL);
        tc_remat_live plain = case_live(&it.problem, it.steps, it.problem.n_steps);
        tc_remat_outcome o = search(&(tc_remat_options){.budget = plain.peak_bytes});
        assert_int_equal(o.best.n_steps, it.problem.n_steps);
        assert_memory_equal(o.best.steps, it.steps, it.problem.n_steps * sizeof *it.steps);
        assert_int_equal(o.work, 0);
        tc_remat_schedule_free(&o.best);
    }
}

static bool same(const tc_remat_outcome *a, const tc_remat_outcome *b) {
    return a->best.n_steps == b->best.n_steps && a->work == b->work &&
           memcmp(a->best.steps, b->best.steps, a->best.n_steps * sizeof *a->best.steps) == 0;
}

TEST(same_again) {
    uint32_t differ = 0;
    for (uint32_t seed = 0; seed < 4; seed++) {
        case_generate(&it, seed, 80, CASE_ALL);
        tc_remat_live plain = case_live(&it.problem, it.steps, it.problem.n_steps);
        tc_remat_options options = {.budget = plain.peak_bytes * 6 / 10, .work = 100000, .seed = 5};
        tc_remat_outcome a = search(&options), b = search(&options);
        assert_true(same(&a, &b));
        tc_remat_schedule_free(&b.best);
        options.seed = 6;
        b = search(&options);
        differ += !same(&a, &b);
        tc_remat_schedule_free(&a.best);
        tc_remat_schedule_free(&b.best);
    }
    assert_true(differ > 0);
}

/* With the schedules of tighter budgets to begin with no looser one costs more, and none has a higher peak. */
TEST(looser_is_no_dearer) {
    for (uint32_t seed = 0; seed < 3; seed++) {
        tc_remat_outcome outcomes[6] = {0};
        tc_remat_schedule beginnings[6];
        case_generate(&it, seed, 60, CASE_OVERS | CASE_WORKSPACES);
        tc_remat_live plain = case_live(&it.problem, it.steps, it.problem.n_steps);
        for (uint32_t i = 0; i < 6; i++) {
            outcomes[i] = search(&(tc_remat_options){.budget = plain.peak_bytes * (40 + 10 * i) / 100,
                                                     .work = 20000,
                                                     .beginnings = beginnings,
                                                     .n_beginnings = i});
            beginnings[i] = outcomes[i].best;
            assert_true(i == 0 || !outcomes[i - 1].met || outcomes[i].met);
            if (i > 0 && outcomes[i - 1].met)
                assert_true(outcomes[i].best.live.cost <= outcomes[i - 1].best.live.cost);
        }
        for (uint32_t i = 0; i < 6; i++)
            tc_remat_schedule_free(&outcomes[i].best);
    }
}

/* No run is left that nobody needs. */
TEST(nothing_in_vain) {
    for (uint32_t seed = 0; seed < 4; seed++) {
        uint32_t shorter[CASE_MOST * 4];
        case_generate(&it, seed, 50, CASE_ALL);
        tc_remat_live plain = case_live(&it.problem, it.steps, it.problem.n_steps);
        tc_remat_options options = {.budget = plain.peak_bytes * 6 / 10, .work = 60000};
        tc_remat_outcome o = search(&options);
        assert_true(o.best.n_steps < sizeof shorter / sizeof *shorter);
        for (uint32_t t = 0; o.met && t < o.best.n_steps; t++) {
            memcpy(shorter, o.best.steps, t * sizeof *shorter);
            memcpy(shorter + t, o.best.steps + t + 1, (o.best.n_steps - t - 1) * sizeof *shorter);
            if (!tc_remat_check_steps(&it.problem, shorter, o.best.n_steps - 1))
                assert_true(case_live(&it.problem, shorter, o.best.n_steps - 1).peak_bytes > options.budget);
        }
        tc_remat_schedule_free(&o.best);
    }
}

/* Where nothing is an output the best schedule is empty. */
TEST(nothing_asked_for) {
    for (uint32_t seed = 0; seed < 8; seed++) {
        case_generate(&it, seed, 30, CASE_ALL - CASE_PINNED);
        for (uint32_t v = 0; v < it.problem.n_values; v++)
            it.values[v].is_output = false;
        for (uint32_t n = 0; n < it.problem.n_nodes; n++)
            it.nodes[n].cost++;
        tc_remat_outcome o = search(&(tc_remat_options){.budget = 1, .work = 20000, .seed = seed});
        assert_true(o.met);
        assert_int_equal(o.best.n_steps, 0);
        tc_remat_schedule_free(&o.best);
    }
}

TEST(stops) {
    volatile sig_atomic_t stop = 1;
    case_generate(&it, 3, 100, 0);
    tc_remat_outcome o = search(&(tc_remat_options){.budget = 1, .stop = &stop});
    assert_true(o.stopped && !o.met && !o.timed_out);
    tc_remat_schedule_free(&o.best);
    o = search(&(tc_remat_options){.budget = 1, .seconds = 0.02});
    assert_true(o.timed_out && !o.met && !o.stopped);
    tc_remat_schedule_free(&o.best);
}

static void count_reports(void *user, const tc_remat_progress *progress) {
    assert_true(progress->work <= progress->of_work + 2000 * 20);
    assert_non_null(progress->phase);
    ++*(int *)user;
}

TEST(tells_how_far) {
    int reports = 0;
    case_generate(&it, 3, 50, 0);
    tc_remat_outcome o =
        search(&(tc_remat_options){.budget = 1, .work = 20000, .progress = count_reports, .user = &reports});
    assert_true(reports > 2);
    tc_remat_schedule_free(&o.best);
}

TEST(refused) {
    tc_remat_outcome o;
    tc_remat_schedule wrong = {(uint32_t[]){0}, 1, {0}};
    case_generate(&it, 3, 10, 0);
    tc_remat_options options = {.budget = 1, .beginnings = &wrong, .n_beginnings = 1};
    assert_int_equal(tc_remat_search(&it.problem, &options, &o), TC_REMAT_INVALID);
    assert_null(o.best.steps);
    it.values[0].bytes = UINT64_MAX;
    assert_int_equal(tc_remat_search(&it.problem, &options, &o), TC_REMAT_TOO_BIG);
    it.problem.n_steps = 0;
    assert_int_equal(tc_remat_search(&it.problem, &options, &o), TC_REMAT_INVALID);
    case_begin(&it);
    options.n_beginnings = 0;
    assert_int_equal(tc_remat_search(&it.problem, &options, &o), TC_REMAT_OK);
    assert_int_equal(o.best.n_steps, 0);
    tc_remat_schedule_free(&o.best);
}
