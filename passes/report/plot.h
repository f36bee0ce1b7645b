/* plot.h: the frame of figures in the HTML report: axes with ticks at round numbers. */
#ifndef TC_REPORT_PLOT_H
#define TC_REPORT_PLOT_H
#include <stdbool.h>
#include <stdio.h>

/* Of the SVG's view box, and of the frame in it. */
enum { TC_PLOT_WIDTH = 1060, TC_PLOT_HEIGHT = 340 };
enum { TC_PLOT_LEFT = 72, TC_PLOT_RIGHT = TC_PLOT_WIDTH - 12, TC_PLOT_TOP = 26, TC_PLOT_BOTTOM = TC_PLOT_HEIGHT - 34 };

/* From 0 to `most`, with ticks at each `step`; a tick at x reads "x/unit_size unit". */
typedef struct tc_scale {
    double most, step, unit_size;
    const char *unit;
} tc_scale;

/* Scales that go at least to `most`, above 0; round_up: to a tick, else exactly to it. */
tc_scale tc_scale_bytes(double most, bool round_up);
/* Nanoseconds, or nodes where `source` is "unit". */
tc_scale tc_scale_time(double most, const char *source, bool round_up);
tc_scale tc_scale_percent(double most, bool round_up);

double tc_plot_x(const tc_scale *scale, double at);
double tc_plot_y(const tc_scale *scale, double at);
/* "12.5 ms": a number by the scale's unit. */
void tc_plot_number(FILE *out, const tc_scale *scale, double number);
/* Opens the figure with a label for screen readers. tc_plot_close ends it. */
void tc_plot_open(FILE *out, const char *label);
void tc_plot_close(FILE *out);
/* Grid lines with numbers at the left; ticks with numbers below. */
void tc_plot_y_axis(FILE *out, const tc_scale *scale);
void tc_plot_x_axis(FILE *out, const tc_scale *scale);
#endif
