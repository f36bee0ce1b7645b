/* adapter_config.c: PEFT's adapter_config.json -> settings. Entries that change what an adapter computes are read, or
 * refused where they say something; all others are skipped. */
#include "adapter_file.h"
#include "runtime/files/json_read.h"
#include <regex.h>
#include <string.h>

/* An entry of alpha_pattern: modules whose name, or its end after a dot, matches. */
typedef struct pattern {
    const char *regex;
    double value;
} pattern;

typedef struct config {
    tc_ctx *ctx;
    rt_json json;
    const char *type, *bias;
    double rank, alpha, dropout;
    bool dora, rslora;
    pattern *alphas;
    size_t n_alphas, cap_alphas;
    const char **saved; /* modules_to_save */
    size_t n_saved, cap_saved;
} config;

static tc_status refuse(config *c, const char *entry, const char *value) {
    return tc_error(c->ctx, TC_UNSUPPORTED, NULL, "\"%s\"%s: adapters of this kind are not trained here",
                    tc_quote(c->ctx, entry), value ? tc_arena_printf(c->ctx->arena, " %s", value) : "");
}

/* --- values ----------------------------------------------------------------------------------- */

static tc_status read_string(config *c, void *out) { return rt_json_string(&c->json, c->ctx->arena, out); }

static tc_status read_number(config *c, void *out) { return rt_json_number(&c->json, out); }

static tc_status read_bool(config *c, void *out) { return rt_json_bool(&c->json, out); }

static tc_status read_alphas(config *c, void *unused) {
    (void)unused;
    if (rt_json_accept_nothing(&c->json))
        return TC_OK;
    TC_TRY(rt_json_expect(&c->json, '{'));
    for (bool more = !rt_json_accept(&c->json, '}'); more;) {
        pattern p;
        TC_TRY(read_string(c, &p.regex));
        TC_TRY(rt_json_expect(&c->json, ':'));
        TC_TRY(read_number(c, &p.value));
        c->alphas = tc_arena_grow(c->ctx->arena, c->alphas, sizeof p, &c->cap_alphas, c->n_alphas + 1);
        c->alphas[c->n_alphas++] = p;
        TC_TRY(rt_json_next(&c->json, '}', &more));
    }
    return TC_OK;
}

static tc_status read_saved(config *c, void *unused) {
    (void)unused;
    if (rt_json_accept_nothing(&c->json))
        return TC_OK;
    TC_TRY(rt_json_expect(&c->json, '['));
    for (bool more = !rt_json_accept(&c->json, ']'); more;) {
        c->saved = tc_arena_grow(c->ctx->arena, c->saved, sizeof *c->saved, &c->cap_saved, c->n_saved + 1);
        TC_TRY(read_string(c, &c->saved[c->n_saved++]));
        TC_TRY(rt_json_next(&c->json, ']', &more));
    }
    return TC_OK;
}

/* Words here name what PEFT does with the base's weights: most change them, so that the adapter fits no others. */
static tc_status read_first_values(config *c, void *unused) {
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
    const char *word;
    (void)unused;
    if (rt_json_accept(&c->json, '"'))
        c->json.at--;
    else
        return rt_json_skip(&c->json);
    TC_TRY(read_string(c, &word));
    for (size_t i = 0; i < TC_COUNT(harmless); i++)
        if (strcmp(word, harmless[i]) == 0)
            return TC_OK;
    tc_error(c->ctx, TC_UNSUPPORTED, NULL, "\"init_lora_weights\" is \"%s\", which changes the base's weights, too",
             tc_quote(c->ctx, word));
    tc_hint(c->ctx, "PEFT's save_pretrained(path_initial_model_for_weight_conversion=...) makes it an adapter of the "
                    "unchanged base");
    return TC_UNSUPPORTED;
}

static const struct {
    const char *name;
    tc_status (*read)(config *c, void *out);
    size_t field;
} entries[] = {
    {"peft_type", read_string, offsetof(config, type)},
    {"bias", read_string, offsetof(config, bias)},
    {"r", read_number, offsetof(config, rank)},
    {"lora_alpha", read_number, offsetof(config, alpha)},
    {"lora_dropout", read_number, offsetof(config, dropout)},
    {"use_dora", read_bool, offsetof(config, dora)},
    {"use_rslora", read_bool, offsetof(config, rslora)},
    {"alpha_pattern", read_alphas, 0},
    {"modules_to_save", read_saved, 0},
    {"init_lora_weights", read_first_values, 0},
};

static const char *const refused[] = {
    "lora_bias",   "trainable_token_indices", "layer_replication", "target_parameters",
    "use_qalora",  "alora_invocation_tokens", "use_bdlora",        "arrow_config",
    "kasa_config", "velora_config",           "monteclora_config",
};

static tc_status read_entry(config *c, const char *name) {
    for (size_t i = 0; i < TC_COUNT(entries); i++)
        if (strcmp(entries[i].name, name) == 0)
            return entries[i].read(c, (char *)c + entries[i].field);
    for (size_t i = 0; i < TC_COUNT(refused); i++)
        if (strcmp(refused[i], name) == 0 && !rt_json_accept_nothing(&c->json))
            return refuse(c, name, NULL);
        else if (strcmp(refused[i], name) == 0)
            return TC_OK;
    return rt_json_skip(&c->json);
}

static tc_status read_all(config *c) {
    tc_map *names = tc_map_create(c->ctx->arena);
    TC_TRY(rt_json_expect(&c->json, '{'));
    for (bool more = !rt_json_accept(&c->json, '}'); more;) {
        const char *name;
        TC_TRY(read_string(c, &name));
        if (tc_map_get(names, name))
            return rt_json_bad(&c->json,
                               tc_arena_printf(c->ctx->arena, "\"%s\" is there twice", tc_quote(c->ctx, name)));
        tc_map_set(names, name, c);
        TC_TRY(rt_json_expect(&c->json, ':'));
        TC_TRY(read_entry(c, name));
        TC_TRY(rt_json_next(&c->json, '}', &more));
    }
    return rt_json_ends(&c->json) ? TC_OK : rt_json_bad(&c->json, "more text after the object's end");
}

/* --- what they say ---------------------------------------------------------------------------- */

static tc_status check(config *c) {
    if (!c->type)
        return tc_error(c->ctx, TC_BAD_INPUT, NULL, "this is no configuration of PEFT: it has no \"peft_type\"");
    if (strcmp(c->type, "LORA") != 0)
        return refuse(c, "peft_type", tc_quote(c->ctx, c->type));
    if (strcmp(c->bias, "none") != 0)
        return refuse(c, "bias", tc_quote(c->ctx, c->bias));
    if (!(c->rank >= 1) || !(c->alpha >= 0) || !(c->dropout >= 0 && c->dropout < 1))
        return tc_error(c->ctx, TC_BAD_INPUT, NULL,
                        "\"r\" %g, \"lora_alpha\" %g, \"lora_dropout\" %g: expected 1 or more, 0 or more, and 0 to "
                        "less than 1",
                        c->rank, c->alpha, c->dropout);
    return TC_OK;
}

/* Python's re.match(r"(.*\.)?(KEY)$", module). What the two languages of patterns may read differently is refused. */
static tc_status match_all(config *c, const pattern *p, tc_adapter_part *parts, size_t n, bool *taken) {
    regex_t compiled;
    bool plain = !strstr(p->regex, "(?");
    for (const char *at = strchr(p->regex, '\\'); plain && at; at = at[1] ? strchr(at + 2, '\\') : NULL)
        plain = at[1] && strchr(".^$*+?()[]{}|\\-_", at[1]);
    const char *whole = tc_arena_printf(c->ctx->arena, "^(.*\\.)?(%s)$", p->regex);
    if (!plain || regcomp(&compiled, whole, REG_EXTENDED | REG_NOSUB) != 0)
        return tc_error(c->ctx, TC_UNSUPPORTED, NULL, "\"alpha_pattern\": '%s' is no pattern that is understood here",
                        tc_quote(c->ctx, p->regex));
    for (size_t i = 0; i < n; i++)
        if (!taken[i] && regexec(&compiled, parts[i].module, 0, NULL, 0) == 0) {
            parts[i].alpha = p->value;
            taken[i] = true;
        }
    regfree(&compiled);
    return TC_OK;
}

/* The first pattern that matches counts. */
static tc_status set_alphas(config *c, tc_adapter_part *parts, size_t n) {
    bool *taken = TC_NEW_ARRAY(c->ctx->arena, bool, n + 1);
    for (size_t i = 0; i < n; i++)
        parts[i].alpha = c->alpha;
    for (size_t i = 0; i < c->n_alphas; i++)
        TC_TRY(match_all(c, &c->alphas[i], parts, n, taken));
    return TC_OK;
}

/* "head" is a module of "head.weight" and "m.head.dense.bias". */
static bool is_in(const char *name, const char *module) {
    const size_t n = strlen(module);
    for (const char *at = n ? strstr(name, module) : NULL; at; at = strstr(at + 1, module))
        if (at[n] == '.' && (at == name || at[-1] == '.'))
            return true;
    return false;
}

static tc_status check_saved(const config *c, const tc_adapter *adapter) {
    for (size_t i = 0; i < adapter->n_saved; i++) {
        bool found = false;
        for (size_t k = 0; k < c->n_saved; k++)
            found = found || is_in(adapter->saved[i].name, c->saved[k]);
        if (!found)
            return tc_adapter_refuse(c->ctx, adapter->saved[i].tensor);
    }
    if (c->n_saved > 0 && adapter->n_saved == 0)
        return tc_error(c->ctx, TC_BAD_INPUT, NULL, "no tensor is of \"modules_to_save\": %s",
                        tc_quote_list(c->ctx, c->saved, c->n_saved));
    return TC_OK;
}

tc_status tc_adapter_config(tc_ctx *ctx, const char *path, tc_adapter *adapter, tc_adapter_part *parts) {
    const char *before = ctx->file;
    tc_file file;
    tc_held held;
    ctx->file = path;
    TC_TRY(tc_file_open(ctx, path, &file));
    tc_file_hold(&file, &held);
    config c = {.ctx = ctx,
                .json = {.ctx = ctx, .place = "the file", .text = file.data, .end = file.size},
                .bias = "none",
                .rank = 8, /* PEFT's, as the next */
                .alpha = 8};
    tc_status status = read_all(&c);
    tc_let_go(&held);
    tc_file_close(&file);
    TC_TRY(status);
    TC_TRY(check(&c));
    TC_TRY(set_alphas(&c, parts, adapter->n));
    ctx->file = before;
    TC_TRY(check_saved(&c, adapter));
    adapter->settings = (tc_lora){(int64_t)c.rank, c.alpha, c.dropout, c.dora, c.rslora, NULL};
    return TC_OK;
}
