/* verify_slopes.c: gradients against central differences, for `tempoc --verify`. The model is compiled once more, in
 * double where its ops allow that. Values with a gradient become inputs, moved a little off their values: zeros often
 * lie on a kink, and there gradients vanish. The loss alone is cut out of the graph and run at both ends of steps along
 * random directions in all those inputs at once; the slope must be that of the gradients. A slope is believed where two
 * steps agree; where they never do, or the loss has a kink right there, the direction says nothing. */
#include "passes/upgrade/upgrade.h"
#include "passes/bodies/bodies.h"
#include "runtime/session/session.h"
#include "verify_compiled.h"
#include <math.h>
#include <string.h>

#define DIRECTIONS 4
#define STEPS 6
#define SHRINK 8.0
#define MOVED 0.01 /* of the root of the mean square */
#define MAX_FAULTS 10

/* The accuracy of differences of one element type. */
typedef struct precision {
    tc_dtype dtype;
    double limit;    /* of a difference, relative to the usual slope */
    double rounding; /* of the loss */
    double step;     /* the first, of the element that moves most */
    double least;    /* a gradient below this part of the largest moves its input as if it had that */
} precision;
static const precision in_double = {TC_DOUBLE, 1e-5, 1e-13, 1e-4, 1e-3}, in_float = {TC_FLOAT, 1e-2, 1e-6, 1e-2, 0.1};

/* An input with a gradient. */
typedef struct variable {
    const char *name, *gradient_name;
    tempo_tensor tensor; /* the bound tensor */
    uint64_t count;
    double *base, *gradient;
    double *along; /* normal numbers: the direction under test */
    double scale;  /* elements move by such a number times this */
} variable;

typedef struct slopes {
    tc_ctx *ctx;
    uint64_t seed;
    const precision *precision;
    tempo_session *whole, *loss_alone;
    const char *loss_name;
    variable *variables;
    size_t n;
    double loss, widest; /* at the base; the largest scale */
} slopes;

/* --- two graphs ------------------------------------------------------------------------------- */

/* Leaves only the loss as output, and the nodes that it needs. */
static void keep_loss(tc_graph *graph, const char *loss_name) {
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        graph->outputs[i]->n_graph_outputs = 0;
    graph->n_outputs = 0;
    tc_graph_add_output(graph, tc_map_get(graph->names, loss_name));
    tc_remove_dead(graph);
}

/* Every value that has a gradient becomes an input; false: there is none, or no loss. */
static bool take_variables(slopes *s, tc_graph *graph) {
    s->variables = TC_NEW_ARRAY(s->ctx->arena, variable, (size_t)graph->n_outputs + 1);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const tc_value *output = graph->outputs[i];
        tc_value *of = output->gradient_of ? tc_map_get(graph->names, output->gradient_of->name) : NULL;
        if (output->role == TC_ROLE_LOSS)
            s->loss_name = tc_arena_strdup(s->ctx->arena, output->name);
        if (output->role != TC_ROLE_GRADIENT || !of || !(of->init || of->is_input))
            continue;
        if (!of->is_input)
            tc_graph_add_input(graph, of);
        s->variables[s->n++] = (variable){.name = tc_arena_strdup(s->ctx->arena, of->name),
                                          .gradient_name = tc_arena_strdup(s->ctx->arena, output->name)};
    }
    return s->loss_name && s->n > 0;
}

/* What is bound to an input: drawn, or its default, as doubles. */
static tc_status take_base(slopes *s, tc_model *model, const tc_draw *draw, variable *v) {
    const tc_value *value = tc_map_get(model->graph->names, v->name);
    tc_tensor from = {0};
    for (size_t i = 0; i < draw->n_inputs; i++)
        if (strcmp(draw->inputs[i].name, v->name) == 0)
            from = tc_view_tensor(&draw->inputs[i].tensor);
    if (!from.data) {
        from = *value->init;
        TC_TRY(tc_tensor_map(s->ctx, model, value->init, &from.data));
    }
    v->count = from.count;
    v->base = TC_NEW_ARRAY(s->ctx->arena, double, v->count + 1);
    v->along = TC_NEW_ARRAY(s->ctx->arena, double, v->count + 1);
    v->tensor = (tempo_tensor){(tempo_dtype)s->precision->dtype, from.rank, from.dims, NULL, 0};
    v->tensor.bytes = v->count * tempo_dtype_size(v->tensor.dtype);
    v->tensor.data = tc_arena_alloc(s->ctx->arena, v->tensor.bytes + 1, 16);
    double square = 0;
    for (uint64_t i = 0; i < v->count; i++) {
        v->base[i] = tc_tensor_get(&from, i);
        square += v->base[i] * v->base[i] / (double)v->count;
    }
    const tk_draw moves = {s->seed, (uint32_t)(v - s->variables), UINT32_MAX};
    for (uint64_t i = 0; i < v->count; i++)
        v->base[i] += MOVED * (square > 0 ? sqrt(square) : 1) * tc_draw_normal(&moves, i);
    return TC_OK;
}

static tempo_status bind_all(const slopes *s, tempo_session *session, const tc_draw *draw) {
    tempo_status status = tc_bind_draw(s->ctx, session, draw, s->precision->dtype);
    for (size_t i = 0; status == TEMPO_OK && i < s->n; i++)
        status = tempo_bind(session, s->variables[i].name, &s->variables[i].tensor);
    tempo_seed(session, s->seed, 0);
    return status;
}

/* --- points ----------------------------------------------------------------------------------- */

/* Draws a direction in all inputs, or in `only` one. */
static void turn(slopes *s, uint32_t direction, const variable *only) {
    for (size_t i = 0; i < s->n; i++) {
        variable *v = &s->variables[i];
        const tk_draw draw = {s->seed, (uint32_t)i, direction};
        for (uint64_t k = 0; k < v->count && (only == NULL || only == v); k++)
            v->along[k] = tc_draw_normal(&draw, k);
    }
}

/* All inputs, or `only` one, at `step` along the direction. */
static void move(slopes *s, double step, const variable *only) {
    for (size_t i = 0; i < s->n; i++) {
        const variable *v = &s->variables[i];
        double factor = only == NULL || only == v ? step * v->scale : 0;
        for (uint64_t k = 0; k < v->count; k++)
            tc_element_set(s->precision->dtype, v->tensor.data, k,
                           v->base[k] + (factor == 0 ? 0 : factor * v->along[k]));
    }
}

/* NaN where the graph does not run. */
static double loss_of(slopes *s, tempo_session *session) {
    tempo_tensor loss;
    if (tempo_run(session) != TEMPO_OK || tempo_output(session, s->loss_name, &loss) != TEMPO_OK)
        return NAN;
    tc_tensor view = tc_view_tensor(&loss);
    return tc_tensor_get(&view, 0);
}

static bool take_gradients(slopes *s) {
    double largest = 0;
    bool finite = true;
    for (size_t i = 0; i < s->n; i++) {
        variable *v = &s->variables[i];
        tempo_tensor t;
        if (tempo_output(s->whole, v->gradient_name, &t) != TEMPO_OK || tc_view_tensor(&t).count != v->count)
            return false;
        tc_tensor view = tc_view_tensor(&t);
        v->gradient = TC_NEW_ARRAY(s->ctx->arena, double, v->count + 1);
        for (uint64_t k = 0; k < v->count; k++) {
            v->gradient[k] = tc_tensor_get(&view, k);
            v->scale += v->gradient[k] * v->gradient[k];
        }
        v->scale = sqrt(v->scale);
        finite = finite && isfinite(v->scale);
        largest = fmax(largest, v->scale);
    }
    s->widest = 0;
    for (size_t i = 0; i < s->n; i++) {
        variable *v = &s->variables[i];
        v->scale = largest > 0 ? 1 / fmax(v->scale, s->precision->least * largest) : 1;
        s->widest = fmax(s->widest, v->scale);
    }
    return finite;
}

/* --- judging ---------------------------------------------------------------------------------- */

typedef struct slope {
    double expected, found, usual; /* by the gradients; by differences; the usual size of such a slope */
    enum { SLOPE_RIGHT, SLOPE_WRONG, SLOPE_UNKNOWN } verdict;
} slope;

static void expect(const slopes *s, const variable *only, slope *out) {
    double square = 0;
    for (size_t i = 0; i < s->n; i++) {
        const variable *v = &s->variables[i];
        for (uint64_t k = 0; k < v->count && (only == NULL || only == v); k++) {
            double g = v->gradient[k] * v->scale;
            out->expected += g == 0 ? 0 : g * v->along[k];
            square += g * g;
        }
    }
    out->usual = fmax(sqrt(square), fabs(out->expected));
}

/* A kink at the base does not become smaller with the step, as the difference of both sides does elsewhere. */
static bool is_kink(double sides, double sides_before, double far) {
    return sides > far / 4 && sides > sides_before / 2;
}

static slope judge(slopes *s, uint32_t direction, const variable *only) {
    slope result = {.verdict = SLOPE_UNKNOWN};
    double step = s->precision->step / (only ? only->scale : s->widest), before = NAN, sides_before = NAN;
    turn(s, direction, only);
    expect(s, only, &result);
    for (int i = 0; i < STEPS; i++, step /= SHRINK) {
        move(s, step, only);
        double up = loss_of(s, s->loss_alone);
        move(s, -step, only);
        double down = loss_of(s, s->loss_alone), noise = s->precision->rounding * fabs(s->loss) / step;
        double found = (up - down) / (2 * step), far = fabs(found - result.expected),
               sides = fabs(up - s->loss + (down - s->loss)) / step;
        result.found = found;
        if (far <= s->precision->limit * result.usual + noise) {
            result.verdict = noise <= result.usual || result.usual == 0 ? SLOPE_RIGHT : SLOPE_UNKNOWN;
            return result;
        }
        if (fabs(found - before) <= far / SHRINK && noise <= far / SHRINK) {
            result.verdict = is_kink(sides, sides_before, far) ? SLOPE_UNKNOWN : SLOPE_WRONG;
            return result;
        }
        before = found;
        sides_before = sides;
    }
    return result;
}

/* Which gradient it is, one at a time; true: one was found. */
static bool name_faults(slopes *s, uint32_t direction) {
    size_t reported = 0;
    for (size_t i = 0; i < s->n && reported < MAX_FAULTS; i++) {
        slope each = judge(s, direction, &s->variables[i]);
        if (each.verdict != SLOPE_WRONG)
            continue;
        reported++;
        tc_error(s->ctx, TC_MISMATCH, NULL,
                 "gradient '%s' is not the slope of the loss: along a random direction it gives %.9g, central "
                 "differences in %s %.9g",
                 tc_quote(s->ctx, s->variables[i].gradient_name), each.expected, tc_dtype_name(s->precision->dtype),
                 each.found);
    }
    return reported > 0;
}

static void judge_all(slopes *s, tc_slopes *out) {
    for (uint32_t d = 0; d < DIRECTIONS; d++) {
        slope all = judge(s, d, NULL);
        out->unknown += all.verdict == SLOPE_UNKNOWN;
        if (all.verdict == SLOPE_UNKNOWN)
            continue;
        double far = fabs(all.found - all.expected);
        out->worst = fmax(out->worst, far == 0 ? 0 : all.usual > 0 ? far / all.usual : far);
        if (all.verdict == SLOPE_RIGHT || out->status != TC_OK)
            continue;
        out->status = TC_MISMATCH;
        if (!name_faults(s, d))
            tc_error(s->ctx, TC_MISMATCH, NULL,
                     "the gradients are not the slope of the loss: along a random direction in all of them they give "
                     "%.9g, central differences in %s %.9g",
                     all.expected, tc_dtype_name(s->precision->dtype), all.found);
    }
    out->directions = DIRECTIONS;
}

/* --- all of it -------------------------------------------------------------------------------- */

static tc_status open(tc_model *model, const char *path, tempo_session **out_session) {
    static const rt_hooks hooks = {tc_upgrade_model, tc_body_for};
    return rt_open_model(model, path, NULL, &hooks, out_session) == TEMPO_OK ? TC_OK : TC_UNSUPPORTED;
}

/* Makes both graphs and runs them at the base. TC_OK with why_not set: nothing can be compared. */
static tc_status prepare(slopes *s, tc_model *model, const char *path, const tc_draw *draw, tc_slopes *out) {
    if (!take_variables(s, model->graph)) {
        tc_model_destroy(model);
        out->why_not = "there are no gradients of a loss";
        return TC_OK;
    }
    tc_status status = TC_OK;
    for (size_t i = 0; status == TC_OK && i < s->n; i++)
        status = take_base(s, model, draw, &s->variables[i]);
    if (status != TC_OK) {
        tc_model_destroy(model);
        return status;
    }
    tc_model *cut = tc_model_clone(model);
    keep_loss(cut->graph, s->loss_name);
    move(s, 0, NULL);
    status = open(model, path, &s->whole); /* the clone borrows from it, and is closed first */
    if (status != TC_OK)
        tc_model_destroy(cut);
    else
        status = open(cut, path, &s->loss_alone);
    TC_TRY(status);
    if (bind_all(s, s->whole, draw) != TEMPO_OK || bind_all(s, s->loss_alone, draw) != TEMPO_OK)
        return TC_UNSUPPORTED;
    s->loss = loss_of(s, s->loss_alone);
    if (tempo_run(s->whole) != TEMPO_OK)
        return TC_UNSUPPORTED;
    if (!isfinite(s->loss) || !take_gradients(s))
        out->why_not = "the loss or a gradient is not finite";
    return TC_OK;
}

static tc_status attempt(tc_ctx *ctx, const tc_compile_request *like, const tc_options *options, uint64_t seed,
                         const tc_draw *draw, const precision *by, tc_slopes *out) {
    slopes s = {.ctx = ctx, .seed = seed, .precision = by};
    tc_options all = *options;
    tc_model *model;
    all.train_padding = true; /* the loss depends on those rows, too */
    uint32_t stops = 0;
    TC_TRY(tc_compile_again(ctx, like, &all, by->dtype == TC_DOUBLE, &model, &stops));
    if (stops) {
        tc_model_destroy(model);
        out->why_not = "gradients stop at values that the loss depends on";
        return TC_OK;
    }
    tc_status status = prepare(&s, model, like->source->path, draw, out);
    if (status == TC_OK && !out->why_not)
        judge_all(&s, out);
    out->gradients = s.n;
    out->dtype = tc_dtype_name(by->dtype);
    tempo_close(s.loss_alone);
    tempo_close(s.whole);
    return status;
}

tc_status tc_compare_slopes(tc_ctx *ctx, const tc_compile_request *like, const tc_options *options, uint64_t seed,
                            const tc_draw *draw, tc_slopes *out) {
    size_t n_diags = ctx->n_diags;
    const precision *tries[] = {&in_double, &in_float};
    for (size_t i = 0; i < TC_COUNT(tries); i++) {
        *out = (tc_slopes){0};
        if (attempt(ctx, like, options, seed, draw, tries[i], out) == TC_OK)
            return out->status;
        ctx->n_diags = n_diags;
    }
    *out = (tc_slopes){.why_not = "the graph runs neither in double nor in float with its parameters as inputs"};
    return TC_OK;
}
