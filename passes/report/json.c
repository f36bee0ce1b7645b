/* json.c: the report as JSON, for tools. Bytes are numbers; where dims are unbound they are null, and a key with the
 * suffix "_formula" beside them holds the formula. */
#include "compiler/base/base.h"
#include "passes/torch/metadata/metadata.h"
#include "json_writer.h"
#include "report.h"
#include <stdlib.h>
#include <string.h>

static void add_amount(tc_json *j, const char *name, const tc_amount *amount) {
    char formula[40];
    snprintf(formula, sizeof formula, "%s_formula", name);
    if (!amount || amount->formula)
        tc_json_word(j, name, "null");
    else
        tc_json_number(j, name, (double)amount->bytes);
    if (amount && amount->formula)
        tc_json_string(j, formula, amount->formula);
}

static void add_pair(tc_json *j, const char *name, const tc_amount *before, const tc_amount *after) {
    tc_json_object(j, name);
    add_amount(j, "before", before);
    add_amount(j, "after", after);
    tc_json_end(j);
}

static void add_names(tc_json *j, const char *name, const char **names, size_t count) {
    tc_json_array(j, name);
    for (size_t i = 0; i < count; i++)
        tc_json_string(j, NULL, names[i]);
    tc_json_end(j);
}

/* PyTorch's names of the trained initializers, if the file has others: {"val_20": "m.q.weight"}. */
static void add_torch_names(tc_json *j, const tc_summary *s) {
    tc_json_object(j, "pytorch_names");
    for (size_t i = 0; i < s->n_trained; i++) {
        const tc_torch_name *name = tc_torch_name_of(s, s->trained[i]);
        if (name)
            tc_json_string(j, s->trained[i], name->name);
    }
    tc_json_end(j);
}

/* [2, "batch", 64]; null if the rank is not known. */
static void add_shape(tc_json *j, const tc_saved_row *row) {
    if (row->rank == TC_RANK_UNKNOWN) {
        tc_json_word(j, "shape", "null");
        return;
    }
    tc_json_array(j, "shape");
    for (int i = 0; i < row->rank; i++) {
        if (row->shape[i][strspn(row->shape[i], "0123456789")] == '\0')
            tc_json_number(j, NULL, strtod(row->shape[i], NULL));
        else
            tc_json_string(j, NULL, row->shape[i]);
    }
    tc_json_end(j);
}

static void add_saved(tc_json *j, const char *name, const tc_account *account) {
    if (!account) {
        tc_json_word(j, name, "null");
        return;
    }
    tc_json_array(j, name);
    for (size_t i = 0; i < account->n_rows; i++) {
        const tc_saved_row *row = &account->rows[i];
        tc_json_object(j, NULL);
        tc_json_string(j, "name", row->name);
        add_amount(j, "bytes", &row->bytes);
        add_shape(j, row);
        tc_json_string(j, "type", row->dtype);
        tc_json_string(j, "producer", row->producer);
        tc_json_string(j, "op", row->op);
        tc_json_string(j, "layer", row->layer);
        tc_json_string(j, "why", row->why);
        tc_json_end(j);
    }
    tc_json_end(j);
}

static void add_rules(tc_json *j, const tc_report *r) {
    tc_json_array(j, "rules");
    for (size_t i = 0; i < r->n_rules; i++) {
        tc_json_object(j, NULL);
        tc_json_string(j, "name", r->rules[i].name);
        tc_json_number(j, "matched", (double)r->rules[i].matched);
        add_amount(j, "bytes_freed", &r->rules[i].bytes_freed);
        tc_json_end(j);
    }
    tc_json_end(j);
}

static void add_layers(tc_json *j, tc_ctx *ctx, const tc_report *r) {
    size_t n;
    const tc_layer_pair *pairs = tc_report_layers(ctx->arena, r, &n);
    tc_json_array(j, "layers");
    for (size_t i = 0; i < n; i++) {
        tc_json_object(j, NULL);
        tc_json_string(j, "name", pairs[i].name);
        tc_json_number(j, "nodes", pairs[i].nodes);
        add_amount(j, "before", r->before ? &pairs[i].before : NULL);
        add_amount(j, "after", &pairs[i].after);
        tc_json_end(j);
    }
    tc_json_end(j);
}

/* null if the memory of a run is not known. */
static void add_footprint(tc_json *j, const char *key, const tc_account *account, bool bound) {
    if (account && account->has_footprint)
        tc_json_number(j, key, (double)(bound ? account->footprint.bound : account->footprint.arena));
    else
        tc_json_word(j, key, "null");
}

static void add_arena(tc_json *j, const tc_account *before, const tc_account *after) {
    static const char *const keys[] = {"arena_bytes", "arena_bound_bytes"};
    for (int bound = 0; bound < 2; bound++) {
        tc_json_object(j, keys[bound]);
        add_footprint(j, "before", before, bound);
        add_footprint(j, "after", after, bound);
        tc_json_end(j);
    }
}

static void add_cost(tc_json *j, const tc_account *before, const tc_account *after) {
    if (!after->cost_source)
        return;
    tc_json_object(j, "cost");
    tc_json_string(j, "by", after->cost_source);
    if (before && before->cost_source)
        tc_json_number(j, "before", (double)before->cost);
    else
        tc_json_word(j, "before", "null");
    tc_json_number(j, "after", (double)after->cost);
    tc_json_end(j);
}

static void add_repeats(tc_json *j, const tc_plan_summary *p) {
    tc_json_array(j, "repeats");
    for (uint32_t i = 0; p->repeats && i < p->clones; i++) {
        const tc_plan_repeat *r = &p->repeats[i];
        tc_json_object(j, NULL);
        tc_json_string(j, "node", r->node);
        tc_json_string(j, "op", r->op);
        tc_json_string(j, "result", r->result);
        tc_json_string(j, "type", r->type);
        tc_json_number(j, "bytes", (double)r->bytes);
        tc_json_number(j, "freed", (double)r->freed);
        tc_json_number(j, "cost", (double)r->cost);
        tc_json_end(j);
    }
    tc_json_end(j);
}

static void add_update(tc_json *j, const tc_update_summary *u) {
    tc_json_object(j, "update");
    tc_json_string(j, "optimizer", u->optimizer);
    tc_json_number(j, "weight_decay", u->weight_decay);
    add_names(j, "weights", u->updated, u->n_updated);
    add_names(j, "spared", u->spared, u->n_spared);
    tc_json_end(j);
}

static void add_plan(tc_json *j, const tc_plan_summary *p) {
    tc_json_object(j, "plan");
    const struct {
        const char *key;
        double number;
    } numbers[] = {{"budget", (double)p->budget},         {"peak_before", (double)p->peak_before},
                   {"peak_after", (double)p->peak_after}, {"arena", (double)p->arena},
                   {"floor", (double)p->floor},           {"cost_before", (double)p->cost_before},
                   {"cost_after", (double)p->cost_after}, {"clones", p->clones}};
    for (size_t i = 0; i < TC_COUNT(numbers); i++)
        tc_json_number(j, numbers[i].key, numbers[i].number);
    tc_json_string(j, "costs", p->costs);
    tc_json_word(j, "met", p->met ? "true" : "false");
    tc_json_number(j, "seconds", p->seconds);
    add_repeats(j, p);
    tc_json_end(j);
}

static void add_pareto(tc_json *j, const tc_pareto *curve) {
    tc_json_array(j, "pareto");
    for (uint32_t i = 0; i < curve->n_points; i++) {
        const tc_plan_point *point = &curve->points[i];
        tc_json_object(j, NULL);
        tc_json_number(j, "budget", (double)point->budget);
        tc_json_number(j, "arena", (double)point->arena);
        tc_json_number(j, "cost", (double)point->cost);
        tc_json_number(j, "extra_percent", tc_pareto_extra(curve, point->cost));
        tc_json_number(j, "clones", point->clones);
        tc_json_word(j, "met", point->met ? "true" : "false");
        tc_json_end(j);
    }
    tc_json_end(j);
}

static void add_parts(tc_json *j, const tc_need *row) {
    const struct {
        const char *key;
        uint64_t bytes;
    } parts[] = {{"arena", row->arena},         {"gradients", row->gradients}, {"parameters", row->parameters},
                 {"optimizer", row->optimizer}, {"inputs", row->inputs},       {"program", row->program},
                 {"total", row->total}};
    for (size_t k = 0; row->known && k < TC_COUNT(parts); k++)
        tc_json_number(j, parts[k].key, (double)parts[k].bytes);
}

static void add_fit(tc_json *j, const tc_fit *f) {
    tc_json_object(j, "fit");
    tc_json_string(j, "dim", f->dim);
    tc_json_number(j, "batch", (double)f->batch);
    tc_json_number(j, "memory", (double)f->memory);
    tc_json_string(j, "optimizer", f->optimizer);
    tc_json_array(j, "tried");
    for (size_t i = 0; i < f->n_rows; i++) {
        tc_json_object(j, NULL);
        tc_json_number(j, "batch", (double)f->rows[i].batch);
        tc_json_word(j, "fits", f->rows[i].fits ? "true" : "false");
        add_parts(j, &f->rows[i]);
        tc_json_end(j);
    }
    tc_json_end(j);
    tc_json_end(j);
}

static void add_need(tc_json *j, const tc_report *r) {
    if (!r->after->need.known) {
        tc_json_word(j, "need", "null");
        return;
    }
    tc_json_object(j, "need");
    tc_json_string(j, "by", r->optimizer);
    add_parts(j, &r->after->need);
    tc_json_end(j);
}

void tc_report_json_to(tc_ctx *ctx, const tc_report *r, FILE *out) {
    const tc_summary *s = r->summary;
    const tc_account *before = r->before, *after = r->after;
    tc_json json = {.out = out}, *j = &json;
    tc_json_object(j, NULL);
    tc_json_string(j, "input", r->input);
    if (r->output)
        tc_json_string(j, "output", r->output);
    tc_json_string(j, "recipe", r->recipe);
    add_names(j, "dims", r->dims, r->n_dims);
    if (r->fit)
        add_fit(j, r->fit);
    add_pair(j, "saved_bytes", before ? &before->saved : NULL, &after->saved);
    add_pair(j, "peak_bytes", before ? &before->peak : NULL, &after->peak);
    add_arena(j, before, after);
    add_need(j, r);
    add_cost(j, before, after);
    tc_json_object(j, "nodes");
    tc_json_number(j, "before", s->nodes_before);
    tc_json_number(j, "after", s->nodes_after);
    tc_json_end(j);
    add_rules(j, r);
    tc_json_object(j, "saved");
    add_saved(j, "before", before);
    add_saved(j, "after", after);
    tc_json_end(j);
    add_layers(j, ctx, r);
    add_names(j, "trained", s->trained, s->n_trained);
    add_torch_names(j, s);
    add_names(j, "frozen", s->frozen, s->n_frozen);
    add_names(j, "unreached", s->unreached, s->n_unreached);
    if (s->update)
        add_update(j, s->update);
    if (s->plan)
        add_plan(j, s->plan);
    if (s->pareto)
        add_pareto(j, s->pareto);
    tc_json_number(j, "seconds", r->seconds);
    tc_json_end(j);
    fputc('\n', out);
}

tc_status tc_report_json(tc_ctx *ctx, const tc_report *report, const char *path) {
    tc_out_file *file;
    TC_TRY(tc_out_open(ctx, path, &file));
    tc_report_json_to(ctx, report, tc_out_stream(file));
    return tc_out_commit(ctx, file);
}
