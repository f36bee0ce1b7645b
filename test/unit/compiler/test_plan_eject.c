/* test_plan_eject.c: more buffers than the exact search is quick with, cut from a rectangle, which some packing fills
 * to the last byte: whoever throws out what is in the way comes near that, where placing in an order does not. Results
 * that may lie over operands, too, which have to where most is live. */
#include "test/unit/cases.h"
#include "compiler/pack/pack.h"
#include <stdbool.h>
#include <stdlib.h>

#define STEPS 1500
#define PIECES 1300
#define HEIGHT (1u << 20)
#define UNIT (1u << 11) /* sizes are this, times powers of two */

static uint32_t state;
static uint32_t next(uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(state >> 8) * below) >> 24);
}

static tc_plan_buffer piece(uint64_t bytes, uint32_t first, uint32_t last) {
    return (tc_plan_buffer){.bytes = bytes, .align = 64, .first = first, .last = last, .root = TC_PLAN_NONE};
}

/* The rectangle, cut by time and into halves. */
static tc_plan_problem cut_rectangle(uint32_t seed) {
    tc_plan_problem p = {.n_ops = STEPS, .align = 64};
    p.ops = calloc(STEPS + 1, sizeof *p.ops);
    p.buffers = calloc(2 * PIECES, sizeof *p.buffers);
    p.choices = calloc(PIECES, sizeof *p.choices);
    assert_true(p.ops && p.buffers && p.choices);
    state = seed;
    p.buffers[p.n_buffers++] = piece(HEIGHT, 0, STEPS - 1);
    while (p.n_buffers < PIECES) {
        tc_plan_buffer *b = &p.buffers[next(p.n_buffers)];
        uint32_t life = b->last - b->first + 1;
        bool long_lived = life > 1 + next(STEPS);
        if (long_lived || (b->bytes == UNIT && life > 1)) {
            uint32_t middle = b->first + next(life - 1);
            p.buffers[p.n_buffers++] = piece(b->bytes, middle + 1, b->last);
            b->last = middle;
        } else if (b->bytes > UNIT) {
            p.buffers[p.n_buffers++] = piece(b->bytes / 2, b->first, b->last);
            b->bytes /= 2;
        }
    }
    return p;
}

/* Buffers become two each, which share one step: there the second may lie over the first. */
static void cut_in_place(tc_plan_problem *p) {
    for (uint32_t i = 0, n = p->n_buffers; i < n; i++) {
        tc_plan_buffer *b = &p->buffers[i];
        if (b->last < b->first + 2 || next(3) == 0)
            continue;
        uint32_t op = b->first + 1 + next(b->last - b->first - 1);
        p->choices[p->n_choices++] = (tc_plan_choice){.op = op, .result = p->n_buffers, .operand = i};
        p->buffers[p->n_buffers++] = piece(b->bytes, op, b->last);
        b->last = op;
    }
}

static double packed(tc_plan_problem *p) {
    tc_plan_packing packing;
    uint32_t pair[2];
    assert_int_equal(tc_plan_pack(p, 0, &packing), TC_PLAN_OK);
    assert_null(tc_plan_check(p, packing.bytes, pair));
    assert_int_equal(packing.live.peak_bytes, HEIGHT);
    print_message("%g of what is live\n", (double)packing.bytes / HEIGHT);
    return (double)packing.bytes / HEIGHT;
}

static void release(tc_plan_problem *p) {
    free(p->ops);
    free(p->buffers);
    free(p->choices);
}

/* Those of eight that are hardest: placing in orders, and changing these, stays a tenth above and more. */
static const uint32_t seeds[] = {1, 8};

TEST(many_pieces) {
    for (uint32_t i = 0; i < 2; i++) {
        tc_plan_problem p = cut_rectangle(seeds[i]);
        assert_true(packed(&p) < 1.1);
        release(&p);
    }
}

TEST(many_in_place) {
    for (uint32_t i = 0; i < 2; i++) {
        tc_plan_problem p = cut_rectangle(seeds[i]);
        cut_in_place(&p);
        assert_true(p.n_choices > 400);
        assert_true(packed(&p) < 1.1);
        release(&p);
    }
}
