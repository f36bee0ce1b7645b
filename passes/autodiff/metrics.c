/* metrics.c: a pass for graphs that evaluate a model: outputs from which a program computes accuracy, F1 and perplexity
 * of all samples, whatever its batches. They are sums over the labels of a batch that count, as floats, and cost a
 * vector of labels: the scores are there for the loss. Only the cross-entropy that the loss is made of shows which
 * values are scores, and of these labels: where it is made of two, no metric has a name.
 *
 *     a label for each sample          accuracy, F1
 *     labels of positions in samples   accuracy; perplexity where the classes are those of an embedding, as for tokens
 *     labels that are 0 or 1 each      accuracy, F1; a score above 0 predicts 1
 */
#include "compiler/build/build.h"
#include "compiler/ir/ops.h"
#include "compiler/memory/memory.h"
#include "passes/weights/weights.h"
#include <string.h>

enum { SCORES, LABELS, WEIGHTS, CLASS_AXIS = 1 };

/* --- the cross-entropy ------------------------------------------------------------------------ */

static bool is_integer(const tc_value *value) {
    return tc_value_dtype(value) == TC_INT64 || tc_value_dtype(value) == TC_INT32;
}

static bool is_cross_entropy(const tc_node *node) {
    static const char *const ops[] = {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"};
    bool is = tc_node_is(node, TC_TEMPO_DOMAIN, "ScoresCrossEntropy");
    for (size_t i = 0; i < TC_COUNT(ops); i++)
        is = is || tc_node_is(node, "", ops[i]);
    return is && is_integer(tc_input(node, LABELS)) && tc_value_rank(tc_input(node, SCORES)) > CLASS_AXIS;
}

/* The only one that the loss depends on; NULL: there is none, there are several, or a mask may leave out some of its
 * losses later. */
static tc_node *find_cross_entropy(tc_arena *arena, const tc_graph *graph, const tc_value *loss, bool *out_any) {
    const bool *needed = tc_needed_nodes(arena, graph, loss);
    tc_node *found = NULL;
    *out_any = false;
    TC_FOR_NODES(node, graph) {
        if (!needed[node->id] || !is_cross_entropy(node))
            continue;
        if (*out_any)
            return NULL;
        *out_any = true;
        found = node;
    }
    return found && strcmp(tc_attr_string(found, "reduction", "mean"), "none") != 0 ? found : NULL;
}

/* Whether each sample has one label: labels are, but for their shape, an input without another axis. */
static bool are_of_samples(const tc_value *labels) {
    while (labels->producer && (tc_node_has(labels->producer, TC_VIEW) || tc_node_is(labels->producer, "", "Cast")))
        labels = tc_input(labels->producer, 0);
    for (int axis = 1; axis < tc_value_rank(labels); axis++)
        if (!tc_dim_is_const(labels->type->dims[axis]) || labels->type->dims[axis].value != 1)
            return false;
    return labels->is_input && tc_value_rank(labels) >= 1;
}

/* An embedding has a row for each class: these are tokens. Two rows are those of BERT's two sentences. */
static bool are_tokens(const tc_graph *graph, int64_t classes) {
    int64_t rows;
    TC_FOR_NODES(node, graph)
        if (classes > 2 && tc_node_is(node, "", "Gather") && tc_value_rank(tc_input(node, 0)) == 2 &&
            tc_build_static(tc_input(node, 0), 0, &rows) && rows == classes && tc_attr_int(node, "axis", 0) == 0)
            return true;
    return false;
}

/* The result is a mean, or a sum, of -log p of labels. */
static bool is_of_likelihoods(const tc_node *loss) {
    const tc_value *scores = tc_input(loss, SCORES);
    while (scores->producer && tc_node_has(scores->producer, TC_VIEW))
        scores = tc_input(scores->producer, 0);
    bool from_logs = scores->producer && tc_node_is(scores->producer, "", "LogSoftmax");
    return !tc_input(loss, WEIGHTS) && !tc_attr_find(loss, "label_smoothing") && !tc_attr_find(loss, "z_loss") &&
           (from_logs || !tc_node_is(loss, "", "NegativeLogLikelihoodLoss"));
}

/* --- the binary cross-entropy ----------------------------------------------------------------- */

static tc_node *made_by(const tc_value *value, const char *domain, const char *op) {
    return value && value->producer && tc_node_is(value->producer, domain, op) ? value->producer : NULL;
}

/* y of 1 - y. */
static tc_value *rest_of(const tc_value *value) {
    double one;
    const tc_node *node = made_by(value, "", "Sub");
    return node && tc_build_known_number(tc_input(node, 0), &one) && one == 1 ? tc_input(node, 1) : NULL;
}

/* x of log(1 - sigmoid(x)), or x itself where its sigmoid, or exp(-x), is read, too. */
static tc_value *logits_of(tc_value *value) {
    const tc_node *log = made_by(value, "", "Log"),
                  *sigmoid = log ? made_by(rest_of(tc_input(log, 0)), "", "Sigmoid") : NULL;
    if (sigmoid)
        return tc_input(sigmoid, 0);
    TC_FOR_USES(use, value) {
        const tc_node *node = use->user;
        if (tc_node_is(node, "", "Neg") && node->outputs[0]->uses)
            node = node->outputs[0]->uses->user;
        if (tc_node_is(node, "", "Sigmoid") || tc_node_is(node, "", "Softplus") ||
            tc_node_is(node, TC_TEMPO_DOMAIN, "LogSigmoid"))
            return value;
    }
    return NULL;
}

/* The value goes into the loss by sums and means alone: no mask leaves out a part of it. */
static bool is_summed(const tc_value *value, const tc_value *loss) {
    static const char *const sums[] = {"Add", "Sub", "Neg", "ReduceMean", "ReduceSum", "Squeeze", "Reshape", "Cast"};
    for (bool passes = true; passes && value != loss;) {
        const tc_node *user = value->uses && !value->uses->next ? value->uses->user : NULL;
        passes = false;
        for (size_t i = 0; user && i < TC_COUNT(sums); i++)
            passes = passes || tc_node_is(user, "", sums[i]);
        value = passes ? user->outputs[0] : value;
    }
    return value == loss;
}

/* (1 - t) x or (1 - t) log(1 - sigmoid(x)), where t is an input: both are of one shape. */
static bool find_binary(const tc_graph *graph, const tc_value *loss, tc_value **out_scores, tc_value **out_labels) {
    TC_FOR_NODES(node, graph)
        for (uint32_t i = 0; tc_node_is(node, "", "Mul") && i < 2; i++) {
            tc_value *labels = rest_of(tc_input(node, i)), *given = labels;
            while (given && made_by(given, "", "Cast"))
                given = tc_input(given->producer, 0);
            if (!given || !given->is_input || given->init || !is_summed(node->outputs[0], loss))
                continue;
            *out_labels = labels;
            *out_scores = logits_of(tc_input(node, 1 - i));
            return *out_scores && tc_same_shape(*out_scores, labels);
        }
    return false;
}

/* --- counts ----------------------------------------------------------------------------------- */

typedef struct measuring {
    tc_build g;
    tc_metrics *found;
    int64_t classes; /* of F1 */
} measuring;

/* The value as the output tempo.metric.NAME. */
static void show(measuring *m, tc_value *value, const char **out_name, const char *name) {
    value = TC_OP(&m->g, "Identity", value);
    if (m->g.status != TC_OK)
        return;
    *out_name = tc_arena_printf(m->g.ctx->arena, "tempo.metric.%s", name);
    tc_value_rename(value, *out_name);
    tc_graph_add_output(m->g.graph, value);
}

static tc_value *total(measuring *m, tc_value *x) {
    tc_node *sum = TC_BEGIN(&m->g, "ReduceSum", x);
    tc_attr_set_int(sum, "keepdims", 0);
    return tc_build_finish(&m->g, sum);
}

/* The sum of x for each class. */
static tc_value *by_class(measuring *m, tc_value *class, tc_value *x) {
    tc_build *g = &m->g;
    tc_value *zeros = tc_build_zeros(g, tc_build_int(g, m->classes), TC_FLOAT), *flat = tc_build_int(g, -1);
    tc_node *add =
        TC_BEGIN(g, "ScatterElements", zeros, TC_OP(g, "Reshape", class, flat), TC_OP(g, "Reshape", x, flat));
    tc_attr_set_string(add, "reduction", "add");
    return tc_build_finish(g, add);
}

/* Labels that count and are predicted; labels that count; both by class for F1. */
static void count_classes(measuring *m, const tc_node *loss, bool by) {
    tc_build *g = &m->g;
    tc_value *labels = tc_build_cast(g, tc_input(loss, LABELS), TC_INT64), *one = tc_build_scalar(g, TC_FLOAT, 1);
    tc_value *counts = tc_build_expand_like(g, one, labels);
    if (tc_attr_find(loss, "ignore_index")) {
        const double ignore = (double)tc_attr_int(loss, "ignore_index", 0);
        tc_value *ignored = TC_OP(g, "Equal", labels, tc_build_like(g, labels, ignore));
        labels = TC_OP(g, "Where", ignored, tc_build_like(g, labels, 0), labels);
        counts = TC_OP(g, "Where", ignored, tc_build_like(g, one, 0), one);
    }
    tc_node *best = TC_BEGIN(g, "ArgMax", tc_input(loss, SCORES));
    tc_attr_set_int(best, "axis", CLASS_AXIS);
    tc_attr_set_int(best, "keepdims", 0);
    tc_value *predicted = tc_build_finish(g, best);
    tc_value *right = TC_OP(g, "Mul", counts, tc_build_cast(g, TC_OP(g, "Equal", predicted, labels), TC_FLOAT));
    show(m, by ? by_class(m, labels, right) : total(m, right), &m->found->right, "right");
    show(m, by ? by_class(m, labels, counts) : total(m, counts), &m->found->actual, "actual");
    if (by)
        show(m, by_class(m, predicted, counts), &m->found->predicted, "predicted");
}

/* Ones that are predicted; ones; predicted ones; by column of a matrix, which are several questions about a sample. */
static void count_ones(measuring *m, tc_value *scores, tc_value *labels) {
    tc_build *g = &m->g;
    bool columns = tc_value_rank(scores) == 2 && tc_build_static(scores, 1, &m->classes);
    tc_value *ones[] = {NULL, TC_OP(g, "Greater", labels, tc_build_like(g, labels, 0.5)),
                        TC_OP(g, "Greater", scores, tc_build_like(g, scores, 0))};
    const struct {
        const char **out, *name;
    } of[] = {{&m->found->right, "right"}, {&m->found->actual, "actual"}, {&m->found->predicted, "predicted"}};
    ones[0] = TC_OP(g, "And", ones[1], ones[2]);
    for (size_t i = 0; i < TC_COUNT(of); i++) {
        tc_value *each = tc_build_cast(g, ones[i], TC_FLOAT);
        show(m, columns ? tc_build_reduce(g, "ReduceSum", each, (int64_t[]){0}, 1, false) : total(m, each), of[i].out,
             of[i].name);
    }
    show(m, tc_build_cast(g, TC_OP(g, "Size", scores), TC_FLOAT), &m->found->count, "count");
    m->found->classes = columns ? m->classes : 1;
}

static void count_labels(measuring *m, const tc_node *loss) {
    bool samples = are_of_samples(tc_input(loss, LABELS));
    count_classes(m, loss, samples);
    m->found->classes = samples ? m->classes : 1;
    m->found->is_mean = strcmp(tc_attr_string(loss, "reduction", "mean"), "mean") == 0;
    if (!samples && is_of_likelihoods(loss) && are_tokens(m->g.graph, m->classes))
        show(m, loss->outputs[0], &m->found->likelihood, "likelihood");
}

static tc_status measure(tc_pass_env *env, tc_model *model, const tc_value *loss) {
    tc_arena *arena = env->ctx->arena;
    tc_build_pool pool = {arena, tc_map_create(arena)};
    measuring m = {.g = {.ctx = env->ctx, .model = model, .graph = model->graph, .pool = &pool, .label = "metrics"},
                   .found = TC_NEW(arena, tc_metrics)};
    bool any;
    tc_value *scores, *labels;
    const tc_node *found = find_cross_entropy(arena, model->graph, loss, &any);
    if (found && tc_build_static(tc_input(found, SCORES), CLASS_AXIS, &m.classes) && m.classes > 1)
        count_labels(&m, found);
    else if (!any && find_binary(model->graph, loss, &scores, &labels))
        count_ones(&m, scores, labels);
    else
        return TC_OK;
    TC_TRY(m.g.status);
    env->summary->metrics = m.found;
    return tc_infer_graph(env->ctx, model->graph);
}

/* As autodiff chose it, of the file's own outputs; NULL where it could not. */
static const tc_value *find_loss(const char *name, const tc_graph *graph) {
    const tc_value *loss = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const tc_value *output = graph->outputs[i];
        if (output->role == TC_ROLE_LOSS || (name && strcmp(output->name, name) == 0))
            return output;
        if (!tc_is_scalar_float(output) || strncmp(output->name, "tempo.", 6) == 0)
            continue;
        loss = output;
        n++;
    }
    return n == 1 ? loss : NULL;
}

tc_status tc_pass_metrics(tc_pass_env *env, tc_model *model) {
    tc_graph *graph = model->graph;
    if (env->options->counting != TC_COUNT_OUTPUT)
        return TC_OK;
    const tc_value *loss = find_loss(env->options->loss, graph);
    return loss ? measure(env, model, loss) : TC_OK;
}
