/* eval.h: evaluators, as ops.def names them. An evaluator computes the contents of one result of a node from contents
 * or shapes of its operands, or returns NULL where they do not suffice. Types of the results are known already. */
#ifndef TC_EVAL_H
#define TC_EVAL_H
#include "contents.h"
#include "compiler/ir/ops.h"

typedef struct tc_eval {
    tc_model *model;
    tc_arena *arena;
    tc_dim_pool *dims;
} tc_eval;

/* Contents of an operand; NULL: not known, or absent. */
const tc_contents *tc_eval_in(tc_eval *ev, const tc_node *node, uint32_t index);
/* Empty contents of the result's static type; NULL where its shape is not static, its type not evaluated or it is too
 * large. */
tc_contents *tc_eval_out(tc_eval *ev, const tc_node *node, uint32_t output);
/* The items of contents under construction. */
static inline tc_scalar *tc_eval_items(tc_contents *contents) { return (tc_scalar *)contents->items; }
/* Numbers of an integer operand; false where it is absent, not known or symbolic. */
bool tc_eval_ints(tc_eval *ev, const tc_node *node, uint32_t index, const int64_t **out, size_t *out_count);

/* Elements per step of each axis of a row-major tensor. */
void tc_eval_strides(int rank, const int64_t *dims, int64_t strides[TC_MAX_RANK]);
/* Advances a coordinate in row-major order. */
void tc_eval_next(int rank, const int64_t *dims, int64_t at[TC_MAX_RANK]);
/* Axis into 0..rank-1; -1 where it is out of range. */
int tc_eval_axis(int64_t axis, int rank);

/* An integer in the range of its type: numbers wrap around, symbols are taken to fit, unrepresentable integers are
 * unknown. */
tc_dim tc_eval_wrap(tc_dtype dtype, tc_dim value);
bool tc_eval_is_int(tc_dtype dtype); /* integer or bool: items are dims */

/* Two-operand arithmetic on items of one type. */
typedef enum tc_arith {
    TC_ADD,
    TC_SUB,
    TC_MUL,
    TC_DIV,
    TC_MOD,
    TC_FMOD,
    TC_POW,
    TC_MAX,
    TC_MIN,
    TC_AND,
    TC_OR,
    TC_XOR
} tc_arith;
tc_scalar tc_eval_arith(tc_eval *ev, tc_arith op, tc_dtype dtype, tc_scalar a, tc_scalar b);

/* Each row of ops.def names one of these, or none. */
typedef const tc_contents *(*tc_eval_fn)(tc_eval *ev, const tc_node *node, uint32_t output);
#define ROW(name, since, in_lo, in_hi, out_lo, out_hi, types, traits, shape, eval, ...)                                \
    const tc_contents *tc_eval_##eval(tc_eval *ev, const tc_node *node, uint32_t output);
#include "compiler/ir/ops.def"
#endif
