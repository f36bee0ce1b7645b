/* plan_spans.c: the tree of taken spans. A life [first, last] is made of at most two nodes on each level; a span that
 * is live with it lies in these nodes (any) or covers one of the nodes above (cover). */
#include "plan_spans.h"
#include "plan_problem.h"
#include <stdlib.h>
#include <string.h>

#define MOST_LISTS 128 /* of one life: two nodes and two nodes above them on each of at most 32 levels */

bool tc_spans_make(tc_spans *s, uint32_t n_steps) {
    uint32_t n = 1;
    while (n < n_steps)
        n *= 2;
    *s = (tc_spans){.n_leaves = n};
    s->cover = calloc(2 * (size_t)n, sizeof *s->cover);
    s->any = calloc(2 * (size_t)n, sizeof *s->any);
    return s->cover && s->any;
}

void tc_spans_free(tc_spans *s) {
    for (size_t i = 0; s->cover && s->any && i < 2 * (size_t)s->n_leaves; i++) {
        free(s->cover[i].spans);
        free(s->any[i].spans);
    }
    free(s->cover);
    free(s->any);
}

void tc_spans_clear(tc_spans *s) {
    for (size_t i = 0; i < 2 * (size_t)s->n_leaves; i++)
        s->cover[i].n = s->any[i].n = 0;
}

/* The first span of the list that ends at `offset` or after. */
static uint32_t find(const tc_span_list *list, uint64_t offset) {
    uint32_t low = 0, high = list->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->spans[middle].end < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool unite(tc_spans *s, tc_span_list *list, tc_span span) {
    uint32_t at = find(list, span.begin), to = at;
    for (; to < list->n && list->spans[to].begin <= span.end; to++) {
        span.begin = list->spans[to].begin < span.begin ? list->spans[to].begin : span.begin;
        span.end = list->spans[to].end > span.end ? list->spans[to].end : span.end;
    }
    if (to == at && list->n == list->cap) {
        uint32_t cap = list->cap ? 2 * list->cap : 4;
        tc_span *spans = realloc(list->spans, cap * sizeof *spans);
        if (!spans)
            return false;
        list->spans = spans;
        list->cap = cap;
    }
    if (to != at + 1)
        memmove(list->spans + at + 1, list->spans + to, (list->n - to) * sizeof *list->spans);
    list->n = list->n - (to - at) + 1;
    list->spans[at] = span;
    s->work++;
    return true;
}

bool tc_spans_add(tc_spans *s, uint32_t first, uint32_t last, tc_span span) {
    uint32_t low = first + s->n_leaves, high = last + s->n_leaves;
    bool ok = true;
    for (uint32_t a = low, b = high + 1; ok && a < b; a /= 2, b /= 2) {
        if (a & 1) {
            ok = unite(s, &s->cover[a], span) && unite(s, &s->any[a], span);
            a++;
        }
        if (ok && (b & 1)) {
            b--;
            ok = unite(s, &s->cover[b], span) && unite(s, &s->any[b], span);
        }
    }
    for (uint32_t a = low / 2, b = high / 2; ok && a > 0; a /= 2, b /= 2)
        ok = unite(s, &s->any[a], span) && (a == b || unite(s, &s->any[b], span));
    return ok;
}

/* The part of a list that was read: spans before `next` are below the current offset. */
typedef struct cursor {
    const tc_span *next, *end;
} cursor;

static uint32_t collect(const tc_spans *s, uint32_t first, uint32_t last, cursor *cursors) {
    uint32_t n = 0, low = first + s->n_leaves, high = last + s->n_leaves;
#define TAKE(list)                                                                                                     \
    if ((list).n > 0)                                                                                                  \
        cursors[n++] = (cursor) { (list).spans, (list).spans + (list).n }
    for (uint32_t a = low, b = high + 1; a < b; a /= 2, b /= 2) {
        if (a & 1) {
            TAKE(s->any[a]);
            a++;
        }
        if (b & 1) {
            b--;
            TAKE(s->any[b]);
        }
    }
    for (uint32_t a = low / 2, b = high / 2; a > 0; a /= 2, b /= 2) {
        TAKE(s->cover[a]);
        if (a != b)
            TAKE(s->cover[b]);
    }
#undef TAKE
    return n;
}

/* The cursors are a heap: the one whose next span begins lowest is the first. */
static void sift(cursor *cursors, uint32_t n, uint32_t at) {
    cursor moved = cursors[at];
    for (uint32_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && cursors[child + 1].next->begin < cursors[child].next->begin)
            child++;
        if (cursors[child].next->begin >= moved.next->begin)
            break;
        cursors[at] = cursors[child];
        at = child;
    }
    cursors[at] = moved;
}

/* Passes over the spans that end at `offset` or before in the first list, which may become another. */
static uint64_t advance(cursor *cursors, uint32_t *n, uint64_t offset) {
    cursor *c = &cursors[0];
    const tc_span *from = c->next;
    while (c->next < c->end && c->next->end <= offset)
        c->next++;
    uint64_t looked = (uint64_t)(c->next - from) + 1;
    if (c->next == c->end && --*n > 0)
        *c = cursors[*n];
    if (*n > 0)
        sift(cursors, *n, 0);
    return looked;
}

uint64_t tc_spans_fit(tc_spans *s, uint32_t first, uint32_t last, uint64_t bytes, uint64_t align, tc_fit fit) {
    cursor cursors[MOST_LISTS];
    uint32_t n = collect(s, first, last, cursors);
    uint64_t offset = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    for (uint32_t i = n / 2; i-- > 0;)
        sift(cursors, n, i);
    s->work += n;
    while (n > 0) {
        uint64_t begin = tc_plan_round(offset, align), gap_end = cursors[0].next->begin;
        if (begin <= gap_end && gap_end - begin >= bytes && gap_end - offset < best_gap) {
            best = begin;
            best_gap = gap_end - offset;
            if (fit == TC_FIT_LOWEST)
                return best;
        }
        offset = cursors[0].next->end > offset ? cursors[0].next->end : offset;
        s->work += advance(cursors, &n, offset);
    }
    return best != UINT64_MAX ? best : tc_plan_round(offset, align);
}
