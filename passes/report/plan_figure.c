/* plan_figure.c: the plan of --memory-budget, as SVG and a table: live bytes over the time of a run, before and
 * after planning, with a band for each sequence of recomputed nodes. */
#include "html.h"
#include "plot.h"

enum { NAMES_LISTED = 6 }; /* of the nodes of a band */

typedef struct plot {
    FILE *out;
    const tc_plan_summary *plan;
    tc_scale bytes, time;
} plot;

static double total(const tc_plan_course *c) {
    double sum = 0;
    for (uint32_t i = 0; i < c->n_steps; i++)
        sum += (double)c->steps[i].cost;
    return sum;
}

static double highest(const tc_plan_course *c, double most) {
    for (uint32_t i = 0; i < c->n_steps; i++)
        most = (double)c->steps[i].live > most ? (double)c->steps[i].live : most;
    return most;
}

/* --- curves ------------------------------------------------------------------------------------ */

/* One per pixel at most: of the nodes in one pixel the highest counts. */
static void put_steps(const plot *f, const tc_plan_course *c) {
    double end = 0, x = TC_PLOT_LEFT;
    for (uint32_t i = 0; i < c->n_steps;) {
        uint64_t top = 0;
        double from = x;
        for (; i < c->n_steps && (x < from + 1 || x <= from); i++) {
            top = c->steps[i].live > top ? c->steps[i].live : top;
            end += (double)c->steps[i].cost;
            x = tc_plot_x(&f->time, end);
        }
        fprintf(f->out, "V%.1fH%.1f", tc_plot_y(&f->bytes, (double)top), x);
    }
}

static void put_peak(const plot *f, const tc_plan_course *c, const char *class) {
    double end = 0, at = 0;
    uint64_t top = 0;
    for (uint32_t i = 0; i < c->n_steps; i++) {
        if (c->steps[i].live > top) {
            top = c->steps[i].live;
            at = end + (double)c->steps[i].cost / 2;
        }
        end += (double)c->steps[i].cost;
    }
    fprintf(f->out, "<circle class=\"%s-dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%s: ", class,
            tc_plot_x(&f->time, at), tc_plot_y(&f->bytes, (double)top), class);
    tc_plot_number(f->out, &f->bytes, (double)top);
    fputs(" at ", f->out);
    tc_plot_number(f->out, &f->time, at);
    fputs("</title></circle>\n", f->out);
}

static void put_course(const plot *f, const tc_plan_course *c, const char *class) {
    fprintf(f->out, "<path class=\"%s-area\" d=\"M%d %d", class, TC_PLOT_LEFT, TC_PLOT_BOTTOM);
    put_steps(f, c);
    fprintf(f->out, "V%dZ\"/>\n<path class=\"%s-line\" d=\"M%d %d", TC_PLOT_BOTTOM, class, TC_PLOT_LEFT,
            TC_PLOT_BOTTOM);
    put_steps(f, c);
    fputs("\"/>\n", f->out);
    put_peak(f, c, class);
}

static void put_turn(const plot *f, const tc_plan_course *c, const char *label) {
    double end = 0;
    if (c->turn >= c->n_steps)
        return;
    for (uint32_t i = 0; i <= c->turn; i++)
        end += (double)c->steps[i].cost;
    double x = tc_plot_x(&f->time, end);
    fprintf(f->out,
            "<line class=\"turn\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text x=\"%.1f\" y=\"%d\" "
            "text-anchor=\"start\">%s</text>\n",
            x, TC_PLOT_TOP - 12, x, TC_PLOT_BOTTOM, x + 4, TC_PLOT_TOP - 3, label);
}

static void put_limit(const plot *f) {
    if ((double)f->plan->budget > f->bytes.most)
        return;
    double y = tc_plot_y(&f->bytes, (double)f->plan->budget);
    fprintf(f->out,
            "<line class=\"limit\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text class=\"limit-text\" x=\"%d\" "
            "y=\"%.1f\" text-anchor=\"end\">budget ",
            TC_PLOT_LEFT, y, TC_PLOT_RIGHT, y, TC_PLOT_RIGHT - 4, y - 5);
    tc_plot_number(f->out, &f->bytes, (double)f->plan->budget);
    fputs("</text>\n", f->out);
}

/* --- recomputed nodes -------------------------------------------------------------------------- */

typedef struct band {
    double x, width;
    double cost;
    uint64_t bytes, live; /* that they make; the most that is live meanwhile */
    uint32_t first, end;  /* steps; runs between two bands are drawn as one */
    uint32_t n;
} band;

static void put_band(const plot *f, const band *b) {
    const tc_plan_course *c = &f->plan->after;
    uint32_t listed = 0;
    double y = tc_plot_y(&f->bytes, (double)b->live);
    fprintf(f->out,
            "<rect class=\"again-band\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%u "
            "recomputed, ",
            b->x, y, b->width, TC_PLOT_BOTTOM - y, b->n);
    tc_plot_number(f->out, &f->bytes, (double)b->bytes);
    fputs(", ", f->out);
    tc_plot_number(f->out, &f->time, b->cost);
    for (uint32_t i = b->first; i < b->end && listed < NAMES_LISTED; i++) {
        if (!c->steps[i].repeat)
            continue;
        fputs(listed++ ? ", " : ": ", f->out);
        tc_html_put(f->out, c->steps[i].repeat->node);
    }
    fputs(listed < b->n ? ", ...</title></rect>\n" : "</title></rect>\n", f->out);
}

/* Runs less than a pixel apart share a band, so that the figure stays small. */
static void put_bands(const plot *f) {
    const tc_plan_course *c = &f->plan->after;
    band b = {0};
    double end = 0;
    for (uint32_t i = 0; i < c->n_steps; i++) {
        const tc_plan_step *step = &c->steps[i];
        double x = tc_plot_x(&f->time, end);
        end += (double)step->cost;
        if (!step->repeat)
            continue;
        if (b.n > 0 && x > b.x + b.width + 0.5) {
            put_band(f, &b);
            b.n = 0;
        }
        if (b.n == 0)
            b = (band){.x = x, .first = i};
        double width = tc_plot_x(&f->time, end) - b.x;
        b.width = width > 1 ? width : 1;
        b.cost += (double)step->cost;
        b.bytes += step->repeat->bytes;
        b.live = step->live > b.live ? step->live : b.live;
        b.end = i + 1;
        b.n++;
    }
    if (b.n > 0)
        put_band(f, &b);
}

static void put_reason(page *p, const tc_plan_repeat *r) {
    fputs("<td class=\"why\">", p->out);
    if (r->freed)
        fputs("not live at the peak before; ", p->out);
    fputs(r->reader ? r->reader_is_repeat ? "operand of a recomputed node, <code>" : "read next by <code>"
                    : "result of the graph<code>",
          p->out);
    tc_html_put(p->out, r->reader ? r->reader : "");
    fputs("</code></td></tr>\n", p->out);
}

static void put_repeats(page *p, const plot *f) {
    const tc_plan_summary *s = f->plan;
    uint64_t freed = 0;
    for (uint32_t i = 0; i < s->clones; i++)
        freed += s->repeats[i].freed;
    fprintf(p->out, "<details%s><summary>Recomputed nodes, in the order of the run: %u; of their results, ",
            s->clones <= 20 ? " open" : "", s->clones);
    tc_html_put(p->out, tc_amount_text(p->ctx->arena, tc_amount_of(freed)));
    fputs(" were live at the peak before</summary>\n<div class=\"scroll\"><table "
          "class=\"wide\">\n<tr><th>Node</th><th>Makes</th><th class=\"n\">Bytes</th><th class=\"n\">Freed "
          "at the peak</th><th class=\"n\">Time</th><th>Reason</th></tr>\n",
          p->out);
    for (uint32_t i = 0; i < s->clones; i++) {
        const tc_plan_repeat *r = &s->repeats[i];
        fputs("<tr><td class=\"code name\">", p->out);
        tc_html_put(p->out, r->node);
        fputs("<small>by ", p->out);
        tc_html_put(p->out, r->op);
        fputs("</small></td>", p->out);
        tc_html_cell(p, r->type, "code type");
        tc_html_amount_cell(p, tc_amount_of(r->bytes));
        tc_html_amount_cell(p, tc_amount_of(r->freed));
        const tc_scale time = tc_scale_time((double)r->cost, s->costs, false);
        fputs("<td class=\"n\">", p->out);
        tc_plot_number(p->out, &time, (double)r->cost);
        fputs("</td>", p->out);
        put_reason(p, r);
    }
    fputs("</table></div></details>\n", p->out);
}

/* --- the section ------------------------------------------------------------------------------- */

static void put_key(const plot *f, const char *class, const char *label, const tc_plan_course *c) {
    fprintf(f->out, "<span><i class=\"%s\"></i>%s: peak ", class, label);
    tc_plot_number(f->out, &f->bytes, highest(c, 0));
    fputs(", ", f->out);
    tc_plot_number(f->out, &f->time, total(c));
    fputs("</span>\n", f->out);
}

static void put_legend(const plot *f) {
    const tc_plan_summary *s = f->plan;
    fputs("<div class=\"legend\">", f->out);
    put_key(f, "before", "result of the recipe", &s->before);
    put_key(f, "after", "as planned", &s->after);
    fprintf(f->out, "<span><i class=\"again\"></i>recomputed nodes: %u</span>\n", s->clones);
    fputs("<span><i class=\"limit-key\"></i>budget: ", f->out);
    tc_plot_number(f->out, &f->bytes, (double)s->budget);
    fprintf(f->out, ", %s</span></div>\n", s->met ? "met" : "missed");
}

void tc_html_plan(page *p) {
    const tc_plan_summary *s = p->report->summary->plan;
    if (!s || !s->changed)
        return;
    double most = highest(&s->after, highest(&s->before, 1)), time = total(&s->before);
    time = total(&s->after) > time ? total(&s->after) : time;
    const plot f = {p->out, s, tc_scale_bytes(most, true), tc_scale_time(time > 0 ? time : 1, s->costs, false)};
    fputs("<section><h2>The plan</h2>\n<p>Live bytes over the time of a run, by ", p->out);
    tc_html_put(p->out, s->costs);
    fputs(", with workspaces. A result that overwrites an operand is counted once, as in the runtime.</p>\n", p->out);
    put_legend(&f);
    tc_plot_open(p->out, "live bytes over the time of a run, before and after");
    tc_plot_y_axis(p->out, &f.bytes);
    tc_plot_x_axis(p->out, &f.time);
    put_course(&f, &s->before, "before");
    put_course(&f, &s->after, "after");
    put_bands(&f);
    put_turn(&f, &s->after, "backward pass");
    put_limit(&f);
    tc_plot_close(p->out);
    put_repeats(p, &f);
    fputs("</section>\n", p->out);
}
