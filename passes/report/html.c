/* html.c: the report as one self-contained page: no script, no file, no network. Numbers at the top, then the curve
 * of live bytes as SVG (curve.c), the effect of a budget (plan_figure.c), the price of less memory
 * (pareto_figure.c), the blocks of the model, the saved tensors, the rules. Its style is page.css. */
#include "html.h"
#include "compiler/base/base.h"
#include "passes/embedded/embedded.h"
#include "passes/torch/metadata/metadata.h"
#include <string.h>

void tc_html_put(FILE *out, const char *text) {
    for (; *text; text++) {
        static const char special[] = "<>&\"'";
        static const char *const escaped[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
        const char *at = strchr(special, *text);
        unsigned char c = (unsigned char)*text;
        if (at)
            fputs(escaped[at - special], out);
        else
            fputc((c < 0x20 && c != '\n') || c == 0x7F ? ' ' : c, out);
    }
}

static void put_amount(page *p, tc_amount amount) { tc_html_put(p->out, tc_amount_text(p->ctx->arena, amount)); }

static void put_names(page *p, const char **names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", <code>" : "<code>", p->out);
        tc_html_put(p->out, tc_torch_full_name(p->ctx->arena, p->report->summary, names[i]));
        fputs("</code>", p->out);
    }
}

/* --- head and numbers ------------------------------------------------------------------------- */

static void put_head(page *p) {
    const tc_report *r = p->report;
    const char *slash = strrchr(r->input, '/'), *title = slash && slash[1] ? slash + 1 : r->input;
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Memory of ",
          p->out);
    tc_html_put(p->out, title);
    fprintf(p->out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>Memory of ",
            tc_embedded_report[0].text);
    tc_html_put(p->out, title);
    fputs("</h1>\n<p><code>", p->out);
    tc_html_put(p->out, r->input);
    fputs("</code> by ", p->out);
    fputs(strchr(r->recipe, ',') || !*r->recipe ? "the passes <code>" : "the recipe <code>", p->out);
    tc_html_put(p->out, r->recipe);
    fputs("</code>", p->out);
    if (r->output) {
        fputs(", written to <code>", p->out);
        tc_html_put(p->out, r->output);
        fputs("</code>", p->out);
    }
    if (r->n_dims) {
        fputs(", with ", p->out);
        put_names(p, r->dims, r->n_dims);
    }
    fputs(".</p>\n", p->out);
}

static void put_change_tile(page *p, const char *label, const tc_amount *before, tc_amount after) {
    double percent = 0;
    fprintf(p->out, "<div class=\"tile\"><span>%s</span><b%s>", label, after.formula ? " class=\"formula\"" : "");
    put_amount(p, after);
    fputs("</b><span>", p->out);
    if (before) {
        fputs("was ", p->out);
        put_amount(p, *before);
        if (tc_amount_saving(*before, after, &percent) && percent >= 0)
            fprintf(p->out, ", <span class=\"less\">%.1f%% less</span>", percent);
        else if (percent < 0)
            fprintf(p->out, ", %.1f%% more", -percent);
    }
    fputs("</span></div>\n", p->out);
}

static void put_tiles(page *p) {
    const tc_report *r = p->report;
    const tc_summary *s = r->summary;
    fputs("<div class=\"tiles\">\n", p->out);
    put_change_tile(p, "Saved for the backward pass", p->before ? &p->before->saved : NULL, r->after->saved);
    put_change_tile(p, "Peak of live bytes", p->before ? &p->before->peak : NULL, r->after->peak);
    if (r->after->has_footprint) {
        bool compared = p->before && p->before->has_footprint;
        tc_amount was = tc_amount_of(compared ? p->before->footprint.arena : 0);
        tc_amount is = tc_amount_of(r->after->footprint.arena);
        put_change_tile(p, "Arena of a run", compared ? &was : NULL, is);
    }
    if (r->after->trains && r->after->need.known)
        put_change_tile(p, "Needed for a training step", NULL, tc_amount_of(r->after->need.total));
    fprintf(p->out, "<div class=\"tile\"><span>Nodes</span><b>%u</b><span>the file has %u</span></div>\n",
            s->nodes_after, s->nodes_before);
    fprintf(p->out,
            "<div class=\"tile\"><span>Trained</span><b>%zu</b><span>initializers; %zu frozen, %zu "
            "unreached</span></div>\n</div>\n",
            s->n_trained, s->n_frozen, s->n_unreached);
}

/* --- tables ----------------------------------------------------------------------------------- */

void tc_html_cell(page *p, const char *text, const char *class) {
    fprintf(p->out, "<td class=\"%s\">", class);
    tc_html_put(p->out, text);
    fputs("</td>", p->out);
}

void tc_html_amount_cell(page *p, tc_amount amount) {
    fputs(amount.formula ? "<td class=\"n wide\">" : "<td class=\"n\">", p->out);
    put_amount(p, amount);
    fputs("</td>", p->out);
}

static void put_bar(page *p, const char *class, tc_amount amount, int64_t most) {
    if (!amount.unknown && amount.bytes > 0)
        fprintf(p->out, "<div class=\"bar %s\" style=\"width:%.1f%%\"></div>", class,
                100 * (double)amount.bytes / (double)most);
}

static int64_t largest(int64_t most, tc_amount amount) {
    return !amount.unknown && amount.bytes > most ? amount.bytes : most;
}

static void put_need_row(page *p, const char *class, const char *label, uint64_t before, uint64_t after,
                         uint64_t most) {
    fprintf(p->out, "<tr class=\"%s\"><td>%s</td>", class, label);
    if (p->before)
        tc_html_amount_cell(p, tc_amount_of(before));
    tc_html_amount_cell(p, tc_amount_of(after));
    fputs("<td class=\"bars\">", p->out);
    put_bar(p, "after", tc_amount_of(after), (int64_t)most);
    fputs("</td></tr>\n", p->out);
}

static void put_need(page *p) {
    const tc_report *r = p->report;
    const tc_account *now = r->after, *was = p->before ? p->before : now;
    const tc_need *n = &now->need, *w = &was->need;
    fputs("<section><h2>Memory of a training step</h2>\n<p>", p->out);
    if (!n->known) {
        fputs("It is ", p->out);
        tc_html_put(p->out, now->unsized);
        fputs(".</p></section>\n", p->out);
        return;
    }
    fprintf(p->out,
            "All memory, with an optimizer: %s. The arena holds computed tensors: activations, gradients, "
            "which stay to the end of the step, and workspaces, which do not all exist at the same "
            "time.</p>\n<div class=\"scroll\"><table>\n<tr><th>Part</th>%s<th "
            "class=\"n\">%s</th><th></th></tr>\n",
            r->optimizer, p->before ? "<th class=\"n\">Before</th>" : "", p->before ? "After" : "Bytes");
    const struct {
        const char *class, *label;
        uint64_t before, after;
    } rows[] = {
        {"", "Weights", w->parameters, n->parameters},
        {"", "State of the optimizer", w->optimizer, n->optimizer},
        {"", "Arena", w->arena, n->arena},
        {"freed", "&ndash; saved for the backward pass", (uint64_t)was->saved.bytes, (uint64_t)now->saved.bytes},
        {"freed", "&ndash; gradients", w->gradients, n->gradients},
        {"", "Inputs", w->inputs, n->inputs},
        {"", "Program", w->program, n->program},
        {"total", "All", w->total, n->total},
        {"total", "Limit of --fit", r->fit ? r->fit->memory : 0, r->fit ? r->fit->memory : 0}};
    for (size_t i = 0; i < TC_COUNT(rows) - (r->fit ? 0 : 1); i++)
        put_need_row(p, rows[i].class, rows[i].label, rows[i].before, rows[i].after, n->total);
    fputs("</table></div></section>\n", p->out);
}

static void put_layers(page *p) {
    size_t n;
    const tc_layer_pair *pairs = tc_report_layers(p->ctx->arena, p->report, &n);
    int64_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = largest(largest(most, p->before ? pairs[i].before : (tc_amount){0}), pairs[i].after);
    fputs("<section><h2>Blocks</h2>\n<p>Saved bytes of each repeated block of the model and of the nodes "
          "around them. Nodes are those of the forward pass.</p>\n<div "
          "class=\"scroll\"><table>\n<tr><th>Block</th><th class=\"n\">Nodes</th>",
          p->out);
    fputs(p->before ? "<th class=\"n\">Before</th><th class=\"n\">After</th><th></th></tr>\n"
                    : "<th class=\"n\">Saved</th><th></th></tr>\n",
          p->out);
    for (size_t i = 0; i < n; i++) {
        fputs("<tr>", p->out);
        tc_html_cell(p, pairs[i].name, "block");
        fprintf(p->out, "<td class=\"n\">%u</td>", pairs[i].nodes);
        if (p->before)
            tc_html_amount_cell(p, pairs[i].before);
        tc_html_amount_cell(p, pairs[i].after);
        fputs("<td class=\"bars\">", p->out);
        if (p->before)
            put_bar(p, "before", pairs[i].before, most);
        put_bar(p, "after", pairs[i].after, most);
        fputs("</td></tr>\n", p->out);
    }
    fputs("</table></div></section>\n", p->out);
}

static void put_type(page *p, const tc_saved_row *row) {
    fprintf(p->out, "<td class=\"code type\">%s", row->dtype);
    for (int i = 0; i < row->rank; i++) {
        fputs(i ? ", " : " [", p->out);
        tc_html_put(p->out, row->shape[i]);
    }
    fputs(row->rank > 0 ? "]</td>" : "</td>", p->out);
}

/* `kept`: names that are still saved afterwards, or NULL if all rows are. */
static void put_saved_table(page *p, const tc_account *account, const tc_map *kept) {
    fprintf(p->out,
            "<div class=\"scroll\"><table class=\"wide\">\n<tr><th>Tensor</th><th>Block</th><th>Type</th><th "
            "class=\"n\">Bytes</th><th>%s</th></tr>\n",
            kept ? "After" : "Reason");
    for (size_t i = 0; i < account->n_rows; i++) {
        const tc_saved_row *row = &account->rows[i];
        bool freed = kept && !tc_map_get(kept, row->name);
        fputs(freed ? "<tr class=\"freed\"><td class=\"code name\">" : "<tr><td class=\"code name\">", p->out);
        tc_html_put(p->out, row->name);
        fputs("<small>by ", p->out);
        tc_html_put(p->out, row->op);
        fputs("</small></td>", p->out);
        tc_html_cell(p, row->layer, "block");
        put_type(p, row);
        tc_html_amount_cell(p, row->bytes);
        if (kept)
            fputs(freed ? "<td><span class=\"tag\">freed</span></td>" : "<td>saved</td>", p->out);
        else
            tc_html_cell(p, row->why, "why");
        fputs("</tr>\n", p->out);
    }
    fputs("</table></div>\n", p->out);
}

static void put_ledger(page *p) {
    const tc_account *after = p->report->after;
    fprintf(p->out,
            "<section><h2>Ledger</h2>\n<p>%zu tensors that the forward pass makes and the backward pass "
            "reads, in the order in which they are made. Parameters, their transposes and the inputs exist "
            "anyway and are not listed; a view counts as the tensor that it shows.</p>\n",
            after->n_rows);
    put_saved_table(p, after, NULL);
    if (p->before) {
        tc_map *kept = tc_map_create(p->ctx->arena);
        for (size_t i = 0; i < after->n_rows; i++)
            tc_map_set(kept, after->rows[i].name, (void *)(uintptr_t)after->rows[i].name);
        fprintf(p->out, "<details><summary>Before, by recipe none: %zu tensors</summary>\n", p->before->n_rows);
        put_saved_table(p, p->before, kept);
        fputs("</details>\n", p->out);
    }
    fputs("</section>\n", p->out);
}

static void put_rules(page *p) {
    const tc_report *r = p->report;
    fputs("<section><h2>Rules</h2>\n", p->out);
    if (r->n_rules == 0) {
        fputs("<p>No rule matched.</p></section>\n", p->out);
        return;
    }
    fputs("<div class=\"scroll\"><table>\n<tr><th>Rule</th><th class=\"n\">Matched</th><th class=\"n\">Bytes "
          "freed</th></tr>\n",
          p->out);
    for (size_t i = 0; i < r->n_rules; i++) {
        fputs("<tr>", p->out);
        tc_html_cell(p, r->rules[i].name, "rule");
        fprintf(p->out, "<td class=\"n\">%llu</td>", (unsigned long long)r->rules[i].matched);
        if (r->rules[i].bytes_freed.formula || r->rules[i].bytes_freed.bytes)
            tc_html_amount_cell(p, r->rules[i].bytes_freed);
        else
            fputs("<td class=\"n\">&ndash;</td>", p->out);
        fputs("</tr>\n", p->out);
    }
    fputs("</table></div></section>\n", p->out);
}

static void put_initializers(page *p, const char *label, const char **names, size_t count) {
    if (count == 0)
        return;
    fprintf(p->out, "<details><summary>%s: %zu</summary><p>", label, count);
    put_names(p, names, count);
    fputs("</p></details>\n", p->out);
}

static void put_parameters(page *p) {
    const tc_summary *s = p->report->summary;
    if (s->n_trained + s->n_frozen + s->n_unreached == 0)
        return;
    fputs("<section><h2>Initializers</h2>\n", p->out);
    put_initializers(p, "Trained", s->trained, s->n_trained);
    put_initializers(p, "Frozen: the loss depends on them", s->frozen, s->n_frozen);
    put_initializers(p, "Unreached by the loss", s->unreached, s->n_unreached);
    fputs("</section>\n", p->out);
}

tc_status tc_report_html(tc_ctx *ctx, const tc_report *report, const char *path) {
    tc_out_file *file;
    TC_TRY(tc_out_open(ctx, path, &file));
    page p = {tc_out_stream(file), ctx, report, report->before == report->after ? NULL : report->before};
    put_head(&p);
    put_tiles(&p);
    if (report->after->trains)
        put_need(&p);
    tc_html_curve(&p);
    tc_html_plan(&p);
    tc_html_pareto(&p);
    if (report->after->trains) {
        put_layers(&p);
        put_ledger(&p);
    }
    put_rules(&p);
    put_parameters(&p);
    fprintf(p.out, "<p style=\"margin-top:20px\">tempoc %s, %.3f s.</p>\n</main>\n</body>\n</html>\n", TEMPO_VERSION,
            report->seconds);
    return tc_out_commit(ctx, file);
}
