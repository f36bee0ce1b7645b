/* resize_cpu.c: lines along the last axis go to threads: the lines that the other axes read are summed up in a line of
 * the operand's length, then that line is resized. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "../common/types.h"
#include "../common/vector.h"
#include "resize.h"
#include <string.h>

typedef struct resize_ctx {
    const tk_resize *r;
    void *out;
    const void *inp;
    char *workspace; /* a line for each thread */
    size_t line_bytes, size;
    int64_t lines, block; /* lines of the result, and how many a thread takes at once */
} resize_ctx;

/* The lines of the operand that one line of the result reads, one after the other: the taps of all axes but the last,
 * multiplied out. */
typedef struct line_walk {
    const tk_resize *r;
    const tk_tap *taps[TK_RESIZE_AXES]; /* of each axis at this line */
    int32_t k[TK_RESIZE_AXES];
    int64_t outer;
    bool outside;
} line_walk;

static line_walk begin_walk(const tk_resize *r, int64_t line) {
    line_walk w = {.r = r};
    for (int d = r->n_axes - 2; d >= 0; d--) {
        w.taps[d] = &r->axes[d].taps[line % r->axes[d].out];
        w.outside |= w.taps[d]->count == 0;
        line /= r->axes[d].out;
    }
    w.outer = line;
    return w;
}

/* Where the line at hand begins, in elements of the operand. */
static int64_t line_at(const line_walk *w) {
    const tk_resize *r = w->r;
    int64_t at = w->outer;
    for (int d = 0; d < r->n_axes - 1; d++)
        at = at * r->axes[d].inp + w->taps[d]->first + w->k[d];
    return at * r->axes[r->n_axes - 1].inp * r->inner;
}

static bool next_line(line_walk *w) {
    for (int d = w->r->n_axes - 2; d >= 0; d--) {
        if (++w->k[d] < w->taps[d]->count)
            return true;
        w->k[d] = 0;
    }
    return false;
}

#define TEMPLATE "../resize/resize_tmpl.h"
#include "../common/each_float.h"

/* --- elements as they are --------------------------------------------------------------------- */

/* Elements of so many bits; those outside are filled in before. */
#define PICK(bits)                                                                                                     \
    for (int64_t t = 0; t < last->out; t++)                                                                            \
        ((uint##bits##_t *)out)[t] =                                                                                   \
            last->taps[t].count ? ((const uint##bits##_t *)inp)[last->taps[t].first] : (uint##bits##_t)c->r->outside;

static void pick_line(const resize_ctx *c, void *out, const void *inp) {
    const tk_resize_axis *last = &c->r->axes[c->r->n_axes - 1];
    switch (c->size) {
    case 1: PICK(8) break;
    case 2: PICK(16) break;
    case 4: PICK(32) break;
    default: PICK(64) break;
    }
}

static void fill_outside(const resize_ctx *c, char *out, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        memcpy(out + (size_t)i * c->size, &c->r->outside, c->size);
}

static void pick_rows(const resize_ctx *c, char *out, const char *inp) {
    const tk_resize_axis *last = &c->r->axes[c->r->n_axes - 1];
    const size_t step = (size_t)c->r->inner * c->size;
    for (int64_t t = 0; t < last->out; t++)
        if (last->taps[t].count == 0)
            fill_outside(c, out + (size_t)t * step, c->r->inner);
        else
            memcpy(out + (size_t)t * step, inp + (size_t)last->taps[t].first * step, step);
}

static void pick_lines(void *ctx, tk_share share) {
    const resize_ctx *c = ctx;
    const int64_t wide = c->r->axes[c->r->n_axes - 1].out * c->r->inner;
    const int64_t end = share.end * c->block < c->lines ? share.end * c->block : c->lines;
    for (int64_t at = share.begin * c->block; at < end; at++) {
        char *out = (char *)c->out + (size_t)(at * wide) * c->size;
        const line_walk w = begin_walk(c->r, at);
        if (w.outside) {
            fill_outside(c, out, wide);
            continue;
        }
        const char *inp = (const char *)c->inp + (size_t)line_at(&w) * c->size;
        if (c->r->inner == 1)
            pick_line(c, out, inp);
        else
            pick_rows(c, out, inp);
    }
}

/* --- all lines -------------------------------------------------------------------------------- */

static size_t line_bytes(const tk_resize *r, tk_dtype dtype) {
    const size_t bytes = (size_t)(r->axes[r->n_axes - 1].inp * r->inner) * tk_size(tk_wide(dtype));
    return (bytes + 63) / 64 * 64;
}

size_t tk_resize_workspace(const tk_resize *resize, tk_dtype dtype, int slots) {
    const bool reads_lines = resize->n_axes == 1 && !tk_is_half(dtype);
    return resize->picks || reads_lines ? 0 : line_bytes(resize, dtype) * (size_t)slots;
}

void tk_resize_run(tk_queue *q, void *out, const void *inp, const tk_resize *resize, tk_dtype dtype, void *workspace) {
    const tk_resize_axis *last = &resize->axes[resize->n_axes - 1];
    resize_ctx c = {.r = resize, .out = out, .inp = inp, .workspace = workspace, .size = tk_size(dtype)};
    c.line_bytes = resize->picks ? 0 : line_bytes(resize, dtype);
    c.lines = resize->outer;
    for (int d = 0; d < resize->n_axes - 1; d++)
        c.lines *= resize->axes[d].out;
    c.block = TK_GRAIN / ((last->inp + last->out) * resize->inner + 1) + 1;
    const int64_t blocks = (c.lines + c.block - 1) / c.block;
    if (resize->picks)
        tk_parallel_for(q, blocks, 1, pick_lines, &c);
    else
        tk_parallel_slots(q, blocks, TK_OF_FLOAT(dtype, resize_lines), &c);
}
