/* test_remat.c: what schedules take, counted by hand; problems and schedules that are refused, and for what; floors
 * that are reached. */
#include "compiler/remat/remat.h"
#include "test/unit/remat_case.h"

static remat_case it;

/* a -> b -> c -> d(b), e(a): a network of two layers with its backward pass, in which a and b wait. */
static void chain(void) {
    case_begin(&it);
    for (uint64_t bytes = 10; bytes <= 14; bytes++)
        case_value(&it, bytes);
    case_node(&it, 1, NOTHING, LIST(0));
    case_node(&it, 2, LIST(0), LIST(1));
    case_node(&it, 4, LIST(1), LIST(2));
    case_node(&it, 8, LIST(1, 2), LIST(3));
    case_node(&it, 16, LIST(0, 3), LIST(4));
    it.values[4].is_output = true;
    assert_null(tc_remat_check(&it.problem));
}

static void assert_live(const uint32_t *steps, size_t n_steps, const uint64_t *expected, size_t n_expected,
                        uint64_t cost) {
    uint64_t live[CASE_MOST];
    tc_remat_live total;
    uint32_t peak = 0;
    assert_null(tc_remat_check_steps(&it.problem, steps, (uint32_t)n_steps));
    assert_int_equal(tc_remat_simulate(&it.problem, steps, (uint32_t)n_steps, live, &total), TC_REMAT_OK);
    assert_int_equal(n_steps, n_expected);
    for (size_t t = 0; t < n_steps; t++) {
        assert_int_equal(live[t], expected[t]);
        if (live[t] > live[peak])
            peak = (uint32_t)t;
    }
    assert_int_equal(total.peak, peak);
    assert_int_equal(total.peak_bytes, live[peak]);
    assert_int_equal(total.cost, cost);
}

#define BYTES(...) (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)

TEST(counted_by_hand) {
    chain();
    assert_live(LIST(0, 1, 2, 3, 4), BYTES(10, 21, 33, 46, 37), 31);
    assert_live(LIST(0, 1, 2, 3, 0, 4), BYTES(10, 21, 23, 36, 23, 37), 32);
    /* What nobody reads is live in its step alone; what is read is the last one made. */
    assert_live(LIST(0, 0, 1, 2, 3, 4), BYTES(10, 10, 21, 33, 46, 37), 32);
    it.nodes[2].workspace = 100;
    assert_live(LIST(0, 1, 2, 3, 4), BYTES(10, 21, 133, 46, 37), 31);
}

TEST(outputs_stay) {
    chain();
    it.values[1].is_output = true;
    assert_live(LIST(0, 1, 2, 3, 4), BYTES(10, 21, 33, 46, 48), 31);
    /* Only the last production has to. */
    assert_live(LIST(0, 1, 2, 3, 1, 4), BYTES(10, 21, 33, 46, 34, 48), 33);
}

TEST(results_over_operands) {
    chain();
    case_over(&it, 0, 4, 10);
    case_over(&it, 3, 4, 13); /* not any more: 4 bytes of the result are left */
    assert_live(LIST(0, 1, 2, 3, 4), BYTES(10, 21, 33, 46, 27), 31);
    it.values[4].bytes = 23;
    assert_live(LIST(0, 1, 2, 3, 4), BYTES(10, 21, 33, 46, 23), 31);
    /* An operand that has to be there at the end is not written over, one that is made again is. */
    it.values[0].is_output = true;
    assert_live(LIST(0, 1, 2, 3, 4), BYTES(10, 21, 33, 46, 33), 31);
    assert_live(LIST(0, 1, 2, 3, 4, 0), BYTES(10, 21, 33, 46, 23, 33), 32);
}

TEST(forms) {
    chain();
    case_node(&it, 3, LIST(0, 2), LIST(3)); /* 5: value 3 without value 1 */
    it.problem.n_steps--;
    assert_null(tc_remat_check(&it.problem));
    assert_live(LIST(0, 1, 2, 5, 4), BYTES(10, 21, 33, 35, 37), 26);
    uint32_t node;
    assert_int_equal(tc_remat_floor(&it.problem, &node), 10 + 13 + 14);
    it.nodes[3].workspace = it.nodes[5].workspace = 10;
    assert_int_equal(tc_remat_floor(&it.problem, &node), 10 + 12 + 13 + 10);
    assert_int_equal(node, 5);
    /* Both ways read value 2: node 2 runs in any case. Value 1 is no result of node 5. */
    it.nodes[2].workspace = 50;
    assert_int_equal(tc_remat_floor(&it.problem, &node), 11 + 12 + 50);
    assert_int_equal(node, 2);
}

TEST(floor) {
    uint32_t node;
    chain();
    assert_int_equal(tc_remat_floor(&it.problem, &node), 37);
    assert_int_equal(node, 4);
    case_over(&it, 0, 4, 10);
    assert_int_equal(tc_remat_floor(&it.problem, &node), 36);
    assert_int_equal(node, 3);
    for (int v = 0; v < 4; v++)
        it.values[v].is_output = true;
    assert_int_equal(tc_remat_floor(&it.problem, &node), 10 + 11 + 12 + 13 + 14);
    assert_int_equal(node, TC_REMAT_NONE);
}

TEST(refused_problems) {
    chain();
    it.nodes[1].inputs = (const uint32_t[]){7};
    assert_string_equal(tc_remat_check(&it.problem), "a node has a value that does not exist");
    chain();
    it.nodes[1].inputs = (const uint32_t[]){1};
    assert_string_equal(tc_remat_check(&it.problem), "a node has a value twice");
    chain();
    case_over(&it, 1, 4, 1);
    assert_string_equal(tc_remat_check(&it.problem), "a node writes a result over an operand that are none of its own");
    chain();
    case_over(&it, 0, 4, 11);
    assert_string_equal(tc_remat_check(&it.problem), "a node writes more over an operand than there is");
    chain();
    it.values[2].bytes = UINT64_C(1) << 62;
    tc_remat_live live;
    assert_int_equal(tc_remat_simulate(&it.problem, it.steps, 5, NULL, &live), TC_REMAT_TOO_BIG);
    it.values[2].bytes = (UINT64_C(1) << 62) - 1 - 10 - 11 - 13 - 14;
    assert_int_equal(tc_remat_simulate(&it.problem, it.steps, 5, NULL, &live), TC_REMAT_OK);
    it.nodes[0].cost = (UINT64_C(1) << 62) - 30;
    assert_int_equal(tc_remat_simulate(&it.problem, it.steps, 5, NULL, &live), TC_REMAT_TOO_BIG);
}

static const char *wrong_steps(const uint32_t *steps, size_t n_steps) {
    return tc_remat_check_steps(&it.problem, steps, (uint32_t)n_steps);
}

TEST(refused_schedules) {
    chain();
    assert_string_equal(wrong_steps(LIST(0, 2, 1, 3, 4)), "a step reads a value that is not made before it");
    assert_string_equal(wrong_steps(LIST(0, 1, 2, 3)), "an output is never made");
    assert_string_equal(wrong_steps(LIST(0, 1, 2, 3, 5)), "a step runs a node that does not exist");
    it.nodes[2].pinned = true;
    assert_null(wrong_steps(LIST(0, 1, 2, 1, 3, 4)));
    assert_string_equal(wrong_steps(LIST(0, 1, 2, 2, 3, 4)),
                        "pinned nodes run in another order than in the given schedule");
    it.nodes[1].pinned = true;
    case_node(&it, 1, LIST(0), LIST(2));
    assert_null(tc_remat_check(&it.problem));
    assert_string_equal(wrong_steps(LIST(0, 5, 1, 3, 4)),
                        "pinned nodes run in another order than in the given schedule");
    it.problem.n_steps--;
    it.nodes[5].pinned = true;
    assert_string_equal(tc_remat_check(&it.problem), "a pinned node does not run");
    chain();
    it.nodes[0].pinned = true;
    it.steps[5] = 0;
    it.problem.n_steps = 6;
    assert_string_equal(tc_remat_check(&it.problem), "a pinned node runs twice");
}

TEST(given_schedule_fits) {
    chain();
    tc_remat_options options = {.budget = 46};
    tc_remat_outcome outcome;
    assert_int_equal(tc_remat_search(&it.problem, &options, &outcome), TC_REMAT_OK);
    assert_true(outcome.met);
    assert_int_equal(outcome.best.n_steps, 5);
    assert_memory_equal(outcome.best.steps, it.steps, 5 * sizeof *it.steps);
    tc_remat_schedule_free(&outcome.best);
}
