/* test_keep.c: what passes/lean/keep.h keeps, against every set of values on small random problems; a long chain. */
#include "test/unit/cases.h"
#include "passes/lean/keep.h"
#include "test/unit/random_below.h"
#include <stdlib.h>

enum { MOST = 10, OPERANDS = 3, ROUNDS = 20000, CHAIN = 20000 };

static uint32_t state = 1;
static uint32_t next(uint32_t below) { return random_below(&state, below); }

typedef struct problem {
    tc_keep_value values[MOST];
    uint32_t operands[MOST * OPERANDS], n;
} problem;

static problem draw(void) {
    problem p = {.n = 1 + next(MOST)};
    for (uint32_t i = 0; i < p.n; i++) {
        tc_keep_value *v = &p.values[i];
        *v = (tc_keep_value){.bytes = 1 + next(8), .there = next(6) == 0, .read = next(3) == 0, .first = OPERANDS * i};
        v->n = i > 0 ? next(OPERANDS + 1) : 0;
        v->makes = v->n > 0 && next(4) > 0;
        for (uint32_t k = 0; k < v->n; k++)
            p.operands[v->first + k] = next(i);
    }
    return p;
}

/* Whether everything that is read can be had of this set. */
static bool serves(const problem *p, uint32_t kept, uint64_t *out_bytes) {
    bool had[MOST];
    *out_bytes = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const tc_keep_value *v = &p->values[i];
        bool made = v->makes;
        for (uint32_t k = 0; k < v->n; k++)
            made = made && had[p->operands[v->first + k]];
        had[i] = v->there || made || (kept >> i & 1);
        *out_bytes += kept >> i & 1 ? v->bytes : 0;
        if (v->read && !had[i])
            return false;
    }
    return true;
}

TEST(every_set) {
    for (int round = 0; round < ROUNDS; round++) {
        problem p = draw();
        uint64_t least = UINT64_MAX, bytes;
        for (uint32_t set = 0; set < 1u << p.n; set++)
            if (serves(&p, set, &bytes) && bytes < least)
                least = bytes;
        bool keep[MOST];
        uint32_t kept = 0;
        tc_keep_least(p.values, p.n, p.operands, keep);
        for (uint32_t i = 0; i < p.n; i++)
            kept |= (uint32_t)keep[i] << i;
        assert_true(serves(&p, kept, &bytes));
        assert_int_equal(bytes, least);
    }
}

/* Each value of a chain is read and costs as much: the last is kept alone only if nothing is read in front of it. */
TEST(closest_to_readers) {
    tc_keep_value *values = calloc(CHAIN, sizeof *values);
    uint32_t *operands = calloc(CHAIN, sizeof *operands);
    bool *keep = calloc(CHAIN, sizeof *keep);
    assert_true(values && operands && keep);
    for (uint32_t i = 0; i < CHAIN; i++) {
        values[i] = (tc_keep_value){.bytes = 4, .makes = i > 0, .first = i, .n = i > 0, .read = i + 1 == CHAIN};
        operands[i] = i > 0 ? i - 1 : 0;
    }
    tc_keep_least(values, CHAIN, operands, keep);
    for (uint32_t i = 0; i < CHAIN; i++)
        assert_int_equal(keep[i], i + 1 == CHAIN);
    values[7].bytes = 3;
    tc_keep_least(values, CHAIN, operands, keep);
    for (uint32_t i = 0; i < CHAIN; i++)
        assert_int_equal(keep[i], i == 7);
    free(values);
    free(operands);
    free(keep);
}
