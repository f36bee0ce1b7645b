/* curve.c: live bytes over the run as SVG. Both graphs are drawn over one another with their passes side by side: the
 * forward pass fills the left part, the backward pass the right one, whatever the number of their nodes. */
#include "html.h"
#include <math.h>

enum { WIDTH = 1060, HEIGHT = 340, LEFT = 72, RIGHT = 12, TOP = 26, BOTTOM = 34, TICKS = 6 };

typedef struct plot {
    FILE *out;
    double turn; /* where the backward pass begins, 0 to 1 */
    double most; /* bytes at the top */
} plot;

static double x_of(const plot *c, const tc_account *a, uint32_t node) {
    bool forward = node < a->backward || a->backward == a->n_nodes;
    double done = forward ? (double)node / a->backward : (double)(node - a->backward) / (a->n_nodes - a->backward);
    double at = forward ? c->turn * done : c->turn + (1 - c->turn) * done;
    return LEFT + at * (WIDTH - LEFT - RIGHT);
}

static double y_of(const plot *c, double bytes) { return HEIGHT - BOTTOM - bytes / c->most * (HEIGHT - TOP - BOTTOM); }

/* Steps, one per pixel at most: of the nodes in one pixel the highest counts. */
static void put_steps(const plot *c, const tc_account *a) {
    for (uint32_t i = 0; i < a->n_nodes;) {
        double x = x_of(c, a, i);
        uint64_t top = a->live[i];
        for (i++; i < a->n_nodes && x_of(c, a, i) < x + 1; i++)
            top = a->live[i] > top ? a->live[i] : top;
        fprintf(c->out, "V%.1fH%.1f", y_of(c, (double)top), i < a->n_nodes ? x_of(c, a, i) : WIDTH - RIGHT);
    }
}

static void put_curve(const plot *c, const tc_account *a, const char *class) {
    double base = HEIGHT - BOTTOM;
    uint32_t peak = 0;
    for (uint32_t i = 0; i < a->n_nodes; i++)
        peak = a->live[i] > a->live[peak] ? i : peak;
    fprintf(c->out, "<path class=\"%s-area\" d=\"M%d %.1f", class, LEFT, base);
    put_steps(c, a);
    fprintf(c->out, "V%.1fZ\"/>\n<path class=\"%s-line\" d=\"M%d %.1f", base, class, LEFT, base);
    put_steps(c, a);
    fprintf(c->out, "\"/>\n<circle class=\"%s-dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", class, x_of(c, a, peak),
            y_of(c, (double)a->live[peak]));
}

/* A step of 1, 2 or 5 times a power of ten, in a power of 1024, such that about TICKS fit below `most`. */
static double nice_step(double most, const char **out_unit, double *out_unit_bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    *out_unit_bytes = 1;
    for (; most / *out_unit_bytes >= 2048 && unit + 1 < TC_COUNT(units); unit++)
        *out_unit_bytes *= 1024;
    *out_unit = units[unit];
    double rough = most / *out_unit_bytes / TICKS, power = pow(10, floor(log10(rough)));
    double factor = rough / power;
    return (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10) * power;
}

static void put_axes(plot *c) {
    const char *unit;
    double unit_bytes, step = nice_step(c->most, &unit, &unit_bytes);
    c->most = ceil(c->most / (step * unit_bytes)) * step * unit_bytes;
    for (int i = 0; i * step * unit_bytes <= c->most * 1.001; i++) {
        double y = y_of(c, i * step * unit_bytes);
        fprintf(c->out, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>", LEFT, y, WIDTH - RIGHT,
                y);
        fprintf(c->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g %s</text>\n", LEFT - 8, y + 4, i * step,
                unit);
    }
    double turn = LEFT + c->turn * (WIDTH - LEFT - RIGHT);
    if (c->turn < 1)
        fprintf(c->out,
                "<line class=\"turn\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n<text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">"
                "backward pass</text>\n",
                turn, TOP - 12, turn, HEIGHT - BOTTOM, (turn + WIDTH - RIGHT) / 2, HEIGHT - 10);
    fprintf(c->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">forward pass</text>\n", (LEFT + turn) / 2,
            HEIGHT - 10);
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
    plot c = {.out = p->out, .most = highest(before, highest(after, 0))};
    if (c.most <= 0 || after->n_nodes == 0 || (before && before->n_nodes == 0))
        return;
    c.turn = (double)wide->backward / wide->n_nodes;
    fputs("<section><h2>Live bytes over the run</h2>\n<p>What nodes have made and others still read, node by node. "
          "Parameters and inputs are "
          "not counted, no node writes over its operand, and both graphs are drawn with their passes side by side.",
          p->out);
    if (!after->exact || (before && !before->exact))
        fputs(" Some dimensions have no value: each counts as 64 here; <code>--dim</code> gives them one.", p->out);
    fputs("</p>\n<div class=\"legend\">", p->out);
    if (before)
        put_legend(p, "before", "before, recipe none", before);
    put_legend(p, "after", before ? "after" : "this graph", after);
    fprintf(p->out,
            "</div>\n<div class=\"scroll\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"live bytes while each "
            "node runs\">\n",
            WIDTH, HEIGHT);
    put_axes(&c);
    if (before)
        put_curve(&c, before, "before");
    put_curve(&c, after, "after");
    fputs("</svg></div></section>\n", p->out);
}
