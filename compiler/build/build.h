/* build.h: makes nodes. Helpers append a node to the end of a graph and infer its types at once, so that a result's
 * shape can be asked for in the next line. Errors stick: after the first one helpers go on returning values (without
 * types), so that callers need no checks until the end, where they read `status`. Where a shape is not known before the
 * run it is built from Shape(x): a use of x that keeps none of its elements alive. */
#ifndef TC_BUILD_H
#define TC_BUILD_H
#include "compiler/shape/shape.h"

/* Small constants, each made once. */
typedef struct tc_build_pool {
    tc_arena *arena;
    tc_map *constants; /* text -> tc_value */
} tc_build_pool;

typedef struct tc_build {
    tc_ctx *ctx;
    tc_model *model;
    tc_graph *graph;
    tc_build_pool *pool;
    const char *label;      /* new values are called <label>/<Op>; NULL: <Op> */
    struct tc_gradient *of; /* of a gradient builder: its task (passes/gradients/gradients.h); NULL: it is none */
    tc_status status;
} tc_build;

/* --- nodes ------------------------------------------------------------------------------------ */
tc_node *tc_build_node(tc_build *g, const char *domain, const char *op, size_t n_inputs, tc_value *const *inputs,
                       uint32_t n_outputs);
/* The same with only those results that are wanted[i]; the others are absent. At least one is. */
tc_node *tc_build_node_with(tc_build *g, const char *domain, const char *op, size_t n_inputs, tc_value *const *inputs,
                            uint32_t n_outputs, const bool *wanted);
tc_value *tc_build_finish(tc_build *g,
                          tc_node *node); /* after its attributes: infers types, returns the first result */
#define TC_VALUES(...)                                                                                                 \
    TC_COUNT(((tc_value *[]){__VA_ARGS__})), (tc_value *[]) { __VA_ARGS__ }
/* A node of ai.onnx with one result, to be finished. */
#define TC_BEGIN(g, op, ...) tc_build_node((g), "", (op), TC_VALUES(__VA_ARGS__), 1)
/* The same without attributes, finished. */
#define TC_OP(g, op, ...) tc_build_finish((g), TC_BEGIN((g), (op), __VA_ARGS__))

/* --- constants and shapes --------------------------------------------------------------------- */
tc_value *tc_build_ints(tc_build *g, const int64_t *ints, size_t count);   /* int64[count] */
tc_value *tc_build_int(tc_build *g, int64_t i);                            /* int64[1] */
tc_value *tc_build_scalar(tc_build *g, tc_dtype dtype, double number);     /* [] */
tc_value *tc_build_like(tc_build *g, const tc_value *like, double number); /* [] of like's element type */
tc_value *tc_build_shape(tc_build *g, tc_value *value); /* int64[rank]: a constant, or Shape(value) */
tc_value *tc_build_dims(tc_build *g, tc_value *value, int64_t from, int64_t to); /* the same of dims from .. to - 1 */
tc_value *tc_build_zeros(tc_build *g, tc_value *shape, tc_dtype dtype);          /* of that shape */
bool tc_build_static(const tc_value *value, int axis, int64_t *out_dim);         /* the dim is a number */
/* The ints of a small constant operand. False where they are not known. */
bool tc_build_known_ints(const tc_value *value, int64_t *out_ints, size_t max, size_t *out_count);
bool tc_build_known_number(const tc_value *value, double *out_number); /* of a one-element constant */

/* --- common steps ----------------------------------------------------------------------------- */
tc_value *tc_build_reshape_like(tc_build *g, tc_value *value, tc_value *like);
tc_value *tc_build_reshape(tc_build *g, tc_value *value, tc_value *shape); /* dims in full: 0 means 0 */
tc_value *tc_build_reduce(tc_build *g, const char *op, tc_value *value, const int64_t *axes, size_t n_axes,
                          bool keepdims);
tc_value *tc_build_unsqueeze(tc_build *g, tc_value *value, const int64_t *axes, size_t n_axes);
tc_value *tc_build_transpose(tc_build *g, tc_value *value, const int64_t *perm, int rank);
tc_value *tc_build_expand_like(tc_build *g, tc_value *value, tc_value *like);
tc_value *tc_build_concat(tc_build *g, size_t count, tc_value *const *values, int64_t axis);
tc_value *tc_build_cast(tc_build *g, tc_value *value, tc_dtype dtype);
tc_value *tc_build_wide(tc_build *g,
                        tc_value *value); /* in float, if it is of 16 bits: they count no further than 65504 */
tc_value *tc_build_sum(tc_build *g, size_t count, tc_value *const *values); /* of values of one shape; count >= 1 */

/* --- in front of another node ----------------------------------------------------------------- */
typedef struct tc_insert {
    tc_build g; /* the builder; its status is the first error */
    tc_build_pool pool;
    tc_node *before, *last; /* where the nodes go; the last one of the graph when it began */
} tc_insert;

/* Values are called after `before`. `arena` is scratch and must last until the end. */
void tc_insert_begin(tc_insert *insert, tc_ctx *ctx, tc_arena *arena, tc_node *before);
/* Moves what was made in front of the node. The status is that of the helpers; after an error nothing is left. */
tc_status tc_insert_end(tc_insert *insert);
/* Takes back what was made. */
void tc_insert_undo(tc_insert *insert);
#endif
