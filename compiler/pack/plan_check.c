/* plan_check.c: whether a packing is right, and how much is live, the slow way: every pair, every step. It reads the
 * problem alone, and nothing that simulate and pack computed: it checks both. */
#include "plan_problem.h"

typedef struct extent {
    uint64_t offset, bytes, align;
    uint32_t first, last;
} extent;

static const tc_plan_buffer *root_of(const tc_plan_problem *p, const tc_plan_buffer *b) {
    while (b->root != TC_PLAN_NONE)
        b = &p->buffers[b->root];
    return b;
}

/* Buffer `index` with its own bytes alone: lives of buffers that lie in it lengthen no life here, since each is
 * compared on its own. */
static extent extent_of(const tc_plan_problem *p, uint32_t index) {
    if (index >= p->n_buffers) {
        const tc_plan_op *op = &p->ops[index - p->n_buffers];
        return (extent){op->offset, op->workspace, p->align, index - p->n_buffers, index - p->n_buffers};
    }
    const tc_plan_buffer *b = &p->buffers[index];
    return (extent){b->offset, b->bytes, b->root == TC_PLAN_NONE ? b->align : 1, b->first, b->last};
}

static bool taken_over(const tc_plan_problem *p, const tc_plan_buffer *a, const tc_plan_buffer *b) {
    for (uint32_t i = 0; i < p->n_choices; i++) {
        const tc_plan_choice *c = &p->choices[i];
        const tc_plan_buffer *result = root_of(p, &p->buffers[c->result]);
        const tc_plan_buffer *operand = root_of(p, &p->buffers[c->operand]);
        if (c->taken && ((result == a && operand == b) || (result == b && operand == a)))
            return result->offset == operand->offset;
    }
    return false;
}

/* Lives that meet in one operation alone, where the one ends and the other begins over it. */
static bool may_meet(const tc_plan_problem *p, uint32_t i, uint32_t k, const extent *a, const extent *b) {
    if (i >= p->n_buffers || k >= p->n_buffers)
        return false;
    const tc_plan_buffer *x = root_of(p, &p->buffers[i]), *y = root_of(p, &p->buffers[k]);
    if (x == y)
        return true;
    return (a->last == b->first || b->last == a->first) && taken_over(p, x, y);
}

static const char *check_pair(const tc_plan_problem *p, uint32_t i, uint32_t k, const extent *a) {
    extent b = extent_of(p, k);
    bool together = a->first <= b.last && b.first <= a->last && a->bytes > 0 && b.bytes > 0;
    bool overlap = a->offset < b.offset + b.bytes && b.offset < a->offset + a->bytes;
    return together && overlap && !may_meet(p, i, k, a, &b) ? "two that are live together overlap" : NULL;
}

const char *tc_plan_check(const tc_plan_problem *p, uint64_t arena_bytes, uint32_t out_pair[2]) {
    const char *wrong = NULL;
    uint32_t n = p->n_buffers + p->n_ops, i = 0, k = 0;
    for (i = 0; i < n && !wrong; i++) {
        extent a = extent_of(p, i);
        if (a.bytes == 0)
            continue;
        const tc_plan_buffer *b = i < p->n_buffers ? &p->buffers[i] : NULL;
        k = i;
        if (a.offset > arena_bytes || a.bytes > arena_bytes - a.offset)
            wrong = "it ends beyond the arena";
        else if (a.offset % a.align != 0)
            wrong = "it is not aligned";
        else if (b && b->root != TC_PLAN_NONE && b->offset != p->buffers[b->root].offset + b->at)
            wrong = "it is not where its root has it";
        for (uint32_t other = i + 1; other < n && !wrong; other++) {
            k = other;
            wrong = check_pair(p, i, k, &a);
        }
    }
    if (wrong) {
        out_pair[0] = i - 1;
        out_pair[1] = k;
    }
    return wrong;
}

static uint64_t live_at(const tc_plan_problem *p, uint32_t step) {
    uint64_t live = step < p->n_ops ? tc_plan_round(p->ops[step].workspace, p->align) : 0;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        const tc_plan_buffer *root = &p->buffers[i];
        if (root->root != TC_PLAN_NONE)
            continue;
        uint32_t first = root->first, last = root->last;
        for (uint32_t k = 0; k < p->n_buffers; k++) {
            const tc_plan_buffer *b = &p->buffers[k];
            if (root_of(p, b) != root)
                continue;
            first = b->first < first ? b->first : first;
            last = b->last > last ? b->last : last;
        }
        if (first <= step && step <= last)
            live += tc_plan_round(root->bytes, root->align);
    }
    for (uint32_t i = 0; i < p->n_choices; i++) {
        const tc_plan_buffer *operand = root_of(p, &p->buffers[p->choices[i].operand]);
        if (p->choices[i].taken && p->choices[i].op == step)
            live -= tc_plan_round(operand->bytes, operand->align);
    }
    return live;
}

uint64_t tc_plan_count_live(const tc_plan_problem *p, uint32_t *out_peak) {
    uint64_t most = 0;
    *out_peak = 0;
    for (uint32_t step = 0; step <= p->n_ops; step++) {
        uint64_t live = live_at(p, step);
        if (live > most) {
            most = live;
            *out_peak = step;
        }
    }
    return most;
}
