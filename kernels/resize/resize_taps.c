/* resize_taps.c: where each place of a resized axis reads its operand, after ONNX's operator documentation (Resize 19)
 * and, where that leaves it open, as PyTorch rounds. */
#include "resize.h"
#include <math.h>
#include <string.h>

/* --- coordinates ------------------------------------------------------------------------------ */

/* How long the result is, with the part of a place that rounding its size left out. */
static double whole_length(const tk_resize_span *s) {
    const double out = (double)s->out, scaled = s->scale * (double)s->inp;
    return fabs(scaled - out) <= 1e-6 * out ? out : scaled;
}

/* The place of the operand that place `at` of the result lies on. */
static double coordinate(const tk_resize_rule *rule, const tk_resize_span *s, int64_t at) {
    const double x = (double)at, inp = (double)s->inp, out = (double)s->out;
    switch (rule->places) {
    case TK_HALF_PIXEL: return (x + 0.5) / s->scale - 0.5;
    case TK_HALF_PIXEL_SYMMETRIC: /* the parts that rounding the size left out are cut off on both sides */
        return inp / 2 * (1 - out / whole_length(s)) + (x + 0.5) / s->scale - 0.5;
    case TK_PYTORCH_HALF_PIXEL: return s->out > 1 ? (x + 0.5) / s->scale - 0.5 : 0;
    case TK_ALIGN_CORNERS: return s->out > 1 ? x * (inp - 1) / (whole_length(s) - 1) : 0;
    case TK_TF_HALF_PIXEL_FOR_NN: return (x + 0.5) / s->scale;
    case TK_TF_CROP_AND_RESIZE:
        return s->out > 1 ? s->begin * (inp - 1) + x * (s->end - s->begin) * (inp - 1) / (out - 1)
                          : 0.5 * (s->begin + s->end) * (inp - 1);
    default: return x / s->scale;
    }
}

/* The same for nearest, whose steps lie where the coordinate is rounded: PyTorch multiplies floats. */
static double stepped_coordinate(const tk_resize_rule *rule, const tk_resize_span *s, int64_t at) {
    if (rule->places != TK_ASYMMETRIC)
        return coordinate(rule, s, at);
    const float back =
        s->scale == (double)s->out / (double)s->inp ? (float)s->inp / (float)s->out : (float)(1 / s->scale);
    const volatile float place = (float)at * back;
    return (double)place;
}

/* PyTorch and ONNX Runtime leave an axis alone that stays as long as it is. */
static bool stays(const tk_resize_rule *rule, const tk_resize_span *s) {
    return s->inp == s->out && rule->places != TK_TF_CROP_AND_RESIZE && rule->places != TK_TF_HALF_PIXEL_FOR_NN &&
           (rule->mode == TK_RESIZE_NEAREST || (rule->mode == TK_RESIZE_LINEAR && !rule->antialias));
}

static int64_t clamp(int64_t at, int64_t n) { return at < 0 ? 0 : at < n ? at : n - 1; }

static int64_t nearest(tk_resize_rounding rounding, double x) {
    switch (rounding) {
    case TK_PREFER_FLOOR: return (int64_t)ceil(x - 0.5);
    case TK_PREFER_CEIL: return (int64_t)floor(x + 0.5);
    case TK_FLOOR: return (int64_t)floor(x);
    default: return (int64_t)ceil(x);
    }
}

/* --- weights ---------------------------------------------------------------------------------- */

/* Linear is a triangle. */
static double weight_at(const tk_resize_rule *rule, double distance) {
    if (rule->mode == TK_RESIZE_LINEAR)
        return fabs(distance) < 1 ? 1 - fabs(distance) : 0;
    return tk_cubic_weight(rule->cubic_a, distance);
}

typedef struct window {
    int64_t from, to; /* places, beyond the operand, too */
    double x, narrow, total;
} window;

/* With antialias a filter is as much wider as the result is narrower, and its weights are divided by their sum. */
static window window_at(const tk_resize_rule *rule, const tk_resize_span *s, double x) {
    window w = {.x = x, .narrow = rule->antialias && s->scale < 1 ? s->scale : 1, .total = 1};
    const double reach = (rule->mode == TK_RESIZE_LINEAR ? 1 : 2) / w.narrow;
    w.from = (int64_t)floor(x - reach) + 1;
    w.to = (int64_t)ceil(x + reach) - 1;
    if (!rule->antialias && !rule->exclude_outside)
        return w;
    w.total = 0;
    for (int64_t i = w.from; i <= w.to; i++)
        if (!rule->exclude_outside || (i >= 0 && i < s->inp))
            w.total += weight_at(rule, ((double)i - x) * w.narrow);
    w.total = w.total != 0 ? w.total : 1;
    return w;
}

/* Places beyond the operand read its first or last one, unless they are left out. Weights of 0 at either end go. */
static tk_tap filtered(double *weights, const tk_resize_rule *rule, const tk_resize_span *s, double x) {
    const window w = window_at(rule, s, x);
    tk_tap tap = {(int32_t)clamp(w.from, s->inp), 0, 0};
    double sum = 0;
    for (int64_t i = w.from; i <= w.to; i++) {
        const bool inside = i >= 0 && i < s->inp;
        sum += inside || !rule->exclude_outside ? weight_at(rule, ((double)i - x) * w.narrow) / w.total : 0;
        if (i < w.to && clamp(i + 1, s->inp) == clamp(i, s->inp))
            continue;
        if (sum == 0 && tap.count == 0 && i < w.to) {
            tap.first++;
        } else {
            if (weights)
                weights[tap.count] = sum;
            tap.count++;
        }
        sum = 0;
    }
    for (; weights && tap.count > 1 && weights[tap.count - 1] == 0; tap.count--) {
    }
    return tap;
}

int64_t tk_resize_taps(tk_tap *taps, double *weights, const tk_resize_rule *rule, const tk_resize_span *span) {
    int64_t n = 0;
    for (int64_t at = 0; at < span->out; at++) {
        const double x =
            rule->mode == TK_RESIZE_NEAREST ? stepped_coordinate(rule, span, at) : coordinate(rule, span, at);
        const bool crops = rule->places == TK_TF_CROP_AND_RESIZE;
        if (crops && !(x >= 0 && x <= (double)(span->inp - 1))) { /* NaN, too */
            taps[at] = (tk_tap){0, 0, (int32_t)n};
            continue;
        }
        if (rule->mode == TK_RESIZE_NEAREST || stays(rule, span)) {
            const int64_t place = stays(rule, span) ? at : clamp(nearest(rule->rounding, x), span->inp);
            taps[at] = (tk_tap){(int32_t)place, 1, 0};
            if (weights)
                weights[n] = 1;
        } else {
            taps[at] = filtered(weights ? weights + n : NULL, rule, span, x);
        }
        taps[at].weights = (int32_t)n;
        n += taps[at].count;
    }
    return n;
}

int64_t tk_resize_turn(tk_tap *turned, double *turned_weights, int64_t inp, const tk_tap *taps, const double *weights,
                       int64_t out) {
    for (int64_t i = 0; i < inp; i++)
        turned[i] = (tk_tap){0, 0, 0};
    for (int64_t at = 0; at < out; at++)
        for (int32_t k = 0; k < taps[at].count; k++) {
            tk_tap *tap = &turned[taps[at].first + k];
            tap->first = tap->count ? tap->first : (int32_t)at;
            tap->count = (int32_t)at + 1 - tap->first;
        }
    int64_t n = 0;
    for (int64_t i = 0; i < inp; n += turned[i++].count)
        turned[i].weights = (int32_t)n;
    if (!turned_weights)
        return n;
    memset(turned_weights, 0, (size_t)n * sizeof *turned_weights);
    for (int64_t at = 0; at < out; at++)
        for (int32_t k = 0; k < taps[at].count; k++) {
            const tk_tap *tap = &turned[taps[at].first + k];
            turned_weights[tap->weights + (int32_t)at - tap->first] = weights[taps[at].weights + k];
        }
    return n;
}
