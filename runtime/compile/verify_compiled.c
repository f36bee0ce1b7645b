/* verify_compiled.c: `tempoc --verify`: from one file to graphs that run on the same random inputs, and a table of
 * their differences. The file as read defines the outputs, recipe `none` the gradients; neither has the rewrites that
 * the user added, but their gradient rules. Dropout draws the same masks in all three. An output is measured relative
 * to its largest element, a gradient to at least a hundredth of the largest gradient: some gradients are zero in theory
 * (the bias of a key in attention) and rounding noise in practice. Where all of them are, verify_rounding.c computes
 * the size of rounding. Graphs run by the same kernels share their faults: the compiled one runs on the reference
 * kernels as well, and slopes of the loss (verify_slopes.c) know no rule. */
#include "verify_compiled.h"
#include "passes/budget/budget.h"
#include "passes/bodies/bodies.h"
#include "passes/upgrade/upgrade.h"
#include "passes/precision/precision.h"
#include "runtime/session/session.h"
#include <math.h>
#include <string.h>

/* What --lora adds changes no result at first; autodiff only answers Gradient nodes here. */
#define AS_READ(adapters) "restore,past,upgrade,inline,shapes," adapters "loss,outputs,dropout,autodiff"
#define NOISE 0.01 /* of the largest gradient */
#define MAX_MISMATCHES 10

/* Room for the rounding of other orders of summation, none for another formula. */
static double tolerance(tempo_dtype dtype) {
    switch (dtype) {
    case TEMPO_DOUBLE: return 1e-9;
    case TEMPO_FLOAT: return 1e-4;
    case TEMPO_FLOAT16: return 1e-2;
    case TEMPO_BFLOAT16: return 5e-2;
    default: return 0;
    }
}

/* --- the graphs ------------------------------------------------------------------------------- */

typedef struct variant {
    const char *name;
    tc_options options;
    const rt_device *device; /* NULL: the CPU */
    tempo_session *session;
} variant;

tc_status tc_compile_again(tc_ctx *ctx, const tc_compile_request *like, const tc_options *options, bool in_double,
                           tc_model **out_model, uint32_t *out_stops) {
    tc_compiled compiled;
    tc_options own = *options;
    tc_compile_request request = *like;
    if (in_double) /* nothing has the bytes that the budget is for */
        tc_drop_budget(&own);
    request.options = &own;
    request.in_double = in_double;
    size_t n_diags = ctx->n_diags;
    TC_TRY(tc_compile(ctx, &request, &compiled));
    ctx->n_diags = n_diags;
    *out_model = compiled.model;
    if (out_stops)
        *out_stops = compiled.summary.stops;
    return TC_OK;
}

static tc_status failed(tc_ctx *ctx, const variant *v, tempo_status status) {
    if (v->session->lost)
        rt_close_or_fail(v->session);
    tc_diags_add(ctx, v->session->ctx.diags, v->session->ctx.n_diags);
    tc_note(ctx, NULL, "--verify could not run %s", v->name);
    return (tc_status)status;
}

tempo_status tc_bind_draw(tc_ctx *ctx, tempo_session *session, const tc_draw *draw, tc_dtype floats) {
    tempo_status status = TEMPO_OK;
    for (size_t i = 0; status == TEMPO_OK && i < draw->n_inputs; i++) {
        tempo_tensor t = draw->inputs[i].tensor;
        if (floats != TC_UNDEFINED && tc_dtype_is_float((tc_dtype)t.dtype) && (tc_dtype)t.dtype != floats) {
            tc_tensor from = tc_view_tensor(&t);
            t.dtype = (tempo_dtype)floats;
            t.bytes = from.count * tempo_dtype_size(t.dtype);
            t.data = tc_arena_alloc(ctx->arena, t.bytes + 1, 16);
            for (uint64_t k = 0; k < from.count; k++)
                tc_element_set(floats, t.data, k, tc_tensor_get(&from, k));
        }
        status = tempo_bind(session, draw->inputs[i].name, &t);
    }
    return status;
}

static tc_status run(tc_ctx *ctx, variant *v, const tc_draw *draw, uint64_t seed) {
    tempo_status status = tc_bind_draw(ctx, v->session, draw, TC_UNDEFINED);
    if (status == TEMPO_OK) {
        tempo_seed(v->session, seed, 0);
        status = tempo_run(v->session);
    }
    return status == TEMPO_OK ? TC_OK : failed(ctx, v, status);
}

/* Compiles, and draws inputs for the graph where `draw` has none yet. */
static tc_status prepare(tc_ctx *ctx, const tc_compile_request *like, variant *v, uint64_t seed, tc_draw *draw) {
    const rt_hooks hooks = {tc_upgrade_model, tc_body_for, v->device};
    tc_model *model;
    TC_TRY(tc_compile_again(ctx, like, &v->options, false, &model, NULL));
    tc_status status = draw->inputs ? TC_OK : tc_draw_inputs(ctx, model, seed, draw);
    if (status != TC_OK) {
        tc_model_destroy(model);
        return status;
    }
    tempo_status opened = rt_open_model(model, like->source->path, NULL, &hooks, &v->session);
    return opened == TEMPO_OK ? run(ctx, v, draw, seed) : failed(ctx, v, opened);
}

/* --- comparing -------------------------------------------------------------------------------- */

typedef struct row {
    const char *what, *with;
    size_t outputs, equal;
    double worst;
    const char *worst_name;
    tc_status status;
    size_t mismatches;
    tempo_dtype inner; /* what --precision says, or the file's weights beside adapters in float */
    size_t rounded;    /* what is further apart than is allowed, by the rounding of what cancels out */
    tc_rounding *rounding;
} row;

tc_tensor tc_view_tensor(const tempo_tensor *t) {
    tc_tensor tensor = {
        .dtype = (tc_dtype)t->dtype, .rank = t->rank, .dims = t->dims, .data = t->data, .bytes = t->bytes};
    tensor.count = t->bytes / tempo_dtype_size(t->dtype);
    return tensor;
}

/* The largest element but for infinities and NaN; `out_finite` (may be NULL) says whether there are none. */
static double largest(const tempo_tensor *t, bool *out_finite) {
    tc_tensor tensor = tc_view_tensor(t);
    double most = 0;
    bool finite = true;
    for (uint64_t i = 0; i < tensor.count; i++) {
        double value = fabs(tc_tensor_get(&tensor, i));
        finite &= isfinite(value) != 0;
        most = isfinite(value) && value > most ? value : most;
    }
    if (out_finite)
        *out_finite = finite;
    return most;
}

static bool same_type(const tempo_tensor *a, const tempo_tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

static double difference(double got, double want) {
    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    return isfinite(got) && isfinite(want) ? fabs(got - want) : INFINITY;
}

/* The greatest difference of two elements relative to `scale`, and its position. */
static double farthest(const tempo_tensor *got, const tempo_tensor *want, double scale, uint64_t *out_index) {
    tc_tensor g = tc_view_tensor(got), w = tc_view_tensor(want);
    double worst = 0;
    for (uint64_t i = 0; i < g.count; i++) {
        double far = difference(tc_tensor_get(&g, i), tc_tensor_get(&w, i));
        if (far > worst) {
            worst = far;
            *out_index = i;
        }
    }
    return worst == 0 ? 0 : scale > 0 ? worst / scale : INFINITY;
}

static void mismatch(tc_ctx *ctx, row *r, const char *name, const char *text) {
    if (r->mismatches++ < MAX_MISMATCHES)
        tc_error(ctx, TC_MISMATCH, NULL, "output '%s' differs from that of %s: %s", tc_quote(ctx, name), r->with, text);
    r->status = TC_MISMATCH;
}

static tempo_dtype inner_type(const variant *v) {
    tc_dtype dtype = tc_precision(&v->options);
    const tc_graph *graph = v->session->model->graph;
    for (uint32_t i = 0; tc_adapts(&v->options) && i < graph->n_initializers; i++)
        if (tc_dtype_is_half(graph->initializers[i]->init->dtype))
            dtype = graph->initializers[i]->init->dtype;
    return (tempo_dtype)dtype;
}

static void compare(tc_ctx *ctx, row *r, const char *name, const tempo_tensor *got, const tempo_tensor *want,
                    double noise) {
    bool rounded = got->dtype == TEMPO_FLOAT && r->inner != TEMPO_FLOAT; /* on the way, layer by layer */
    double most = rounded ? 2 * tolerance(r->inner) : tolerance(got->dtype);
    r->outputs++;
    if (!same_type(got, want)) {
        mismatch(ctx, r, name, "it is of another type or shape");
        return;
    }
    if (got->bytes == 0 || memcmp(got->data, want->data, got->bytes) == 0) {
        r->equal++;
        return;
    }
    double scale = fmax(largest(want, NULL), noise);
    uint64_t at = 0;
    double far = farthest(got, want, scale, &at);
    if (far > most && tc_is_rounding(r->rounding, name, got, want)) {
        r->rounded++;
        return;
    }
    if (far > r->worst || r->worst_name == NULL) {
        r->worst = far;
        r->worst_name = name;
    }
    tc_tensor g = tc_view_tensor(got), w = tc_view_tensor(want);
    if (far > most)
        mismatch(ctx, r, name,
                 tc_arena_printf(ctx->arena, "element %llu is %.9g, expected %.9g; apart by %.2g of %.3g, more than %g",
                                 (unsigned long long)at, tc_tensor_get(&g, at), tc_tensor_get(&w, at), far, scale,
                                 most));
}

static bool has_output(const variant *v, const char *name) {
    tempo_info info;
    for (size_t i = 0; tempo_output_info(v->session, i, &info); i++)
        if (strcmp(info.name, name) == 0)
            return true;
    return false;
}

static double largest_gradient(const variant *read, const variant *v) {
    tempo_info info;
    tempo_tensor t;
    double most = 0;
    for (size_t i = 0; tempo_output_info(v->session, i, &info); i++)
        if (!has_output(read, info.name) && tempo_output(v->session, info.name, &t) == TEMPO_OK)
            most = fmax(most, largest(&t, NULL));
    return most;
}

/* The pass chunk takes the scores of an added loss off the outputs, and says so. */
static bool leaves_scores_out(const variant *v) { return v->options.add_loss && tc_pipeline_has(&v->options, "chunk"); }

/* The outputs of `want` that the file has, or those that it lacks: gradients. */
static void compare_all(tc_ctx *ctx, row *r, const variant *read, const variant *want, const variant *got,
                        bool gradients) {
    tempo_info info;
    tempo_tensor w, g;
    double noise = gradients ? NOISE * largest_gradient(read, want) : 0;
    for (size_t i = 0; tempo_output_info(want->session, i, &info); i++) {
        bool finite = true;
        if (has_output(read, info.name) == gradients || tempo_output(want->session, info.name, &w) != TEMPO_OK)
            continue;
        if (tempo_output(got->session, info.name, &g) == TEMPO_OK)
            compare(ctx, r, info.name, &g, &w, noise);
        else if (gradients || !leaves_scores_out(got))
            mismatch(ctx, r, info.name, "the compiled graph has no such output");
        largest(&w, &finite);
        if (!finite)
            tc_warn(ctx, NULL, "--verify: output '%s' of %s holds NaN or infinity, which proves little",
                    tc_quote(ctx, info.name), want->name);
    }
    if (r->mismatches > MAX_MISMATCHES)
        tc_error(ctx, TC_MISMATCH, NULL, "%zu more outputs differ from those of %s", r->mismatches - MAX_MISMATCHES,
                 r->with);
}

/* --- the report ------------------------------------------------------------------------------- */

static void print_draw(FILE *out, tc_ctx *ctx, const tc_draw *draw, uint64_t seed) {
    fprintf(out, "verified on random inputs, seed %llu:", (unsigned long long)seed);
    for (size_t i = 0; i < draw->n_inputs; i++) {
        const tempo_tensor *t = &draw->inputs[i].tensor;
        fprintf(out, "%s %s %s", i ? "," : "", tc_quote(ctx, draw->inputs[i].name), tempo_dtype_text(t->dtype));
        for (int d = 0; d < t->rank; d++)
            fprintf(out, "%s%lld%s", d ? "," : "[", (long long)t->dims[d], d + 1 == t->rank ? "]" : "");
    }
    fputc('\n', out);
}

static void print_rows(FILE *out, tc_ctx *ctx, const row *rows, size_t n) {
    fprintf(out, "  %-10s %-17s %9s %10s %17s  %s\n", "", "compared with", "compared", "bit-equal", "worst difference",
            "of");
    for (size_t i = 0; i < n; i++)
        fprintf(out, "  %-10s %-17s %9zu %10zu %17.3g  %s\n", rows[i].what, rows[i].with, rows[i].outputs,
                rows[i].equal, rows[i].worst,
                rows[i].worst_name ? tc_quote(ctx, rows[i].worst_name)
                : rows[i].rounded  ? "no other"
                                   : "all bit-equal");
    size_t rounded = 0;
    for (size_t i = 0; i < n; i++)
        rounded += rows[i].rounded;
    if (rounded)
        fprintf(
            out,
            "  %zu of these are rounding of terms that cancel: in double, a few roundings of each value move them as "
            "far\n",
            rounded);
}

static void print_slopes(FILE *out, const tc_slopes *slopes) {
    if (slopes->why_not) {
        fprintf(out, "  gradients are not compared with slopes of the loss: %s\n", slopes->why_not);
        return;
    }
    fprintf(out, "  %zu gradient%s and the loss's slopes along %zu random directions, in %s: apart by %.3g at most",
            slopes->gradients, slopes->gradients == 1 ? "" : "s", slopes->directions - slopes->unknown, slopes->dtype,
            slopes->worst);
    if (slopes->unknown)
        fprintf(out, "; %zu more said nothing, for a kink or rounding", slopes->unknown);
    fputc('\n', out);
}

enum { AS_FILE, NONE, COMPILED, REFERENCE, VARIANTS };

static tc_status verify(tc_ctx *ctx, const tc_compile_request *like, variant variants[VARIANTS], uint64_t seed,
                        tc_draw *draw, tc_rounding *rounding, FILE *out) {
    variant *read = &variants[AS_FILE], *none = &variants[NONE], *compiled = &variants[COMPILED],
            *reference = &variants[REFERENCE];
    tc_slopes slopes = {0};
    TC_TRY(prepare(ctx, like, read, seed, draw));
    for (size_t i = 0; i < draw->n_dims; i++)
        tc_note(ctx, NULL, "--verify: dimension '%s' has no value and is taken as %lld; --dim gives it one",
                tc_quote(ctx, draw->dims[i].name), (long long)draw->dims[i].value);
    TC_TRY(prepare(ctx, like, compiled, seed, draw));
    TC_TRY(prepare(ctx, like, reference, seed, draw));
    row rows[] = {{.what = "outputs", .with = read->name},
                  {.what = "outputs", .with = reference->name},
                  {.what = "gradients", .with = reference->name},
                  {.what = "outputs", .with = none->name},
                  {.what = "gradients", .with = none->name}};
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        rows[i].inner = inner_type(compiled);
        rows[i].rounding = rounding;
    }
    compare_all(ctx, &rows[0], read, read, compiled, false);
    compare_all(ctx, &rows[1], read, reference, compiled, false);
    size_t n = 2;
    bool has_gradients = tempo_output_count(compiled->session) > tempo_output_count(read->session);
    if (has_gradients) { /* else there is no loss, perhaps */
        TC_TRY(prepare(ctx, like, none, seed, draw));
        compare_all(ctx, &rows[n++], read, reference, compiled, true);
        compare_all(ctx, &rows[n++], read, none, compiled, false);
        compare_all(ctx, &rows[n++], read, none, compiled, true);
        tc_compare_slopes(ctx, like, &compiled->options, seed, draw, &slopes);
    }
    if (out) {
        print_draw(out, ctx, draw, seed);
        print_rows(out, ctx, rows, n);
    }
    if (out && has_gradients)
        print_slopes(out, &slopes);
    tc_status status = slopes.status;
    for (size_t i = 0; i < n; i++)
        status = rows[i].status != TC_OK ? rows[i].status : status;
    return status;
}

tc_status tc_verify_compiled(tc_ctx *ctx, const tc_compile_request *like, uint64_t seed, FILE *out) {
    tc_options quiet = *like->options;
    quiet.print_before = quiet.print_after = quiet.explain = NULL;
    quiet.pareto = 0;
    tc_options yardstick = quiet;
    tc_make_yardstick(&yardstick);
    yardstick.only_gradients = true;
    yardstick.inexact = false;
    variant variants[VARIANTS] = {[AS_FILE] = {"the file as read", yardstick},
                                  [NONE] = {"recipe none", yardstick},
                                  [COMPILED] = {"the compiled graph", quiet},
                                  [REFERENCE] = {"reference kernels", quiet, &rt_device_reference}};
    variants[AS_FILE].options.passes = like->options->adapter ? AS_READ("lora,") : AS_READ("");
    variants[AS_FILE].options.n_lora = like->options->adapter ? like->options->n_lora : 0;
    variants[AS_FILE].options.only_requests = true;
    variants[AS_FILE].options.precision = NULL;
    variants[NONE].options.passes = NULL;
    tc_draw draw = {0};
    tc_rounding *rounding =
        tc_rounding_create(ctx, like, &variants[NONE].options, seed, &draw, (tempo_dtype)tc_precision(&quiet));
    tc_status status = verify(ctx, like, variants, seed, &draw, rounding, out);
    tc_rounding_close(rounding);
    for (size_t i = 0; i < TC_COUNT(variants); i++)
        tempo_close(variants[i].session);
    return status;
}
