/* json.c: the report as JSON, for tools. Bytes are numbers; where dims are unbound they are null, and a key with the
 * suffix
 * "_formula" beside them holds the formula. Only this file sees cJSON here. */
#include "compiler/base/file.h"
#include "passes/torch/metadata/torch_names.h"
#include "json_memory.h"
#include "report.h"
#include <stdlib.h>
#include <string.h>

static void add_amount(cJSON *object, const char *name, const tc_amount *amount) {
    char formula[40];
    snprintf(formula, sizeof formula, "%s_formula", name);
    if (!amount || amount->formula)
        cJSON_AddNullToObject(object, name);
    else
        cJSON_AddNumberToObject(object, name, (double)amount->bytes);
    if (amount && amount->formula)
        cJSON_AddStringToObject(object, formula, amount->formula);
}

static void add_pair(cJSON *object, const char *name, const tc_amount *before, const tc_amount *after) {
    cJSON *pair = cJSON_AddObjectToObject(object, name);
    add_amount(pair, "before", before);
    add_amount(pair, "after", after);
}

static void add_names(cJSON *object, const char *name, const char **names, size_t count) {
    cJSON *array = cJSON_AddArrayToObject(object, name);
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(array, cJSON_CreateString(names[i]));
}

/* What the trained initializers stand for in PyTorch, where the file has another name: {"val_20": "m.q.weight"}. */
static void add_torch_names(cJSON *object, const tc_summary *s) {
    cJSON *names = cJSON_AddObjectToObject(object, "pytorch_names");
    for (size_t i = 0; i < s->n_trained; i++) {
        const tc_torch_name *name = tc_torch_name_of(s, s->trained[i]);
        if (name)
            cJSON_AddStringToObject(names, s->trained[i], name->name);
    }
}

/* [2, "batch", 64]; null where not even the rank is known. */
static void add_shape(cJSON *object, const tc_saved_row *row) {
    if (row->rank == TC_RANK_UNKNOWN) {
        cJSON_AddNullToObject(object, "shape");
        return;
    }
    cJSON *shape = cJSON_AddArrayToObject(object, "shape");
    for (int i = 0; i < row->rank; i++) {
        bool number = row->shape[i][strspn(row->shape[i], "0123456789")] == '\0';
        cJSON_AddItemToArray(shape, number ? cJSON_CreateNumber(strtod(row->shape[i], NULL))
                                           : cJSON_CreateString(row->shape[i]));
    }
}

static void add_saved(cJSON *object, const char *name, const tc_account *account) {
    if (!account) {
        cJSON_AddNullToObject(object, name);
        return;
    }
    cJSON *array = cJSON_AddArrayToObject(object, name);
    for (size_t i = 0; i < account->n_rows; i++) {
        const tc_saved_row *row = &account->rows[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", row->name);
        add_amount(item, "bytes", &row->bytes);
        add_shape(item, row);
        cJSON_AddStringToObject(item, "type", row->dtype);
        cJSON_AddStringToObject(item, "producer", row->producer);
        cJSON_AddStringToObject(item, "op", row->op);
        cJSON_AddStringToObject(item, "layer", row->layer);
        cJSON_AddStringToObject(item, "why", row->why);
        cJSON_AddItemToArray(array, item);
    }
}

static void add_rules(cJSON *root, const tc_report *r) {
    cJSON *rules = cJSON_AddArrayToObject(root, "rules");
    for (size_t i = 0; i < r->n_rules; i++) {
        cJSON *rule = cJSON_CreateObject();
        cJSON_AddStringToObject(rule, "name", r->rules[i].name);
        cJSON_AddNumberToObject(rule, "matched", (double)r->rules[i].matched);
        add_amount(rule, "bytes_freed", &r->rules[i].bytes_freed);
        cJSON_AddItemToArray(rules, rule);
    }
}

static void add_layers(cJSON *root, tc_ctx *ctx, const tc_report *r) {
    size_t n;
    const tc_layer_pair *pairs = tc_report_layers(ctx->arena, r, &n);
    cJSON *layers = cJSON_AddArrayToObject(root, "layers");
    for (size_t i = 0; i < n; i++) {
        cJSON *layer = cJSON_CreateObject();
        cJSON_AddStringToObject(layer, "name", pairs[i].name);
        cJSON_AddNumberToObject(layer, "nodes", pairs[i].nodes);
        add_amount(layer, "before", r->before ? &pairs[i].before : NULL);
        add_amount(layer, "after", &pairs[i].after);
        cJSON_AddItemToArray(layers, layer);
    }
}

/* null where it is not known what a run allocates. */
static void add_footprint(cJSON *pair, const char *key, const tc_account *account, bool bound) {
    if (account && account->has_footprint)
        cJSON_AddNumberToObject(pair, key, (double)(bound ? account->footprint.bound : account->footprint.arena));
    else
        cJSON_AddNullToObject(pair, key);
}

static void add_arena(cJSON *root, const tc_account *before, const tc_account *after) {
    static const char *const keys[] = {"arena_bytes", "arena_bound_bytes"};
    for (int bound = 0; bound < 2; bound++) {
        cJSON *pair = cJSON_AddObjectToObject(root, keys[bound]);
        add_footprint(pair, "before", before, bound);
        add_footprint(pair, "after", after, bound);
    }
}

static void add_cost(cJSON *root, const tc_account *before, const tc_account *after) {
    if (!after->cost_source)
        return;
    cJSON *cost = cJSON_AddObjectToObject(root, "cost");
    cJSON_AddStringToObject(cost, "by", after->cost_source);
    if (before && before->cost_source)
        cJSON_AddNumberToObject(cost, "before", (double)before->cost);
    else
        cJSON_AddNullToObject(cost, "before");
    cJSON_AddNumberToObject(cost, "after", (double)after->cost);
}

static void add_repeats(cJSON *plan, const tc_plan_summary *p) {
    cJSON *repeats = cJSON_AddArrayToObject(plan, "repeats");
    for (uint32_t i = 0; p->repeats && i < p->clones; i++) {
        const tc_plan_repeat *r = &p->repeats[i];
        cJSON *repeat = cJSON_CreateObject();
        cJSON_AddStringToObject(repeat, "node", r->node);
        cJSON_AddStringToObject(repeat, "op", r->op);
        cJSON_AddStringToObject(repeat, "result", r->result);
        cJSON_AddStringToObject(repeat, "type", r->type);
        cJSON_AddNumberToObject(repeat, "bytes", (double)r->bytes);
        cJSON_AddNumberToObject(repeat, "freed", (double)r->freed);
        cJSON_AddNumberToObject(repeat, "cost", (double)r->cost);
        cJSON_AddItemToArray(repeats, repeat);
    }
}

static void add_update(cJSON *root, const tc_update_summary *u) {
    cJSON *update = cJSON_AddObjectToObject(root, "update");
    cJSON_AddStringToObject(update, "optimizer", u->optimizer);
    cJSON_AddNumberToObject(update, "weight_decay", u->weight_decay);
    add_names(update, "weights", u->updated, u->n_updated);
    add_names(update, "spared", u->spared, u->n_spared);
}

static void add_plan(cJSON *root, const tc_plan_summary *p) {
    cJSON *plan = cJSON_AddObjectToObject(root, "plan");
    const struct {
        const char *key;
        double number;
    } numbers[] = {{"budget", (double)p->budget},         {"peak_before", (double)p->peak_before},
                   {"peak_after", (double)p->peak_after}, {"arena", (double)p->arena},
                   {"floor", (double)p->floor},           {"cost_before", (double)p->cost_before},
                   {"cost_after", (double)p->cost_after}, {"clones", p->clones}};
    for (size_t i = 0; i < TC_COUNT(numbers); i++)
        cJSON_AddNumberToObject(plan, numbers[i].key, numbers[i].number);
    cJSON_AddStringToObject(plan, "costs", p->costs);
    cJSON_AddBoolToObject(plan, "met", p->met);
    cJSON_AddNumberToObject(plan, "seconds", p->seconds);
    add_repeats(plan, p);
}

static void add_pareto(cJSON *root, const tc_pareto *curve) {
    cJSON *points = cJSON_AddArrayToObject(root, "pareto");
    for (uint32_t i = 0; i < curve->n_points; i++) {
        const tc_plan_point *point = &curve->points[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "budget", (double)point->budget);
        cJSON_AddNumberToObject(item, "arena", (double)point->arena);
        cJSON_AddNumberToObject(item, "cost", (double)point->cost);
        cJSON_AddNumberToObject(item, "extra_percent", tc_pareto_extra(curve, point->cost));
        cJSON_AddNumberToObject(item, "clones", point->clones);
        cJSON_AddBoolToObject(item, "met", point->met);
        cJSON_AddItemToArray(points, item);
    }
}

static void add_parts(cJSON *item, const tc_need *row) {
    const struct {
        const char *key;
        uint64_t bytes;
    } parts[] = {{"arena", row->arena},         {"gradients", row->gradients}, {"parameters", row->parameters},
                 {"optimizer", row->optimizer}, {"inputs", row->inputs},       {"program", row->program},
                 {"total", row->total}};
    for (size_t k = 0; row->known && k < TC_COUNT(parts); k++)
        cJSON_AddNumberToObject(item, parts[k].key, (double)parts[k].bytes);
}

static void add_fit(cJSON *root, const tc_fit *f) {
    cJSON *fit = cJSON_AddObjectToObject(root, "fit");
    cJSON_AddStringToObject(fit, "dim", f->dim);
    cJSON_AddNumberToObject(fit, "batch", (double)f->batch);
    cJSON_AddNumberToObject(fit, "memory", (double)f->memory);
    cJSON_AddStringToObject(fit, "optimizer", f->optimizer);
    cJSON *tried = cJSON_AddArrayToObject(fit, "tried");
    for (size_t i = 0; i < f->n_rows; i++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "batch", (double)f->rows[i].batch);
        cJSON_AddBoolToObject(item, "fits", f->rows[i].fits);
        add_parts(item, &f->rows[i]);
        cJSON_AddItemToArray(tried, item);
    }
}

static void add_need(cJSON *root, const tc_report *r) {
    if (!r->after->need.known) {
        cJSON_AddNullToObject(root, "need");
        return;
    }
    cJSON *need = cJSON_AddObjectToObject(root, "need");
    cJSON_AddStringToObject(need, "by", r->optimizer);
    add_parts(need, &r->after->need);
}

static cJSON *make(tc_ctx *ctx, const tc_report *r) {
    const tc_summary *s = r->summary;
    const tc_account *before = r->before, *after = r->after;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "input", r->input);
    if (r->output)
        cJSON_AddStringToObject(root, "output", r->output);
    cJSON_AddStringToObject(root, "recipe", r->recipe);
    add_names(root, "dims", r->dims, r->n_dims);
    if (r->fit)
        add_fit(root, r->fit);
    add_pair(root, "saved_bytes", before ? &before->saved : NULL, &after->saved);
    add_pair(root, "peak_bytes", before ? &before->peak : NULL, &after->peak);
    add_arena(root, before, after);
    add_need(root, r);
    add_cost(root, before, after);
    cJSON *nodes = cJSON_AddObjectToObject(root, "nodes");
    cJSON_AddNumberToObject(nodes, "before", s->nodes_before);
    cJSON_AddNumberToObject(nodes, "after", s->nodes_after);
    add_rules(root, r);
    cJSON *saved = cJSON_AddObjectToObject(root, "saved");
    add_saved(saved, "before", before);
    add_saved(saved, "after", after);
    add_layers(root, ctx, r);
    add_names(root, "trained", s->trained, s->n_trained);
    add_torch_names(root, s);
    add_names(root, "frozen", s->frozen, s->n_frozen);
    add_names(root, "unreached", s->unreached, s->n_unreached);
    if (s->update)
        add_update(root, s->update);
    if (s->plan)
        add_plan(root, s->plan);
    if (s->pareto)
        add_pareto(root, s->pareto);
    cJSON_AddNumberToObject(root, "seconds", r->seconds);
    return root;
}

tc_status tc_report_json(tc_ctx *ctx, const tc_report *report, const char *path) {
    tc_out_file *file;
    tc_arena *arena = tc_arena_create();
    tc_json_use(arena);
    char *text = cJSON_Print(make(ctx, report));
    tc_status status =
        text ? tc_out_open(ctx, path, &file) : tc_error(ctx, TC_LIMIT, NULL, "not enough memory for the report");
    if (status == TC_OK) {
        fputs(text, tc_out_stream(file));
        fputc('\n', tc_out_stream(file));
        status = tc_out_commit(ctx, file);
    }
    tc_arena_destroy(arena);
    return status;
}
