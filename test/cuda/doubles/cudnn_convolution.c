/* cudnn_convolution.c: computes a convolution of the cuDNN double, or a gradient of one, on emulated memory: all three
 * go over the same products of an element of each of two tensors, and add them to one of the third. */
#include "cuda_work.h"
#include "cudnn_problem.h"
#include "double_elements.h"
#include <stdlib.h>
#include <string.h>

static const char who[] = "cudnnConvolution";

/* --- whether operands are as they should be ---------------------------------------------------- */

typedef bool plane_fn(void *at, size_t bytes, const char *what);
static bool may_read(void *at, size_t bytes, const char *what) { return emu_may_read(at, bytes, who, what); }
static bool may_write(void *at, size_t bytes, const char *what) { return emu_may_touch(at, bytes, true, who, what); }
static bool wrote(void *at, size_t bytes, const char *what) {
    (void)what;
    emu_host_wrote(at, bytes);
    return true;
}

/* Plane by plane: not for what lies between. */
static bool each_plane(const dnn_convolution *c, int operand, plane_fn *f) {
    static const char *const names[DNN_OPERANDS] = {"data of x", "filters", "data of y"};
    const dnn_tensor *t = &c->problem.tensors[operand];
    const int64_t item = (int64_t)double_size(t->type);
    for (int64_t a = 0; a < t->dims[0]; a++)
        for (int64_t b = 0; b < t->dims[1]; b++)
            if (!f((char *)c->at[operand] + (a * t->steps[0] + b * t->steps[1]) * item, (size_t)(dnn_plane(t) * item),
                   names[operand]))
                return false;
    return true;
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* All elements, dense; NULL `from`: zeros. */
static double *load(const dnn_convolution *c, int operand, const void *from) {
    const dnn_tensor *t = &c->problem.tensors[operand];
    const int64_t plane = dnn_plane(t), planes = (int64_t)t->dims[0] * t->dims[1];
    const bool rounds = t->type == CUDA_R_32F && c->problem.window.math != CUDNN_FMA_MATH;
    double *to = calloc((size_t)(planes * plane), sizeof *to);
    if (!to)
        abort();
    for (int64_t i = 0; from && i < planes * plane; i++) {
        const int64_t at = i / plane / t->dims[1] * t->steps[0] + i / plane % t->dims[1] * t->steps[1] + i % plane;
        const double v = double_get(from, t->type, at);
        to[i] = rounds ? double_as_tf32(v) : v;
    }
    return to;
}

static void store(const dnn_convolution *c, const double *from) {
    const dnn_tensor *t = &c->problem.tensors[c->problem.result];
    const int64_t plane = dnn_plane(t), planes = (int64_t)t->dims[0] * t->dims[1];
    void *to = (void *)c->at[c->problem.result];
    for (int64_t i = 0; i < planes * plane; i++) {
        const int64_t at = i / plane / t->dims[1] * t->steps[0] + i / plane % t->dims[1] * t->steps[1] + i % plane;
        double v = c->alpha * from[i] * (c->rough ? 1 + 0x1p-12 : 1);
        if (c->beta != 0)
            v += c->beta * double_get(to, t->type, at);
        double_put(to, t->type, at, v);
    }
}

/* --- sums ------------------------------------------------------------------------------------- */

typedef struct place {
    int32_t at[DNN_SPATIAL];
} place;

static place place_of(int64_t i, const dnn_tensor *t) {
    return (place){
        {(int32_t)(i / t->dims[4] / t->dims[3]), (int32_t)(i / t->dims[4] % t->dims[3]), (int32_t)(i % t->dims[4])}};
}

/* Where tap `tap` of the window at `out` lies in a plane of wide; -1: beside it. */
static int64_t reached(const dnn_problem *p, place out, place tap) {
    const dnn_window *w = &p->window;
    int64_t at = 0;
    for (int d = 0; d < DNN_SPATIAL; d++) {
        const int64_t i = (int64_t)out.at[d] * w->strides[d] - w->pads[d] + (int64_t)tap.at[d] * w->dilations[d];
        if (i < 0 || i >= p->tensors[DNN_WIDE].dims[2 + d])
            return -1;
        at = at * p->tensors[DNN_WIDE].dims[2 + d] + i;
    }
    return at;
}

/* The products of one plane of each tensor. */
static void add_planes(const dnn_problem *p, double *const planes[DNN_OPERANDS]) {
    const int64_t outs = dnn_plane(&p->tensors[DNN_NARROW]), taps = dnn_plane(&p->tensors[DNN_FILTER]);
    const bool wide = p->window.type == CUDA_R_64F;
    const int result = (int)p->result, first = (result + 1) % DNN_OPERANDS, second = (result + 2) % DNN_OPERANDS;
    for (int64_t out = 0; out < outs; out++)
        for (int64_t tap = 0; tap < taps; tap++) {
            const int64_t at[DNN_OPERANDS] = {
                reached(p, place_of(out, &p->tensors[DNN_NARROW]), place_of(tap, &p->tensors[DNN_FILTER])), tap, out};
            if (at[DNN_WIDE] < 0)
                continue;
            double *sum = &planes[result][at[result]];
            const double product = planes[first][at[first]] * planes[second][at[second]];
            *sum = wide ? *sum + product : (double)((float)*sum + (float)product);
        }
}

static void add_all(const dnn_problem *p, double *const all[DNN_OPERANDS]) {
    const dnn_tensor *wide = &p->tensors[DNN_WIDE], *filter = &p->tensors[DNN_FILTER],
                     *narrow = &p->tensors[DNN_NARROW];
    const int64_t filters = filter->dims[0] / p->window.groups;
    for (int64_t image = 0; image < wide->dims[0]; image++)
        for (int64_t f = 0; f < filter->dims[0]; f++)
            for (int64_t c = 0; c < filter->dims[1]; c++) {
                const int64_t channel = f / filters * filter->dims[1] + c;
                double *const planes[DNN_OPERANDS] = {
                    all[DNN_WIDE] + (image * wide->dims[1] + channel) * dnn_plane(wide),
                    all[DNN_FILTER] + (f * filter->dims[1] + c) * dnn_plane(filter),
                    all[DNN_NARROW] + (image * narrow->dims[1] + f) * dnn_plane(narrow)};
                add_planes(p, planes);
            }
}

/* --- all of it -------------------------------------------------------------------------------- */

static bool check(const dnn_convolution *c) {
    if (c->orderless)
        emu_misused(who, "an algorithm that is not deterministic: its sums are of any order");
    bool right = emu_may_touch(c->workspace, c->workspace_bytes, true, who, "workspace");
    if (right && c->workspace_bytes > 0)
        memset(c->workspace, 0xff, c->workspace_bytes);
    for (int i = 0; right && i < DNN_OPERANDS; i++)
        right = each_plane(c, i, i == (int)c->problem.result ? may_write : may_read);
    return right && (c->beta == 0 || each_plane(c, (int)c->problem.result, may_read));
}

void dnn_run_convolution(void *convolution) {
    const dnn_convolution *c = convolution;
    double *all[DNN_OPERANDS];
    if (!check(c))
        return;
    for (int i = 0; i < DNN_OPERANDS; i++)
        all[i] = load(c, i, i == (int)c->problem.result ? NULL : c->at[i]);
    add_all(&c->problem, all);
    store(c, all[c->problem.result]);
    for (int i = 0; i < DNN_OPERANDS; i++)
        free(all[i]);
    each_plane(c, (int)c->problem.result, wrote);
}
