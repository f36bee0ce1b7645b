/* lora.c: the pass that puts adapters beside products. Products of one module share an adapter, as in PyTorch, whether
 * the exporter stored the module's weight once or for each call. The output layer, the last product, gets none unless
 * a glob other than '*' names it (PEFT's "all-linear"). */
#include "compiler/cli/cli.h"
#include "compiler/memory/memory.h"
#include "lora_nodes.h"
#include "passes/torch/metadata/metadata.h"
#include "passes/weights/weights.h"
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* An adapter that is in the graph. */
typedef struct placed {
    const tc_product *first; /* of its products */
    const char *module;
    tc_lora lora;
    tc_lora_weights weights;
} placed;

typedef struct job {
    tc_pass_env *env;
    tc_graph *graph;
    tc_arena *scratch;
    tc_product *products;
    size_t n;
    tc_lora *asked; /* of --lora */
    size_t n_asked;
    tc_map *placed; /* module -> placed */
    size_t n_adapters, n_beside, n_without_data;
    uint64_t elements;
} job;

/* --- numbers ---------------------------------------------------------------------------------- */
/* A weight with its data, [out, in]. */
typedef struct numbers {
    tc_tensor tensor;
    const tc_product *product;
} numbers;

static bool numbers_of(const job *j, const tc_product *p, numbers *out) {
    *out = (numbers){*p->weight->init, p};
    out->tensor.data = tc_tensor_peek(j->graph->model, p->weight->init);
    return out->tensor.data && tc_dtype_is_number(out->tensor.dtype);
}

static double number_at(const numbers *w, int64_t row, int64_t column) {
    const tc_product *p = w->product;
    uint64_t at = (uint64_t)(p->turned ? column * p->out + row : row * p->in + column);
    return w->tensor.dtype == TC_FLOAT ? ((const float *)w->tensor.data)[at] : tc_tensor_get(&w->tensor, at);
}

/* Two initializers may be one parameter: nothing shows a difference. */
static bool may_be_one(const job *j, const tc_product *p, const tc_product *q) {
    numbers a, b;
    if (p->weight == q->weight)
        return true;
    if (p->in != q->in || p->out != q->out)
        return false;
    bool same = true;
    if (numbers_of(j, p, &a) && numbers_of(j, q, &b))
        for (int64_t row = 0; same && row < p->out; row++)
            for (int64_t column = 0; same && column < p->in; column++)
                same = number_at(&a, row, column) == number_at(&b, row, column);
    return same;
}

/* DoRA begins with the norms of the weight's own rows, because B is 0. */
static void fill_norms(job *j, const tc_product *p, const tc_tensor *to) {
    numbers w;
    bool known = numbers_of(j, p, &w);
    j->n_without_data += !known;
    for (int64_t row = 0; row < p->out; row++) {
        double sum = 0;
        for (int64_t column = 0; known && column < p->in; column++)
            sum += number_at(&w, row, column) * number_at(&w, row, column);
        tc_element_set(to->dtype, (void *)(uintptr_t)to->data, (uint64_t)row, known ? sqrt(sum) : 1);
    }
}

/* --- placing ---------------------------------------------------------------------------------- */
static tc_status add_weight(job *j, const placed *at, const char *end, tc_tensor *tensor, tc_value **out_value) {
    const char *name = tc_arena_printf(j->env->ctx->arena, "%s.%s", at->module, end);
    if (tc_map_get(j->graph->names, name)) {
        tc_error(j->env->ctx, TC_BAD_INPUT, NULL, "the file has an adapter of %s already: %s",
                 tc_quote(j->env->ctx, at->module), tc_quote(j->env->ctx, name));
        tc_hint(j->env->ctx, "train that one: --train='*lora_*' instead of --lora");
        return TC_BAD_INPUT;
    }
    *out_value = tc_constant(j->graph, name, tensor);
    tensor->name = (*out_value)->name;
    tc_record_made(j->env, *out_value);
    j->elements += tensor->count;
    return TC_OK;
}

static tc_status make_weights(job *j, placed *at, const tc_adapter_part *part) {
    const tc_product *p = at->first;
    tc_model *model = j->graph->model;
    tc_dtype dtype = tc_lora_dtype(p);
    const int64_t a_dims[] = {at->lora.rank, p->in}, b_dims[] = {p->out, at->lora.rank};
    const char *stream = tc_arena_printf(j->scratch, "%s.lora_A.weight", at->module);
    tc_tensor *a =
        part ? tc_adapter_tensor(model, part->a, dtype)
             : tc_uniform_weight(model, dtype, 2, a_dims, 1 / sqrt((double)p->in), j->env->options->init_seed, stream);
    tc_tensor *b = part ? tc_adapter_tensor(model, part->b, dtype) : tc_tensor_create(model, dtype, 2, b_dims, NULL);
    TC_TRY(add_weight(j, at, "lora_A.weight", a, &at->weights.a));
    TC_TRY(add_weight(j, at, "lora_B.weight", b, &at->weights.b));
    if (!at->lora.dora)
        return TC_OK;
    tc_tensor *magnitude =
        part ? tc_adapter_tensor(model, part->magnitude, dtype) : tc_tensor_create(model, dtype, 1, &p->out, NULL);
    if (!part)
        fill_norms(j, p, magnitude);
    return add_weight(j, at, "lora_magnitude_vector", magnitude, &at->weights.magnitude);
}

static void tell_adapted(job *j, const placed *at, const tc_product *p) {
    tc_arena *arena = j->env->ctx->arena;
    tc_summary *summary = j->env->summary;
    for (size_t i = 0; i < summary->n_adapted; i++)
        if (strcmp(summary->adapted[i].weight, p->own_name) == 0 && strcmp(summary->adapted[i].module, at->module) == 0)
            return;
    const char *magnitude = at->weights.magnitude ? tc_arena_strdup(arena, at->weights.magnitude->name) : NULL;
    summary->adapted[summary->n_adapted] = (tc_adapted){
        .module = at->module,
        .weight = p->own_name,
        .a = tc_arena_strdup(arena, at->weights.a->name),
        .b = tc_arena_strdup(arena, at->weights.b->name),
        .magnitude = magnitude,
        .turned = p->turned,
        .lora = at->lora,
    };
    summary->adapted[summary->n_adapted++].lora.glob = NULL;
}

/* The adapter of this name, or a place for one: another weight may have the name already, if the file's names are those
 * of modules with several weights. */
static placed *place_of(job *j, const tc_product *p, const char *module) {
    const char *names[] = {module, p->own_module, p->node->outputs[0]->name};
    for (size_t i = 0; i < TC_COUNT(names); i++) {
        placed *at = tc_map_get(j->placed, names[i]);
        if (at && may_be_one(j, at->first, p))
            return at;
        if (at)
            continue;
        at = TC_NEW(j->scratch, placed);
        *at = (placed){.first = p, .module = tc_arena_strdup(j->env->ctx->arena, names[i])};
        tc_map_set(j->placed, at->module, at);
        return at;
    }
    return NULL;
}

/* `part` NULL: a new adapter. */
static tc_status place(job *j, const tc_product *p, const char *module, const tc_lora *lora,
                       const tc_adapter_part *part) {
    placed *at = place_of(j, p, module);
    if (!at)
        return tc_error(j->env->ctx, TC_UNSUPPORTED, p->node, "its weight has the name of another: %s",
                        tc_quote(j->env->ctx, module));
    if (!at->weights.a) {
        at->lora = *lora;
        TC_TRY(make_weights(j, at, part));
        j->n_adapters++;
    }
    j->n_beside++;
    TC_TRY(tc_lora_insert(j->env, p, &at->lora, &at->weights));
    tell_adapted(j, at, p);
    return TC_OK;
}

/* --- --lora ----------------------------------------------------------------------------------- */
static bool is_every(const tc_lora *lora) { return !lora->glob || strcmp(lora->glob, "*") == 0; }

static bool matches(const char *glob, const char *name, const char *module) {
    return fnmatch(glob, name, 0) == 0 || fnmatch(glob, module, 0) == 0;
}

static bool wants(const job *j, const tc_lora *lora, const tc_product *p) {
    if (is_every(lora))
        return p != &j->products[j->n - 1];
    return matches(lora->glob, p->name, p->module) ||
           (strcmp(p->module, p->own_module) != 0 && matches(lora->glob, p->own_name, p->own_module));
}

static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static tc_status refuse_unmatched(job *j, const char *text, const char *const *others, size_t n_others) {
    tc_ctx *ctx = j->env->ctx;
    tc_nearest nearest;
    const char **modules = TC_NEW_ARRAY(j->scratch, const char *, j->n + 1), *glob = strchr(text, ':');
    tc_nearest_begin(&nearest, glob ? last_part(glob + 1 + strspn(glob + 1, "*.")) : text);
    for (size_t i = 0; i < j->n; i++) {
        modules[i] = j->products[i].module;
        tc_nearest_offer(&nearest, last_part(modules[i]));
    }
    if (n_others)
        tc_error(ctx, TC_USAGE, NULL, "--lora=%s matches no weight of a product (MatMul, Gemm), only %s",
                 tc_quote(ctx, text), tc_quote_list(ctx, others, n_others));
    else
        tc_error(ctx, TC_USAGE, NULL, "--lora=%s matches no weight of a product (MatMul, Gemm)", tc_quote(ctx, text));
    if (nearest.best)
        tc_hint(ctx, "did you mean '*%s'?", tc_quote(ctx, nearest.best));
    else if (j->n)
        tc_hint(ctx, "the products of the file are %s; a glob has to match the whole name",
                tc_quote_list(ctx, modules, j->n));
    else
        tc_hint(ctx, "the file has no product of an activation and a weight");
    return TC_USAGE;
}

/* A reader that is no product; NULL: none. */
static const tc_node *other_reader(const tc_value *weight, bool of_product) {
    TC_FOR_USES(use, weight)
        if (!of_product || tc_node_is(use->user, "", "Gather"))
            return use->user;
    return NULL;
}

/* Weights that match and get no adapter: "embed.weight (Gather)". Biases go with their products. */
static const char **list_others(job *j, const tc_lora *lora, size_t *out_n) {
    tc_ctx *ctx = j->env->ctx;
    const char **others = TC_NEW_ARRAY(j->scratch, const char *, j->graph->n_initializers + (size_t)1);
    tc_map *of_products = tc_map_create(j->scratch);
    for (size_t i = 0; i < j->n; i++)
        tc_map_set_ptr(of_products, j->products[i].weight, j);
    *out_n = 0;
    for (uint32_t i = 0; i < j->graph->n_initializers && !is_every(lora); i++) {
        const tc_value *value = j->graph->initializers[i];
        const char *name = tc_torch_name_or_own(j->env->summary, value->name);
        bool bias = value->init->rank < 2 && !tc_ends_with(name, ".weight");
        const tc_node *reader = other_reader(value, tc_map_get_ptr(of_products, value) != NULL);
        if (!reader || !tc_may_be_trained(value) || bias ||
            !matches(lora->glob, name, tc_module_of_weight(j->scratch, name)))
            continue;
        others[(*out_n)++] = tc_arena_printf(ctx->arena, "%s (%s)", name, reader->op_type);
    }
    return others;
}

static tc_status check_globs(job *j) {
    tc_ctx *ctx = j->env->ctx;
    for (size_t i = 0; i < j->n_asked; i++) {
        size_t n_others, found = 0;
        const char **others = list_others(j, &j->asked[i], &n_others);
        for (size_t k = 0; k < j->n; k++)
            found += wants(j, &j->asked[i], &j->products[k]);
        if (!found)
            return refuse_unmatched(j, j->env->options->lora[i], others, n_others);
        if (n_others)
            tc_note(ctx, NULL, "--lora=%s: only products get adapters, not %s", tc_quote(ctx, j->env->options->lora[i]),
                    tc_quote_list(ctx, others, n_others));
    }
    return TC_OK;
}

static tc_status place_asked(job *j) {
    const tc_options *options = j->env->options;
    j->n_asked = options->n_lora;
    j->asked = TC_NEW_ARRAY(j->scratch, tc_lora, j->n_asked + 1);
    for (size_t i = 0; i < j->n_asked; i++)
        TC_TRY(tc_lora_parse(j->env->ctx, options->lora[i], &j->asked[i]));
    TC_TRY(check_globs(j));
    for (size_t k = 0; k < j->n; k++) {
        const tc_lora *lora = NULL;
        for (size_t i = 0; i < j->n_asked; i++)
            lora = wants(j, &j->asked[i], &j->products[k]) ? &j->asked[i] : lora;
        if (lora && !tc_is_made(j->env, j->products[k].own_name))
            TC_TRY(place(j, &j->products[k], j->products[k].module, lora, NULL));
    }
    return TC_OK;
}

/* --- --lora-from ------------------------------------------------------------------------------ */
static bool is_module(const tc_product *p, const char *module, bool exactly) {
    if (exactly)
        return strcmp(p->module, module) == 0 || strcmp(p->own_module, module) == 0;
    return tc_ends_alike(p->module, module);
}

static tc_status check_part(job *j, const tc_adapter_part *part, const tc_product *p) {
    tc_ctx *ctx = j->env->ctx;
    const tc_tensor *a = part->a, *b = part->b, *m = part->magnitude;
    if (a->rank == 2 && b->rank == 2 && a->dims[0] == b->dims[1] && a->dims[1] == p->in && b->dims[0] == p->out &&
        (!m || (m->rank == 1 && m->dims[0] == p->out)))
        return TC_OK;
    tc_error(ctx, TC_BAD_INPUT, p->node,
             "%s: the adapter of %s has A of %" PRId64 " columns and B of %" PRId64 " rows, but the weight is %" PRId64
             " to %" PRId64,
             tc_quote(ctx, j->env->options->adapter->path), tc_quote(ctx, part->module), a->rank == 2 ? a->dims[1] : 0,
             b->rank == 2 ? b->dims[0] : 0, p->in, p->out);
    tc_hint(ctx, "is it the adapter of another model?");
    return TC_BAD_INPUT;
}

static tc_status refuse_part(job *j, const tc_adapter_part *part, bool several) {
    tc_ctx *ctx = j->env->ctx;
    tc_nearest nearest;
    tc_nearest_begin(&nearest, part->module);
    for (size_t i = 0; i < j->n; i++)
        tc_nearest_offer(&nearest, j->products[i].module);
    tc_error(ctx, TC_BAD_INPUT, NULL, "%s has an adapter of %s, and the file has %s",
             tc_quote(ctx, j->env->options->adapter->path), tc_quote(ctx, part->module),
             several ? "several modules whose names end so" : "no such product");
    if (nearest.best)
        tc_hint(ctx, "the nearest name in the file is %s", tc_quote(ctx, nearest.best));
    else
        tc_hint(ctx, "is it the adapter of another model?");
    return TC_BAD_INPUT;
}

static tc_status place_part(job *j, const tc_adapter_part *part) {
    tc_lora lora = j->env->options->adapter->settings;
    const tc_product *found = NULL;
    bool exactly = true;
    for (size_t step = 0; step < 2 && !found; step++)
        for (size_t i = 0; i < j->n; i++) {
            const tc_product *p = &j->products[i];
            if (!is_module(p, part->module, step == 0))
                continue;
            if (found && strcmp(found->module, p->module) != 0 && step == 1)
                return refuse_part(j, part, true);
            found = p, exactly = step == 0;
        }
    if (!found)
        return refuse_part(j, part, false);
    for (size_t i = 0; i < j->n; i++) {
        if (!is_module(&j->products[i], part->module, exactly))
            continue;
        TC_TRY(check_part(j, part, &j->products[i]));
        lora.rank = part->a->dims[0], lora.alpha = part->alpha, lora.dora = part->magnitude != NULL;
        TC_TRY(place(j, &j->products[i], part->module, &lora, part));
    }
    return TC_OK;
}

/* --- the pass --------------------------------------------------------------------------------- */
static void tell(const job *j) {
    tc_ctx *ctx = j->env->ctx;
    const void *name;
    void *tensor;
    size_t cursor = 0;
    uint64_t all = 0;
    while (tc_map_next(j->env->summary->initializers, &cursor, &name, &tensor)) {
        const tc_tensor *t = tensor;
        all += t && tc_dtype_is_float(t->dtype) && t->count > 1 ? t->count : 0;
    }
    const char *beside =
        j->n_beside > j->n_adapters ? tc_arena_printf(ctx->arena, " beside %zu products", j->n_beside) : "";
    tc_note(ctx, NULL, "%zu adapter%s%s train%s %" PRIu64 " of %" PRIu64 " elements", j->n_adapters,
            j->n_adapters == 1 ? "" : "s", beside, j->n_adapters == 1 ? "s" : "", j->elements, all);
    if (j->n_without_data)
        tc_warn(ctx, NULL, "the file's weights are not there: the magnitudes of %zu adapters begin with 1",
                j->n_without_data);
}

static tc_status place_all(job *j) {
    const tc_options *options = j->env->options;
    if (tc_has_backward(j->graph, true)) {
        tc_error(j->env->ctx, TC_BAD_INPUT, NULL, "the file has a backward pass: adapters go into a forward pass");
        tc_hint(j->env->ctx, "give the file that was compiled, or leave --lora out");
        return TC_BAD_INPUT;
    }
    TC_TRY(tc_put_saved_modules(j->env, j->graph));
    j->n = tc_find_products(j->env, j->scratch, j->graph, &j->products);
    j->env->summary->adapted = TC_NEW_ARRAY(j->env->ctx->arena, tc_adapted, j->n + 1);
    if (options->n_lora)
        TC_TRY(place_asked(j));
    for (size_t i = 0; options->adapter && i < options->adapter->n; i++)
        TC_TRY(place_part(j, &options->adapter->parts[i]));
    tell(j);
    return TC_OK;
}

tc_status tc_pass_lora(tc_pass_env *env, tc_model *model) {
    if (!tc_adapts(env->options))
        return TC_OK;
    job j = {.env = env, .graph = model->graph, .scratch = tc_arena_create()};
    j.placed = tc_map_create(j.scratch);
    tc_status status = place_all(&j);
    tc_arena_destroy(j.scratch);
    return status;
}
