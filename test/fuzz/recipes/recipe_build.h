/* recipe_build.h: what the parts of the generator share: random choices, values picked from what is there, nodes put
 * behind it. A function that adds something returns the new value, or NONE where what is there does not allow it.
 * Shapes are worked out here, independently of tempoc. C leaves open in which order arguments are evaluated: a call has
 * at most one that draws or adds, or a program would depend on the compiler. */
#ifndef FUZZ_BUILD_H
#define FUZZ_BUILD_H
#include "recipe_program.h"

#define NONE (-1)
#define CALM 16.0 /* bounds above this are brought down before they are built on */

typedef struct gen {
    fz_program *p;
    uint64_t state;
    int fresh;  /* the last size that only the run knows */
    bool loose; /* sizes are compared as they will be, not as the file says them */
    int64_t sizes[FZ_SYMBOLS];
    bool symbolic; /* symbols are said by name */
} gen;

/* --- chance --- */
uint64_t fz_next(gen *g);
int fz_below(gen *g, int n); /* 0 .. n - 1 */
bool fz_chance(gen *g, int percent);
#define FZ_ONE_OF(g, ...)                                                                                              \
    (((const char *const[]){                                                                                           \
        __VA_ARGS__})[fz_below((g), (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))])

/* --- values --- */
fz_dim fz_symbol(gen *g, int symbol);
static inline fz_dim fz_size(int64_t size) { return (fz_dim){size, 0}; }
fz_dim fz_fresh(gen *g, int64_t size);
int fz_input(gen *g, fz_kind kind, int rank, const fz_dim *dims, double low, double high);
int fz_weight(gen *g, int rank, const fz_dim *dims); /* of numbers only: dims must not be symbolic */
int fz_number(gen *g, double value);                 /* a float constant [], as an initializer or a Constant */
int fz_ints(gen *g, int n, const int64_t *values);   /* int64[n]; n -1: [] */
int fz_true(gen *g);
static inline const fz_value *fz_at(const gen *g, int value) { return &g->p->values[value]; }
static inline fz_dim fz_last(const gen *g, int value, int back) {
    return fz_at(g, value)->dims[fz_at(g, value)->rank - back];
}

/* --- nodes --- */
int fz_node_add(gen *g, const char *op, const char *attrs, int n_in, const int *in); /* the node's index */
int fz_result(gen *g, int node, fz_kind kind, int rank, const fz_dim *dims, double bound);
int fz_call(gen *g, const char *op, const char *attrs, int n_in, const int *in, fz_kind kind, int rank,
            const fz_dim *dims, double bound);
#define FZ_IN(...)                                                                                                     \
    (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]) { __VA_ARGS__ }
int fz_unary(gen *g, const char *op, const char *attrs, int x, double bound);
int fz_binary(gen *g, const char *op, int a, int b, double bound); /* operands that broadcast */
int fz_either(gen *g, const char *op, int a, int b, double bound); /* the same of a commutative op, in any order */
int fz_compare(gen *g, const char *op, int a, int b);
int fz_joined(gen *g, int a, int b, fz_dim *out_dims); /* the rank and dims that two values broadcast to */
int fz_transpose(gen *g, int x, const int *perm);
int fz_reshape(gen *g, int x, int n, const int64_t *target, const fz_dim *dims);
int fz_reduce(gen *g, const char *op, int x, int axis, bool keep, double bound); /* one axis, from the end: -1 */
int fz_matmul(gen *g, int a, int b);
int fz_calm(gen *g, int x); /* x, or something made of it that is no larger than CALM */

/* --- choosing --- */
bool fz_same_dim(const gen *g, fz_dim a, fz_dim b);
bool fz_broadcasts(gen *g, int a, int b);
int fz_pick(gen *g, fz_kind kind, int least_rank, int most_rank); /* recent ones more often */
int fz_partner(gen *g,
               int a);      /* something that a can be combined with: another value, a new weight, a number, itself */
int fz_mask(gen *g, int x); /* booleans that broadcast against x and leave its shape */

/* --- tables --- */
typedef struct fz_row fz_row;
struct fz_row {
    const char *op;
    int weight;
    int (*add)(gen *g, const fz_row *row);
    int form;
    double bound;
    const char *attrs; /* NULL: none */
};
/* Adds one row's nodes, chosen by weight; false where nothing fitted. */
bool fz_add_one(gen *g, const fz_row *rows, int n);
extern const fz_row fz_ops[], fz_patterns[];
extern const int fz_n_ops, fz_n_patterns;
/* The functions of rows that are in movement.c. */
typedef int fz_add(gen *g, const fz_row *row);
/* FZ_PICKED(static, name, x, pick) { ... }: a function of rows that begins with an operand, and has NONE without it. */
#define FZ_PICKED(linkage, name, x, pick)                                                                              \
    static int name##_of(gen *g, const fz_row *row, int x);                                                            \
    linkage int name(gen *g, const fz_row *row) {                                                                      \
        int x = pick;                                                                                                  \
        return x == NONE ? NONE : name##_of(g, row, x);                                                                \
    }                                                                                                                  \
    static int name##_of(gen *g, const fz_row *row, int x)
fz_add fz_add_transpose, fz_add_reshape, fz_add_unsqueeze, fz_add_squeeze, fz_add_flatten, fz_add_expand, fz_add_tile,
    fz_add_slice, fz_add_concat, fz_add_split, fz_add_pad, fz_add_trilu, fz_add_gather, fz_add_gather_elements,
    fz_add_gather_nd, fz_add_scatter_elements, fz_add_scatter_nd, fz_add_conv, fz_add_conv_transpose, fz_add_blocks,
    fz_add_pool, fz_add_recurrent, fz_add_shape_arithmetic;
#endif
