/* test_remat_prices.c: cuts and choices that no other beats, found by trying all on small problems; schedules on
 * generated training graphs that pass the checker, fit and cost no more than a knapsack over the layers. */
#include "bench/remat/remat_graphs.h"
#include "bench/remat/remat_knapsack.h"
#include "compiler/remat/remat.h"
#include "test/unit/random_below.h"
#include "test/unit/remat_case.h"

static uint32_t state = 1;
static uint32_t next(uint32_t below) { return random_below(&state, below); }

/* --- cuts ------------------------------------------------------------------------------------- */

#define VERTICES 8
#define EDGES 20

typedef struct edge {
    uint32_t from, to;
    uint64_t capacity;
} edge;

/* What it costs when vertex i is on the source's side where bit i of `side` is set. */
static uint64_t cut_cost(const edge *edges, uint32_t n, uint32_t side) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((side >> edges[i].from & 1) && !(side >> edges[i].to & 1))
            sum += edges[i].capacity;
    return sum;
}

TEST(no_cut_is_cheaper) {
    tc_cut cut = {0};
    for (int round = 0; round < 300; round++) {
        edge edges[EDGES];
        uint32_t n = next(EDGES + 1), side = 0;
        assert_true(tc_cut_begin(&cut, VERTICES, n));
        for (uint32_t i = 0; i < n; i++) {
            edges[i] = (edge){next(VERTICES), next(VERTICES), next(4) == 0 ? 0 : next(100)};
            tc_cut_edge(&cut, edges[i].from, edges[i].to, edges[i].capacity);
        }
        uint64_t found = tc_cut_find(&cut, 0, VERTICES - 1), best = UINT64_MAX;
        for (uint32_t v = 0; v < VERTICES; v++)
            side |= (uint32_t)!tc_cut_is_behind(&cut, v) << v;
        for (uint32_t other = 1; other < 1u << (VERTICES - 1); other += 2) {
            uint64_t cost = cut_cost(edges, n, other);
            best = cost < best ? cost : best;
        }
        assert_int_equal(found, best);
        assert_int_equal(cut_cost(edges, n, side), best);
        assert_true((side & 1) && !(side >> (VERTICES - 1)));
    }
    tc_cut_free(&cut);
}

/* --- choices ---------------------------------------------------------------------------------- */

#define BEFORE 9 /* nodes before the turn, each with one result, the value of its number */

/* What keeping these values costs at a price for each unit, and running again what is needed then; or UINT64_MAX. */
static uint64_t choice_cost(const remat_case *c, const tc_remat_turn *t, uint32_t kept, uint64_t price,
                            uint32_t needed) {
    uint64_t sum = 0;
    for (uint32_t v = BEFORE; v-- > 0;) {
        if (!(needed >> v & 1))
            continue;
        if (kept >> v & 1) {
            sum += (t->bytes[v] * price) >> 16;
            continue;
        }
        if (c->nodes[v].pinned)
            return UINT64_MAX;
        sum += t->cost[v];
        for (uint32_t i = 0; i < c->nodes[v].n_inputs; i++)
            needed |= 1u << c->nodes[v].inputs[i];
    }
    return sum;
}

static uint32_t random_list(uint32_t below, uint32_t *list) {
    uint32_t n = 0;
    for (uint32_t v = 0; v < below; v++)
        if (next(below) < 2)
            list[n++] = v;
    return n;
}

/* Some nodes, and behind them one that reads some of their results. Returns what it reads. */
static uint32_t random_before(remat_case *c) {
    uint32_t list[BEFORE], needed = 0, n;
    case_begin(c);
    for (uint32_t v = 0; v <= BEFORE; v++)
        case_value(c, 1 + next(50));
    for (uint32_t v = 0; v < BEFORE; v++) {
        n = random_list(v, list);
        case_node(c, next(60), list, n, &v, 1);
        c->nodes[v].pinned = next(8) == 0;
    }
    n = random_list(BEFORE, list);
    for (uint32_t i = 0; i < n; i++)
        needed |= 1u << list[i];
    case_node(c, 1, list, n, &(uint32_t){BEFORE}, 1);
    c->values[BEFORE].is_output = true;
    assert_null(tc_remat_check(&c->problem));
    return needed;
}

static remat_case it;

TEST(no_choice_is_cheaper) {
    uint32_t mixed = 0;
    for (int round = 0; round < 200; round++) {
        uint32_t needed = random_before(&it), kept = 0, steps[64], slots[64];
        tc_remat_turn t;
        assert_true(tc_remat_turn_make(&t, &it.problem, it.steps, BEFORE + 1, BEFORE));
        uint64_t price[2] = {(uint64_t)next(1 << 12) << 14, 0}, best = UINT64_MAX;
        price[1] = price[0];
        t.shares = round % 2;
        assert_true(tc_remat_turn_choose(&t, price));
        for (uint32_t v = 0; v < BEFORE; v++)
            kept |= (uint32_t)(t.kept[v] > 0) << v;
        for (uint32_t other = 0; other < 1u << BEFORE; other++) {
            uint64_t cost = choice_cost(&it, &t, other, price[0], needed);
            best = cost < best ? cost : best;
        }
        assert_int_equal(choice_cost(&it, &t, kept, price[0], needed), best);
        uint32_t n = tc_remat_turn_build(&t, steps, slots, 64);
        case_live(&it.problem, steps, n);
        mixed += kept != 0 && n > BEFORE + 1;
        tc_remat_turn_free(&t);
    }
    assert_true(mixed > 10);
}

TEST(stages_lie_side_by_side) {
    remat_graph g;
    tc_remat_turn t;
    graph_transformer(&g, &(transformer){.layers = 5, .batch = 2, .length = 64, .width = 64, .heads = 4});
    assert_true(tc_remat_turn_make(&t, &g.problem, g.steps, g.problem.n_steps, g.turn));
    for (uint32_t n = 1; n < 300; n++) {
        tc_remat_turn_stages(&t, n);
        assert_in_range(t.n_stages, 1, n);
        assert_int_equal(t.stage[g.turn], 0);
        assert_int_equal(t.stage[g.problem.n_steps], t.n_stages - 1);
        for (uint32_t s = g.turn + 1; s <= g.problem.n_steps; s++)
            assert_in_range(t.stage[s], t.stage[s - 1], t.stage[s - 1] + 1);
    }
    /* A layer's backward pass has 40 steps and reads what its forward pass made: nothing else does. */
    tc_remat_turn_stages(&t, 5);
    assert_int_equal(t.n_stages, 5);
    for (uint32_t l = 1; l < 5; l++)
        assert_in_range(t.stage[g.turn + 1 + 40 * l] - t.stage[g.turn - 4 + 40 * l], 1, 1);
    tc_remat_turn_free(&t);
    graph_free(&g);
}

/* --- schedules -------------------------------------------------------------------------------- */

static tc_remat_schedule prices(const remat_graph *g, uint64_t budget, uint64_t work) {
    tc_remat_schedule found, twice;
    assert_int_equal(tc_remat_prices(&g->problem, budget, TC_REMAT_NONE, work, NULL, &found), TC_REMAT_OK);
    tc_remat_live live = case_live(&g->problem, found.steps, found.n_steps);
    assert_int_equal(live.peak_bytes, found.live.peak_bytes);
    assert_int_equal(live.peak, found.live.peak);
    assert_int_equal(live.cost, found.live.cost);
    assert_int_equal(tc_remat_prices(&g->problem, budget, TC_REMAT_NONE, work, NULL, &twice), TC_REMAT_OK);
    assert_int_equal(found.n_steps, twice.n_steps);
    assert_memory_equal(found.steps, twice.steps, found.n_steps * sizeof *found.steps);
    tc_remat_schedule_free(&twice);
    return found;
}

/* Returns the cost at `part` of the peak, in thousandths of the given schedule's. */
static uint64_t cost_at(const remat_graph *g, uint64_t percent) {
    assert_null(tc_remat_check(&g->problem));
    tc_remat_live given = case_live(&g->problem, g->steps, g->problem.n_steps);
    tc_remat_schedule found = prices(g, given.peak_bytes / 100 * percent, 60000);
    assert_true(found.live.peak_bytes <= given.peak_bytes / 100 * percent);
    uint64_t cost = found.live.cost * 1000 / given.cost;
    tc_remat_schedule_free(&found);
    return cost;
}

TEST(transformers) {
    for (int i = 0; i < 4; i++) {
        transformer shape = {.layers = 6, .batch = 8, .length = 256, .width = 512, .heads = 8};
        shape.overs = i & 1;
        shape.unit_costs = i & 2;
        remat_graph g;
        graph_transformer(&g, &shape);
        uint64_t peak = case_live(&g.problem, g.steps, g.n_nodes).peak_bytes, whole = 0;
        for (uint32_t n = 0; n < g.n_nodes; n++)
            whole += g.nodes[n].cost;
        for (uint64_t percent = 40; percent <= 80; percent += 20) {
            uint64_t reference = knapsack_cost(&g, &shape, peak / 100 * percent) * 1000 / whole;
            assert_in_range(cost_at(&g, percent), 1000, reference + 10);
        }
        graph_free(&g);
    }
}

TEST(other_forms_save_more) {
    transformer shape = {.layers = 4, .batch = 8, .length = 512, .width = 512, .heads = 8};
    remat_graph plain, forms;
    graph_transformer(&plain, &shape);
    shape.forms = true;
    graph_transformer(&forms, &shape);
    assert_int_equal(forms.n_nodes, plain.n_nodes + 8);
    assert_int_equal(forms.problem.n_steps, plain.n_nodes);
    uint64_t costs[2] = {0, 0};
    for (uint64_t percent = 40; percent <= 80; percent += 20) {
        costs[0] += cost_at(&plain, percent);
        costs[1] += cost_at(&forms, percent);
    }
    assert_true(costs[1] + 15 < costs[0]);
    graph_free(&plain);
    graph_free(&forms);
}

TEST(convolutions) {
    remat_graph g;
    graph_convolutions(&g, 4, 3, false);
    assert_in_range(cost_at(&g, 60), 1000, 1020);
    assert_in_range(cost_at(&g, 35), 1000, 1050);
    graph_free(&g);
    graph_convolutions(&g, 4, 3, true);
    assert_in_range(cost_at(&g, 60), 1000, 1020);
    assert_in_range(cost_at(&g, 35), 1000, 1080);
    graph_free(&g);
}

/* Not all of these fit; what is found is no worse than what was given, and right. */
TEST(random_graphs) {
    for (uint32_t seed = 1; seed <= 6; seed++) {
        remat_graph g;
        graph_random(&g, 60 * seed, 4 * seed, seed);
        assert_null(tc_remat_check(&g.problem));
        for (uint32_t n = 0; n < g.n_nodes; n += 7)
            g.nodes[n].pinned = seed % 2 == 0;
        uint64_t peak = case_live(&g.problem, g.steps, g.n_nodes).peak_bytes;
        for (uint64_t percent = 95; percent > 0; percent = percent > 45 ? percent - 30 : 0) {
            tc_remat_schedule found = prices(&g, peak / 100 * percent, 20000);
            assert_true(found.live.peak_bytes <= peak);
            tc_remat_schedule_free(&found);
        }
        graph_free(&g);
    }
}

TEST(what_fits_stays) {
    remat_graph g;
    graph_convolutions(&g, 2, 1, false);
    uint64_t peak = case_live(&g.problem, g.steps, g.n_nodes).peak_bytes;
    tc_remat_schedule found = prices(&g, peak, 0);
    assert_int_equal(found.n_steps, g.n_nodes);
    assert_memory_equal(found.steps, g.steps, g.n_nodes * sizeof *g.steps);
    tc_remat_schedule_free(&found);
    found = prices(&g, peak - 1, 0);
    assert_true(found.live.peak_bytes < peak && found.n_steps > g.n_nodes);
    tc_remat_schedule_free(&found);
    assert_int_equal(tc_remat_prices(&g.problem, peak / 2, g.turn, 0, NULL, &found), TC_REMAT_OK);
    assert_null(tc_remat_check_steps(&g.problem, found.steps, found.n_steps));
    tc_remat_schedule_free(&found);
    assert_int_equal(tc_remat_prices(&g.problem, 0, g.n_nodes, 0, NULL, &found), TC_REMAT_INVALID);
    assert_int_equal(tc_remat_prices(&g.problem, 0, g.n_nodes - 1, 0, NULL, &found), TC_REMAT_OK);
    tc_remat_schedule_free(&found);
    graph_free(&g);
}

/* Whoever stops the search before it began gets the given schedule. */
TEST(stops) {
    volatile sig_atomic_t stop = 1;
    remat_graph g;
    tc_remat_schedule found;
    graph_convolutions(&g, 2, 1, false);
    assert_int_equal(tc_remat_prices(&g.problem, 1, g.turn, UINT64_C(1) << 50, &stop, &found), TC_REMAT_OK);
    assert_int_equal(found.n_steps, g.n_nodes);
    assert_memory_equal(found.steps, g.steps, g.n_nodes * sizeof *g.steps);
    tc_remat_schedule_free(&found);
    graph_free(&g);
}
