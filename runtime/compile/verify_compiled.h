/* verify_compiled.h: `--verify`: the compiled graph runs beside the graph as read. */
#ifndef TC_VERIFY_COMPILED_H
#define TC_VERIFY_COMPILED_H
#include "compile.h"
#include "draw_inputs.h"

/* Binds what was drawn, floats as numbers of this type (TC_UNDEFINED: as they are). */
tempo_status tc_bind_draw(tc_ctx *ctx, tempo_session *session, const tc_draw *draw, tc_dtype floats);

/* Compiles `like` with other options, `in_double` without a budget. Diagnostics are dropped unless it fails: they were
 * given when the model was compiled. `out_stops` (may be NULL): at how many values gradients stop. */
tc_status tc_compile_again(tc_ctx *ctx, const tc_compile_request *like, const tc_options *options, bool in_double,
                           tc_model **out_model, uint32_t *out_stops);
/* The same tensor as the compiler sees it; borrows the elements. */
tc_tensor tc_view_tensor(const tempo_tensor *t);

/* Gradients beside central differences of the loss. */
typedef struct tc_slopes {
    size_t gradients, directions, unknown; /* unknown: directions along which differences say nothing */
    const char *dtype;                     /* of the differences */
    double worst;                          /* difference, as a part of what slopes have usually */
    const char *why_not;                   /* nothing was compared; NULL else */
    tc_status status;
} tc_slopes;

/* Compiles once more and compares. TC_MISMATCH, with an error for each gradient that is not the slope of the loss.
 * verify_slopes.c */
tc_status tc_compare_slopes(tc_ctx *ctx, const tc_compile_request *like, const tc_options *options, uint64_t seed,
                            const tc_draw *draw, tc_slopes *out);

/* Distinguishes rounding from faults: recipe none in double (`options`), run on demand; values were rounded to `dtype`.
 * In the context's arena, but for its sessions. verify_rounding.c */
typedef struct tc_rounding tc_rounding;
tc_rounding *tc_rounding_create(tc_ctx *ctx, const tc_compile_request *like, const tc_options *options, uint64_t seed,
                                const tc_draw *draw, tempo_dtype dtype);
void tc_rounding_close(tc_rounding *rounding);
/* Both are as near to output `name` in double as rounding explains. False where it does not run in double. */
bool tc_is_rounding(tc_rounding *rounding, const char *name, const tempo_tensor *got, const tempo_tensor *want);

/* Runs graphs on the same random inputs: the file as read, its compilation by recipe `none`, that by the
 * options, and the latter on the reference kernels. Compares outputs with the first, outputs and gradients with the
 * second and the last, gradients with slopes of the loss. Prints a table to `out` (NULL: none). TC_MISMATCH, with an
 * error for each output beyond its tolerance; TC_UNSUPPORTED names the node without a kernel. */
tc_status tc_verify_compiled(tc_ctx *ctx, const tc_compile_request *like, uint64_t seed, FILE *out);
#endif
