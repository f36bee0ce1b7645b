/* draw_inputs.h: random inputs for a graph: --verify runs it on them, and a target is asked whether it could. */
#ifndef TC_DRAW_INPUTS_H
#define TC_DRAW_INPUTS_H
#include "compiler/ir/ir.h"
#include "kernels/common/philox.h"
#include "runtime/tempo.h"

typedef struct tc_drawn_dim {
    const char *name;
    int64_t value;
} tc_drawn_dim;

typedef struct tc_drawn_input {
    const char *name;
    tempo_tensor tensor;
} tc_drawn_input;

/* Random elements for the inputs of a graph. In the context's arena. */
typedef struct tc_draw {
    tc_drawn_input *inputs; /* those without default */
    size_t n_inputs;
    tc_drawn_dim *dims; /* symbols that had no value, with the small one they got: 2, 3, 4, ... */
    size_t n_dims, cap_dims;
} tc_draw;

/* Draws what makes sense for each input: floats normal; integers below the size of every table that they index; other
 * integers and booleans ones and zeros, as masks are, the first of each row one. Types of all values must be inferred.
 * TC_UNSUPPORTED names an input of unknown rank or of a type that cannot be drawn. */
tc_status tc_draw_inputs(tc_ctx *ctx, const tc_model *model, uint64_t seed, tc_draw *out_draw);

/* The same under other numbers. */
typedef struct tc_drawing {
    uint64_t seed;
    int64_t first_dim, dim_step; /* of the values of symbols; dims without a name are first_dim */
    uint64_t most;               /* bytes of an input whose elements are drawn: others have a shape, and no data */
} tc_drawing;
tc_status tc_draw_some(tc_ctx *ctx, const tc_model *model, const tc_drawing *how, tc_draw *out_draw);

/* Normal number `index` of a draw. */
double tc_draw_normal(const tk_draw *draw, uint64_t index);
#endif
