/* restore_faults.c: corrects differences between the dynamo exporter's nodes and PyTorch's calls: a divisor of
 * average pooling, gradients of xlogy at 0, and gradients that stop at torch.normal. Other differences are only
 * reported, because the file is right for most numbers. */
#include "compiler/ir/ops.h"
#include "passes/autodiff/autodiff.h"
#include "restore_nodes.h"
#include <stdlib.h>
#include <string.h>

enum { CEIL = 4, COUNT_PADDING = 5, DIVISOR = 6 }; /* arguments of average pooling in 2 and 3 dimensions */

static bool is_true(const char *word, bool absent) { return word ? strcmp(word, "True") == 0 : absent; }

static bool is_padded(const tc_restore_call *entry) {
    const char *padding = tc_torch_call_argument(&entry->call, 3, "padding");
    return padding && padding[strcspn(padding, "123456789")] != '\0';
}

/* aten.avg_pool2d(%x, [2, 2], [], [0, 0], False, True, 3) divides the sum of four by 3. */
static tc_status restore_divisor(tc_restore *r, const tc_restore_call *entry) {
    const char *word = tc_torch_call_argument(&entry->call, DIVISOR, "divisor_override");
    tc_node *pool = tc_restore_node(entry, "AveragePool");
    double divisor = word ? strtod(word, NULL) : 0, elements = 1;
    size_t n = 0;
    const int64_t *kernel = pool ? tc_attr_ints(pool, "kernel_shape", &n) : NULL;
    if (!pool || !word || strcmp(word, "None") == 0)
        return TC_OK;
    for (size_t i = 0; i < n; i++)
        elements *= (double)kernel[i];
    bool whole =
        !is_true(tc_torch_call_argument(&entry->call, CEIL, "ceil_mode"), false) &&
        (is_true(tc_torch_call_argument(&entry->call, COUNT_PADDING, "count_include_pad"), true) || !is_padded(entry));
    if (!whole || n == 0 || divisor == 0)
        return tc_restore_refuse(r, pool, "the exporter omitted the divisor of PyTorch's average pooling",
                                 "pool without divisor_override, and multiply the result by the ratio of the "
                                 "divisors");
    tc_restore_nodes nodes = tc_restore_before(r, pool, "divisor");
    tc_value *x = tc_input(pool, 0);
    tc_dtype dtype = tc_value_dtype(x) == TC_UNDEFINED ? TC_FLOAT : tc_value_dtype(x);
    tc_node_set_input(pool, 0,
                      tc_restore_add(&nodes, "Mul", x, tc_restore_number(&nodes, dtype, elements / divisor), NULL));
    tc_note(r->env->ctx, pool, "its sums are divided by %s again, as in PyTorch", tc_quote(r->env->ctx, word));
    return TC_OK;
}

/* Operations that the exporter writes in a way that overflows. */
static const struct {
    const char *operation, *form;
} overflowing[] = {
    {"aten.special_erfcx", "special.erfcx, also in special.log_ndtr, as exp(x^2) (1 - erf(x)): not finite beyond 9"},
    {"aten.logaddexp", "logaddexp as log(exp(a) + exp(b)): not finite beyond 88 and below -103"},
    {"aten.logaddexp2", "logaddexp2 as log2(2^a + 2^b): not finite beyond 128 and below -149"},
    {"aten.logcumsumexp", "logcumsumexp as log(cumsum(exp(x))): not finite beyond 88 and below -103"},
};

static void tell_overflow(const tc_restore *r, const tc_restore_call *entry) {
    for (size_t i = 0; i < TC_COUNT(overflowing); i++) {
        if (!tc_torch_call_is(&entry->call, overflowing[i].operation))
            continue;
        tc_warn(r->env->ctx, entry->nodes[0], "the exporter writes %s, although PyTorch's is", overflowing[i].form);
        tc_hint(r->env->ctx, "clamp its operand, or use another formula, such as a + softplus(b - a) for logaddexp");
    }
}

/* aten.elu.default(%x, 1.5, 2.0, 0.5) */
static tc_status check_elu(tc_restore *r, const tc_restore_call *entry) {
    static const char *const names[] = {"scale", "input_scale"};
    for (size_t i = 0; i < TC_COUNT(names); i++) {
        const char *word = tc_torch_call_argument(&entry->call, 2 + i, names[i]);
        if (word && strtod(word, NULL) != 1)
            return tc_restore_refuse(r, entry->nodes[0], "the exporter omitted the scales of PyTorch's elu",
                                     "write it as scale * elu(input_scale * x, alpha)");
    }
    return TC_OK;
}

/* aten.normal.Tensor_Tensor(%mean, %std): PyTorch's gradients of both are 0. */
static tc_status stop_draw(tc_restore *r, const tc_restore_call *entry) {
    tc_node *last = entry->nodes[entry->n - 1];
    tc_value *drawn = tc_output(last, 0);
    if (!r->trains || !drawn || strcmp(drawn->name, entry->call.result) != 0)
        return TC_OK;
    tc_stop_readers(r->env, drawn);
    tc_note(r->env->ctx, last, "no gradient passes torch.normal, as in PyTorch");
    tc_hint(r->env->ctx, "use mean + std * torch.randn_like(std) to pass gradients");
    return TC_OK;
}

/* aten.xlogy.Tensor(%x, %b) as Where(x == 0, x, Where(isnan(b), b, x log b)), whose gradient at 0 is 1 for log b. */
static tc_status restore_xlogy(tc_restore *r, const tc_restore_call *entry) {
    tc_node *choice = entry->nodes[entry->n - 1];
    const tc_value *inner = tc_node_is(choice, "", "Where") ? tc_input(choice, 2) : NULL;
    if (inner && inner->producer && tc_node_is(inner->producer, "", "Where"))
        inner = tc_input(inner->producer, 2);
    if (!inner || !inner->producer || !tc_node_is(inner->producer, "", "Mul"))
        return TC_OK;
    tc_node *product = tc_node_create(r->graph, TC_TEMPO_DOMAIN, "MulOrZero", 2, 1);
    product->name = choice->name;
    for (uint32_t i = 0; i < 2; i++)
        tc_node_set_input(product, i, tc_input(inner->producer, i));
    tc_node_insert_before(product, choice);
    tc_node_set_output(product, 0, tc_node_take_output(choice, 0));
    return TC_OK;
}

/* aten.instance_norm.default(%x, None, None, %mean, %var, True, 0.1, 1e-05): the file lacks the nodes that update
 * %mean and %var. */
static tc_status tell_statistics(tc_restore *r, const tc_restore_call *entry) {
    const char *mean = tc_torch_call_argument(&entry->call, 3, "running_mean");
    if (!r->trains || !mean || mean[0] != '%' ||
        !is_true(tc_torch_call_argument(&entry->call, 5, "use_input_stats"), false))
        return TC_OK;
    tc_warn(r->env->ctx, entry->nodes[entry->n - 1],
            "the exporter omitted PyTorch's running statistics of this instance norm (%s): no batch updates "
            "them, and an evaluation uses each sample's own",
            tc_quote(r->env->ctx, mean + 1));
    tc_hint(r->env->ctx, "set track_running_stats=False, or evaluate in PyTorch, where the statistics did not change");
    return TC_OK;
}

/* Operations for which a number close to 0 matters, and its argument. */
static const struct {
    const char *operation;
    size_t argument;
} near_zero[] = {{"aten.div", 1},  {"aten.log", 0},        {"aten.log2", 0}, {"aten.log10", 0},
                 {"aten.sqrt", 0}, {"aten.reciprocal", 0}, {"aten.pow", 0},  {"aten.rsqrt", 0}};

/* Whether some node's result is a sum under another name: then the two were merged. */
static bool reads_sum(const tc_restore *r, const tc_restore_call *entry) {
    for (size_t i = 0; i < entry->n; i++)
        for (uint32_t k = 0; k < entry->nodes[i]->n_inputs; k++) {
            tc_torch_call call;
            const tc_value *value = tc_input(entry->nodes[i], k);
            if (value && value->producer && value->producer->n_outputs &&
                tc_torch_call_read(r->arena, value->producer, &call) && tc_torch_same_stem(call.result, "add"))
                return true;
        }
    return false;
}

/* The sum that the call reads and the file lacks, also through a product. */
static const char *dropped_sum(const tc_restore *r, const tc_restore_call *entry, size_t argument, bool in_product) {
    const char *word = tc_torch_call_argument(&entry->call, argument, NULL);
    if (!word || word[0] != '%')
        return NULL;
    uintptr_t at = (uintptr_t)tc_map_get(r->by_result, word + 1);
    const tc_restore_call *made = at ? &r->calls[at - 1] : NULL;
    if (made && !in_product && tc_torch_call_is(&made->call, "aten.mul")) {
        const char *first = dropped_sum(r, made, 0, true);
        return first ? first : dropped_sum(r, made, 1, true);
    }
    bool dropped = !made && tc_torch_same_stem(word + 1, "add") && !tc_map_get(r->graph->names, word + 1);
    return dropped && !reads_sum(r, entry) ? word : NULL;
}

/* The exporter's optimizer replaces x + 1e-8 by x. */
static void tell_epsilon(const tc_restore *r, const tc_restore_call *entry) {
    for (size_t i = 0; i < TC_COUNT(near_zero); i++) {
        const char *word = tc_torch_call_is(&entry->call, near_zero[i].operation)
                               ? dropped_sum(r, entry, near_zero[i].argument, false)
                               : NULL;
        if (!word)
            continue;
        tc_warn(r->env->ctx, entry->nodes[0],
                "the exporter's optimizer dropped the sum %s, which PyTorch reads here: it treats a number "
                "of at most 1e-8 as 0, so this may divide by 0 where PyTorch does not",
                tc_quote(r->env->ctx, word + 1));
        tc_hint(r->env->ctx, "export with optimize=False, or add a larger number");
        return;
    }
}

static const struct {
    const char *operation;
    tc_status (*mend)(tc_restore *r, const tc_restore_call *entry);
} mended[] = {
    {"aten.avg_pool2d", restore_divisor},    {"aten.avg_pool3d", restore_divisor}, {"aten.elu", check_elu},
    {"aten.instance_norm", tell_statistics}, {"aten.normal", stop_draw},           {"aten.xlogy", restore_xlogy},
};

tc_status tc_restore_faults(tc_restore *r) {
    for (size_t i = 0; i < r->n; i++) {
        const tc_restore_call *entry = &r->calls[i];
        for (size_t k = 0; k < TC_COUNT(mended); k++)
            if (tc_torch_call_is(&entry->call, mended[k].operation))
                TC_TRY(mended[k].mend(r, entry));
        tell_overflow(r, entry);
        tell_epsilon(r, entry);
    }
    return TC_OK;
}
