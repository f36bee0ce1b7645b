/* plan_spans.h: which bytes of an arena are taken during which steps, and where the next buffer fits. A binary tree
 * over the steps: a node knows the spans that cover all of its steps, and those that are live in any of them. So a life
 * is looked up in a few nodes, however long it is. Spans that touch become one, which keeps the lists short. */
#ifndef TC_PLAN_SPANS_H
#define TC_PLAN_SPANS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct tc_span {
    uint64_t begin, end;
} tc_span;

typedef struct tc_span_list {
    tc_span *spans; /* in order, none touching the next */
    uint32_t n, cap;
} tc_span_list;

typedef struct tc_spans {
    tc_span_list *cover, *any; /* [2 * n_leaves] */
    uint32_t n_leaves;         /* a power of two */
    uint64_t work;             /* spans visited so far */
} tc_spans;

typedef enum tc_fit { TC_FIT_TIGHTEST, TC_FIT_LOWEST } tc_fit;

/* For steps 0 to n_steps - 1. False: out of memory. */
bool tc_spans_make(tc_spans *spans, uint32_t n_steps);
void tc_spans_free(tc_spans *spans);
void tc_spans_clear(tc_spans *spans);
/* A multiple of `align` at which `bytes` are free from `first` to `last`: in the tightest gap or the lowest, or above
 * everything. */
uint64_t tc_spans_fit(tc_spans *spans, uint32_t first, uint32_t last, uint64_t bytes, uint64_t align, tc_fit fit);
/* False: out of memory. */
bool tc_spans_add(tc_spans *spans, uint32_t first, uint32_t last, tc_span span);
#endif
