/* train_save_adapter.c: --save-adapter: the trained adapters as a folder of PEFT's, for PeftModel.from_pretrained, or
 * as an .onnx_adapter file, for ONNX Runtime's RunOptions.add_active_adapter. In PEFT's files modules have the names
 * that the model has without the module around it that was exported; other trained weights are its modules_to_save. */
#include "compiler/onnx/checkpoint.h"
#include "compiler/onnx/onnx.h"
#include "passes/report/json_writer.h"
#include "passes/torch/metadata/metadata.h"
#include "runtime/compile/adapter_file.h"
#include "train_run.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct saver {
    train_run *r;
    tc_arena *arena;
    const tc_model *file;
    const tc_adapted *adapted; /* [n] one for each module */
    size_t n;
    tc_torch_wrapper wrapper;
    rt_array *weights; /* [n_weights] all that is trained */
    size_t n_weights;
    const char **saved; /* modules of other weights than adapters */
    size_t n_saved;
} saver;

static bool is_folder(const train_options *o) { return !tc_ends_with(o->save_adapter, TC_ADAPTER_END); }

/* --- names ------------------------------------------------------------------------------------ */

/* Modules that the file stores several times have several entries. */
static void list_modules(saver *s) {
    const tc_summary *summary = &s->r->graph.summary;
    tc_map *seen = tc_map_create(s->arena);
    tc_adapted *list = TC_NEW_ARRAY(s->arena, tc_adapted, summary->n_adapted + 1);
    for (size_t i = 0; i < summary->n_adapted; i++)
        if (!tc_map_get(seen, summary->adapted[i].module)) {
            tc_map_set(seen, summary->adapted[i].module, s);
            list[s->n++] = summary->adapted[i];
        }
    s->adapted = list;
}

/* Those that PyTorch gave; the exporter's own have no dots, or are paths. */
static void find_wrapper(saver *s) {
    const tc_graph *graph = s->file->graph;
    const char **names = TC_NEW_ARRAY(s->arena, const char *, s->n + graph->n_initializers + 1);
    size_t n = 0;
    for (; n < s->n; n++)
        names[n] = s->adapted[n].module;
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        const char *name = graph->initializers[i]->name;
        if (strchr(name, '.') && !strpbrk(name, "/:"))
            names[n++] = name;
    }
    s->wrapper = tc_torch_find_wrapper(s->arena, s->file, names, n);
    if (s->r->o->adapter_prefix)
        s->wrapper.prefix = s->r->o->adapter_prefix;
}

/* Modules of an adapter that --lora-from read have the names that its file has. */
static const char *short_name(const saver *s, const char *name) {
    size_t n = strlen(s->wrapper.prefix);
    return strncmp(name, s->wrapper.prefix, n) == 0 ? name + n : name;
}

/* --- what cannot be saved --------------------------------------------------------------------- */

static tc_status check_prefix(const saver *s) {
    const char *prefix = s->r->o->adapter_prefix;
    for (size_t i = 0; prefix && i < s->n; i++)
        if (strncmp(s->adapted[i].module, prefix, strlen(prefix)) != 0) {
            tc_error(s->r->ctx, TC_USAGE, NULL, "--adapter-prefix=%s: module '%s' does not begin so",
                     tc_quote(s->r->ctx, prefix), tc_quote(s->r->ctx, s->adapted[i].module));
            tc_hint(s->r->ctx, "the names that PEFT's model has are the ends of those in the file: --adapter-prefix=m. "
                               "makes m.model.x model.x");
            return TC_USAGE;
        }
    return TC_OK;
}

static tc_status check_settings(const saver *s) {
    for (size_t i = 1; i < s->n; i++) {
        const tc_lora *a = &s->adapted[0].lora, *b = &s->adapted[i].lora;
        if (a->dora == b->dora && a->rslora == b->rslora && a->dropout == b->dropout)
            continue;
        tc_error(s->r->ctx, TC_USAGE, NULL, "--save-adapter: PEFT's folder has one %s for all, but '%s' has another",
                 a->dora != b->dora       ? "use_dora"
                 : a->rslora != b->rslora ? "use_rslora"
                                          : "lora_dropout",
                 tc_quote(s->r->ctx, s->adapted[i].module));
        tc_hint(s->r->ctx, "give every --lora the same, or save as FILE" TC_ADAPTER_END);
        return TC_USAGE;
    }
    return TC_OK;
}

static tc_status check(saver *s) {
    const train_options *o = s->r->o;
    const tc_summary *summary = &s->r->graph.summary;
    if (s->n == 0) {
        tc_error(s->r->ctx, TC_USAGE, NULL, "%s: no adapter is trained",
                 o->save_adapter ? "--save-adapter" : "--merge");
        tc_hint(s->r->ctx, "--lora=8,alpha=16 makes some, --lora-from reads some; --save-weights writes other weights");
        return TC_USAGE;
    }
    if (o->merge)
        TC_TRY(tc_check_merge(s->r->ctx, s->file, summary->adapted, summary->n_adapted));
    if (!o->save_adapter || !is_folder(o))
        return TC_OK;
    TC_TRY(check_settings(s));
    return check_prefix(s);
}

static tc_status begin(saver *s, tc_model **out_file) {
    train_run *r = s->r;
    TC_TRY(tc_read_opened(r->ctx, r->from->file, r->o->model, out_file));
    s->file = *out_file;
    list_modules(s);
    find_wrapper(s);
    return check(s);
}

/* --- PEFT's folder ---------------------------------------------------------------------------- */

static const char *const task_types[][2] = {{"ForCausalLM", "CAUSAL_LM"}, {"LMHeadModel", "CAUSAL_LM"}};

static const char *task_type(const saver *s) {
    for (size_t i = 0; s->wrapper.class_name && i < TC_COUNT(task_types); i++)
        if (tc_ends_with(s->wrapper.class_name, task_types[i][0]))
            return task_types[i][1];
    return NULL;
}

static void put_bool(tc_json *json, const char *key, bool value) { tc_json_word(json, key, value ? "true" : "false"); }

/* "rank_pattern" and "alpha_pattern" name the modules that differ from the first one. */
static void put_patterns(tc_json *json, const saver *s) {
    const tc_lora *first = &s->adapted[0].lora;
    tc_json_object(json, "rank_pattern");
    for (size_t i = 1; i < s->n; i++)
        if (s->adapted[i].lora.rank != first->rank)
            tc_json_number(json, short_name(s, s->adapted[i].module), (double)s->adapted[i].lora.rank);
    tc_json_end(json);
    tc_json_object(json, "alpha_pattern");
    for (size_t i = 1; i < s->n; i++)
        if (s->adapted[i].lora.alpha != first->alpha)
            tc_json_number(json, short_name(s, s->adapted[i].module), s->adapted[i].lora.alpha);
    tc_json_end(json);
}

/* A Conv1D's weight is [in, out], and so is its initializer, under its own name. */
static bool is_turned(const saver *s) { return s->adapted[0].turned && tc_ends_with(s->adapted[0].weight, ".weight"); }

static void put_config(const saver *s, FILE *out) {
    const tc_lora *first = &s->adapted[0].lora;
    tc_json json = {.out = out};
    tc_json_object(&json, NULL);
    tc_json_string(&json, "peft_type", "LORA");
    if (task_type(s))
        tc_json_string(&json, "task_type", task_type(s));
    else
        tc_json_word(&json, "task_type", "null");
    tc_json_word(&json, "base_model_name_or_path", "null");
    tc_json_number(&json, "r", (double)first->rank);
    tc_json_number(&json, "lora_alpha", first->alpha);
    tc_json_number(&json, "lora_dropout", first->dropout);
    put_bool(&json, "use_dora", first->dora);
    put_bool(&json, "use_rslora", first->rslora);
    put_bool(&json, "fan_in_fan_out", is_turned(s));
    put_bool(&json, "inference_mode", true);
    tc_json_string(&json, "bias", "none");
    put_patterns(&json, s);
    tc_json_array(&json, "target_modules");
    for (size_t i = 0; i < s->n; i++)
        tc_json_string(&json, NULL, short_name(s, s->adapted[i].module));
    tc_json_end(&json);
    if (s->n_saved > 0)
        tc_json_array(&json, "modules_to_save");
    for (size_t i = 0; i < s->n_saved; i++)
        tc_json_string(&json, NULL, s->saved[i]);
    if (s->n_saved > 0)
        tc_json_end(&json);
    tc_json_end(&json);
    fputc('\n', out);
}

/* The trained weights by PEFT's names. Another weight than an adapter's makes its module one to save. */
static rt_array *name_all(saver *s) {
    rt_array *named = TC_NEW_ARRAY(s->arena, rt_array, s->n_weights + 1);
    size_t n = 0;
    s->saved = TC_NEW_ARRAY(s->arena, const char *, s->n_weights + 1);
    for (size_t i = 0; i < s->n_weights; i++) {
        const bool adapts = train_adapter_of(s->r, s->weights[i].name) != NULL;
        named[n] = s->weights[i];
        if (!adapts && !train_put_back(s->arena, s->r, s->file, &s->weights[i], &named[n])) {
            tc_warn(s->r->ctx, NULL,
                    "--save-adapter: '%s' is left out: the file does not say how it comes from PyTorch's",
                    tc_quote(s->r->ctx, s->weights[i].name));
            continue;
        }
        const char *name = short_name(s, named[n].name), *dot = strrchr(name, '.');
        const char *module = dot ? tc_arena_strndup(s->arena, name, (size_t)(dot - name)) : name;
        bool known = adapts;
        for (size_t k = 0; k < s->n_saved; k++)
            known = known || strcmp(s->saved[k], module) == 0;
        if (!known)
            s->saved[s->n_saved++] = module;
        named[n++].name = tc_arena_printf(s->arena, TC_ADAPTER_PREFIX "%s", name);
    }
    s->n_weights = n;
    return named;
}

/* The two files get their names one right after the other. */
static tc_status write_files(saver *s, const char *folder) {
    const tc_pair metadata[] = {{"format", "pt"}, {"writer", TC_WRITTEN_ADAPTER_BY}};
    const rt_array *named = name_all(s);
    tc_out_file *config;
    TC_TRY(tc_out_open(s->r->ctx, tc_arena_printf(s->arena, "%s/" TC_ADAPTER_CONFIG, folder), &config));
    put_config(s, tc_out_stream(config));
    tc_status status = rt_safetensors_write(s->r->ctx, tc_arena_printf(s->arena, "%s/" TC_ADAPTER_TENSORS, folder),
                                            named, s->n_weights, metadata, TC_COUNT(metadata));
    if (status == TC_OK)
        return tc_out_commit(s->r->ctx, config);
    tc_out_abandon(config);
    return status;
}

static tc_status write_folder(saver *s) {
    const char *folder = s->r->o->save_adapter;
    bool is_new = mkdir(folder, 0777) == 0;
    if (!is_new && errno != EEXIST)
        return tc_error(s->r->ctx, TC_IO, NULL, "can't make the folder '%s': %s", tc_quote(s->r->ctx, folder),
                        strerror(errno));
    tc_status status = write_files(s, folder);
    if (status != TC_OK && is_new)
        rmdir(folder);
    return status;
}

/* --- the other format ------------------------------------------------------------------------- */

static tc_status write_adapter(saver *s) {
    tc_tensor *tensors = TC_NEW_ARRAY(s->arena, tc_tensor, s->n_weights + 1);
    size_t n = 0;
    for (size_t i = 0; i < s->n_weights; i++) {
        const tempo_tensor *t = &s->weights[i].tensor;
        if (train_adapter_of(s->r, s->weights[i].name))
            tensors[n++] = (tc_tensor){.name = s->weights[i].name,
                                       .dtype = (tc_dtype)t->dtype,
                                       .rank = t->rank,
                                       .dims = t->dims,
                                       .data = t->data,
                                       .bytes = t->bytes};
    }
    if (n < s->n_weights)
        tc_note(s->r->ctx, NULL, "--save-adapter: %s has adapters alone; --save has the other %zu trained weights",
                tc_quote(s->r->ctx, s->r->o->save_adapter), s->n_weights - n);
    return tc_adapter_write(s->r->ctx, s->r->o->save_adapter, tensors, n);
}

/* --- the calls -------------------------------------------------------------------------------- */

static void tell(const saver *s) {
    const train_options *o = s->r->o;
    const char *module = s->adapted[0].module;
    if (is_folder(o) && short_name(s, module) != module)
        train_log_say(&s->r->log, "wrote %s, where %s is %s", o->save_adapter, module, short_name(s, module));
    else
        train_log_say(&s->r->log, "wrote %s", o->save_adapter);
}

static tc_status with_file(train_run *r, tc_status (*work)(saver *s)) {
    tc_model *file = NULL;
    saver s = {.r = r, .arena = tc_arena_create()};
    tc_status status = begin(&s, &file);
    if (status == TC_OK && work)
        status = train_list_states(r, s.arena, true, &s.weights, &s.n_weights);
    if (status == TC_OK && work)
        status = work(&s);
    if (status == TC_OK && work)
        tell(&s);
    tc_model_destroy(file);
    tc_arena_destroy(s.arena);
    return status;
}

tc_status train_check_adapter(train_run *r) { return r->o->save_adapter || r->o->merge ? with_file(r, NULL) : TC_OK; }

tc_status train_save_adapter(void *run) {
    train_run *r = run;
    return r->o->save_adapter ? with_file(r, is_folder(r->o) ? write_folder : write_adapter) : TC_OK;
}

/* A folder that is not there is checked as a file would be. */
void train_adapter_written(tc_arena *arena, const train_options *o, tc_written out[TRAIN_ADAPTER_WRITES]) {
    struct stat st;
    const char *path = o->save_adapter;
    const bool folder = path && is_folder(o) && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    out[0] = (tc_written){"--save-adapter", path, path && !is_folder(o) ? TC_WRITTEN_ADAPTER : TC_WRITTEN_WEIGHTS};
    out[1] = (tc_written){"--save-adapter", NULL, TC_WRITTEN_SETTINGS};
    if (!folder)
        return;
    out[0].path = tc_arena_printf(arena, "%s/" TC_ADAPTER_TENSORS, path);
    out[1].path = tc_arena_printf(arena, "%s/" TC_ADAPTER_CONFIG, path);
}
