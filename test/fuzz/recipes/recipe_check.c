/* recipe_check.c: a program, as a model in float and in double, through the recipes. What is promised to be equal is
 * compared bit by bit, the rest with room for rounding; where that is not enough, the program in double with random
 * factors of about 1 at every value tells how far rounding can take it. Recipe none in double is what all others are
 * measured against; finite differences of the forward pass as read check it in turn. */
#include "recipe_check.h"
#include "compiler/memory/ledger.h"
#include "compiler/ops.h"
#include "compiler/text.h"
#include "passes/pass.h"
#include "runtime/session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const fz_end_names[] = {"passed",
                                    "skipped: not finite or large",
                                    "unsure: rounding",
                                    "refused",
                                    "exact or tiled is not none",
                                    "recipes apart",
                                    "recipes apart in double",
                                    "forward pass apart",
                                    "gradient is not the slope",
                                    "ledger is not the runtime",
                                    "portable is not standard"};

#define TOLERANCE_32 5e-5
#define TOLERANCE_64 1e-9
#define TOLERANCE_STASHED 1e-5 /* in double, where statistics of LayerNormalization are kept in float (stash_type) */
#define NOISE_SIZE 0x1p-22     /* of a rounding, and a few more behind it */
#define NOISE_RUNS 8
#define NOISE_ROOM 16       /* times what the factors did */
#define SMALL_GRADIENT 0.01 /* of the largest: some are zero in theory and noise in practice */
#define LEAST_GRADIENT 2e-3 /* of losses about 1: below are sums that cancel */
#define SMALL_VALUE 0.01
#define LARGE 1e6
#define AS_READ "upgrade,inline,shapes,dropout"
#define IN_BODIES "upgrade,inline,shapes,tied,canonicalize,dropout,raise,autodiff,canonicalize,lean,lower"
#define TILED_IN_BODIES "upgrade,inline,shapes,tied,canonicalize,dropout,raise,autodiff,canonicalize,tile,lean,lower"

/* --- one compiled and run --------------------------------------------------------------------- */

typedef struct variant {
    const char *name, *recipe, *passes;
    fz_style style;
    tc_ctx ctx;
    tempo_session *session;
    uint64_t saved; /* by the ledger; UINT64_MAX: it cannot tell */
} variant;

typedef struct check {
    const fz_program *p;
    fz_counts *rules;
    fz_end *end;
    tc_arena *arena; /* of bound elements */
} check;

static bool fail(check *c, fz_kind_of_end kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fail(check *c, fz_kind_of_end kind, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    c->end->kind = kind;
    vsnprintf(c->end->why, sizeof c->end->why, fmt, args);
    va_end(args);
    return false;
}

/* Warnings may come before it. */
static const char *error_line(const char *text, char out[300]) {
    const char *error = strstr(text, "error: ");
    snprintf(out, 300, "%.*s", (int)strcspn(error ? error : text, "\n"), error ? error : text);
    return out;
}

static bool refused(check *c, variant *v) {
    char line[300], *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    tc_diags_print(&v->ctx, stream);
    fclose(stream);
    const char *message = v->session && *tempo_message(v->session) ? tempo_message(v->session) : text;
    fail(c, FZ_REFUSED, "%s: %s", v->name, error_line(message, line));
    free(text);
    return false;
}

uint64_t *fz_count_of(fz_counts *counts, const char *name) {
    int i = counts->next; /* names come in the same order again and again */
    if (i >= counts->n || strcmp(counts->names[i], name) != 0)
        for (i = 0; i < counts->n && strcmp(counts->names[i], name) != 0;)
            i++;
    counts->next = i + 1;
    if (i == counts->n) {
        TC_ASSERT(counts->n < FZ_COUNTS);
        snprintf(counts->names[counts->n++], FZ_COUNT_NAME, "%s", name);
    }
    return &counts->counts[i];
}

static bool symbol_value(const fz_program *p, const char *name, int64_t *out_value) {
    for (int i = 0; i < p->n_values; i++)
        for (int d = 0; d < p->values[i].rank; d++) {
            fz_dim dim = p->values[i].dims[d];
            if (dim.symbol > 0 && strcmp(name, fz_symbols[dim.symbol - 1]) == 0) {
                *out_value = dim.size;
                return true;
            }
        }
    return false;
}

static bool lookup(void *user, const char *name, int64_t *out_value) {
    return symbol_value(((check *)user)->p, name, out_value);
}

/* Whether tempoc is told the sizes, by --dim. */
static bool is_bound_early(const fz_program *p) { return (p->seed >> 9) % 2 == 0; }

/* What moves only dims of size 1 is a view, which tempoc cannot tell while it does not know that a size is 1. */
static bool can_tell_views(const fz_program *p) {
    for (int i = 0; i < p->n_values && !is_bound_early(p); i++)
        for (int d = 0; d < p->values[i].rank; d++)
            if (p->values[i].dims[d].symbol != 0 && p->values[i].dims[d].size == 1)
                return false;
    return true;
}

static uint64_t told_by_ledger(check *c, const tc_graph *graph) {
    tc_arena *scratch = tc_arena_create();
    tc_ledger ledger;
    tc_ledger_make(scratch, graph, NULL, &ledger);
    tc_dim bytes = tc_dim_substitute(graph->model->dims, ledger.bytes, lookup, c);
    tc_arena_destroy(scratch);
    return tc_dim_is_const(bytes) ? (uint64_t)bytes.value : UINT64_MAX;
}

static bool is_standard(const tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        if (*node->domain)
            return false;
    return true;
}

static bool compile(check *c, variant *v, tc_model **out_model) {
    static const char *const selections[] = {"train=w*", "freeze=" FZ_NOISE_NAME "*"};
    tc_options options = {.recipe = v->recipe, .passes = v->passes, .verify_each = true};
    const char *selection[2];
    if ((c->p->seed >> 8) % 2) /* else what is trained by default */
        selection[options.n_selection++] = selections[0];
    selection[options.n_selection++] = selections[1];
    options.selection = selection;
    char loss[16], *text = NULL, dims[FZ_SYMBOLS][24];
    const char *dim_list[FZ_SYMBOLS];
    size_t size = 0;
    for (int i = 0; i < FZ_SYMBOLS && is_bound_early(c->p); i++) {
        int64_t value;
        if (symbol_value(c->p, fz_symbols[i], &value)) {
            snprintf(dims[i], sizeof dims[i], "%s=%lld", fz_symbols[i], (long long)value);
            dim_list[options.n_dims++] = dims[i];
        }
    }
    options.dims = dim_list;
    snprintf(loss, sizeof loss, "v%d", c->p->loss);
    options.loss = loss;
    tc_summary summary = {0};
    tc_pass_env env = {&v->ctx, &options, &summary};
    FILE *stream = open_memstream(&text, &size);
    fz_render(c->p, &v->style, stream);
    fclose(stream);
    tc_status status = tc_parse_text(&v->ctx, text, size, "program", out_model);
    if (status == TC_OK && (status = tc_pipeline_run(&env, *out_model)) != TC_OK)
        tc_model_destroy(*out_model);
    free(text);
    for (size_t i = 0; status == TC_OK && c->rules && i < summary.n_rules; i++)
        *fz_count_of(c->rules, summary.rules[i].name) += summary.rules[i].matched;
    return status == TC_OK || refused(c, v);
}

/* Numbers about 1: one for each element, since only these tell what becomes of terms that cancel in a sum; one for all
 * where a dim is not known, and with odd seeds. */
static const tc_tensor *noise_of(tc_model *model, const tc_value *value, const fz_style *style) {
    tc_dtype dtype = tc_value_dtype(value);
    int64_t dims[TC_MAX_RANK];
    bool each = style->noise_seed % 2 == 0 && tc_type_is_static(value->type);
    int rank = each ? tc_value_rank(value) : 0;
    for (int i = 0; i < rank; i++)
        dims[i] = value->type->dims[i].value;
    tc_tensor *noise = tc_tensor_create(model, dtype, rank, dims, NULL);
    for (uint64_t i = 0; i < noise->count; i++)
        tc_element_set(dtype, (void *)(uintptr_t)noise->data, i,
                       1 + style->noise * fz_direction(style->noise_seed, (int)value->id, (int64_t)i));
    return noise;
}

/* Multiplies results with noise also in the backward pass: the factors in the program (fz_render) leave what a gradient
 * reads of its own forward op as it is, as 1 - y^2 of Tanh's y near 1. */
static void add_noise(tc_graph *graph, const fz_style *style) {
    TC_FOR_NODES_SAFE(node, graph) {
        tc_value *value = tc_output(node, 0);
        if (!value || !tc_dtype_is_float(tc_value_dtype(value)) || value->n_graph_outputs > 0 ||
            tc_value_constant(value))
            continue;
        tc_node *mul = tc_node_create(graph, "", "Mul", 2, 1);
        tc_node_insert_after(mul, node);
        tc_value_replace(value, tc_node_add_output(mul, 0, NULL, value->type));
        tc_node_set_input(mul, 0, value);
        tc_node_set_input(mul, 1, tc_constant(graph, "factor", noise_of(graph->model, value, style)));
    }
}

/* Elements of input `value`, with `step` times those of another draw added; in the arena. */
static tempo_tensor elements(check *c, int value, const fz_style *style, double step, uint64_t direction) {
    const fz_value *x = &c->p->values[value];
    tc_dtype dtype = x->kind == FZ_INT    ? TC_INT64
                     : x->kind == FZ_BOOL ? TC_BOOL
                     : style->in_double   ? TC_DOUBLE
                                          : TC_FLOAT;
    int64_t *dims = TC_NEW_ARRAY(c->arena, int64_t, FZ_RANK), count = fz_count(x);
    tempo_tensor t = {(tempo_dtype)dtype, x->rank, dims, NULL, (size_t)count * tempo_dtype_size((tempo_dtype)dtype)};
    t.data = tc_arena_alloc(c->arena, t.bytes + 1, 16);
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i].size;
    for (int64_t i = 0; i < count; i++)
        tc_element_set(dtype, t.data, (uint64_t)i,
                       fz_element(c->p, value, i) + (step == 0 ? 0 : step * fz_direction(direction, value, i)));
    return t;
}

static bool bind_and_run(check *c, variant *v) {
    tempo_status status = TEMPO_OK;
    char name[16];
    for (int i = 0; status == TEMPO_OK && i < c->p->n_values; i++) {
        if (!fz_is_bound(c->p, i, &v->style))
            continue;
        tempo_tensor t = elements(c, i, &v->style, 0, 0);
        snprintf(name, sizeof name, "%c%d", c->p->values[i].from, i);
        status = tempo_bind(v->session, name, &t);
    }
    if (status == TEMPO_OK) {
        tempo_seed(v->session, c->p->seed, 3);
        status = tempo_run(v->session);
    }
    return status == TEMPO_OK || refused(c, v);
}

static bool check_ledger(check *c, const variant *v) {
    tempo_memory memory;
    if (tempo_memory_report(v->session, &memory) != TEMPO_OK)
        return fail(c, FZ_REFUSED, "%s: no memory report", v->name);
    if (v->saved == UINT64_MAX || v->saved == memory.saved)
        return true;
    return fail(c, FZ_LEDGER, "%s: the ledger tells %llu bytes, the runtime holds %llu", v->name,
                (unsigned long long)v->saved, (unsigned long long)memory.saved);
}

/* Compiles, runs with memory checked, compares ledger and runtime. */
static bool make(check *c, variant *v) {
    static const rt_hooks hooks = {tc_upgrade_model, tc_body_for};
    tempo_options options = {.threads = 1, .check_memory = 1};
    tc_model *model;
    if (!compile(c, v, &model))
        return false;
    /* Recipes end with lean, or do not move nodes between the passes: only they promise it. */
    v->saved =
        v->passes == NULL && v->style.noise == 0 && can_tell_views(c->p) ? told_by_ledger(c, model->graph) : UINT64_MAX;
    if (v->recipe && strcmp(v->recipe, "portable") == 0 && !is_standard(model->graph)) {
        tc_model_destroy(model);
        return fail(c, FZ_NOT_STANDARD, "%s: an op of another domain is left", v->name);
    }
    if (v->style.noise > 0)
        add_noise(model->graph, &v->style);
    if (rt_open_model(model, "program", &options, &hooks, &v->session) != TEMPO_OK)
        return refused(c, v);
    return bind_and_run(c, v) && check_ledger(c, v);
}

static variant variant_of(const char *name, const char *recipe, const char *passes, fz_style style) {
    variant v = {.name = name, .recipe = recipe, .passes = passes, .style = style};
    tc_ctx_init(&v.ctx, "fuzz_recipes");
    return v;
}

static void variant_fini(variant *v) {
    tempo_close(v->session);
    tc_ctx_fini(&v->ctx);
}

/* --- comparing -------------------------------------------------------------------------------- */

static tc_tensor view(const tempo_tensor *t) {
    tc_tensor tensor = {
        .dtype = (tc_dtype)t->dtype, .rank = t->rank, .dims = t->dims, .data = t->data, .bytes = t->bytes};
    tensor.count = t->bytes / tempo_dtype_size(t->dtype);
    return tensor;
}

static bool is_float(const tempo_tensor *t) { return tc_dtype_is_float((tc_dtype)t->dtype); }
static bool is_gradient(const char *name) { return strstr(name, "_grad") != NULL; }

static double largest(const tempo_tensor *t) {
    tc_tensor tensor = view(t);
    double most = 0;
    for (uint64_t i = 0; i < tensor.count; i++) {
        double value = fabs(tc_tensor_get(&tensor, i));
        most = isfinite(value) ? fmax(most, value) : INFINITY;
    }
    return most;
}

static bool same_shape(const tempo_tensor *a, const tempo_tensor *b) {
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

static double farthest(const tempo_tensor *a, const tempo_tensor *b) {
    tc_tensor x = view(a), y = view(b);
    double worst = 0;
    for (uint64_t i = 0; i < x.count; i++) {
        double far = fabs(tc_tensor_get(&x, i) - tc_tensor_get(&y, i));
        worst = isnan(far) ? INFINITY : fmax(worst, far);
    }
    return worst;
}

/* Of the gradients of recipe none in double; INFINITY: something is not finite. */
static double largest_of_all(variant *v, bool gradients) {
    tempo_info info;
    tempo_tensor t;
    double most = 0;
    for (size_t i = 0; tempo_output_info(v->session, i, &info); i++)
        if (is_gradient(info.name) == gradients && tempo_output(v->session, info.name, &t) == TEMPO_OK && is_float(&t))
            most = fmax(most, largest(&t));
    return most;
}

/* How far factors of about 1 at every value take the output. */
static double spread(check *c, variant *clean, const char *name) {
    double most = 0;
    tempo_tensor a, b;
    fz_counts *rules = c->rules;
    c->rules = NULL;
    for (int i = 0; i < NOISE_RUNS; i++) {
        variant noisy =
            variant_of("noise", "none", NULL, (fz_style){true, false, NOISE_SIZE, c->p->seed + (uint64_t)i});
        if (make(c, &noisy) && tempo_output(noisy.session, name, &a) == TEMPO_OK &&
            tempo_output(clean->session, name, &b) == TEMPO_OK)
            most = fmax(most, farthest(&a, &b));
        variant_fini(&noisy);
    }
    c->rules = rules;
    return most;
}

typedef struct yardstick {
    variant *best; /* recipe none in double */
    double gradients;
} yardstick;

static bool compare_output(check *c, const yardstick *by, fz_kind_of_end kind, double tolerance, const char *name,
                           variant *want, variant *got) {
    tempo_tensor w, g;
    if (tempo_output(want->session, name, &w) != TEMPO_OK || tempo_output(got->session, name, &g) != TEMPO_OK)
        return fail(c, kind, "%s of %s: not an output of %s", name, want->name, got->name);
    if (!same_shape(&w, &g))
        return fail(c, kind, "%s: %s and %s give it different shapes", name, want->name, got->name);
    double far = farthest(&g, &w),
           scale = fmax(largest(&w),
                        is_gradient(name) ? fmax(LEAST_GRADIENT, SMALL_GRADIENT * by->gradients) : SMALL_VALUE);
    if (far <= (is_float(&w) ? tolerance * scale : 0))
        return true;
    fz_end kept = *c->end;
    double room = NOISE_ROOM * spread(c, by->best, name) * (tolerance / TOLERANCE_32);
    *c->end = kept;
    if (far <= room)
        return fail(c, FZ_UNSURE, "%s: %s and %s are %.3g apart, which rounding may be: %.3g", name, want->name,
                    got->name, far, room) ||
               true;
    return fail(c, kind, "%s: %s and %s are %.3g apart, of %.3g; rounding explains %.3g", name, want->name, got->name,
                far, scale, room);
}

/* All outputs of `want`, or those that are no gradients. */
static bool compare(check *c, const yardstick *by, fz_kind_of_end kind, double tolerance, variant *want, variant *got,
                    bool gradients) {
    tempo_info info;
    for (size_t i = 0; tempo_output_info(want->session, i, &info); i++)
        if ((gradients || !is_gradient(info.name)) && !compare_output(c, by, kind, tolerance, info.name, want, got))
            return false;
    return true;
}

static bool compare_bits(check *c, variant *want, variant *got) {
    tempo_info info;
    tempo_tensor w, g;
    if (tempo_output_count(want->session) != tempo_output_count(got->session))
        return fail(c, FZ_NOT_EXACT, "%s and %s have not as many outputs", want->name, got->name);
    for (size_t i = 0; tempo_output_info(want->session, i, &info); i++) {
        if (tempo_output(want->session, info.name, &w) != TEMPO_OK ||
            tempo_output(got->session, info.name, &g) != TEMPO_OK || !same_shape(&w, &g))
            return fail(c, FZ_NOT_EXACT, "%s of %s: not an output of %s, or of another shape", info.name, want->name,
                        got->name);
        if (w.bytes && memcmp(w.data, g.data, w.bytes) != 0)
            return fail(c, FZ_NOT_EXACT, "%s: %s and %s are not equal, by %.3g", info.name, want->name, got->name,
                        farthest(&w, &g));
    }
    return true;
}

/* --- slopes ----------------------------------------------------------------------------------- */

/* The loss with every trained weight moved by `step` times a direction. */
static bool loss_at(check *c, variant *open, variant *trained, double step, uint64_t direction, double *out_loss) {
    char name[32];
    tempo_tensor t;
    for (int i = 0; i < c->p->n_values; i++) {
        if (c->p->values[i].from != 'w' || !fz_is_bound(c->p, i, &open->style))
            continue;
        snprintf(name, sizeof name, "w%d_grad", i);
        bool moves = tempo_output(trained->session, name, &t) == TEMPO_OK;
        t = elements(c, i, &open->style, moves ? step : 0, direction);
        snprintf(name, sizeof name, "w%d", i);
        if (tempo_bind(open->session, name, &t) != TEMPO_OK)
            return refused(c, open);
    }
    snprintf(name, sizeof name, "v%d", c->p->loss);
    if (tempo_run(open->session) != TEMPO_OK || tempo_output(open->session, name, &t) != TEMPO_OK)
        return refused(c, open);
    *out_loss = *(const double *)t.data;
    return true;
}

/* The gradients' product with the direction, and the same with the sizes of its terms. */
static double along(check *c, variant *trained, uint64_t direction, double *out_size) {
    char name[32];
    tempo_tensor t;
    double sum = 0;
    *out_size = 0;
    for (int i = 0; i < c->p->n_values; i++) {
        snprintf(name, sizeof name, "w%d_grad", i);
        if (c->p->values[i].from != 'w' || tempo_output(trained->session, name, &t) != TEMPO_OK)
            continue;
        for (int64_t k = 0; k < fz_count(&c->p->values[i]); k++) {
            double part = ((const double *)t.data)[k] * fz_direction(direction, i, k);
            sum += part;
            *out_size += fabs(part);
        }
    }
    return sum;
}

/* One of several steps will do: a kink may lie within one. */
static bool check_slope(check *c, variant *trained, variant *open) {
    static const double steps[] = {1e-5, 1e-6, 1e-4, 1e-7};
    double up, down, size, slope = 0, sum = 0;
    for (size_t i = 0; i < TC_COUNT(steps); i++) {
        sum = along(c, trained, i + 1, &size);
        if (!loss_at(c, open, trained, steps[i], i + 1, &up) || !loss_at(c, open, trained, -steps[i], i + 1, &down))
            return false;
        slope = (up - down) / (2 * steps[i]);
        if (fabs(slope - sum) <= 1e-4 * size + 1e-6 * (1 + fabs(up)))
            return true;
    }
    return fail(c, FZ_SLOPE, "the loss rises by %.9g in a direction in which the gradients say %.9g", slope, sum);
}

/* --- all of it -------------------------------------------------------------------------------- */

static double tolerance_64(const fz_program *p) {
    for (int n = 0; n < p->n_nodes; n++)
        if (p->nodes[n].op && strcmp(p->nodes[n].op, "LayerNormalization") == 0)
            return TOLERANCE_STASHED;
    return TOLERANCE_64;
}

static bool run_checks(check *c, variant v[], bool all) {
    enum { READ, NONE, EXACT, PORTABLE, BEST, OPEN, EXACT_64, PORTABLE_64, BODIES, TILED, TILED_64, TILED_BODIES };
    uint64_t seed = c->p->seed;
    if (!make(c, &v[BEST]) || !make(c, &v[NONE]))
        return false;
    yardstick by = {&v[BEST], largest_of_all(&v[BEST], true)};
    if (!(by.gradients < LARGE) || !(largest_of_all(&v[BEST], false) < LARGE))
        return fail(c, FZ_SKIPPED, "values or gradients are not finite, or larger than %g", LARGE);
    bool good = make(c, &v[EXACT]) && make(c, &v[PORTABLE]) && make(c, &v[READ]) && make(c, &v[TILED]) &&
                compare_bits(c, &v[NONE], &v[EXACT]) && compare_bits(c, &v[NONE], &v[TILED]) &&
                compare(c, &by, FZ_APART, TOLERANCE_32, &v[BEST], &v[NONE], true) &&
                compare(c, &by, FZ_APART, TOLERANCE_32, &v[NONE], &v[PORTABLE], true) &&
                compare(c, &by, FZ_UNREAD, TOLERANCE_32, &v[READ], &v[NONE], false);
    if (good && v[EXACT].saved != UINT64_MAX && v[EXACT].saved > v[NONE].saved)
        return fail(c, FZ_LEDGER, "exact keeps %llu bytes, none %llu", (unsigned long long)v[EXACT].saved,
                    (unsigned long long)v[NONE].saved);
    if (good && (all || seed % 4 == 0))
        good = make(c, &v[BODIES]) && compare(c, &by, FZ_APART, TOLERANCE_32, &v[NONE], &v[BODIES], true);
    if (good && (all || seed % 4 == 1))
        good = make(c, &v[EXACT_64]) && make(c, &v[PORTABLE_64]) && compare_bits(c, &v[BEST], &v[EXACT_64]) &&
               make(c, &v[TILED_64]) && compare_bits(c, &v[BEST], &v[TILED_64]) &&
               compare(c, &by, FZ_APART_64, tolerance_64(c->p), &v[BEST], &v[PORTABLE_64], true);
    if (good && (all || seed % 4 == 2))
        good = make(c, &v[OPEN]) && compare(c, &by, FZ_UNREAD, tolerance_64(c->p), &v[OPEN], &v[BEST], false) &&
               check_slope(c, &v[BEST], &v[OPEN]);
    if (good && (all || seed % 4 == 3))
        good = make(c, &v[TILED_BODIES]) && compare(c, &by, FZ_APART, TOLERANCE_32, &v[NONE], &v[TILED_BODIES], true);
    return good;
}

void fz_check(const fz_program *program, bool all, fz_counts *rules, fz_end *out_end) {
    fz_style single = {0}, twice = {.in_double = true}, open = {.in_double = true, .open = true};
    variant v[] = {
        variant_of("the file as read", NULL, AS_READ, single),
        variant_of("none", "none", NULL, single),
        variant_of("exact", "exact", NULL, single),
        variant_of("portable", "portable", NULL, single),
        variant_of("none in double", "none", NULL, twice),
        variant_of("the file as read in double", NULL, AS_READ, open),
        variant_of("exact in double", "exact", NULL, twice),
        variant_of("portable in double", "portable", NULL, twice),
        variant_of("exact in bodies", "exact", IN_BODIES, single),
        variant_of("tiled", "tiled", NULL, single),
        variant_of("tiled in double", "tiled", NULL, twice),
        variant_of("tiled in bodies", "tiled", TILED_IN_BODIES, single),
    };
    check c = {program, rules, out_end, tc_arena_create()};
    *out_end = (fz_end){FZ_PASSED, ""};
    run_checks(&c, v, all);
    for (size_t i = 0; i < TC_COUNT(v); i++)
        variant_fini(&v[i]);
    tc_arena_destroy(c.arena);
}
