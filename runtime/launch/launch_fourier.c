/* launch_fourier.c: DFT and STFT nodes to the transforms of kernels/fourier; window functions, which are constants. */
#include "kernels/common/types.h"
#include "kernels/fourier/fourier.h"
#include "launch_util.h"
#include <math.h>
#include <string.h>

typedef struct dft_params {
    tk_dft_shape shape;
    bool has_window; /* operand 2 of STFT */
} dft_params;

static void run_dft(tk_queue *q, const rt_launch *launch) {
    const dft_params *p = launch->params;
    const void *window = p->has_window ? launch->in[2].data : NULL;
    launch->kernels->dft(q, launch->out[0].data, launch->in[0].data, window, &p->shape, launch->out[0].dtype,
                         launch->workspace);
}

/* The only element of operand `input`, or `otherwise` where it is absent. */
static tc_status read_int(rt_launcher *launcher, const tc_node *node, uint32_t input, int64_t otherwise,
                          int64_t *out_int) {
    const int64_t *ints;
    int64_t count;
    *out_int = otherwise;
    if (!tc_input(node, input))
        return TC_OK;
    TC_TRY(rt_known_ints(launcher, node, input, &ints, &count));
    TC_TRY(rt_expect(launcher, node, count == 1));
    *out_int = ints[0];
    return TC_OK;
}

static double *add_table(rt_launcher *launcher, int64_t numbers) {
    return TC_NEW_ARRAY(launcher->arena, double, 2 * (size_t)numbers);
}

/* Sizes that follow from the length. */
static tc_status finish(rt_launcher *launcher, const tc_node *node, rt_launch *launch, dft_params *p, int64_t n) {
    tk_dft_shape *d = &p->shape;
    n = n < 1 && launch->out[0].count == 0 ? 1 : n;
    if (n < 1 || n > INT32_MAX)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the transform has length %lld", (long long)n);
    tk_dft_plan(d, n);
    d->inp_parts = (int)launch->in[0].dims[launch->in[0].rank - 1];
    d->out_parts = (int)launch->out[0].dims[launch->out[0].rank - 1];
    double *roots = add_table(launcher, d->length), *chirp = NULL, *filter = NULL;
    if (d->length != n) {
        chirp = add_table(launcher, n);
        filter = add_table(launcher, 2 * d->length);
    }
    tk_dft_tables(d, roots, chirp, filter);
    rt_add_table(launcher, roots, 2 * (size_t)d->length * sizeof *roots, &d->roots);
    if (chirp) {
        rt_add_table(launcher, chirp, 2 * (size_t)n * sizeof *chirp, &d->chirp);
        rt_add_table(launcher, filter, 2 * (size_t)d->length * sizeof *filter, &d->filter);
    }
    launch->workspace_bytes = launcher->kernels->dft_workspace(d, launcher->slots);
    launch->params = p;
    launch->run = run_dft;
    return TC_OK;
}

tc_status rt_launch_dft(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    dft_params *p = RT_PARAMS(launcher, dft_params);
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    int64_t given, n;
    int axis;
    TC_TRY(read_int(launcher, node, 2, -2, &given));
    TC_TRY(rt_axis(launcher, node, given, inp->rank, false, &axis));
    TC_TRY(rt_expect(launcher, node, axis < inp->rank - 1 && out->rank == inp->rank && out->dtype == inp->dtype));
    bool inverse = tc_attr_int(node, "inverse", 0) != 0, half = inverse && tc_attr_int(node, "onesided", 0) != 0;
    TC_TRY(read_int(launcher, node, 1, half ? 2 * (inp->dims[axis] - 1) : inp->dims[axis], &n));
    int64_t most = half ? n / 2 + 1 : n;
    p->shape = (tk_dft_shape){.outer = rt_product(inp, 0, axis),
                              .inner = rt_product(inp, axis + 1, inp->rank - 1),
                              .frames = 1,
                              .n_inp = inp->dims[axis] < most ? inp->dims[axis] : most,
                              .n_out = out->dims[axis],
                              .inverse = inverse,
                              .half = half};
    p->shape.across = inp->dims[axis] * p->shape.inner;
    TC_TRY(rt_expect(launcher, node,
                     p->shape.n_out <= n && rt_product(out, 0, axis) == p->shape.outer &&
                         rt_product(out, axis + 1, out->rank - 1) == p->shape.inner));
    return finish(launcher, node, launch, p, n);
}

/* Operands: the signal [batch, length, parts], the step, the window, the frames' length. */
tc_status rt_launch_stft(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    dft_params *p = RT_PARAMS(launcher, dft_params);
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0], *window = rt_in(launch, 2);
    int64_t step, n;
    TC_TRY(rt_expect(launcher, node, inp->rank == 3 && out->rank == 4 && out->dtype == inp->dtype));
    TC_TRY(read_int(launcher, node, 1, 1, &step));
    TC_TRY(read_int(launcher, node, 3, window ? window->count : inp->dims[1], &n));
    TC_TRY(rt_expect(launcher, node, !window || (window->count == n && window->dtype == inp->dtype)));
    p->has_window = window != NULL;
    p->shape = (tk_dft_shape){.outer = inp->dims[0] * out->dims[1],
                              .inner = 1,
                              .frames = out->dims[1] > 0 ? out->dims[1] : 1,
                              .across = inp->dims[1],
                              .step = step,
                              .n_inp = n,
                              .n_out = out->dims[2]};
    TC_TRY(rt_expect(launcher, node,
                     step > 0 && p->shape.n_out <= n && out->dims[0] == inp->dims[0] &&
                         (out->dims[1] == 0 || (out->dims[1] - 1) * step + n <= inp->dims[1])));
    return finish(launcher, node, launch, p, n);
}

/* --- windows ---------------------------------------------------------------------------------- */

/* By op: the coefficients of 1, cos and cos of twice the angle. */
static const struct {
    const char *op;
    double mean, first, second;
} windows[] = {
    {"HannWindow", 0.5, -0.5, 0},
    {"HammingWindow", 25.0 / 46, -21.0 / 46, 0},
    {"BlackmanWindow", 0.42, -0.5, 0.08},
};

tc_status rt_launch_window(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *out = &launch->out[0];
    size_t which = 0;
    while (which + 1 < TC_COUNT(windows) && strcmp(windows[which].op, node->op_type) != 0)
        which++;
    if (!tk_is_float(out->dtype))
        return rt_no_kernel(launcher, node, launch);
    int64_t turn = tc_attr_int(node, "periodic", 1) != 0 ? out->count : out->count - 1;
    char *numbers = tc_arena_alloc(launcher->arena, (size_t)out->count + 1, tk_size(out->dtype));
    for (int64_t i = 0; i < out->count; i++) {
        double angle = turn > 0 ? 2 * acos(-1) * (double)i / (double)turn : acos(-1); /* one point: the middle */
        tk_put(numbers, out->dtype, i,
               windows[which].mean + windows[which].first * cos(angle) + windows[which].second * cos(2 * angle));
    }
    launch->constant = numbers;
    return TC_OK;
}
