/* recipe_variant.c: a program is written as text, parsed, compiled by a recipe, opened, bound to elements drawn from
 * its seed, and run. */
#include "passes/pipeline/pipeline.h"
#include "passes/upgrade/upgrade.h"
#include "passes/bodies/bodies.h"
#include "recipe_variant.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "compiler/text/text.h"
#include "runtime/compile/compile.h"
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
                                    "portable is not standard",
                                    "the budget is not kept"};

static const rt_hooks hooks = {tc_upgrade_model, tc_body_for};

bool fz_fail(fz_case *c, fz_kind_of_end kind, const char *fmt, ...) {
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

bool fz_refused(fz_case *c, fz_variant *v) {
    char line[300], *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    tc_diags_print(&v->ctx, stream);
    fclose(stream);
    const char *message = v->session && *tempo_message(v->session) ? tempo_message(v->session) : text;
    fz_fail(c, FZ_REFUSED, "%s: %s", v->name, error_line(message, line));
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
    return symbol_value(((fz_case *)user)->p, name, out_value);
}

bool fz_is_bound_early(const fz_program *p) { return (p->seed >> 9) % 2 == 0; }

/* What moves only dims of size 1 is a view, which tempoc cannot tell while it does not know that a size is 1. */
static bool can_tell_views(const fz_program *p) {
    for (int i = 0; i < p->n_values && !fz_is_bound_early(p); i++)
        for (int d = 0; d < p->values[i].rank; d++)
            if (p->values[i].dims[d].symbol != 0 && p->values[i].dims[d].size == 1)
                return false;
    return true;
}

static void ask_ledger(fz_case *c, const tc_graph *graph, fz_variant *v) {
    tc_arena *scratch = tc_arena_create();
    tc_dim_pool *pool = graph->model->dims;
    tc_ledger ledger;
    tc_ledger_make(scratch, graph, NULL, &ledger);
    tc_dim bytes = tc_dim_substitute(pool, ledger.bytes, lookup, c);
    tc_arena_destroy(scratch);
    if (can_tell_views(c->p) && tc_dim_is_const(bytes))
        v->saved = (uint64_t)bytes.value;
    if (!tc_dim_is_unknown(ledger.bytes))
        v->saved_sample = tc_sample_bytes(pool, ledger.bytes);
}

static bool is_standard(const tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        if (*node->domain)
            return false;
    return true;
}

/* --- what the pass budget asks ------------------------------------------------------------------ */

static tc_status estimate(void *user, tc_model *model, const tc_node_memories *nodes, tc_footprint *out_footprint,
                          bool *out_planned) {
    return tc_estimate(&((fz_variant *)user)->ctx, model, 0, nodes, out_footprint, out_planned);
}

/* --- compiled and run --------------------------------------------------------------------------- */

static bool compile(fz_case *c, fz_variant *v, tc_model **out_model) {
    static const char *const selections[] = {"train=w*", "freeze=" FZ_NOISE_NAME "*"};
    tc_options options = v->budget;
    options.recipe = v->recipe;
    options.passes = v->passes;
    options.verify_each = true;
    const char *selection[2];
    if ((c->p->seed >> 8) % 2) /* else what is trained by default */
        selection[options.n_selection++] = selections[0];
    selection[options.n_selection++] = selections[1];
    options.selection = selection;
    char loss[16], *text = NULL, dims[FZ_SYMBOLS][24];
    const char *dim_list[FZ_SYMBOLS];
    size_t size = 0;
    for (int i = 0; i < FZ_SYMBOLS && fz_is_bound_early(c->p); i++) {
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
    const tc_runtime runtime = {.estimate = estimate, .user = v, .initial = v->initial};
    tc_pass_env env = {&v->ctx, &options, &summary, &runtime};
    FILE *stream = open_memstream(&text, &size);
    fz_render(c->p, &v->style, stream);
    fclose(stream);
    v->status = tc_parse_text(&v->ctx, text, size, "program", out_model);
    if (v->status == TC_OK && (v->status = tc_pipeline_run(&env, *out_model)) != TC_OK)
        tc_model_destroy(*out_model);
    v->plan = summary.plan;
    free(text);
    for (size_t i = 0; v->status == TC_OK && c->rules && i < summary.n_rules; i++)
        *fz_count_of(c->rules, summary.rules[i].name) += summary.rules[i].matched;
    return v->status == TC_OK || fz_refused(c, v);
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

tempo_tensor fz_elements(fz_case *c, int value, const fz_style *style, double step, uint64_t direction) {
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

static bool bind_and_run(fz_case *c, fz_variant *v) {
    tempo_status status = TEMPO_OK;
    char name[16];
    for (int i = 0; status == TEMPO_OK && i < c->p->n_values; i++) {
        if (!fz_is_bound(c->p, i, &v->style))
            continue;
        tempo_tensor t = fz_elements(c, i, &v->style, 0, 0);
        snprintf(name, sizeof name, "%c%d", c->p->values[i].from, i);
        status = tempo_bind(v->session, name, &t);
    }
    if (status == TEMPO_OK) {
        tempo_seed(v->session, c->p->seed, 3);
        status = tempo_run(v->session);
    }
    return status == TEMPO_OK || fz_refused(c, v);
}

static bool check_ledger(fz_case *c, const fz_variant *v) {
    tempo_memory memory;
    if (tempo_memory_report(v->session, &memory) != TEMPO_OK)
        return fz_fail(c, FZ_REFUSED, "%s: no memory report", v->name);
    if (v->saved == UINT64_MAX || v->saved == memory.saved)
        return true;
    return fz_fail(c, FZ_LEDGER, "%s: the ledger tells %llu bytes, the runtime holds %llu", v->name,
                   (unsigned long long)v->saved, (unsigned long long)memory.saved);
}

bool fz_make(fz_case *c, fz_variant *v) {
    tempo_options options = {.threads = 1, .check_memory = !v->unchecked};
    tc_model *model;
    if (!compile(c, v, &model))
        return false;
    /* Recipes end with lean, or do not move nodes between the passes: only they promise it. */
    v->saved = v->saved_sample = UINT64_MAX;
    if (v->passes == NULL && !v->plan && v->style.noise == 0)
        ask_ledger(c, model->graph, v);
    if (v->recipe && strcmp(v->recipe, "portable") == 0 && !is_standard(model->graph)) {
        tc_model_destroy(model);
        return fz_fail(c, FZ_NOT_STANDARD, "%s: an op of another domain is left", v->name);
    }
    bool planned;
    tc_footprint footprint;
    if (estimate(v, model, NULL, &footprint, &planned) == TC_OK && planned)
        v->arena = footprint.arena;
    if (v->style.noise > 0)
        add_noise(model->graph, &v->style);
    if (rt_open_model(model, "program", &options, &hooks, &v->session) != TEMPO_OK)
        return fz_refused(c, v);
    return bind_and_run(c, v) && check_ledger(c, v);
}

fz_variant fz_variant_of(const char *name, const char *recipe, const char *passes, fz_style style) {
    fz_variant v = {.name = name, .recipe = recipe, .passes = passes, .style = style};
    tc_ctx_init(&v.ctx, "fuzz_recipes");
    return v;
}

void fz_variant_fini(fz_variant *v) {
    tempo_close(v->session);
    tc_ctx_fini(&v->ctx);
}

/* --- comparing -------------------------------------------------------------------------------- */

tc_tensor fz_view(const tempo_tensor *t) {
    tc_tensor tensor = {
        .dtype = (tc_dtype)t->dtype, .rank = t->rank, .dims = t->dims, .data = t->data, .bytes = t->bytes};
    tensor.count = t->bytes / tempo_dtype_size(t->dtype);
    return tensor;
}

bool fz_same_shape(const tempo_tensor *a, const tempo_tensor *b) {
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

double fz_farthest(const tempo_tensor *a, const tempo_tensor *b) {
    tc_tensor x = fz_view(a), y = fz_view(b);
    double worst = 0;
    for (uint64_t i = 0; i < x.count; i++) {
        double far = fabs(tc_tensor_get(&x, i) - tc_tensor_get(&y, i));
        worst = isnan(far) ? INFINITY : fmax(worst, far);
    }
    return worst;
}

bool fz_compare_bits(fz_case *c, fz_variant *want, fz_variant *got) {
    tempo_info info;
    tempo_tensor w, g;
    if (tempo_output_count(want->session) != tempo_output_count(got->session))
        return fz_fail(c, FZ_NOT_EXACT, "%s and %s have not as many outputs", want->name, got->name);
    for (size_t i = 0; tempo_output_info(want->session, i, &info); i++) {
        if (tempo_output(want->session, info.name, &w) != TEMPO_OK ||
            tempo_output(got->session, info.name, &g) != TEMPO_OK || !fz_same_shape(&w, &g))
            return fz_fail(c, FZ_NOT_EXACT, "%s of %s: not an output of %s, or of another shape", info.name, want->name,
                           got->name);
        if (w.bytes && memcmp(w.data, g.data, w.bytes) != 0)
            return fz_fail(c, FZ_NOT_EXACT, "%s: %s and %s are not equal, by %.3g", info.name, want->name, got->name,
                           fz_farthest(&w, &g));
    }
    return true;
}
