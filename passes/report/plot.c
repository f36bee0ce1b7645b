/* plot.c: axes of the figures as SVG. */
#include "plot.h"
#include "compiler/base/base.h"
#include <math.h>
#include <string.h>

enum { TICKS = 6 };

/* --- scales ------------------------------------------------------------------------------------ */

/* A step of 1, 2 or 5 times a power of ten, such that about TICKS fit below `most`. */
static tc_scale scale(double most, double unit_size, const char *unit, bool round_up) {
    double rough = most / unit_size / TICKS, power = pow(10, floor(log10(rough)));
    double factor = rough / power, step = (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10) * power;
    tc_scale s = {most, step * unit_size, unit_size, unit};
    if (round_up)
        s.most = ceil(most / s.step) * s.step;
    return s;
}

tc_scale tc_scale_bytes(double most, bool round_up) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double size = 1;
    for (; most / size >= 2048 && unit + 1 < TC_COUNT(units); unit++)
        size *= 1024;
    return scale(most, size, units[unit], round_up);
}

tc_scale tc_scale_time(double most, const char *source, bool round_up) {
    static const char *const units[] = {"ns", "\xC2\xB5s", "ms", "s"};
    size_t unit = 0;
    double size = 1;
    if (strcmp(source, "unit") == 0)
        return scale(most, 1, "nodes", round_up);
    for (; most / size >= 2000 && unit + 1 < TC_COUNT(units); unit++)
        size *= 1000;
    return scale(most, size, units[unit], round_up);
}

tc_scale tc_scale_percent(double most, bool round_up) { return scale(most, 1, "%", round_up); }

/* --- drawing ----------------------------------------------------------------------------------- */

double tc_plot_x(const tc_scale *s, double at) { return TC_PLOT_LEFT + at / s->most * (TC_PLOT_RIGHT - TC_PLOT_LEFT); }

double tc_plot_y(const tc_scale *s, double at) {
    return TC_PLOT_BOTTOM - at / s->most * (TC_PLOT_BOTTOM - TC_PLOT_TOP);
}

void tc_plot_number(FILE *out, const tc_scale *s, double number) {
    fprintf(out, "%.4g %s", number / s->unit_size, s->unit);
}

void tc_plot_open(FILE *out, const char *label) {
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", TC_PLOT_WIDTH, TC_PLOT_HEIGHT, label);
}

void tc_plot_close(FILE *out) { fputs("</svg>\n", out); }

void tc_plot_y_axis(FILE *out, const tc_scale *s) {
    for (int i = 0; i * s->step <= s->most * 1.001; i++) {
        double y = tc_plot_y(s, i * s->step);
        fprintf(out, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>", TC_PLOT_LEFT, y,
                TC_PLOT_RIGHT, y);
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", TC_PLOT_LEFT - 8, y + 4);
        tc_plot_number(out, s, i * s->step);
        fputs("</text>\n", out);
    }
}

void tc_plot_x_axis(FILE *out, const tc_scale *s) {
    for (int i = 0; i * s->step <= s->most * 1.001; i++) {
        double x = tc_plot_x(s, i * s->step);
        fprintf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>", x, TC_PLOT_BOTTOM, x,
                TC_PLOT_BOTTOM + 5);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">", x, TC_PLOT_BOTTOM + 18,
                x > TC_PLOT_RIGHT - 24 ? "end" : "middle");
        tc_plot_number(out, s, i * s->step);
        fputs("</text>\n", out);
    }
}
