/* peft_names.c: names of parameters -> which are PEFT's adapters, and which are frozen for them. A name alone proves
 * nothing: an adapter's stands beside a base_layer, or within a base_model. What looks like one elsewhere is asked
 * about, like weights around adapters that PEFT put into a part of a model. */
#include "peft_names.h"
#include "compiler/base/base.h"
#include "parameter_uses.h"
#include "passes/torch/metadata/metadata.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

static const struct method {
    const char *name, *trained, *fixed, *unsure;
} methods[] = {
#define PEFT(method, trained, fixed, unsure) {method, trained, fixed, unsure},
#include "peft_names.def"
#undef PEFT
};

#define UNNAMED "unnamed.factor" /* of a module: read by it, without a name in the file */

struct tc_peft {
    tc_map *layers;      /* modules with a base_layer */
    tc_map *wrapped;     /* modules with an original_module */
    tc_map *models;      /* those among base_models that have adapters */
    tc_map *base_models; /* names that end in base_model */
    tc_map *adapters;    /* names of adapters, such as "default" */
    tc_map *script;      /* initializer -> its name by the path of its reader: metadata/script_names.c */
    const char *around;  /* the module that has all adapters outside of base_models; NULL: there are none */
    bool any, has_signature;
};

/* --- parts of a name -------------------------------------------------------------------------- */
typedef struct part {
    const char *at;
    size_t n;
} part;

static bool next_part(part *p) {
    p->at += p->n + (p->at[p->n] == '.');
    p->n = strcspn(p->at, ".");
    return *p->at != '\0';
}

static bool part_is(const part *p, const char *word) { return strncmp(p->at, word, p->n) == 0 && !word[p->n]; }

static bool is_in(const char *words, const part *p) {
    for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, p->at, p->n) == 0 && (at[p->n] == ' ' || !at[p->n]))
            return true;
    return false;
}

/* The module whose name ends before the part. */
static char *before(tc_arena *arena, const char *name, const part *p) {
    return tc_arena_strndup(arena, name, p->at > name ? (size_t)(p->at - name) - 1 : 0);
}

static char *join(tc_arena *arena, const char *module, const char *name) {
    return tc_arena_printf(arena, "%s%s%s", module, *module ? "." : "", name);
}

static bool is_within(const char *name, const char *module) {
    size_t n = strlen(module);
    return n == 0 || (strncmp(name, module, n) == 0 && (name[n] == '.' || !name[n]));
}

/* The last part that a method has, of the kind that it is of. */
typedef struct match {
    part at;
    const struct method *method;
    tc_peft_kind kind; /* TC_PEFT_ADAPTER, _BASE, _UNSURE; TC_PEFT_OUTSIDE: no part */
} match;

static match find_part(const char *name) {
    match result = {.kind = TC_PEFT_OUTSIDE};
    for (part p = {name, 0}; next_part(&p);) {
        for (size_t i = 0; i < TC_COUNT(methods); i++) {
            tc_peft_kind kind = is_in(methods[i].trained, &p)  ? TC_PEFT_ADAPTER
                                : is_in(methods[i].fixed, &p)  ? TC_PEFT_BASE
                                : is_in(methods[i].unsure, &p) ? TC_PEFT_UNSURE
                                                               : TC_PEFT_OUTSIDE;
            if (kind != TC_PEFT_OUTSIDE)
                result = (match){p, &methods[i], kind};
        }
    }
    return result;
}

/* --- the structure around it ------------------------------------------------------------------ */
/* The innermost base_model of PEFT's that the name is in, or that its prompt stands beside; NULL: none. */
static const char *base_model_of(tc_arena *arena, const tc_map *models, const char *name) {
    const char *innermost = NULL;
    for (part p = {name, 0}; next_part(&p);) {
        const char *model = part_is(&p, "base_model") ? tc_arena_strndup(arena, name, (size_t)(p.at - name) + p.n)
                            : part_is(&p, "prompt_encoder") || part_is(&p, "word_embeddings")
                                ? join(arena, before(arena, name, &p), "base_model")
                                : NULL;
        innermost = model && tc_map_get(models, model) ? model : innermost;
    }
    return innermost;
}

/* After `trained` comes an adapter's name, which is none of those that a Linear layer has; not after adaption_gate. */
static bool names_adapter(const match *f) {
    part next = f->at;
    if (!next_part(&next))
        return strncmp(f->at.at, "adaption_", 9) == 0;
    return !part_is(&next, "weight") && !part_is(&next, "bias");
}

static bool is_adapter(tc_arena *arena, const tc_peft *peft, const char *name, const match *f) {
    if (f->kind != TC_PEFT_ADAPTER || !names_adapter(f))
        return false;
    const char *module = before(arena, name, &f->at);
    return tc_map_get(peft->layers, module) || tc_map_get(peft->wrapped, module) ||
           base_model_of(arena, peft->base_models, name);
}

static const char *common_module(tc_arena *arena, const char *a, const char *b) {
    if (!a)
        return b;
    while (!is_within(b, a)) {
        const char *dot = strrchr(a, '.');
        a = dot ? tc_arena_strndup(arena, a, (size_t)(dot - a)) : "";
    }
    return a;
}

/* --- reading ---------------------------------------------------------------------------------- */
typedef struct names {
    const char **items;
    size_t n, cap;
} names;

static void add_name(tc_arena *arena, names *list, const char *name) {
    list->items = tc_arena_grow(arena, list->items, sizeof *list->items, &list->cap, list->n + 1);
    list->items[list->n++] = name;
}

/* The name of an initializer by the path of its reader. TorchScript folds IA3's factor into a vector without a name;
 * the layer itself reads that, and the base_layer's products are in its own module. */
static const char *script_name(tc_arena *arena, const tc_value *value) {
    tc_torch_name script;
    if (tc_script_name(arena, value, &script))
        return script.name;
    const tc_node *user = value->uses && !value->uses->next ? value->uses->user : NULL;
    bool lost = user && user->name[0] == '/' && tc_name_is_generated(value->name) && tc_node_is(user, "", "Mul");
    return lost && value->init->count > 1 ? join(arena, tc_script_module(arena, user), UNNAMED) : NULL;
}

static names names_of(tc_pass_env *env, tc_peft *peft, const tc_graph *graph) {
    tc_arena *arena = env->ctx->arena;
    const tc_torch_signature *signature = tc_torch_signature_read(arena, graph);
    names list = {0};
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        const tc_value *value = graph->initializers[i];
        const char *script = script_name(arena, value);
        add_name(arena, &list, script ? script : tc_torch_name_or_own(env->summary, value->name));
        if (script)
            tc_map_set(peft->script, tc_arena_strdup(arena, value->name), (void *)(uintptr_t)script);
    }
    peft->has_signature = signature != NULL;
    for (size_t i = 0; signature && i < signature->n; i++)
        if (signature->inputs[i].target)
            add_name(arena, &list, signature->inputs[i].target);
    return list;
}

/* Also under the name that paths of TorchScript give it: those have no "base_model". */
static void add_layer(tc_arena *arena, tc_peft *peft, const char *layer) {
    const char *model = strstr(layer, "base_model.");
    tc_map_set(peft->layers, layer, peft);
    if (model)
        tc_map_set(peft->layers, tc_arena_printf(arena, "%.*s%s", (int)(model - layer), layer, strchr(model, '.') + 1),
                   peft);
}

static void read_structure(tc_arena *arena, tc_peft *peft, const char *name) {
    for (part p = {name, 0}; next_part(&p);) {
        if (part_is(&p, "base_layer"))
            add_layer(arena, peft, before(arena, name, &p));
        else if (part_is(&p, "original_module"))
            tc_map_set(peft->wrapped, before(arena, name, &p), peft);
        else if (part_is(&p, "base_model"))
            tc_map_set(peft->base_models, tc_arena_strndup(arena, name, (size_t)(p.at - name) + p.n), peft);
    }
}

/* The layer in whose adapter the parameter is, by its path; NULL: it is in none, or in the base_layer. */
static const char *layer_of_script(tc_arena *arena, const tc_peft *peft, const char *name, part *out_adapter) {
    const char *layer = NULL;
    for (part p = {name, 0}; next_part(&p);) {
        const char *module = before(arena, name, &p);
        if (!tc_map_get(peft->layers, module))
            continue;
        layer = part_is(&p, "base_layer") ? NULL : module;
        *out_adapter = p;
    }
    return layer;
}

/* "default" of "default_1": TorchScript numbers modules of one name. */
static const char *without_number(tc_arena *arena, const part *p) {
    size_t n = p->n;
    while (n > 0 && isdigit((unsigned char)p->at[n - 1]))
        n--;
    return tc_arena_strndup(arena, p->at, n < p->n && n > 1 && p->at[n - 1] == '_' ? n - 1 : p->n);
}

/* The path of a node leaves "lora_A" out: "q/default/MatMul" reads q.lora_A.default.weight, beside "q/base_layer".
 * "head/default/MatMul" then reads head.modules_to_save.default.weight. */
static bool is_script_adapter(tc_arena *arena, const tc_peft *peft, const char *name) {
    part p = {name, 0}, unused;
    if (layer_of_script(arena, peft, name, &unused))
        return true;
    while (!strstr(name, ".base_layer.") && next_part(&p))
        if (tc_map_get(peft->adapters, without_number(arena, &p)))
            return true;
    return false;
}

/* Likewise "base_model": it is that beside the outermost module. */
static const char *model_of_script(tc_arena *arena, const tc_map *models, const char *name) {
    const void *model;
    void *unused;
    for (size_t cursor = 0; tc_map_next(models, &cursor, &model, &unused);) {
        const char *dot = strrchr(model, '.');
        if (is_within(name, dot ? tc_arena_strndup(arena, model, (size_t)(dot - (const char *)model)) : ""))
            return model;
    }
    return NULL;
}

static void add_adapter(tc_arena *arena, tc_peft *peft, const char *model, const char *module) {
    peft->any = true;
    if (model)
        tc_map_set(peft->models, model, peft);
    else
        peft->around = common_module(arena, peft->around, module);
}

static void read_adapters(tc_arena *arena, tc_peft *peft, const names *list) {
    for (size_t i = 0; i < list->n; i++) {
        const char *name = list->items[i];
        match f = find_part(name);
        part adapter = f.at;
        if (!is_adapter(arena, peft, name, &f))
            continue;
        if (next_part(&adapter))
            tc_map_set(peft->adapters, tc_arena_strndup(arena, adapter.at, adapter.n), peft);
        add_adapter(arena, peft, base_model_of(arena, peft->base_models, name), before(arena, name, &f.at));
    }
    const void *initializer;
    void *name;
    for (size_t cursor = 0; tc_map_next(peft->script, &cursor, &initializer, &name);) {
        part adapter;
        const char *layer = layer_of_script(arena, peft, name, &adapter);
        if (layer && !strstr(name, UNNAMED))
            tc_map_set(peft->adapters, without_number(arena, &adapter), peft);
        if (layer)
            add_adapter(arena, peft, model_of_script(arena, peft->base_models, name), layer);
    }
}

void tc_peft_read(tc_pass_env *env, const tc_model *model) {
    tc_arena *arena = env->ctx->arena;
    tc_peft *peft = TC_NEW(arena, tc_peft);
    *peft = (tc_peft){.layers = tc_map_create(arena),
                      .wrapped = tc_map_create(arena),
                      .models = tc_map_create(arena),
                      .base_models = tc_map_create(arena),
                      .adapters = tc_map_create(arena),
                      .script = tc_map_create(arena)};
    names list = names_of(env, peft, model->graph);
    for (size_t i = 0; i < list.n; i++)
        read_structure(arena, peft, list.items[i]);
    read_adapters(arena, peft, &list);
    env->summary->peft = peft;
}

/* --- kinds ------------------------------------------------------------------------------------ */
static bool looks_alike(const char *name) {
    match f = find_part(name);
    if (f.kind == TC_PEFT_ADAPTER && !part_is(&f.at, "prompt_encoder") && !part_is(&f.at, "modules_to_save"))
        return true;
    for (part p = {name, 0}; next_part(&p);)
        if (strncasecmp(p.at, "lora", 4) == 0 && (p.n == 4 || p.at[4] == '_'))
            return true;
    return false;
}

/* In a module that has a base_layer, but beside that. */
static bool is_beside_base(tc_arena *arena, const tc_peft *peft, const char *name) {
    bool beside = false;
    for (part p = {name, 0}; next_part(&p);)
        if (tc_map_get(peft->layers, before(arena, name, &p)))
            beside = !part_is(&p, "base_layer");
    return beside;
}

static tc_peft_kind kind_in_model(tc_arena *arena, const tc_peft *peft, const char *name, const char *script) {
    match f = find_part(name);
    if (script && is_script_adapter(arena, peft, script))
        return TC_PEFT_ADAPTER;
    if (is_adapter(arena, peft, name, &f))
        return TC_PEFT_ADAPTER;
    bool inside = script ? model_of_script(arena, peft->models, script) != NULL
                         : base_model_of(arena, peft->models, name) != NULL;
    inside = inside || (peft->around && is_within(name, peft->around));
    if (f.kind != TC_PEFT_BASE && (is_beside_base(arena, peft, name) || (inside && looks_alike(name))))
        return TC_PEFT_UNSURE;
    if (inside)
        return f.kind == TC_PEFT_UNSURE ? TC_PEFT_UNSURE : TC_PEFT_BASE;
    return !peft->any ? TC_PEFT_UNSURE : peft->around ? TC_PEFT_AROUND : TC_PEFT_OUTSIDE;
}

tc_peft_kind tc_peft_kind_of(const tc_pass_env *env, const char *initializer, tc_learned learned) {
    const tc_peft *peft = env->summary->peft;
    if (!peft)
        return TC_PEFT_OUTSIDE;
    const char *script = tc_map_get(peft->script, initializer);
    const char *name = script ? script : tc_torch_name_or_own(env->summary, initializer);
    bool lost = tc_name_is_generated(name) || (peft->has_signature && !strchr(name, '.'));
    bool known = peft->any || (tc_map_count(peft->layers) && tc_map_count(peft->base_models));
    if (lost && learned == TC_LEARNED_UNKNOWN && (known || (!peft->has_signature && tc_map_count(peft->base_models))))
        return TC_PEFT_UNSURE;
    if (!known)
        return looks_alike(name) ? TC_PEFT_ALIKE : TC_PEFT_OUTSIDE;
    return kind_in_model(env->ctx->arena, peft, name, script);
}

void tc_peft_add(tc_arena *arena, tc_peft_found *found, tc_peft_kind kind, const char *name) {
    found->names[kind] =
        tc_arena_grow(arena, found->names[kind], sizeof(const char *), &found->cap[kind], found->n[kind] + 1);
    found->names[kind][found->n[kind]++] = name;
}

/* --- telling and asking ----------------------------------------------------------------------- */
/* "lora_A, lora_B": the parts by which the adapters are known. */
static const char *parts_of(const tc_pass_env *env, const tc_peft_found *found) {
    tc_arena *arena = env->ctx->arena;
    tc_map *seen = tc_map_create(arena);
    const char *text = "";
    for (size_t i = 0; i < found->n[TC_PEFT_ADAPTER]; i++) {
        part p = find_part(tc_torch_name_or_own(env->summary, found->names[TC_PEFT_ADAPTER][i])).at;
        const char *word = p.at ? tc_arena_strndup(arena, p.at, p.n) : "base_layer";
        if (!tc_map_get(seen, word))
            text = tc_arena_printf(arena, "%s%s%s", text, *text ? ", " : "", tc_quote(env->ctx, word));
        tc_map_set(seen, word, seen);
    }
    return text;
}

static const struct question {
    tc_peft_kind kind;
    const char *error, *hint;
} questions[] = {
    {TC_PEFT_UNSURE, "the names do not say whether PEFT trains these weights: %s",
     "--train=NAME or --freeze=NAME decides; an export with optimize=False (dynamo) or do_constant_folding=False "
     "(TorchScript) keeps the names"},
    {TC_PEFT_AROUND, "the names do not say whether PEFT froze these weights around its adapters: %s",
     "--freeze=NAME if they are of the model that was given to PEFT, else --train=NAME"},
    {TC_PEFT_ALIKE,
     "the file does not say whether it trains all weights or these alone, which have adapters' names: %s",
     "--freeze='*' --train='*lora*' trains such names alone; --train='*' trains all; --train-list=FILE names them"},
};

tc_status tc_peft_settle(tc_pass_env *env, const tc_peft_found *found) {
    tc_ctx *ctx = env->ctx;
    for (size_t i = 0; i < TC_COUNT(questions); i++) {
        tc_peft_kind kind = questions[i].kind;
        if (!found->n[kind] || (kind == TC_PEFT_ALIKE && !found->n[TC_PEFT_OUTSIDE]))
            continue;
        tc_error(ctx, TC_USAGE, NULL, questions[i].error, tc_quote_list(ctx, found->names[kind], found->n[kind]));
        tc_hint(ctx, "%s", questions[i].hint);
        return TC_USAGE;
    }
    size_t trained = found->n[TC_PEFT_ADAPTER], frozen = found->n[TC_PEFT_BASE], others = found->n[TC_PEFT_OUTSIDE];
    if (!env->summary->peft || !env->summary->peft->any || !trained)
        return TC_OK;
    tc_note(ctx, NULL, "PEFT's adapters are known by the names of %s: %zu weight%s trained, %zu frozen",
            parts_of(env, found), trained, trained > 1 ? "s are" : " is", frozen);
    if (others)
        tc_note(ctx, NULL, "%zu weight%s outside of PEFT's model %s trained, too: %s", others, others > 1 ? "s" : "",
                others > 1 ? "are" : "is", tc_quote_list(ctx, found->names[TC_PEFT_OUTSIDE], others));
    tc_hint(ctx, "--train=GLOB trains more, such as the biases of PEFT's bias=; --train='*' trains all");
    return TC_OK;
}
