/* test_plan_exact.c: the exact search against the best of all packings of small problems, found by trying every order,
 * and on rectangles cut into buffers, which some packing fills; what it places overlaps nowhere. */
#include "test/unit/cases.h"
#include "compiler/pack/pack.h"
#include "test/unit/random_below.h"
#include "test/unit/resident.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint32_t state = 1;
static uint32_t next(uint32_t below) { return random_below(&state, below); }

#define STEPS 7
#define SMALL 6

static bool meet(const tc_exact_item *a, const tc_exact_item *b) { return a->first <= b->last && b->first <= a->last; }

/* The least top of all orders, each buffer on what it meets of those before it: every packing sinks into one of these.
 */
static uint64_t least_top(const tc_exact_item *items, uint32_t n, uint32_t *order, uint64_t *places, uint32_t placed,
                          uint64_t top) {
    uint64_t least = UINT64_MAX;
    if (placed == n)
        return top;
    for (uint32_t i = placed; i < n; i++) {
        uint32_t index = order[i];
        uint64_t at = 0;
        order[i] = order[placed];
        order[placed] = index;
        for (uint32_t k = 0; k < placed; k++)
            if (meet(&items[index], &items[order[k]]) && places[order[k]] + items[order[k]].bytes > at)
                at = places[order[k]] + items[order[k]].bytes;
        places[index] = at;
        uint64_t end = at + items[index].bytes;
        uint64_t found = least_top(items, n, order, places, placed + 1, end > top ? end : top);
        least = found < least ? found : least;
        order[placed] = order[i];
        order[i] = index;
    }
    return least;
}

static void small_problem(tc_exact_item *items, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = next(STEPS), last = first + next(STEPS - first);
        items[i] = (tc_exact_item){i, first, last, 1, 1 + next(9), 0};
    }
}

static void check_places(const tc_exact_item *items, uint32_t n, const uint64_t *offsets, uint64_t capacity) {
    for (uint32_t i = 0; i < n; i++) {
        assert_true(offsets[i] + items[i].bytes <= capacity);
        assert_int_equal(offsets[i] % items[i].align, 0);
        for (uint32_t k = 0; k < i; k++)
            assert_true(!meet(&items[i], &items[k]) || offsets[i] + items[i].bytes <= offsets[k] ||
                        offsets[k] + items[k].bytes <= offsets[i]);
    }
}

/* Every way to search finds places at the optimum, and the proof that there are none below it. */
TEST(small_problems_are_solved) {
    for (uint32_t round = 0; round < 600; round++) {
        tc_exact_item items[SMALL];
        uint32_t n = 1 + next(SMALL), order[SMALL] = {0, 1, 2, 3, 4, 5};
        uint64_t places[SMALL], work = 0;
        small_problem(items, n);
        uint64_t least = least_top(items, n, order, places, 0, 0);
        tc_exact *exact = tc_exact_make(items, n, STEPS);
        assert_non_null(exact);
        tc_exact_how how = {(tc_exact_order)(round % 3), (tc_exact_where)(round / 3 % 3), round % 4, round + 1,
                            1 << 20};
        assert_int_equal(tc_exact_search(exact, least - 1, &how, places, &work), TC_EXACT_NONE);
        assert_int_equal(tc_exact_search(exact, least, &how, places, &work), TC_EXACT_FOUND);
        check_places(items, n, places, least);
        assert_int_equal(tc_exact_search(exact, least + 3, &how, places, &work), TC_EXACT_FOUND);
        check_places(items, n, places, least + 3);
        tc_exact_free(exact);
    }
}

/* Sizes and aligns as they come: places are right, whether or not they are the best. */
TEST(places_are_aligned) {
    for (uint32_t round = 0; round < 100; round++) {
        tc_exact_item items[40];
        uint64_t places[40], work = 0, total = 0;
        for (uint32_t i = 0; i < 40; i++) {
            uint32_t first = next(20), align = 1u << next(5);
            items[i] = (tc_exact_item){i, first, first + next(20 - first), align, align * (1 + (uint64_t)next(9)), 0};
            total += items[i].bytes + 16;
        }
        tc_exact *exact = tc_exact_make(items, 40, 20);
        tc_exact_how how = {TC_EXACT_AREA, TC_EXACT_TIGHT, 0, 1, 1 << 20};
        assert_non_null(exact);
        assert_int_equal(tc_exact_search(exact, total, &how, places, &work), TC_EXACT_FOUND);
        check_places(items, 40, places, total);
        tc_exact_free(exact);
    }
}

TEST(work_is_bounded) {
    tc_exact_item items[60];
    uint64_t places[60], work = 0, total = 0;
    for (uint32_t i = 0; i < 60; i++) {
        items[i] = (tc_exact_item){i, i, i + 5, 1, 7 + i * 37 % 23, 0};
        total += i < 6 ? items[i].bytes : 0;
    }
    tc_exact *exact = tc_exact_make(items, 60, 65);
    tc_exact_how how = {TC_EXACT_WIDE, TC_EXACT_TIGHT, 0, 1, 50};
    assert_non_null(exact);
    assert_int_equal(tc_exact_search(exact, total * 2, &how, places, &work), TC_EXACT_LIMIT);
    assert_true(work > 50 && work < 1000);
    how.limit = 10000;
    assert_int_equal(tc_exact_search(exact, 10, &how, places, &work), TC_EXACT_NONE);
    tc_exact_free(exact);
}

/* --- the packer ------------------------------------------------------------------------------- */

static tc_plan_problem problem_of(const tc_exact_item *items, uint32_t n, uint32_t n_ops) {
    tc_plan_problem p = {.n_ops = n_ops, .n_buffers = n, .align = 1};
    p.ops = calloc(n_ops + (size_t)1, sizeof *p.ops);
    p.buffers = calloc(n + (size_t)1, sizeof *p.buffers);
    assert_true(p.ops && p.buffers);
    for (uint32_t i = 0; i < n; i++)
        p.buffers[i] =
            (tc_plan_buffer){items[i].bytes, items[i].align, items[i].first, items[i].last, TC_PLAN_NONE, 0, 0};
    return p;
}

static uint64_t packed(tc_plan_problem *p, uint64_t limit) {
    tc_plan_packing packing;
    uint32_t pair[2];
    assert_int_equal(tc_plan_pack(p, limit, &packing), TC_PLAN_OK);
    assert_null(tc_plan_check(p, packing.bytes, pair));
    return packing.bytes;
}

TEST(packer_finds_the_optimum) {
    for (uint32_t round = 0; round < 300; round++) {
        tc_exact_item items[SMALL];
        uint32_t n = 1 + next(SMALL), order[SMALL] = {0, 1, 2, 3, 4, 5};
        uint64_t places[SMALL];
        small_problem(items, n);
        tc_plan_problem p = problem_of(items, n, STEPS);
        assert_int_equal(packed(&p, 200000), least_top(items, n, order, places, 0, 0));
        free(p.ops);
        free(p.buffers);
    }
}

/* 200 buffers that fill a rectangle: placing them in an order leaves holes, the search next to none. */
TEST(full_rectangles) {
    for (uint32_t round = 0; round < 4; round++) {
        tc_exact_item items[200] = {{0, 0, 99, 1, 1 << 16, 0}};
        uint32_t n = 1;
        while (n < 200) {
            tc_exact_item *it = &items[next(n)];
            if (next(2) && it->last > it->first) {
                uint32_t middle = it->first + next(it->last - it->first);
                items[n] = (tc_exact_item){n, middle + 1, it->last, 1, it->bytes, 0};
                it->last = middle;
                n++;
            } else if (it->bytes > 1) {
                uint64_t bytes = 1 + (uint64_t)next((uint32_t)it->bytes - 1);
                items[n] = (tc_exact_item){n, it->first, it->last, 1, it->bytes - bytes, 0};
                it->bytes = bytes;
                n++;
            }
        }
        tc_plan_problem p = problem_of(items, n, 100);
        assert_true(packed(&p, 50000000) <= (1 << 16) + (1 << 8));
        p.enough = (1 << 16) + (1 << 13);
        assert_true(packed(&p, 50000000) <= p.enough);
        free(p.ops);
        free(p.buffers);
    }
}

/* What a search needed, the states that failed above all, is not resident behind it, however often one is made. */
TEST(memory_goes_back) {
    enum { MANY = 400, LIFE = 30 };
    static tc_exact_item items[MANY];
    static uint64_t places[MANY];
    uint64_t work = 0, live = 0, most = 0, after_first = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        items[i] = (tc_exact_item){i, i, i + LIFE - 1, 1, 1000 + next(1000), 0};
        live += items[i].bytes - (i < LIFE ? 0 : items[i - LIFE].bytes);
        most = live > most ? live : most;
    }
    for (int round = 0; round < 4; round++) {
        tc_exact *exact = tc_exact_make(items, MANY, MANY + LIFE);
        tc_exact_how how = {TC_EXACT_AREA, TC_EXACT_TIGHT, 0, 1, 5000000};
        assert_non_null(exact);
        assert_int_equal(tc_exact_search(exact, most, &how, places, &work), TC_EXACT_LIMIT);
        tc_exact_free(exact);
        after_first = round == 0 ? resident() : after_first;
    }
    assert_true(resident() <= after_first + (1 << 20));
}
