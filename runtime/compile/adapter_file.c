/* adapter_file.c: named tensors of an adapter -> its parts. PEFT calls them "base_model.model.MODULE.lora_A.weight", or
 * "MODULE.lora_A.NAME.weight" in a state_dict of a model that has several adapters. */
#include "adapter_file.h"
#include <inttypes.h>
#include <string.h>

typedef struct reader {
    tc_ctx *ctx;
    tc_adapter *adapter;
    tc_adapter_part *parts;
    size_t n, cap;
    tc_map *by_module; /* -> index + 1 */
    tc_adapter_saved *saved;
    size_t n_saved, cap_saved;
} reader;

tc_status tc_adapter_refuse(tc_ctx *ctx, const tc_tensor *t) {
    tc_error(ctx, TC_UNSUPPORTED, NULL, "tensor '%s' is no lora_A, lora_B or lora_magnitude_vector of a module",
             tc_quote(ctx, t->name));
    tc_hint(ctx,
            "adapters of LoRA, rsLoRA and DoRA beside products are trained, and modules_to_save of PEFT's folders");
    return TC_UNSUPPORTED;
}

static tc_status bad(reader *r, tc_status status, const tc_tensor *t, const char *what) {
    return tc_error(r->ctx, status, NULL, "tensor '%s' %s", tc_quote(r->ctx, t->name), what);
}

/* --- names ------------------------------------------------------------------------------------ */

static const struct {
    const char *mark;
    size_t field;
    int rank;
} roles[] = {{".lora_A", offsetof(tc_adapter_part, a), 2},
             {".lora_B", offsetof(tc_adapter_part, b), 2},
             {".lora_magnitude_vector", offsetof(tc_adapter_part, magnitude), 1}};

/* ".weight", ".NAME.weight"; of magnitudes also "" and ".NAME". */
static bool is_end(const char *end, bool may_lack_weight) {
    size_t n = strlen(end);
    const char *dot = *end ? strchr(end + 1, '.') : NULL;
    if (n >= 7 && strcmp(end + n - 7, ".weight") == 0)
        return *end == '.' && (dot == NULL || dot == end + n - 7);
    return may_lack_weight && !dot && (*end == '.' || !*end);
}

static const char *without_prefix(const char *name) {
    const size_t n = strlen(TC_ADAPTER_PREFIX);
    return name + (strncmp(name, TC_ADAPTER_PREFIX, n) == 0 ? n : 0);
}

/* The last mark in the name counts. */
static bool read_name(reader *r, const char *name, size_t *out_role, const char **out_module) {
    name = without_prefix(name);
    for (size_t i = 0; i < TC_COUNT(roles); i++) {
        const char *found = NULL;
        for (const char *at = strstr(name, roles[i].mark); at; at = strstr(at + 1, roles[i].mark))
            found = at;
        if (!found || found == name || !is_end(found + strlen(roles[i].mark), roles[i].rank == 1))
            continue;
        *out_role = i;
        *out_module = tc_arena_strndup(r->ctx->arena, name, (size_t)(found - name));
        return true;
    }
    return false;
}

/* "head.weight", or in a state_dict "head.modules_to_save.NAME.weight" -> "head.weight" */
static const char *saved_name(reader *r, const char *name) {
    static const char mark[] = ".modules_to_save.";
    name = without_prefix(name);
    const char *at = strstr(name, mark), *end = at ? strchr(at + strlen(mark), '.') : NULL;
    return end ? tc_arena_printf(r->ctx->arena, "%.*s%s", (int)(at - name), name, end) : name;
}

/* --- parts ------------------------------------------------------------------------------------ */

static tc_adapter_part *part_of(reader *r, const char *module) {
    size_t at = (size_t)(uintptr_t)tc_map_get(r->by_module, module);
    if (at)
        return &r->parts[at - 1];
    r->parts = tc_arena_grow(r->ctx->arena, r->parts, sizeof *r->parts, &r->cap, r->n + 1);
    r->parts[r->n++] = (tc_adapter_part){.module = module};
    tc_map_set(r->by_module, module, (void *)(uintptr_t)r->n);
    return &r->parts[r->n - 1];
}

static tc_status take(reader *r, const tc_tensor *t) {
    size_t role;
    const char *module;
    if (!read_name(r, t->name, &role, &module)) {
        r->saved = tc_arena_grow(r->ctx->arena, r->saved, sizeof *r->saved, &r->cap_saved, r->n_saved + 1);
        r->saved[r->n_saved++] = (tc_adapter_saved){saved_name(r, t->name), t};
        return tc_dtype_is_float(t->dtype) ? TC_OK : tc_adapter_refuse(r->ctx, t);
    }
    if (t->rank != roles[role].rank || !tc_dtype_is_float(t->dtype))
        return bad(r, TC_UNSUPPORTED, t,
                   tc_arena_printf(r->ctx->arena, "is %s of rank %d: expected floats of rank %d, beside a product",
                                   tc_dtype_name(t->dtype), t->rank, roles[role].rank));
    const tc_tensor **field = (void *)((char *)part_of(r, module) + roles[role].field);
    if (*field)
        return bad(r, TC_BAD_INPUT, t,
                   "has a second name: of several adapters in one file it is not known which counts");
    *field = t;
    return TC_OK;
}

static tc_status check_part(reader *r, const tc_adapter_part *p) {
    const tc_tensor *a = p->a, *b = p->b, *m = p->magnitude;
    if (!a || !b)
        return tc_error(r->ctx, TC_BAD_INPUT, NULL, "module '%s' has no %s", tc_quote(r->ctx, p->module),
                        a ? "lora_B" : "lora_A");
    if (a->dims[0] >= 1 && a->dims[0] == b->dims[1] && (!m || m->dims[0] == b->dims[0]))
        return TC_OK;
    tc_error(r->ctx, TC_BAD_INPUT, NULL,
             "module '%s': lora_A is [%" PRId64 ", %" PRId64 "], lora_B [%" PRId64 ", %" PRId64
             "]: expected [rank, in] and [out, rank]",
             tc_quote(r->ctx, p->module), a->dims[0], a->dims[1], b->dims[0], b->dims[1]);
    if (a->dims[1] == b->dims[0])
        tc_hint(r->ctx, "it looks like a file of Olive's, with turned factors and the scale in lora_B: give the folder "
                        "of PEFT's that it was made from");
    return TC_BAD_INPUT;
}

static tc_status read_parts(tc_ctx *ctx, const rt_weights *weights, tc_adapter *adapter, tc_adapter_part **out) {
    reader r = {.ctx = ctx, .adapter = adapter, .by_module = tc_map_create(ctx->arena)};
    for (size_t i = 0; i < weights->n; i++)
        TC_TRY(take(&r, &weights->tensors[i]));
    for (size_t i = 0; i < r.n; i++)
        TC_TRY(check_part(&r, &r.parts[i]));
    adapter->parts = *out = r.parts;
    adapter->n = r.n;
    adapter->saved = r.saved;
    adapter->n_saved = r.n_saved;
    return r.n > 0 ? TC_OK : tc_error(ctx, TC_BAD_INPUT, NULL, "it has no adapter of a module");
}

/* --- settings --------------------------------------------------------------------------------- */

static tc_status check_dora(tc_ctx *ctx, const tc_adapter *adapter) {
    for (size_t i = 0; i < adapter->n; i++)
        if (!adapter->parts[i].magnitude == adapter->settings.dora)
            return tc_error(ctx, TC_BAD_INPUT, NULL, "module '%s' has %s lora_magnitude_vector, but DoRA is %s",
                            tc_quote(ctx, adapter->parts[i].module), adapter->settings.dora ? "no" : "a",
                            adapter->settings.dora ? "on" : "off");
    return TC_OK;
}

/* Of an .onnx_adapter, which has none. */
static tc_status ask_settings(tc_ctx *ctx, tc_options *options, tc_adapter *adapter, tc_adapter_part *parts) {
    if (options->n_lora != 1) {
        tc_error(ctx, TC_USAGE, NULL, "--lora-from=%s: the file does not say by what its products are scaled",
                 tc_quote(ctx, options->lora_from));
        tc_hint(ctx, "say it with one --lora=RANK,alpha=A, as when it was trained; a folder of PEFT's knows");
        return TC_USAGE;
    }
    TC_TRY(tc_lora_parse(ctx, options->lora[0], &adapter->settings));
    for (size_t i = 0; i < adapter->n; i++) {
        parts[i].alpha = adapter->settings.alpha;
        if (parts[i].a->dims[0] != adapter->settings.rank || adapter->settings.glob)
            return tc_error(ctx, TC_USAGE, NULL,
                            "--lora=%s: module '%s' of the adapter has rank %" PRId64
                            "; expected that rank, and no glob",
                            tc_quote(ctx, options->lora[0]), tc_quote(ctx, parts[i].module), parts[i].a->dims[0]);
    }
    options->n_lora = 0;
    if (adapter->n_saved)
        return tc_adapter_refuse(ctx, adapter->saved[0].tensor);
    return TC_OK;
}

static tc_status open_file(tc_ctx *ctx, tc_options *options, tc_adapter *adapter, rt_weights *weights) {
    tc_adapter_part *parts;
    const char *path = options->lora_from, *before = ctx->file;
    const bool is_folder = !tc_ends_with(path, TC_ADAPTER_END);
    if (is_folder && options->n_lora > 0) {
        tc_error(ctx, TC_USAGE, NULL, "--lora and --lora-from=%s exclude each other: the folder has its own settings",
                 tc_quote(ctx, path));
        tc_hint(ctx, "leave --lora out, or begin a new adapter without --lora-from");
        return TC_USAGE;
    }
    const char *tensors = is_folder ? tc_arena_printf(ctx->arena, "%s/" TC_ADAPTER_TENSORS, path) : path;
    TC_TRY(rt_weights_open(ctx, tensors, weights));
    ctx->file = tensors;
    TC_TRY(read_parts(ctx, weights, adapter, &parts));
    if (is_folder)
        TC_TRY(tc_adapter_config(ctx, tc_arena_printf(ctx->arena, "%s/" TC_ADAPTER_CONFIG, path), adapter, parts));
    else
        TC_TRY(ask_settings(ctx, options, adapter, parts));
    TC_TRY(check_dora(ctx, adapter));
    ctx->file = before;
    return TC_OK;
}

tc_status tc_adapter_open(tc_ctx *ctx, tc_options *options, tc_adapter_file *out) {
    *out = (tc_adapter_file){.adapter.path = options->lora_from};
    if (!options->lora_from)
        return TC_OK;
    tc_status status = open_file(ctx, options, &out->adapter, &out->weights);
    if (status != TC_OK)
        tc_adapter_close(out);
    else
        options->adapter = &out->adapter;
    return status;
}

void tc_adapter_close(tc_adapter_file *file) {
    if (file->weights.path)
        rt_weights_close(&file->weights);
    *file = (tc_adapter_file){0};
}
