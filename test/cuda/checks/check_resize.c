/* check_resize.c: resizes of one to three axes on the emulated device, by every filter, and their gradients; and
 * samples at places in between, in every mode. */
#include "cuda_case.h"
#include <math.h>
#include <stdlib.h>

enum { PLACES = 32, WEIGHTS = 1024 };

/* Axes one after the other; the rest of the shape is 2 in front and `inner` behind. */
static const struct {
    int64_t inp[3], out[3], inner;
    int n;
} shapes[] = {{{7}, {11}, 1, 1}, {{9, 5}, {4, 10}, 1, 2}, {{9, 6}, {18, 6}, 3, 2}, {{4, 3, 5}, {6, 6, 3}, 2, 3}};

static const tk_resize_rule rules[] = {
    {TK_RESIZE_NEAREST, TK_ASYMMETRIC, TK_FLOOR, 0, false, false},
    {TK_RESIZE_LINEAR, TK_HALF_PIXEL, TK_FLOOR, 0, false, false},
    {TK_RESIZE_LINEAR, TK_ALIGN_CORNERS, TK_FLOOR, 0, false, false},
    {TK_RESIZE_CUBIC, TK_HALF_PIXEL, TK_FLOOR, -0.75, true, true},
    {TK_RESIZE_LINEAR, TK_TF_CROP_AND_RESIZE, TK_FLOOR, 0, false, false},
};

static bounds of(tk_dtype dtype) {
    return dtype == TK_F64 ? (bounds){.relative = 1e-13, .absolute = 1e-13}
                           : (bounds){.relative = 2e-6, .absolute = 2e-6, .ulps = tk_is_half(dtype) ? 1 : 0};
}

/* Adds an axis; its tables lie on both sides. */
static tk_resize_axis add_axis(const tk_resize_rule *rule, int64_t inp, int64_t out, bool turned, tk_dtype dtype,
                               pair *taps, pair *weights) {
    tk_tap forward[PLACES], back[PLACES];
    double w[WEIGHTS], turned_w[WEIGHTS];
    const tk_resize_span span = {inp, out, (double)out / (double)inp, -0.1, 0.9};
    int64_t n = tk_resize_taps(forward, w, rule, &span);
    if (turned)
        n = tk_resize_turn(back, turned_w, inp, forward, w, out);
    const int64_t places = turned ? inp : out;
    *taps = pair_of(TK_I32, places * 3, turned ? back : forward);
    *weights = pair_numbers(tk_wide(dtype), n, turned ? turned_w : w);
    return (tk_resize_axis){turned ? out : inp, places, NULL, NULL};
}

static void one(size_t shape, size_t rule, bool turned, bool picks, tk_dtype dtype) {
    tk_resize r = {.outer = 2, .inner = shapes[shape].inner, .n_axes = shapes[shape].n, .picks = picks};
    pair taps[3], weights[3];
    int64_t n_inp = r.outer * r.inner, n_out = n_inp;
    r.outside = turned ? 0 : 0x3c;
    for (int d = 0; d < r.n_axes; d++) {
        r.axes[d] = add_axis(&rules[rule], shapes[shape].inp[d], shapes[shape].out[d], turned,
                             tk_is_float(dtype) ? dtype : TK_F32, &taps[d], &weights[d]);
        n_inp *= r.axes[d].inp;
        n_out *= r.axes[d].out;
    }
    pair x = pair_random(dtype, n_inp, dtype == TK_U8 || dtype == TK_BOOL ? 0 : -3, 3), y = pair_result(dtype, n_out);
    for (side = HOST; side < SIDES; side++) {
        tk_resize here = r;
        for (int d = 0; d < r.n_axes; d++) {
            here.axes[d].taps = AT(taps[d]);
            here.axes[d].weights = AT(weights[d]);
        }
        tables[side]->resize_run(queues[side], AT(y), AT(x), &here, dtype, NULL);
    }
    wait_for_both();
    pair_compare(y, picks ? (bounds){0} : of(dtype), "shape %zu, rule %zu, turned %d", shape, rule, turned);
    pairs_give_back();
}

static void filters(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
            for (size_t rule = 0; rule < sizeof rules / sizeof *rules; rule++)
                for (int turned = 0; turned < 2; turned++)
                    one(shape, rule, turned, false, *t);
}

static void picks(void) {
    static const tk_dtype types[] = {TK_F64, TK_F32, TK_F16, TK_U8, TK_BOOL, TK_I64, 0};
    for (const tk_dtype *t = types; *t; t++)
        for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
            one(shape, 0, false, true, *t);
}

/* What is at places: inside, outside, far away, halfway, and nowhere. An element that may not count is infinite. */
static void sample(const tk_grid_sample *s, tk_dtype dtype) {
    static const double apart[] = {NAN, INFINITY, -INFINITY, 1e30, -1, 1, 0, -0.5, 3, -2.25};
    enum { APART = sizeof apart / sizeof *apart, MOST = 600 };
    const int64_t planes = s->batch * s->channels, coordinates = s->batch * s->places * s->n_axes;
    int64_t elements = planes;
    double inp[MOST], grid[MOST];
    for (int d = 0; d < s->n_axes; d++)
        elements *= s->dims[d];
    for (int64_t i = 0; i < elements; i++)
        inp[i] = i == 0 ? INFINITY : (double)(i * 7919 % 601) / 100 - 3;
    for (int64_t i = 0; i < coordinates; i++)
        grid[i] = i * 11 % 7 == 0 ? apart[i / 7 % APART] : (double)(i * 7919 % 301) / 100 - 1.5;
    pair x = pair_numbers(dtype, elements, inp), at = pair_numbers(dtype, coordinates, grid),
         y = pair_result(dtype, planes * s->places);
    ON_BOTH(grid_sample_run, AT(y), AT(x), AT(at), s, dtype);
    pair_compare(y, of(dtype), "%d axes, mode %d, padding %d, corners %d", s->n_axes, (int)s->mode, (int)s->padding,
                 s->align_corners);
    pairs_give_back();
}

/* Channels below, of and beyond what a thread takes. */
static void samples(void) {
    static const tk_grid_sample inputs[] = {{.batch = 2, .channels = 1, .places = 40, .n_axes = 1, .dims = {6}},
                                            {.batch = 2, .channels = 4, .places = 150, .n_axes = 2, .dims = {4, 5}},
                                            {.batch = 3, .channels = 6, .places = 37, .n_axes = 2, .dims = {1, 7}},
                                            {.batch = 2, .channels = 5, .places = 30, .n_axes = 3, .dims = {4, 2, 3}},
                                            {.batch = 2, .channels = 0, .places = 3, .n_axes = 1, .dims = {2}}};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
            for (int kind = 0; kind < 18; kind++) {
                tk_grid_sample s = inputs[i];
                s.mode = (tk_resize_mode)(kind % 3), s.padding = (tk_grid_padding)(kind / 3 % 3);
                s.align_corners = kind / 9 == 1;
                sample(&s, *t);
            }
}

const cuda_check checks[] = {{"filters", filters}, {"picks", picks}, {"samples", samples}, {NULL, NULL}};
