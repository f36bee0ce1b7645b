/* pareto_figure.c: the price of less memory, as SVG and a table: extra time over the budget. The search found no
 * better plan between two points, so the curve goes in steps: a high step is a cliff. */
#include "html.h"
#include "plot.h"

typedef struct plot {
    FILE *out;
    const tc_pareto *curve;
    tc_scale bytes, percent;
} plot;

double tc_pareto_extra(const tc_pareto *curve, uint64_t cost) {
    double before = (double)curve->cost_before;
    return before > 0 ? 100 * ((double)cost - before) / before : 0;
}

static double y_of(const plot *f, uint64_t cost) {
    double extra = tc_pareto_extra(f->curve, cost);
    return tc_plot_y(&f->percent, extra > 0 ? extra : 0);
}

/* --- the curve --------------------------------------------------------------------------------- */

static void put_point(const plot *f, const tc_plan_point *point, bool chosen) {
    fprintf(f->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>%s",
            chosen ? "chosen-dot" : "after-dot", tc_plot_x(&f->bytes, (double)point->arena), y_of(f, point->cost),
            chosen ? 6 : 4, chosen ? "this plan: " : "");
    tc_plot_number(f->out, &f->bytes, (double)point->arena);
    fprintf(f->out, " of a budget of ");
    tc_plot_number(f->out, &f->bytes, (double)point->budget);
    fprintf(f->out, ", %+.1f%% time, %u nodes recomputed</title></circle>\n", tc_pareto_extra(f->curve, point->cost),
            point->clones);
}

static void put_stair(const plot *f, uint64_t arena, uint64_t cost) {
    fprintf(f->out, "V%.1fH%.1f", y_of(f, cost), tc_plot_x(&f->bytes, (double)arena));
}

/* Each plan serves every budget from its arena up to the next plan's. The chosen plan is one of them. */
static void put_line(const plot *f, const tc_plan_summary *plan) {
    const tc_pareto *c = f->curve;
    fprintf(f->out, "<path class=\"after-line\" d=\"M%d %.1f", TC_PLOT_RIGHT, y_of(f, c->points[0].cost));
    for (uint32_t i = 0; i < c->n_points; i++) {
        if (plan && i > 0 && plan->arena < c->points[i - 1].arena && plan->arena > c->points[i].arena)
            put_stair(f, plan->arena, plan->cost_after);
        put_stair(f, c->points[i].arena, c->points[i].cost);
    }
    fputs("\"/>\n", f->out);
}

static void put_mark(const plot *f, const char *class, const char *label, uint64_t bytes, double y) {
    double x = tc_plot_x(&f->bytes, (double)bytes);
    if ((double)bytes > f->bytes.most)
        return;
    bool left = x > (TC_PLOT_LEFT + TC_PLOT_RIGHT) / 2;
    fprintf(f->out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>", class, x, TC_PLOT_TOP, x,
            TC_PLOT_BOTTOM);
    fprintf(f->out, "<text class=\"%s-text\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s ", class, left ? x - 4 : x + 4,
            y, left ? "end" : "start", label);
    tc_plot_number(f->out, &f->bytes, (double)bytes);
    fputs("</text>\n", f->out);
}

static void put_figure(page *p, const plot *f, const tc_plan_summary *plan) {
    const tc_pareto *c = f->curve;
    tc_plot_open(f->out, "extra time over the budget");
    tc_plot_y_axis(f->out, &f->percent);
    tc_plot_x_axis(f->out, &f->bytes);
    fprintf(f->out, "<text x=\"%d\" y=\"%d\">extra time, by ", TC_PLOT_LEFT, TC_PLOT_TOP - 12);
    tc_html_put(p->out, c->costs);
    fputs("</text>\n", f->out);
    put_mark(f, "turn", "floor", c->floor, TC_PLOT_BOTTOM - 6);
    put_line(f, plan);
    for (uint32_t i = 0; i < c->n_points; i++)
        if (i == 0 || c->points[i].arena != c->points[i - 1].arena || c->points[i].cost != c->points[i - 1].cost)
            put_point(f, &c->points[i], false);
    if (plan) {
        put_mark(f, "limit", "budget", plan->budget, TC_PLOT_TOP + 28);
        put_point(f, &(tc_plan_point){plan->budget, plan->arena, plan->cost_after, plan->clones, plan->met}, true);
    }
    tc_plot_close(f->out);
}

/* --- the section ------------------------------------------------------------------------------- */

static void put_table(page *p, const tc_pareto *c) {
    fputs("<div class=\"scroll\"><table class=\"pareto\">\n<tr><th class=\"n\">Budget</th>"
          "<th class=\"n\">of recipe none</th><th class=\"n\">Arena</th><th class=\"n\">Extra time</th>"
          "<th class=\"n\">Nodes again</th><th></th></tr>\n",
          p->out);
    for (uint32_t i = 0; i < c->n_points; i++) {
        const tc_plan_point *point = &c->points[i];
        fputs("<tr>", p->out);
        tc_html_amount_cell(p, tc_amount_of(point->budget));
        fprintf(p->out, "<td class=\"n\">%.1f%%</td>",
                c->initial ? 100 * (double)point->budget / (double)c->initial : 100);
        tc_html_amount_cell(p, tc_amount_of(point->arena));
        fprintf(p->out, "<td class=\"n\">%+.1f%%</td><td class=\"n\">%u</td><td>%s</td></tr>\n",
                tc_pareto_extra(c, point->cost), point->clones, point->met ? "" : "missed");
    }
    fputs("</table></div>\n", p->out);
}

void tc_html_pareto(page *p) {
    const tc_pareto *c = p->report->summary->pareto;
    const tc_plan_summary *plan = p->report->summary->plan;
    if (!c)
        return;
    double most = (double)c->points[0].budget, extra = 1;
    for (uint32_t i = 0; i < c->n_points; i++) {
        double x = tc_pareto_extra(c, c->points[i].cost), bytes = (double)c->points[i].arena;
        extra = x > extra ? x : extra;
        most = bytes > most ? bytes : most;
    }
    if (plan && tc_pareto_extra(c, plan->cost_after) > extra)
        extra = tc_pareto_extra(c, plan->cost_after);
    const plot f = {p->out, c, tc_scale_bytes(most > 0 ? most : 1, false), tc_scale_percent(extra, true)};
    fprintf(p->out,
            "<section><h2>Time against memory</h2>\n<p>Plans for %u budgets, from the arena of recipe none "
            "down to the smallest found; no plan takes less than the floor. Each budget has the cheapest "
            "plan found that fits it.%s</p>\n",
            c->n_points, c->stopped ? " The search was interrupted." : "");
    put_figure(p, &f, plan);
    put_table(p, c);
    fputs("</section>\n", p->out);
}
