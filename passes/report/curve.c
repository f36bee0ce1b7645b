/* curve.c: live bytes over the run as SVG. Both graphs are drawn over one another with their passes side by side: the
 * forward pass fills the left part, the backward pass the right one, whatever the number of their nodes. */
#include "html.h"
#include "plot.h"

typedef struct plot {
    FILE *out;
    double turn; /* where the backward pass begins, 0 to 1 */
    tc_scale bytes;
} plot;

static double x_of(const plot *c, const tc_account *a, uint32_t node) {
    bool forward = node < a->backward || a->backward == a->n_nodes;
    double done = forward ? (double)node / a->backward : (double)(node - a->backward) / (a->n_nodes - a->backward);
    double at = forward ? c->turn * done : c->turn + (1 - c->turn) * done;
    return TC_PLOT_LEFT + at * (TC_PLOT_RIGHT - TC_PLOT_LEFT);
}

/* Steps, at most one per pixel: of the nodes in one pixel the highest counts. */
static void put_steps(const plot *c, const tc_account *a) {
    for (uint32_t i = 0; i < a->n_nodes;) {
        double x = x_of(c, a, i);
        uint64_t top = a->live[i];
        for (i++; i < a->n_nodes && x_of(c, a, i) < x + 1; i++)
            top = a->live[i] > top ? a->live[i] : top;
        fprintf(c->out, "V%.1fH%.1f", tc_plot_y(&c->bytes, (double)top),
                i < a->n_nodes ? x_of(c, a, i) : TC_PLOT_RIGHT);
    }
}

static void put_curve(const plot *c, const tc_account *a, const char *class) {
    double base = TC_PLOT_BOTTOM;
    uint32_t peak = 0;
    for (uint32_t i = 0; i < a->n_nodes; i++)
        peak = a->live[i] > a->live[peak] ? i : peak;
    fprintf(c->out, "<path class=\"%s-area\" d=\"M%d %.1f", class, TC_PLOT_LEFT, base);
    put_steps(c, a);
    fprintf(c->out, "V%.1fZ\"/>\n<path class=\"%s-line\" d=\"M%d %.1f", base, class, TC_PLOT_LEFT, base);
    put_steps(c, a);
    fprintf(c->out, "\"/>\n<circle class=\"%s-dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", class, x_of(c, a, peak),
            tc_plot_y(&c->bytes, (double)a->live[peak]));
}

static void put_axes(const plot *c) {
    tc_plot_y_axis(c->out, &c->bytes);
    double turn = TC_PLOT_LEFT + c->turn * (TC_PLOT_RIGHT - TC_PLOT_LEFT);
    if (c->turn < 1)
        fprintf(c->out,
                "<line class=\"turn\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n<text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">"
                "backward pass</text>\n",
                turn, TC_PLOT_TOP - 12, turn, TC_PLOT_BOTTOM, (turn + TC_PLOT_RIGHT) / 2, TC_PLOT_HEIGHT - 10);
    fprintf(c->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">forward pass</text>\n", (TC_PLOT_LEFT + turn) / 2,
            TC_PLOT_HEIGHT - 10);
}

static double highest(const tc_account *a, double most) {
    for (uint32_t i = 0; a && i < a->n_nodes; i++)
        most = (double)a->live[i] > most ? (double)a->live[i] : most;
    return most;
}

static void put_legend(const page *p, const char *class, const char *label, const tc_account *a) {
    fprintf(p->out, "<span><i class=\"%s\"></i>%s: peak ", class, label);
    tc_html_put(p->out, tc_amount_text(p->ctx->arena, a->peak));
    fputs(" at <code>", p->out);
    tc_html_put(p->out, a->peak_node);
    fputs("</code></span>\n", p->out);
}

void tc_html_curve(page *p) {
    const tc_account *before = p->before, *after = p->report->after, *wide = before ? before : after;
    double most = highest(before, highest(after, 0));
    if (most <= 0 || after->n_nodes == 0 || (before && before->n_nodes == 0))
        return;
    const plot c = {p->out, (double)wide->backward / wide->n_nodes, tc_scale_bytes(most, true)};
    fputs("<section><h2>Live bytes over the run</h2>\n<p>Results that later nodes still read, node by node. "
          "Parameters and inputs are not counted, no node overwrites its operand, and both graphs are drawn "
          "with their passes side by side.",
          p->out);
    if (!after->exact || (before && !before->exact))
        fputs(" Some dimensions have no value: each counts as 64 here; <code>--dim</code> gives them one.", p->out);
    fputs("</p>\n<div class=\"legend\">", p->out);
    if (before)
        put_legend(p, "before", "before, recipe none", before);
    put_legend(p, "after", before ? "after" : "this graph", after);
    fputs("</div>\n", p->out);
    tc_plot_open(p->out, "live bytes while each node runs");
    put_axes(&c);
    if (before)
        put_curve(&c, before, "before");
    put_curve(&c, after, "after");
    tc_plot_close(p->out);
    fputs("</section>\n", p->out);
}
