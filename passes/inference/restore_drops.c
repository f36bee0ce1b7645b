/* restore_drops.c: the pass `drops`: --restore-dropout=P gives an inference export the Dropouts of its training mode.
 * Those that the file still has are switched on. Where the exporter left none, they return where an architecture is
 * known to drop: in a graph with attention, on its probabilities, on the results of products with a bias before they
 * are added to the stream that they read, and where that stream begins (Devlin et al. 2019, Radford et al. 2019,
 * Dosovitskiy et al. 2021, as transformers builds them); before a classifier that reads a pooled token; and where the
 * numbers of an nn.Sequential leave room for one. Products without a bias are those of models like Llama, which drop
 * nothing there. */
#include "classifier.h"
#include "compiler/memory/memory.h"
#include "compiler/shape/shape.h"
#include "passes/draws/draws.h"
#include "passes/torch/metadata/metadata.h"
#include <stdlib.h>
#include <string.h>

typedef enum place_kind { ATTENTION, RESIDUAL, STREAM, CLASSIFIER, KINDS } place_kind;
static const char *const kinds[KINDS] = {"attention probabilities", "products before a residual sum", "embeddings",
                                         "inputs of classifiers"};

typedef struct place {
    place_kind kind;
    tc_node *user; /* the operand that is dropped; NULL: all uses of `value` */
    uint32_t index;
    tc_value *value;
} place;

typedef struct drops {
    tc_pass_env *env;
    tc_graph *graph;
    tc_arena *arena;
    double ratio; /* 0: as the file has it */
    place *places;
    size_t n, cap, counts[KINDS];
} drops;

static bool read_ratio(const char *text, double *out) {
    char *end;
    *out = strcmp(text, "file") == 0 ? 0 : strtod(text, &end);
    return *out == 0 ? strcmp(text, "file") == 0 : *end == '\0' && *out > 0 && *out < 1;
}

tc_status tc_check_drops(tc_ctx *ctx, const tc_options *options) {
    double ratio;
    if (!options->restore_dropout)
        return TC_OK;
    TC_TRY(tc_pipeline_need(ctx, options, "--restore-dropout", "drops", NULL));
    if (read_ratio(options->restore_dropout, &ratio))
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "--restore-dropout: '%s' is no ratio between 0 and 1",
             tc_quote(ctx, options->restore_dropout));
    tc_hint(ctx, "--restore-dropout=0.1; or --restore-dropout=file, for Dropouts that the file has with their ratios");
    return TC_USAGE;
}

static void add(drops *d, place_kind kind, tc_node *user, uint32_t index, tc_value *value) {
    for (size_t i = 0; i < d->n; i++)
        if (d->places[i].user == user && d->places[i].index == index && d->places[i].value == value)
            return;
    d->places = tc_arena_grow(d->arena, d->places, sizeof *d->places, &d->cap, d->n + 1);
    d->places[d->n++] = (place){kind, user, index, value};
}

/* --- what a value comes from --------------------------------------------------------------------------- */

static bool is_any(const tc_node *node, const char *const *ops) {
    for (; node && *ops; ops++)
        if (tc_node_is(node, "", *ops))
            return true;
    return false;
}

static const char *const moves[] = {"Reshape", "Flatten", "Squeeze",   "Identity", "Gather",
                                    "Slice",   "Cast",    "Transpose", NULL};
static const char *const activations[] = {"Relu", "Tanh", "Gelu", "HardSwish", "Sigmoid", "LeakyRelu",
                                          "Elu",  "Clip", "Mish", "Selu",      NULL};

static const tc_value *before_moves(const tc_value *value) {
    while (value && is_any(value->producer, moves))
        value = tc_input(value->producer, 0);
    return value;
}

static const tc_value *stored(const tc_value *value) {
    value = before_moves(value);
    return value && value->init ? value : NULL;
}

/* A product with a weight, and its bias, an initializer; NULL: the value is no such result. */
static tc_node *biased_product(const tc_value *value, const tc_value **out_bias) {
    value = before_moves(value);
    tc_node *node = value ? value->producer : NULL;
    *out_bias = node && tc_node_is(node, "", "Gemm") ? stored(tc_input(node, 2)) : NULL;
    for (uint32_t k = 0; node && tc_node_is(node, "", "Add") && k < 2 && !*out_bias; k++) {
        const tc_value *other = before_moves(tc_input(node, 1 - k));
        if (stored(tc_input(node, k)) && other && other->producer && tc_node_is(other->producer, "", "MatMul")) {
            *out_bias = stored(tc_input(node, k));
            node = other->producer;
        }
    }
    return *out_bias && stored(tc_input(node, 1)) && !stored(tc_input(node, 0)) ? node : NULL;
}

/* Whether the node depends on the value; nodes before its producer need no look. */
static bool reads(tc_arena *scratch, tc_map *seen, const tc_node *node, const tc_value *value) {
    tc_node **open = TC_NEW_ARRAY(scratch, tc_node *, node->graph->n_nodes + (size_t)1);
    size_t n = 0;
    for (const tc_node *at = node; at; at = n ? open[--n] : NULL)
        for (uint32_t i = 0; i < at->n_inputs; i++) {
            tc_value *operand = tc_input(at, i);
            tc_node *producer = operand ? operand->producer : NULL;
            if (operand == value)
                return true;
            if (!producer || tc_map_get_ptr(seen, producer) || tc_node_before(producer, value->producer))
                continue;
            tc_map_set_ptr(seen, producer, producer);
            open[n++] = producer;
        }
    return false;
}

/* --- transformers -------------------------------------------------------------------------------------- */

/* The probabilities of a Softmax with 0 for NaN, in another type, or as they are; NULL: the end of that chain. */
static tc_value *next_form(const tc_value *p) {
    TC_FOR_USES(use, p)
        if (tc_node_is(use->user, "", "Cast") || (tc_node_is(use->user, "", "Where") && use->index == 2))
            return use->user->outputs[0];
    return NULL;
}

/* Softmax times values that the graph computes. */
static void find_attention(drops *d, const tc_node *softmax) {
    for (tc_value *p = softmax->outputs[0]; p; p = next_form(p))
        TC_FOR_USES(use, p)
            if (tc_node_is(use->user, "", "MatMul") && use->index == 0 && !stored(tc_input(use->user, 1)))
                add(d, ATTENTION, use->user, 0, p);
}

/* Results that an architecture adds as they are, by the name of the bias: DistilBERT's attention. */
static bool is_kept(const drops *d, const tc_value *bias) {
    return strstr(tc_torch_name_or_own(d->env->summary, bias->name), ".out_lin.") != NULL;
}

/* `later`: values that depend on a residual sum; the stream of one that does not begins there. */
static bool find_residual(drops *d, tc_node *sum, const tc_map *later) {
    for (uint32_t k = 0; k < 2; k++) {
        const tc_value *bias;
        tc_value *stream = tc_input(sum, 1 - k);
        const tc_node *product = stream && stream->producer ? biased_product(tc_input(sum, k), &bias) : NULL;
        tc_arena *scratch = product ? tc_arena_create() : NULL;
        bool residual = product && reads(scratch, tc_map_create(scratch), product, stream);
        tc_arena_destroy(scratch);
        if (!residual)
            continue;
        if (!is_kept(d, bias))
            add(d, RESIDUAL, sum, k, tc_input(sum, k));
        if (!tc_map_get_ptr(later, stream))
            add(d, STREAM, NULL, 0, stream);
        return true;
    }
    return false;
}

static bool find_transformer(drops *d) {
    tc_map *later = tc_map_create(d->arena);
    TC_FOR_NODES(node, d->graph)
        if (tc_node_is(node, "", "Softmax") && tc_output(node, 0))
            find_attention(d, node);
    if (!d->n)
        return false;
    TC_FOR_NODES(node, d->graph) {
        bool after = tc_node_is(node, "", "Add") && find_residual(d, node, later);
        for (uint32_t i = 0; i < node->n_inputs; i++)
            after = after || (tc_input(node, i) && tc_map_get_ptr(later, tc_input(node, i)));
        for (uint32_t i = 0; after && i < node->n_outputs; i++)
            if (tc_output(node, i))
                tc_map_set_ptr(later, tc_output(node, i), node);
    }
    return true;
}

/* --- classifiers --------------------------------------------------------------------------------------- */

/* "classifier." and 1 of "classifier.1.weight": the number of a module in an nn.Sequential. */
static bool read_number(const char *name, size_t *out_prefix, long *out_number) {
    const char *end = strrchr(name, '.'), *dot = end;
    while (dot && dot > name && dot[-1] != '.')
        dot--;
    char *stop;
    if (!dot || dot == name || dot[0] < '0' || dot[0] > '9')
        return false;
    *out_prefix = (size_t)(dot - name);
    *out_number = strtol(dot, &stop, 10);
    return stop == end;
}

/* Where nothing tells the node's module, an activation counts and a change of shape does not: code around modules has
 * those. */
static bool is_within(const drops *d, const tc_node *node, const char *name, size_t prefix) {
    const char *module = tc_torch_module(d->arena, node);
    if (!module && node->name[0] == '/')
        module = tc_script_module(d->arena, node);
    return module ? strncmp(module, name, prefix) == 0 : !is_any(node, moves);
}

/* Modules without parameters before number `number`, as far as the names of initializers show. */
static long gap_before(const drops *d, const char *name, size_t prefix, long number) {
    long before = -1, found;
    size_t other;
    for (uint32_t i = 0; i < d->graph->n_initializers; i++) {
        const char *theirs = tc_torch_name_or_own(d->env->summary, d->graph->initializers[i]->name);
        if (read_number(theirs, &other, &found) && other == prefix && strncmp(name, theirs, prefix) == 0 &&
            found < number && found > before)
            before = found;
    }
    return number - before - 1;
}

static void find_before(drops *d, tc_node *product, const tc_value *weight, bool transformer) {
    const char *name = tc_torch_name_or_own(d->env->summary, weight->name);
    size_t prefix = 0;
    long number = 0, others = 0;
    bool numbered = read_number(name, &prefix, &number);
    const tc_value *bias, *value = tc_input(product, 0), *activated = NULL;
    for (; value && (is_any(value->producer, moves) || (!activated && is_any(value->producer, activations)));
         value = tc_input(value->producer, 0)) {
        activated = is_any(value->producer, moves) ? activated : value;
        others += numbered && is_within(d, value->producer, name, prefix);
    }
    tc_node *earlier = activated ? biased_product(value, &bias) : NULL;
    if (numbered ? gap_before(d, name, prefix, number) > others : transformer && earlier)
        add(d, CLASSIFIER, product, 0, tc_input(product, 0));
    if (numbered && earlier && stored(tc_input(earlier, 1)))
        find_before(d, earlier, stored(tc_input(earlier, 1)), transformer);
}

/* The head that RoBERTa and its like have for a pooled token: dropout, dense, an activation, dropout, out_proj. */
static bool find_two_layers(drops *d, const tc_classifier *c) {
    static const char last[] = ".out_proj.weight";
    const char *name = tc_torch_name_or_own(d->env->summary, c->weight->name);
    if (!tc_ends_with(name, last))
        return false;
    const char *first = tc_arena_printf(d->arena, "%.*s.dense.weight", (int)(strlen(name) - strlen(last)), name);
    for (uint32_t i = 0; i < d->graph->n_initializers; i++) {
        const tc_value *weight = d->graph->initializers[i];
        if (strcmp(tc_torch_name_or_own(d->env->summary, weight->name), first) != 0 || !weight->uses)
            continue;
        tc_node *product = weight->uses->user;
        if (tc_node_is(product, "", "Transpose") && product->outputs[0]->uses)
            product = product->outputs[0]->uses->user;
        add(d, CLASSIFIER, product, 0, tc_input(product, 0));
        add(d, CLASSIFIER, c->path[c->n - 1], 0, tc_input(c->path[c->n - 1], 0));
        return true;
    }
    return false;
}

static void find_classifier(drops *d, const tc_classifier *c, bool transformer) {
    tc_node *product = c->path[c->n - 1];
    bool language = tc_classifier_table(c) != NULL;
    if (transformer && (language || find_two_layers(d, c)))
        return;
    if (transformer && tc_value_rank(c->output) == 3) /* a class for each token */
        add(d, CLASSIFIER, product, 0, tc_input(product, 0));
    find_before(d, product, c->weight, transformer);
}

/* --- the nodes ----------------------------------------------------------------------------------------- */

static void switch_on(drops *d, tc_node *node) {
    bool yes = true;
    tc_model *model = d->graph->model;
    tc_dtype dtype = tc_input(node, 1) ? tc_value_dtype(tc_input(node, 1)) : TC_FLOAT;
    if (d->ratio > 0)
        tc_node_set_input(node, 1, tc_constant(d->graph, "ratio", tc_tensor_scalar(model, dtype, d->ratio)));
    tc_node_set_input(node, 2, tc_constant(d->graph, "training_mode", tc_tensor_create(model, TC_BOOL, 0, NULL, &yes)));
}

static void put(drops *d, const place *at) {
    tc_node *node = tc_node_create(d->graph, "", "Dropout", 1, 1);
    if (at->user)
        tc_node_insert_before(node, at->user);
    else
        tc_node_insert_after(node, at->value->producer);
    tc_value *dropped = tc_node_add_output(
        node, 0, tc_arena_printf(d->graph->model->arena, "%s_dropped", at->value->name), at->value->type);
    for (tc_use *use = at->value->uses, *next; use; use = next) {
        next = use->next;
        if (!at->user || (use->user == at->user && use->index == at->index))
            tc_node_set_input(use->user, use->index, dropped);
    }
    tc_node_set_input(node, 0, at->value);
    switch_on(d, node);
}

static const char *list_places(const drops *d) {
    const char *text = "";
    for (size_t i = 0; i < KINDS; i++)
        if (d->counts[i])
            text = tc_arena_printf(d->arena, "%s%s%zu %s", text, *text ? ", " : "", d->counts[i], kinds[i]);
    return text;
}

static void find_places(drops *d) {
    tc_classifier c;
    const char *op;
    bool transformer = find_transformer(d);
    for (uint32_t i = 0; i < d->graph->n_outputs; i++)
        if (tc_find_classifier(d->graph->outputs[i], &c, &op))
            find_classifier(d, &c, transformer);
    for (size_t i = 0; i < d->n; i++)
        d->counts[d->places[i].kind]++;
}

/* Without the option: what an added loss trains without. */
static tc_status tell_lost(drops *d, size_t off) {
    tc_ctx *ctx = d->env->ctx;
    find_places(d);
    if (off)
        tc_note(ctx, NULL, "%zu Dropouts of the file drop nothing, as after model.eval() in PyTorch", off);
    else if (d->n)
        tc_note(ctx, NULL, "the file has no Dropout; models of its architecture drop %s", list_places(d));
    if (off || d->n)
        tc_hint(ctx, "--restore-dropout=0.1 drops there");
    return TC_OK;
}

tc_status tc_pass_drops(tc_pass_env *env, tc_model *model) {
    drops d = {.env = env, .graph = model->graph, .arena = env->ctx->arena};
    const char *option = env->options->restore_dropout;
    size_t off = 0, on = 0;
    if (!(option ? read_ratio(option, &d.ratio) : env->options->add_loss && tc_pipeline_has(env->options, "autodiff")))
        return TC_OK;
    TC_FOR_NODES(node, d.graph) {
        off += tc_drops_nothing(node);
        on += tc_node_is(node, "", "Dropout") && !tc_drops_nothing(node);
        if (option && tc_drops_nothing(node))
            switch_on(&d, node);
    }
    if (!option)
        return on ? TC_OK : tell_lost(&d, off);
    if (!off && d.ratio > 0)
        find_places(&d);
    for (size_t i = 0; i < d.n; i++)
        put(&d, &d.places[i]);
    if (off)
        tc_note(env->ctx, NULL, "--restore-dropout: %zu Dropouts of the file drop again", off);
    else if (d.n)
        tc_note(env->ctx, NULL, "--restore-dropout: with ratio %g drop, as far as the architecture is known: %s",
                d.ratio, list_places(&d));
    else {
        tc_error(env->ctx, TC_UNSUPPORTED, NULL, "--restore-dropout: the file has no Dropout%s",
                 d.ratio > 0 ? ", and no place is known where its architecture drops" : "");
        tc_hint(env->ctx, "export the model in training mode: module.train(), and training=TrainingMode.TRAINING where "
                          "dynamo=False");
        return TC_UNSUPPORTED;
    }
    return tc_infer_graph(env->ctx, model->graph);
}
