/* added_loss.c: the text of --add-loss, and its output: the one that is named, else "logits", else the only one that
 * is no by-product by its name. Hidden states and embeddings are no scores of classes unless they are named. */
#include "added_loss.h"
#include "choose_loss.h"
#include "compiler/base/quantity.h"
#include "compiler/cli/cli.h"
#include "compiler/memory/memory.h"
#include <stdlib.h>
#include <string.h>

enum { IGNORE = 1, AXIS = 2, SMOOTHING = 4, SHIFT = 8 };
static const struct {
    const char *word, *torch; /* torch: the name of the same class of torch.nn, and of ONNX Runtime's artifacts */
    tc_loss_kind kind;
    unsigned settings;
    int least, most; /* ranks of the output */
} kinds[] = {
    {"cross-entropy", "CrossEntropyLoss", TC_LOSS_CLASSES, IGNORE | AXIS | SMOOTHING | SHIFT, 2, TC_MAX_RANK},
    {"next-token", NULL, TC_LOSS_TOKENS, IGNORE | SMOOTHING, 3, 3},
    {"mse", "MSELoss", TC_LOSS_MSE, 0, 1, TC_MAX_RANK},
    {"l1", "L1Loss", TC_LOSS_L1, 0, 1, TC_MAX_RANK},
    {"bce", "BCEWithLogitsLoss", TC_LOSS_BCE, 0, 1, TC_MAX_RANK},
};

static bool is_of_classes(tc_loss_kind kind) { return kind == TC_LOSS_CLASSES || kind == TC_LOSS_TOKENS; }

/* --- the text --------------------------------------------------------------------------------- */

static bool set_ignore(tc_added_loss *a, const char *text) { return tc_parse_whole(text, &a->ignore); }
static bool set_axis(tc_added_loss *a, const char *text) { return tc_parse_whole(text, &a->axis); }
static bool set_shift(tc_added_loss *a, const char *text) { return tc_parse_switch(text, &a->shift); }
static bool set_smoothing(tc_added_loss *a, const char *text) {
    char *end;
    a->smoothing = strtod(text, &end);
    return end != text && *end == '\0' && a->smoothing >= 0 && a->smoothing <= 1;
}
static bool set_input(tc_added_loss *a, const char *text) {
    a->input = text;
    return *text != '\0';
}

static const struct {
    const char *name, *wants;
    unsigned bit; /* 0: of all kinds but files */
    bool (*set)(tc_added_loss *a, const char *text);
} settings[] = {{"ignore", "a label, such as -100", IGNORE, set_ignore},
                {"axis", "the axis of the classes", AXIS, set_axis},
                {"smoothing", "a number from 0 to 1", SMOOTHING, set_smoothing},
                {"shift", "on or off", SHIFT, set_shift},
                {"input", "a name for the input of labels or target", 0, set_input}};

static tc_status set_one(tc_ctx *ctx, tc_added_loss *a, unsigned allowed, char *text) {
    char *value = strchr(text, '=');
    if (value)
        *value++ = '\0';
    for (size_t i = 0; i < TC_COUNT(settings); i++) {
        if (strcmp(text, settings[i].name) != 0 || (settings[i].bit & ~allowed))
            continue;
        if (settings[i].set(a, value ? value : settings[i].bit == SHIFT ? "on" : ""))
            return TC_OK;
        return tc_error(ctx, TC_USAGE, NULL, "--add-loss: %s=%s: expected %s", text, tc_quote(ctx, value ? value : ""),
                        settings[i].wants);
    }
    const char *list = "";
    for (size_t i = 0; i < TC_COUNT(settings); i++)
        if (!(settings[i].bit & ~allowed))
            list = tc_arena_printf(ctx->arena, "%s%s%s", list, *list ? ", " : "", settings[i].name);
    tc_error(ctx, TC_USAGE, NULL, "--add-loss: %s has no setting '%s'", a->word, tc_quote(ctx, text));
    tc_hint(ctx, "its settings are: %s", list);
    return TC_USAGE;
}

static tc_status unknown_kind(tc_ctx *ctx, const char *word) {
    const char *list = "";
    for (size_t i = 0; i < TC_COUNT(kinds); i++)
        list = tc_arena_printf(ctx->arena, "%s%s, ", list, kinds[i].word);
    tc_error(ctx, TC_USAGE, NULL, "--add-loss: there is no loss '%s'", tc_quote(ctx, word));
    tc_hint(ctx, "the losses are: %sor a file of ONNX text, FILE.onnxt", list);
    return TC_USAGE;
}

tc_status tc_added_loss_parse(tc_ctx *ctx, const char *text, tc_added_loss *out) {
    char *words = tc_arena_strdup(ctx->arena, text), *rest;
    const char *end = strstr(words, ".onnxt:");
    char *colon = end                             ? words + (end - words) + strlen(".onnxt")
                  : tc_ends_with(words, ".onnxt") ? NULL
                                                  : strchr(words, ':');
    *out = (tc_added_loss){.kind = TC_LOSS_FILE, .word = words, .ignore = -100, .axis = TC_AXIS_USUAL};
    if (colon) {
        *colon = '\0';
        out->output = colon + 1;
    }
    if (tc_ends_with(words, ".onnxt"))
        return TC_OK;
    char *word = strtok_r(words, ",", &rest);
    for (size_t i = 0; word && i < TC_COUNT(kinds); i++) {
        if (strcmp(word, kinds[i].word) != 0 && !(kinds[i].torch && strcmp(word, kinds[i].torch) == 0))
            continue;
        out->kind = kinds[i].kind;
        out->word = kinds[i].word;
        out->input = is_of_classes(out->kind) ? "labels" : "target";
        out->shift = out->kind == TC_LOSS_TOKENS;
        while ((word = strtok_r(NULL, ",", &rest)))
            TC_TRY(set_one(ctx, out, kinds[i].settings, word));
        return TC_OK;
    }
    return unknown_kind(ctx, word ? word : "");
}

/* --- the output ------------------------------------------------------------------------------- */

/* Beside the result, by the names that exporters give them. */
static const char *const by_products[] = {"present",
                                          "past",
                                          "hidden_states",
                                          "attentions",
                                          "cross_attentions",
                                          "encoder_last_hidden_state",
                                          "encoder_hidden_states"};
static const char *const features[] = {"hidden_state", "pooler_output", "embed"};

static bool is_by_product(const char *name) {
    for (size_t i = 0; i < TC_COUNT(by_products); i++)
        if (strncmp(name, by_products[i], strlen(by_products[i])) == 0)
            return true;
    return false;
}

static bool is_feature(const char *name) {
    for (size_t i = 0; i < TC_COUNT(features); i++)
        if (strstr(name, features[i]))
            return true;
    return false;
}

static bool fits(const tc_added_loss *a, const tc_value *value) {
    int rank = tc_value_rank(value);
    if (!tc_dtype_is_float(tc_value_dtype(value)))
        return false;
    for (size_t i = 0; i < TC_COUNT(kinds); i++)
        if (kinds[i].kind == a->kind)
            return rank >= (a->shift ? 3 : kinds[i].least) && rank <= kinds[i].most;
    return true;
}

/* Outputs that may be meant, in `out` [n_outputs of the graph]. */
static size_t find_meant(const tc_graph *graph, const tc_added_loss *a, tc_value **out) {
    size_t n = 0;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        tc_value *value = graph->outputs[i];
        if (!fits(a, value) || is_by_product(value->name) || (is_of_classes(a->kind) && is_feature(value->name)))
            continue;
        if (strcmp(value->name, "logits") == 0) {
            out[0] = value;
            return 1;
        }
        out[n++] = value;
    }
    return n;
}

static const char *ranks_of(tc_ctx *ctx, const tc_added_loss *a) {
    static const char *const words[] = {"any number of axes", "one axis or more", "two axes or more", "three axes"};
    for (size_t i = 0; i < TC_COUNT(kinds); i++)
        if (kinds[i].kind == a->kind)
            return tc_arena_printf(ctx->arena, "%s%s", words[a->shift ? 3 : kinds[i].least],
                                   is_of_classes(a->kind) ? ", one of them of classes" : "");
    return words[0];
}

static tc_status named_output(tc_ctx *ctx, const tc_graph *graph, const tc_added_loss *a, tc_value **out_value) {
    tc_value *named = tc_map_get(graph->names, a->output);
    bool found = named && named->n_graph_outputs;
    *out_value = found ? named : NULL;
    if (found && fits(a, named))
        return TC_OK;
    if (found)
        tc_error(ctx, TC_USAGE, NULL, "--add-loss: the output %s is %s, and %s takes floats of %s",
                 tc_quote(ctx, a->output), tc_type_text(ctx->arena, named->type), a->word, ranks_of(ctx, a));
    else
        tc_error(ctx, TC_USAGE, NULL, "--add-loss: the graph has no output named '%s'", tc_quote(ctx, a->output));
    tc_hint(ctx, "its outputs are: %s", tc_list_typed(ctx, graph->outputs, graph->n_outputs));
    return TC_USAGE;
}

tc_status tc_added_loss_output(tc_ctx *ctx, const tc_graph *graph, const tc_added_loss *a, tc_value **out_value) {
    *out_value = NULL;
    if (a->output)
        return named_output(ctx, graph, a, out_value);
    tc_value **meant = TC_NEW_ARRAY(ctx->arena, tc_value *, (size_t)graph->n_outputs + 1);
    size_t n = find_meant(graph, a, meant);
    *out_value = meant[0];
    if (n == 1)
        return TC_OK;
    if (n == 0) {
        tc_error(ctx, TC_USAGE, NULL, "--add-loss: no output fits %s, which takes floats of %s", a->word,
                 ranks_of(ctx, a));
        tc_hint(ctx, "the outputs are: %s; --add-loss=%s:OUTPUT names one",
                tc_list_typed(ctx, graph->outputs, graph->n_outputs), a->word);
    } else {
        tc_error(ctx, TC_USAGE, NULL, "--add-loss: %zu outputs could be meant: %s", n, tc_list_typed(ctx, meant, n));
        tc_hint(ctx, "name one: --add-loss=%s:%s", a->word, tc_quote(ctx, meant[0]->name));
    }
    return TC_USAGE;
}

tc_value *tc_added_loss_known(const tc_options *options, const tc_graph *graph) {
    tc_ctx quiet;
    tc_added_loss added;
    tc_value *value = NULL;
    tc_ctx_init(&quiet, "");
    if (tc_added_loss_parse(&quiet, options->add_loss, &added) == TC_OK &&
        tc_added_loss_output(&quiet, graph, &added, &value) != TC_OK && added.kind != TC_LOSS_FILE)
        value = NULL; /* a file may name several: each depends on most weights */
    tc_ctx_fini(&quiet);
    return value;
}

const char *tc_added_loss_advice(tc_ctx *ctx, const tc_graph *graph) {
    static const tc_loss_kind order[] = {TC_LOSS_TOKENS, TC_LOSS_CLASSES, TC_LOSS_MSE};
    tc_value **meant = TC_NEW_ARRAY(ctx->arena, tc_value *, (size_t)graph->n_outputs + 1);
    for (size_t i = 0; i < TC_COUNT(order); i++) {
        const tc_added_loss a = {.kind = order[i]};
        if (find_meant(graph, &a, meant) > 0)
            return kinds[order[i]].word;
    }
    return NULL;
}
