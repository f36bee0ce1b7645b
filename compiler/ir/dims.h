/* dims.h: a dimension, or an integer that dimensions are computed from. It is a number, a symbolic expression or
 * unknown. Symbolic expressions are kept in one canonical form (a sum of products of symbols) and hash-consed per pool:
 * tc_dim_equal decides in O(1) whether two dims are provably equal. */
#ifndef TC_DIMS_H
#define TC_DIMS_H
#include "compiler/base/base.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct tc_expr tc_expr;
typedef struct tc_dim_pool tc_dim_pool; /* one per model */

typedef struct tc_dim {
    int64_t value;      /* when sym is NULL */
    const tc_expr *sym; /* NULL: known; tc_dim_is_unknown(): nothing is known; else symbolic */
} tc_dim;

tc_dim_pool *tc_dim_pool_create(tc_arena *arena);

static inline tc_dim tc_dim_const(int64_t value) { return (tc_dim){value, NULL}; }
tc_dim tc_dim_unknown(void);
tc_dim tc_dim_symbol(tc_dim_pool *pool, const char *name); /* a size >= 0 with a name: "batch" */

/* A symbol that no other dim uses: a size that depends on data. Named `base`, else base_1, base_2, ... */
tc_dim tc_dim_fresh(tc_dim_pool *pool, const char *base);

static inline bool tc_dim_is_const(tc_dim d) { return d.sym == NULL; }
bool tc_dim_is_unknown(tc_dim d);
bool tc_dim_equal(tc_dim a, tc_dim b); /* provably equal; unknown equals nothing, itself included */

/* Arithmetic. Overflow, too many terms and too much depth give unknown. Division is floor, exact where provable
 * (divisors are taken to be nonzero). Operations outside polynomials (floor, max, min) are kept as opaque factors. */
tc_dim tc_dim_add(tc_dim_pool *pool, tc_dim a, tc_dim b);
tc_dim tc_dim_sub(tc_dim_pool *pool, tc_dim a, tc_dim b);
tc_dim tc_dim_mul(tc_dim_pool *pool, tc_dim a, tc_dim b);
tc_dim tc_dim_div(tc_dim_pool *pool, tc_dim a, tc_dim b);
tc_dim tc_dim_max(tc_dim_pool *pool, tc_dim a, tc_dim b);
tc_dim tc_dim_min(tc_dim_pool *pool, tc_dim a, tc_dim b);
/* Three-valued comparison: 1 true for every binding of symbols >= 1, 0 false for every binding, -1 not known. */
int tc_dim_less(tc_dim a, tc_dim b);

/* The dim under bindings {name -> value}: `lookup` returns false for an unbound symbol, which stays symbolic. `d` may
 * be of another pool, the result is of this one. */
typedef bool (*tc_dim_lookup)(void *user, const char *name, int64_t *value);
tc_dim tc_dim_substitute(tc_dim_pool *pool, tc_dim d, tc_dim_lookup lookup, void *user);

/* "12", "batch", "2*batch*seq + 1", "floor((n + 1)/2)", "max(n, 8)", "?"; in the arena. */
const char *tc_dim_text(tc_arena *arena, tc_dim d);
#endif
