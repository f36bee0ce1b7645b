/* test_remat_state.c: a state that steps are put into and taken out of at random counts what the checker counts, its
 * schedules stay valid, and what is taken back leaves no trace. */
#include "compiler/remat/remat.h"
#include "test/unit/remat_case.h"

static remat_case it;

/* Everything in a state but what nobody reads: the index of an empty slot. */
typedef struct picture {
    uint32_t *numbers;
    size_t n, room;
} picture;

static void draw(picture *p, const void *what, size_t bytes) {
    size_t n = bytes / sizeof *p->numbers;
    if (p->n + n > p->room) {
        p->room = 2 * (p->n + n);
        p->numbers = realloc(p->numbers, p->room * sizeof *p->numbers);
        assert_non_null(p->numbers);
    }
    if (n > 0)
        memcpy(p->numbers + p->n, what, bytes);
    p->n += n;
}

static void draw_state(picture *p, const tc_remat_state *s) {
    p->n = 0;
    draw(p, s->slots, s->n_slots * sizeof *s->slots);
    draw(p, s->steps, s->n_steps * sizeof *s->steps);
    for (uint32_t i = 0; i < s->n_steps; i++)
        draw(p, &s->index[s->steps[i]], sizeof *s->index);
    draw(p, s->runs, s->problem->n_nodes * sizeof *s->runs);
    for (uint32_t v = 0; v < s->problem->n_values; v++) {
        draw(p, &s->made[v].n, sizeof s->made[v].n);
        draw(p, s->made[v].at, s->made[v].n * sizeof *s->made[v].at);
        draw(p, &s->used[v].n, sizeof s->used[v].n);
        draw(p, s->used[v].at, s->used[v].n * sizeof *s->used[v].at);
    }
    if (s->laid)
        draw(p, s->laid, s->n_slots * sizeof *s->laid);
    draw(p, s->tree, 2 * s->n_slots * sizeof *s->tree);
    draw(p, &s->cost, sizeof s->cost);
}

static void assert_counted(const tc_remat_state *s) {
    uint32_t *steps = malloc((s->n_steps + 1) * sizeof *steps), at = 0;
    assert_non_null(steps);
    tc_remat_state_steps(s, steps);
    tc_remat_live live = case_live(s->problem, steps, s->n_steps);
    assert_int_equal(live.peak_bytes, tc_remat_peak(s));
    assert_int_equal(live.cost, s->cost);
    for (uint32_t slot = 0; slot < tc_remat_peak_slot(s); slot++)
        at += s->slots[slot] != TC_REMAT_NONE;
    assert_int_equal(live.peak, at);
    free(steps);
}

static tc_remat_options options;
static const tc_remat_course way = {.power = 4, .anchored = 128};

static void begin(tc_remat_walk *w, uint64_t seed) {
    assert_null(tc_remat_check(&it.problem));
    options.seed = seed;
    assert_int_equal(tc_remat_walk_init(w, &it.problem, &options), TC_REMAT_OK);
    assert_int_equal(tc_remat_walk_from(w, it.steps, it.problem.n_steps), TC_REMAT_OK);
    assert_counted(&w->state);
}

/* Moves that are all kept while the schedule is short of twice its length: far from what annealing would see. */
static void wander(uint32_t seed, uint32_t n_nodes, uint32_t kinds, uint32_t moves) {
    picture before = {0}, after = {0};
    tc_remat_walk w;
    case_generate(&it, seed, n_nodes, kinds);
    begin(&w, seed);
    for (uint32_t i = 0; i < moves; i++) {
        bool look = i % 100 == 0;
        if (look)
            draw_state(&before, &w.state);
        double most = w.state.n_steps < 2 * n_nodes ? 1e18 : (double)w.state.cost;
        if (!tc_remat_move(&w, &way, most))
            continue;
        if (look || tc_remat_below(&w.random, 2) == 0) {
            tc_remat_undo(&w.state);
            if (look) {
                draw_state(&after, &w.state);
                assert_int_equal(before.n, after.n);
                assert_memory_equal(before.numbers, after.numbers, before.n * sizeof *before.numbers);
            }
        } else {
            tc_remat_keep(&w.state);
        }
        if (i % 1000 < 2 || i < 100)
            assert_counted(&w.state);
    }
    assert_counted(&w.state);
    assert_false(w.state.out_of_memory);
    tc_remat_walk_free(&w);
    free(before.numbers);
    free(after.numbers);
}

TEST(wanders) {
    options.fixed_order = false;
    for (uint32_t seed = 0; seed < 16; seed++)
        wander(seed, 4 + 8 * seed, seed * 2 + (seed & 1), 8000);
    wander(99, 150, CASE_ALL, 20000);
}

/* Every single change of a tiny schedule: what may be done is what the checker allows. */
TEST(what_may_be_done) {
    uint32_t slots[64], steps[64], n;
    for (uint32_t seed = 0; seed < 60; seed++) {
        tc_remat_walk w;
        case_generate(&it, seed, 6, CASE_ALL - CASE_PINNED);
        begin(&w, seed);
        for (uint32_t i = 0; i < 40; i++) {
            if (tc_remat_move(&w, &way, 1e18))
                tc_remat_keep(&w.state);
            tc_remat_state *s = &w.state;
            if (s->n_steps > 20)
                break;
            memcpy(slots, s->steps, s->n_steps * sizeof *slots);
            for (uint32_t k = 0, of = s->n_steps; k < of; k++) {
                bool removable = tc_remat_removable(s, slots[k]);
                tc_remat_put(s, slots[k], TC_REMAT_NONE);
                n = s->n_steps;
                tc_remat_state_steps(s, steps);
                assert_int_equal(removable, tc_remat_check_steps(&it.problem, steps, n) == NULL);
                tc_remat_undo(s);
            }
        }
        assert_counted(&w.state);
        tc_remat_walk_free(&w);
    }
}

static void assert_first_runs_in_order(const tc_remat_state *s) {
    uint32_t seen[CASE_MOST] = {0}, at = 0;
    for (uint32_t slot = 0; slot < s->n_slots; slot++) {
        uint32_t node = s->slots[slot];
        if (node == TC_REMAT_NONE || seen[node]++)
            continue;
        while (at < it.problem.n_steps && it.steps[at] != node)
            at++;
        assert_true(at < it.problem.n_steps);
    }
}

TEST(fixed_order) {
    options.fixed_order = true;
    for (uint32_t seed = 0; seed < 8; seed++) {
        tc_remat_walk w;
        case_generate(&it, seed, 40, CASE_OVERS | CASE_SECOND);
        begin(&w, seed);
        for (uint32_t i = 0; i < 4000; i++) {
            if (tc_remat_move(&w, &way, w.state.n_steps < 100 ? 1e18 : (double)w.state.cost))
                tc_remat_keep(&w.state);
            if (i % 200 == 0)
                assert_first_runs_in_order(&w.state);
        }
        assert_counted(&w.state);
        assert_true(w.state.n_steps > 45);
        tc_remat_walk_free(&w);
    }
    options.fixed_order = false;
}

/* Bytes near 2^61, a reader more than a chunk of any kind, values of no bytes. */
TEST(extremes) {
    case_begin(&it);
    uint32_t v = case_value(&it, UINT64_C(1) << 61);
    case_node(&it, UINT64_C(1) << 50, NOTHING, LIST(v));
    for (uint32_t i = 0; i < 300; i++)
        case_node(&it, 0, LIST(v), LIST(case_value(&it, i % 2)));
    tc_remat_walk w;
    begin(&w, 1);
    assert_int_equal(tc_remat_peak(&w.state), (UINT64_C(1) << 61) + 1);
    for (uint32_t i = 0; i < 2000; i++)
        if (tc_remat_move(&w, &way, 1e16))
            tc_remat_keep(&w.state);
    assert_counted(&w.state);
    tc_remat_walk_free(&w);
}

/* Where nothing is an output no step is needed: moves that make nothing dearer leave none, and then there is none. */
TEST(nothing_left) {
    for (uint32_t anchored = 0; anchored <= 256; anchored += 256) {
        tc_remat_course course = {.power = 4, .anchored = anchored};
        tc_remat_walk w;
        case_generate(&it, 5, 20, CASE_OVERS | CASE_FORMS);
        for (uint32_t v = 0; v < it.problem.n_values; v++)
            it.values[v].is_output = false;
        for (uint32_t n = 0; n < it.problem.n_nodes; n++)
            it.nodes[n].cost++;
        begin(&w, 1);
        for (uint32_t i = 0; i < 20000; i++) {
            bool empty = w.state.n_steps == 0, moved = tc_remat_move(&w, &course, (double)w.state.cost);
            assert_false(empty && moved);
            tc_remat_keep(&w.state);
        }
        assert_int_equal(w.state.n_steps, 0);
        assert_counted(&w.state);
        tc_remat_walk_free(&w);
    }
}

/* Against values of glibc to sixteen digits. */
TEST(exp_and_log) {
    static const double exps[][2] = {{0, 1},
                                     {1, 2.718281828459045},
                                     {-1, 0.3678794411714423},
                                     {20, 485165195.4097903},
                                     {-34.5, 1.039538011670222e-15}};
    for (size_t i = 0; i < sizeof exps / sizeof *exps; i++) {
        double x = exps[i][0], y = exps[i][1], e = tc_remat_exp(x) / y - 1, l = tc_remat_log(y) - x;
        assert_true(e < 1e-12 && e > -1e-12);
        assert_true(l < 1e-12 && l > -1e-12);
    }
    assert_true(tc_remat_exp(-800) == 0);
    assert_true(tc_remat_exp(800) < 1e305);
}
