/* tempoc_verify.h: `tempoc --verify`: the compiled graph runs beside the graph as read. Of tempoc alone: here passes
 * and runtime meet. */
#ifndef TEMPOC_VERIFY_H
#define TEMPOC_VERIFY_H
#include "kernels/common/philox.h"
#include "passes/pass/pass.h"
#include "runtime/tempo.h"
#include "compiler/base/file.h"
#include "tempoc_checkpoint.h"

typedef struct tempoc_dim {
    const char *name;
    int64_t value;
} tempoc_dim;

typedef struct tempoc_input {
    const char *name;
    tempo_tensor tensor;
} tempoc_input;

/* Random elements for the inputs of a graph. In the context's arena. */
typedef struct tempoc_draw {
    tempoc_input *inputs; /* those without default */
    size_t n_inputs;
    tempoc_dim *dims; /* symbols that had no value, with the small one they got: 2, 3, 4, ... */
    size_t n_dims, cap_dims;
} tempoc_draw;

/* Draws what makes sense for each input: floats normal; integers below the size of every table that they index; other
 * integers and booleans ones and zeros, as masks are, the first of each row one. Types of all values must be inferred.
 * TC_UNSUPPORTED names an input of unknown rank or of a type that cannot be drawn. tempoc_draw.c */
tc_status tempoc_draw_inputs(tc_ctx *ctx, const tc_model *model, uint64_t seed, tempoc_draw *out_draw);

/* The same under other numbers. */
typedef struct tempoc_drawing {
    uint64_t seed;
    int64_t first_dim, dim_step; /* of the values of symbols; dims without a name are first_dim */
    uint64_t most;               /* bytes of an input whose elements are drawn: others have a shape, and no data */
} tempoc_drawing;
tc_status tempoc_draw_some(tc_ctx *ctx, const tc_model *model, const tempoc_drawing *how, tempoc_draw *out_draw);

/* Normal number `index` of a draw. tempoc_draw.c */
double tempoc_normal(const tk_draw *draw, uint64_t index);

/* Binds what was drawn, floats as numbers of this type (TC_UNDEFINED: as they are). tempoc_verify.c */
tempo_status tempoc_bind(tc_ctx *ctx, tempo_session *session, const tempoc_draw *draw, tc_dtype floats);

/* The files that all graphs come from. */
typedef struct tempoc_source {
    const tc_file *file;
    const char *path;
    const rt_weights *weights; /* of --checkpoint; NULL: there is none */
    const tc_runtime *runtime; /* for --memory-budget */
} tempoc_source;

/* The model as it is read: the file's, with the weights of the other. tempoc_verify.c */
tc_status tempoc_read(tc_ctx *ctx, const tempoc_source *from, tc_model **out_model);
/* Without --memory-budget and its kin. */
void tempoc_drop_budget(tc_options *options);
/* What others are measured by: recipe none, without that either, nor --gelu and its kin, which it does not heed. */
void tempoc_make_yardstick(tc_options *options);
/* Reads and compiles; `raise`: in double. Diagnostics are dropped unless it fails: they were given when the model was
 * compiled. `out_stops` (may be NULL): at how many values gradients stop. tempoc_verify.c */
tc_status tempoc_compile(tc_ctx *ctx, const tempoc_source *from, const tc_options *options, bool raise,
                         tc_model **out_model, uint32_t *out_stops);
/* Gives every float type in the model, as read, as double. tempoc_double.c */
tc_status tempoc_raise_to_double(tc_ctx *ctx, tc_model *model);
/* The same tensor as the compiler sees it; borrows the elements. */
tc_tensor tempoc_view(const tempo_tensor *t);

/* Gradients beside central differences of the loss. */
typedef struct tempoc_slopes {
    size_t gradients, directions, unknown; /* unknown: directions along which differences say nothing */
    const char *dtype;                     /* of the differences */
    double worst;                          /* difference, as a part of what slopes have usually */
    const char *why_not;                   /* nothing was compared; NULL else */
    tc_status status;
} tempoc_slopes;

/* Compiles once more and compares. TC_MISMATCH, with an error for each gradient that is not the slope of the loss.
 * tempoc_slopes.c */
tc_status tempoc_compare_slopes(tc_ctx *ctx, const tempoc_source *from, const tc_options *options, uint64_t seed,
                                const tempoc_draw *draw, tempoc_slopes *out);

/* What tells rounding from faults: recipe none in double (`options`), run when somebody asks; values were rounded to
 * `dtype`. In the context's arena, but for its sessions. tempoc_rounding.c */
typedef struct tempoc_rounding tempoc_rounding;
tempoc_rounding *tempoc_rounding_create(tc_ctx *ctx, const tempoc_source *from, const tc_options *options,
                                        uint64_t seed, const tempoc_draw *draw, tempo_dtype dtype);
void tempoc_rounding_close(tempoc_rounding *rounding);
/* Both are as near to output `name` in double as rounding explains. False where it does not run in double. */
bool tempoc_is_rounding(tempoc_rounding *rounding, const char *name, const tempo_tensor *got, const tempo_tensor *want);

/* Runs graphs on the same random inputs: the file as read, what recipe `none` makes of it, what `options` make of it,
 * the same on the reference kernels. Compares outputs with the first, outputs and gradients with the second and the
 * last, gradients with slopes of the loss. Prints a table to `out` (NULL: none). TC_MISMATCH, with an error for each
 * output beyond its tolerance; TC_UNSUPPORTED names the node without a kernel. tempoc_verify.c */
tc_status tempoc_verify(tc_ctx *ctx, const tempoc_source *from, const tc_options *options, uint64_t seed, FILE *out);
#endif
