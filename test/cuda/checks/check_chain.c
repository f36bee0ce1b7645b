/* check_chain.c: chains of elementwise ops on the emulated device: each kind of link by itself, and chains as steps of
 * transformers have them. */
#include "chain_case.h"
#include <stdio.h>

static bounds close_to(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 2, .absolute = 0x1p-20}
           : dtype == TK_F64 ? (bounds){.relative = 1e-11, .absolute = 1e-13}
                             : (bounds){.relative = 2e-6, .absolute = 4e-7};
}

static void compare(const made_link *links, int n_links, const char *what, int64_t n) {
    for (int i = 0; i < n_links; i++) {
        if (links[i].store.n > 0)
            pair_compare(links[i].store, close_to(links[i].store.dtype), "%s, link %d, of %lld", what, i, (long long)n);
        if (links[i].mask.n > 0)
            pair_compare(links[i].mask, (bounds){0}, "%s, mask of link %d, of %lld", what, i, (long long)n);
    }
}

static bool takes_operand(tk_link_op op) {
    return op <= TK_LINK_DIV || op == TK_LINK_POINTWISE_GRAD || op == TK_LINK_DROPOUT_GRAD;
}

static const int64_t seeds[] = {77, 3};

static void each_link(void) {
    static const struct {
        int64_t n, inner, period;
    } shapes[] = {{1, 1, 1},       {37, 1, 37},     {4 * 257, 1, 257}, {6 * 64, 1, 64},
                  {6 * 64, 64, 6}, {5 * 33, 33, 5}, {300, 1, 1}};
    for (int op = 0; op < TK_LINK_OPS; op++)
        for (const tk_dtype *t = all_floats; *t; t++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                for (int swapped = 0; swapped < 2; swapped++) {
                    int64_t n = shapes[s].n;
                    bool full = op == TK_LINK_POINTWISE_GRAD || op == TK_LINK_DROPOUT_GRAD;
                    tk_dtype type = op == TK_LINK_DROPOUT_GRAD ? TK_BOOL : *t;
                    pair first = pair_random(*t, n, op == TK_LINK_DIV ? 1 : -4, 4);
                    made_link link = {.link = {.op = (tk_link_op)op,
                                               .swapped = swapped,
                                               .inner = full ? 1 : shapes[s].inner,
                                               .period = full ? n : shapes[s].period,
                                               .row = TK_POINTWISE_gelu,
                                               .seed = {.node = 5}},
                                      .store = pair_result(*t, n)};
                    if (takes_operand((tk_link_op)op))
                        link.operand = pair_random(type, link.link.period, op == TK_LINK_DIV ? 1 : -4, 4);
                    if (op == TK_LINK_DROPOUT) {
                        link.seed = pair_of(TK_I64, 2, seeds);
                        link.mask = pair_result(TK_BOOL, n);
                        link.ratio = pair_numbers(TK_F32, 1, (const double[]){0.4});
                    }
                    ON_BOTH(chain_run, CHAIN_OF(first, n, &link, 1));
                    char what[64];
                    snprintf(what, sizeof what, "op %d%s", op, swapped ? ", the other way round" : "");
                    compare(&link, 1, what, n);
                }
}

/* x + bias, dropped, + residual: the middle one kept, the last over the residual. */
static void bias_dropout_residual(void) {
    static const int64_t columns[] = {1, 31, 64, 257};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
            int64_t n = 9 * columns[i];
            pair first = pair_random(*t, n, -3, 3), residual = pair_random(*t, n, -2, 2);
            made_link links[] = {
                {.link = {.op = TK_LINK_ADD, .inner = 1, .period = columns[i]},
                 .operand = pair_random(*t, columns[i], -1, 1)},
                {.link = {.op = TK_LINK_DROPOUT, .seed = {.node = 9}},
                 .seed = pair_of(TK_I64, 2, seeds),
                 .mask = pair_result(TK_BOOL, n),
                 .store = pair_result(*t, n)},
                {.link = {.op = TK_LINK_ADD, .inner = 1, .period = n}, .operand = residual, .store = residual}};
            ON_BOTH(chain_run, CHAIN_OF(first, n, links, 3));
            compare(links, 3, "bias, dropout, residual", n);
        }
}

/* As long as a chain can be, on bases that are not aligned. */
static void longest(void) {
    for (const tk_dtype *t = all_floats; *t; t++) {
        made_link links[TK_CHAIN_LINKS];
        int64_t n = 515;
        for (int i = 0; i < TK_CHAIN_LINKS; i++)
            links[i] = (made_link){.link = {.op = i % 2 ? TK_LINK_MUL : TK_LINK_ADD, .inner = 1, .period = n},
                                   .operand = pair_from(pair_random(*t, n + 1, 0.5, 1.5), 1),
                                   .store = i % 3 == 1 ? pair_from(pair_result(*t, n + 1), 1) : (pair){.n = 0}};
        links[TK_CHAIN_LINKS - 1].store = pair_result(*t, n);
        pair first = pair_random(*t, n, 1, 2);
        ON_BOTH(chain_run, CHAIN_OF(first, n, links, TK_CHAIN_LINKS));
        compare(links, TK_CHAIN_LINKS, "longest", n);
    }
}

static void faults(void) {
    made_link link = {.link = {.op = TK_LINK_DROPOUT, .seed = {.node = 9}},
                      .seed = pair_of(TK_I64, 2, seeds),
                      .ratio = pair_numbers(TK_F32, 1, (const double[]){1.0}),
                      .store = pair_result(TK_F32, 40)};
    pair first = pair_random(TK_F32, 40, -1, 1);
    ON_BOTH(chain_run, CHAIN_OF(first, 40, &link, 1));
    expect_fault(TK_BAD_VALUE, "a ratio of 1");
}

const cuda_check checks[] = {{"each link", each_link},
                             {"bias, dropout, residual", bias_dropout_residual},
                             {"longest", longest},
                             {"faults", faults},
                             {NULL, NULL}};
