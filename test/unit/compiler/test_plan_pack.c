/* test_plan_pack.c: packings that the naive checker finds nothing wrong with, on random problems; arenas that are as
 * small as they can be where that is known: rectangles cut into buffers, chains, nested lives. */
#include "test/unit/cases.h"
#include "compiler/pack/pack.h"
#include "test/unit/random_below.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t state = 1;
static uint32_t next(uint32_t below) { return random_below(&state, below); }

static tc_plan_problem empty(uint32_t n_ops, uint32_t n_buffers) {
    tc_plan_problem p = {.n_ops = n_ops, .align = 64};
    p.ops = calloc(n_ops + (size_t)1, sizeof *p.ops);
    p.buffers = calloc(n_buffers + (size_t)1, sizeof *p.buffers);
    p.choices = calloc(2 * (size_t)n_ops + 1, sizeof *p.choices);
    assert_true(p.ops && p.buffers && p.choices);
    return p;
}

static void drop(tc_plan_problem *p) {
    free(p->ops);
    free(p->buffers);
    free(p->choices);
}

static uint32_t add(tc_plan_problem *p, uint64_t bytes, uint32_t first, uint32_t last) {
    p->buffers[p->n_buffers] = (tc_plan_buffer){bytes, 64, first, last, TC_PLAN_NONE, 0, 0};
    return p->n_buffers++;
}

static tc_plan_packing packed(tc_plan_problem *p) {
    tc_plan_packing packing;
    tc_plan_live live;
    uint32_t pair[2] = {0}, peak;
    assert_int_equal(tc_plan_pack(p, 0, &packing), TC_PLAN_OK);
    const char *wrong = tc_plan_check(p, packing.bytes, pair);
    if (wrong)
        fail_msg("%s: %u and %u", wrong, pair[0], pair[1]);
    assert_int_equal(tc_plan_simulate(p, &live), TC_PLAN_OK);
    assert_int_equal(live.peak_bytes, tc_plan_count_live(p, &peak));
    assert_int_equal(live.peak_bytes, packing.chosen.peak_bytes);
    assert_int_equal(live.peak, peak);
    assert_true(packing.bytes >= live.peak_bytes);
    assert_true(live.peak_bytes >= packing.live.peak_bytes);
    return packing;
}

/* --- random problems -------------------------------------------------------------------------- */

#define OPS 40

/* A few sizes, so that results fit over operands; some buffers within others, some operations with workspace. */
static void random_problem(tc_plan_problem *p, uint32_t n) {
    for (uint32_t i = 0; i < OPS; i++) {
        p->ops[i].workspace = next(4) == 0 ? next(3000) : 0;
        p->ops[i].cost = next(10);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = next(OPS), last = first + next(next(2) ? 4 : OPS - first + 1);
        uint64_t bytes = next(8) == 0 ? 0 : next(3) == 0 ? next(5000) : 1000 * (1 + next(3));
        add(p, bytes, first, last < OPS ? last : OPS);
        if (i > 0 && next(4) == 0) {
            uint32_t root = next(i);
            p->buffers[i].root = root;
            p->buffers[i].bytes = p->buffers[root].bytes / 2;
            p->buffers[i].at = p->buffers[i].bytes > 0 ? next((uint32_t)p->buffers[i].bytes) : 0;
        }
    }
    for (uint32_t result = 0; result < n; result++)
        for (uint32_t operand = 0; operand < n && p->n_choices < 2 * OPS; operand++)
            if (operand != result && p->buffers[operand].last == p->buffers[result].first &&
                p->buffers[operand].bytes == p->buffers[result].bytes && p->buffers[result].first < OPS)
                p->choices[p->n_choices++] = (tc_plan_choice){p->buffers[result].first, result, operand, false};
}

TEST(random_problems) {
    uint32_t taken = 0;
    for (int round = 0; round < 80; round++) {
        tc_plan_problem p = empty(OPS, 60);
        random_problem(&p, next(61));
        tc_plan_packing packing = packed(&p);
        assert_true(packing.bytes <= packing.live.peak_bytes + packing.live.peak_bytes / 4);
        for (uint32_t i = 0; i < p.n_choices; i++)
            taken += p.choices[i].taken;
        drop(&p);
    }
    assert_true(taken > 20);
}

TEST(same_places_again) {
    for (int round = 0; round < 10; round++) {
        tc_plan_problem p = empty(OPS, 60);
        uint64_t offsets[60];
        random_problem(&p, 60);
        packed(&p);
        for (uint32_t i = 0; i < 60; i++)
            offsets[i] = p.buffers[i].offset;
        packed(&p);
        for (uint32_t i = 0; i < 60; i++)
            assert_int_equal(p.buffers[i].offset, offsets[i]);
        drop(&p);
    }
}

/* The checker is no yes-man: a place that is moved, a choice that is denied, a hole in an alias are found. */
TEST(checker_finds_mistakes) {
    tc_plan_problem p = empty(2, 3);
    uint32_t pair[2], a = add(&p, 100, 0, 1), b = add(&p, 100, 1, 2), inside = add(&p, 10, 0, 0);
    p.buffers[inside].root = a;
    p.buffers[inside].at = 20;
    p.choices[p.n_choices++] = (tc_plan_choice){1, b, a, false};
    assert_int_equal(packed(&p).bytes, 128);
    assert_true(p.choices[0].taken);
    p.choices[0].taken = false;
    assert_string_equal(tc_plan_check(&p, 128, pair), "two that are live together overlap");
    assert_int_equal(pair[0], a);
    assert_int_equal(pair[1], b);
    p.choices[0].taken = true;
    p.buffers[inside].offset = 0;
    assert_string_equal(tc_plan_check(&p, 128, pair), "it is not where its root has it");
    p.buffers[inside].offset = 20;
    assert_string_equal(tc_plan_check(&p, 64, pair), "it ends beyond the arena");
    p.buffers[b].offset = 136;
    assert_string_equal(tc_plan_check(&p, 256, pair), "it is not aligned");
    drop(&p);
}

/* --- known answers ---------------------------------------------------------------------------- */

/* A chain of operations holds two buffers at a time: the arena is two buffers however long the chain is. */
TEST(chain_reuses) {
    tc_plan_problem p = empty(100, 100);
    for (uint32_t i = 0; i < 100; i++)
        add(&p, 1000, i, i + 1);
    assert_int_equal(packed(&p).bytes, 2 * 1024);
    for (uint32_t i = 1; i < 100; i++)
        p.choices[p.n_choices++] = (tc_plan_choice){i, i, i - 1, false};
    assert_int_equal(packed(&p).bytes, 1024);
    drop(&p);
}

/* Both results of operation 1 lie over an operand; the third choice comes too late. */
TEST(any_result_lies_over_an_operand) {
    tc_plan_problem p = empty(3, 4);
    uint32_t a = add(&p, 640, 0, 1), b = add(&p, 640, 0, 1), c = add(&p, 640, 1, 2), d = add(&p, 640, 1, 2);
    p.choices[p.n_choices++] = (tc_plan_choice){1, c, a, false};
    p.choices[p.n_choices++] = (tc_plan_choice){1, d, a, false};
    p.choices[p.n_choices++] = (tc_plan_choice){1, d, b, false};
    tc_plan_packing packing = packed(&p);
    assert_int_equal(packing.bytes, 1280);
    assert_true(p.choices[0].taken && !p.choices[1].taken && p.choices[2].taken);
    assert_int_equal(p.buffers[c].offset, p.buffers[a].offset);
    assert_int_equal(p.buffers[d].offset, p.buffers[b].offset);
    drop(&p);
}

/* Operand and result live on in what lies in them: neither choice can be taken, and all three are there at once. */
TEST(aliases_lengthen_lives) {
    tc_plan_problem p = empty(4, 3);
    uint32_t a = add(&p, 640, 0, 1), view = add(&p, 64, 1, 3), b = add(&p, 640, 1, 2);
    p.buffers[view].root = a;
    p.buffers[view].at = 64;
    p.choices[p.n_choices++] = (tc_plan_choice){1, b, a, false};
    assert_int_equal(packed(&p).bytes, 1280);
    assert_false(p.choices[0].taken);
    assert_int_equal(p.buffers[view].offset, p.buffers[a].offset + 64);
    drop(&p);
}

TEST(costs_add_up) {
    tc_plan_problem p = empty(3, 0);
    tc_plan_live live;
    for (uint32_t i = 0; i < 3; i++)
        p.ops[i] = (tc_plan_op){.workspace = 100 * i, .cost = i + 1};
    assert_int_equal(tc_plan_simulate(&p, &live), TC_PLAN_OK);
    assert_int_equal(live.cost, 6);
    assert_int_equal(live.peak_bytes, 256);
    assert_int_equal(live.peak, 2);
    drop(&p);
}

/* A rectangle, all steps by all bytes, cut in two again and again: some packing wastes nothing. */
static tc_plan_problem cut(uint32_t n_ops, uint64_t bytes, uint32_t n) {
    tc_plan_problem p = empty(n_ops, n);
    add(&p, bytes, 0, n_ops - 1);
    while (p.n_buffers < n) {
        tc_plan_buffer *b = &p.buffers[next(p.n_buffers)];
        if (next(2) && b->last > b->first) {
            uint32_t last = b->last;
            b->last = b->first + next(last - b->first);
            add(&p, b->bytes, b->last + 1, last);
        } else if (b->bytes > 64) {
            uint64_t whole = b->bytes;
            b->bytes = 64 * (1 + (uint64_t)next((uint32_t)(whole / 64) - 1));
            add(&p, whole - b->bytes, b->first, b->last);
        }
    }
    return p;
}

TEST(cut_rectangles) {
    double sum = 0;
    for (int round = 0; round < 20; round++) {
        tc_plan_problem p = cut(100, 1 << 20, 30);
        tc_plan_packing packing = packed(&p);
        assert_int_equal(packing.live.peak_bytes, 1 << 20);
        sum += (double)packing.bytes / (1 << 20);
        drop(&p);
    }
    assert_true(sum / 20 < 1.05);
}

/* What a training step looks like: of each layer, something is kept until its backward pass, which leaves a gradient
 * until the end; the rest lives for a few operations. Sizes go from 64 bytes to megabytes. */
static tc_plan_problem training(uint32_t layers) {
    tc_plan_problem p = empty(2 * layers, 5 * layers);
    for (uint32_t i = 0; i < layers; i++) {
        static const uint64_t sizes[] = {64, 4096, 1 << 16, 1 << 20, 5 << 20};
        uint64_t bytes = sizes[next(5)] * (1 + 2 * next(4));
        uint32_t back = 2 * layers - 1 - i, end = 2 * layers;
        add(&p, bytes, i, next(3) ? back : i + next(3));
        add(&p, bytes, back, back + next(4) < end ? back + next(4) : end);
        add(&p, bytes / 2, back, next(4) ? back + 1 : end);
        add(&p, 64 * (uint64_t)(1 + next(99)), i, i + 1);
        add(&p, 64 * (uint64_t)(1 + next(99)), back, back);
    }
    for (uint32_t i = 0; i < p.n_buffers; i++)
        p.buffers[i].last = p.buffers[i].last < p.n_ops ? p.buffers[i].last : p.n_ops;
    return p;
}

TEST(training_steps) {
    for (uint32_t layers = 10; layers <= 80; layers *= 2) {
        tc_plan_problem p = training(layers);
        tc_plan_packing packing = packed(&p);
        assert_true(packing.bytes <= packing.live.peak_bytes + packing.live.peak_bytes / 100);
        drop(&p);
    }
}

/* 40000 buffers: the work is counted, since clocks of loaded machines prove nothing. */
TEST(many_buffers) {
    tc_plan_problem p = training(8000);
    tc_plan_packing packing;
    assert_int_equal(p.n_buffers, 40000);
    assert_int_equal(tc_plan_pack(&p, 0, &packing), TC_PLAN_OK);
    assert_true(packing.bytes <= packing.live.peak_bytes + packing.live.peak_bytes / 100);
    assert_true(packing.work < 20000000);
    drop(&p);
}

/* --- refusals --------------------------------------------------------------------------------- */

static tc_plan_status status_of(tc_plan_problem *p) {
    tc_plan_packing packing;
    tc_plan_live live;
    tc_plan_status status = tc_plan_pack(p, 0, &packing);
    assert_int_equal(tc_plan_simulate(p, &live), status);
    return status;
}

TEST(too_big_is_refused) {
    tc_plan_problem p = empty(2, 2);
    add(&p, INT64_MAX / 4, 0, 1);
    add(&p, INT64_MAX / 4 + 64, 0, 1);
    assert_int_equal(status_of(&p), TC_PLAN_TOO_BIG);
    p.buffers[0].bytes = UINT64_MAX - 8;
    assert_int_equal(status_of(&p), TC_PLAN_TOO_BIG);
    p.n_buffers = 0;
    p.ops[1].workspace = UINT64_MAX - 8;
    assert_int_equal(status_of(&p), TC_PLAN_TOO_BIG);
    drop(&p);
}

TEST(invalid_is_refused) {
    const tc_plan_buffer wrong[] = {
        {64, 64, 1, 0, TC_PLAN_NONE, 0, 0},
        {64, 64, 0, 3, TC_PLAN_NONE, 0, 0},
        {64, 48, 0, 1, TC_PLAN_NONE, 0, 0},
        {64, 0, 0, 1, TC_PLAN_NONE, 0, 0},
        {64, 64, 0, 1, 1, 0, 0},
        {64, 64, 0, 1, 7, 0, 0},
        {64, 64, 0, 1, 0, 1, 0},
        {65, 64, 0, 1, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tc_plan_problem p = empty(2, 2);
        add(&p, 64, 0, 1);
        add(&p, 64, 0, 1);
        assert_int_equal(status_of(&p), TC_PLAN_OK);
        p.buffers[1] = wrong[i];
        assert_int_equal(status_of(&p), TC_PLAN_INVALID);
        drop(&p);
    }
    tc_plan_problem p = empty(2, 1);
    add(&p, 64, 0, 1);
    p.choices[p.n_choices++] = (tc_plan_choice){0, 0, 1, false};
    assert_int_equal(status_of(&p), TC_PLAN_INVALID);
    drop(&p);
}
