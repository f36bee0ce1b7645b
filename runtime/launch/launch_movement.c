/* launch_movement.c: nodes that move elements, to views and to the strided copy of kernels/movement: each becomes one
 * box (or one per operand or result) of sizes and strides, worked out here once. A box that turns out to copy
 * everything in order is a view. */
#include "kernels/movement/movement.h"
#include "compiler/contents/contents.h"
#include "kernels/movement/cast.h"
#include "runtime/files/files.h"
#include "runtime/fuse/fuse.h"
#include "launch_util.h"
#include <string.h>

tc_status rt_launch_view(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    TC_TRY(rt_expect(launcher, node,
                     launch->in[0].count == launch->out[0].count && launch->in[0].dtype == launch->out[0].dtype));
    launch->view_of = 0;
    return TC_OK;
}

/* --- one box ---------------------------------------------------------------------------------- */

static void contiguous(int rank, const int64_t *dims, int64_t *strides) {
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= dims[d];
    }
}

static void run_box(tk_queue *q, const rt_launch *launch) {
    launch->kernels->copy_strided(q, launch->out[0].data, launch->in[0].data, launch->params,
                                  tk_size(launch->out[0].dtype));
}

/* Whether the box, simplified, is one run of elements on both sides. */
static bool in_order(const tk_strided *box) {
    return box->rank == 1 && box->out_strides[0] == 1 && box->inp_strides[0] == 1;
}

static tc_status finish_box(rt_launch *launch, tk_strided *box) {
    tk_strided_simplify(box);
    if (in_order(box) && box->inp_offset == 0 && launch->in[0].count == launch->out[0].count)
        launch->view_of = 0;
    launch->params = box;
    launch->run = run_box;
    return TC_OK;
}

/* The input seen as `rank` dims, permuted: result dim d is input dim perm[d]. */
static tc_status prepare_permuted(rt_launcher *launcher, const tc_node *node, rt_launch *launch, int rank,
                                  const int64_t *dims, const int64_t *perm) {
    tk_strided *box = RT_PARAMS(launcher, tk_strided);
    int64_t strides[TK_MAX_RANK];
    bool seen[TK_MAX_RANK] = {false};
    contiguous(rank, dims, strides);
    box->rank = rank;
    for (int d = 0; d < rank; d++) {
        if (perm[d] < 0 || perm[d] >= rank || seen[perm[d]])
            return tc_error(launcher->ctx, TC_BAD_INPUT, node, "perm is not a permutation of the operand's dims");
        seen[perm[d]] = true;
        box->dims[d] = dims[perm[d]];
        box->inp_strides[d] = strides[perm[d]];
    }
    contiguous(rank, box->dims, box->out_strides);
    TC_TRY(rt_expect(launcher, node, launch->in[0].count == launch->out[0].count));
    return finish_box(launch, box);
}

tc_status rt_launch_transpose(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0];
    size_t n = 0;
    const int64_t *perm = tc_attr_ints(node, "perm", &n);
    int64_t reversed[TK_MAX_RANK];
    for (int d = 0; d < inp->rank; d++)
        reversed[d] = inp->rank - 1 - d;
    TC_TRY(rt_expect(launcher, node, !perm || n == (size_t)inp->rank));
    if (tc_attr_int(node, RT_LIES, 0) != 0) {
        launch->view_of = 0;
        return TC_OK;
    }
    return prepare_permuted(launcher, node, launch, inp->rank, inp->dims, perm ? perm : reversed);
}

tc_status rt_launch_depth_to_space(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0];
    int64_t b = tc_attr_int(node, "blocksize", 1);
    bool crd = strcmp(tc_attr_string(node, "mode", "DCR"), "CRD") == 0;
    TC_TRY(rt_expect(launcher, node, inp->rank == 4 && b > 0 && b < INT32_MAX && inp->dims[1] % (b * b) == 0));
    int64_t depth = inp->dims[1] / (b * b);
    int64_t dcr_dims[] = {inp->dims[0], b, b, depth, inp->dims[2], inp->dims[3]};
    int64_t crd_dims[] = {inp->dims[0], depth, b, b, inp->dims[2], inp->dims[3]};
    static const int64_t dcr_perm[] = {0, 3, 4, 1, 5, 2}, crd_perm[] = {0, 1, 4, 2, 5, 3};
    return prepare_permuted(launcher, node, launch, 6, crd ? crd_dims : dcr_dims, crd ? crd_perm : dcr_perm);
}

tc_status rt_launch_space_to_depth(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0];
    int64_t b = tc_attr_int(node, "blocksize", 1);
    TC_TRY(rt_expect(launcher, node, inp->rank == 4 && b > 0 && inp->dims[2] % b == 0 && inp->dims[3] % b == 0));
    int64_t dims[] = {inp->dims[0], inp->dims[1], inp->dims[2] / b, b, inp->dims[3] / b, b};
    static const int64_t perm[] = {0, 3, 5, 1, 2, 4};
    return prepare_permuted(launcher, node, launch, 6, dims, perm);
}

/* Where the target comes from a computation, the result's shape was found without its elements: they must agree. */
static void run_expand(tk_queue *q, const rt_launch *launch) {
    const rt_arg *out = &launch->out[0], *target = &launch->in[1];
    launch->kernels->check_sizes(q, target->data, target->count, out->dims + (out->rank - target->count));
    run_box(q, launch);
}

tc_status rt_launch_expand(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    tk_strided *box = RT_PARAMS(launcher, tk_strided);
    int64_t strides[TK_MAX_RANK];
    int lead = out->rank - inp->rank;
    contiguous(inp->rank, inp->dims, strides);
    TC_TRY(rt_expect(launcher, node, lead >= 0));
    box->rank = out->rank;
    contiguous(out->rank, out->dims, box->out_strides);
    for (int d = 0; d < out->rank; d++) {
        int64_t size = d < lead ? 1 : inp->dims[d - lead];
        TC_TRY(rt_expect(launcher, node, size == 1 || size == out->dims[d]));
        box->dims[d] = out->dims[d];
        box->inp_strides[d] = size == 1 ? 0 : strides[d - lead];
    }
    TC_TRY(rt_expect(launcher, node, launch->in[1].count <= out->rank));
    TC_TRY(finish_box(launch, box));
    const tc_value *target = tc_input(node, 1);
    bool known = tc_value_constant(target) || (target->contents && tc_contents_is_const(target->contents));
    if (!known) {
        launch->run = run_expand;
        launch->view_of = -1;
    }
    return TC_OK;
}

tc_status rt_launch_tile(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    tk_strided *box = RT_PARAMS(launcher, tk_strided);
    int64_t inp_strides[TK_MAX_RANK], out_strides[TK_MAX_RANK];
    TC_TRY(rt_expect(launcher, node, inp->rank == out->rank));
    contiguous(inp->rank, inp->dims, inp_strides);
    contiguous(out->rank, out->dims, out_strides);
    box->rank = 2 * out->rank;
    for (int d = 0; d < out->rank; d++) {
        int64_t size = inp->dims[d];
        TC_TRY(rt_expect(launcher, node, size == 0 ? out->dims[d] == 0 : out->dims[d] % size == 0));
        box->dims[2 * d] = size == 0 ? 0 : out->dims[d] / size;
        box->out_strides[2 * d] = size * out_strides[d];
        box->dims[2 * d + 1] = size;
        box->out_strides[2 * d + 1] = out_strides[d];
        box->inp_strides[2 * d + 1] = inp_strides[d];
    }
    return finish_box(launch, box);
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Copies a part, unless the plan has it where it belongs. */
static void copy_part(tk_queue *q, const rt_launch *launch, const rt_arg *out, const rt_arg *inp,
                      const tk_strided *box) {
    size_t size = tk_size(out->dtype);
    const unsigned char *from = inp->data, *to = out->data;
    bool is_there = from + (size_t)box->inp_offset * size == to + (size_t)box->out_offset * size;
    if (launch->parts == RT_NO_PARTS || !is_there)
        launch->kernels->copy_strided(q, out->data, inp->data, box, size);
}

/* Gives the plan the parts, if each is one run of elements. */
static void offer_parts(rt_launcher *launcher, rt_launch *launch, const tk_strided *boxes, rt_parts parts, uint32_t n) {
    size_t *at = TC_NEW_ARRAY(launcher->arena, size_t, (size_t)n + 1);
    bool made = parts == RT_RESULTS;
    for (uint32_t i = 0; i < n; i++) {
        if (!(made ? rt_out(launch, i) : rt_in(launch, i)))
            continue;
        if (!in_order(&boxes[i]))
            return;
        at[i] = (size_t)(made ? boxes[i].inp_offset : boxes[i].out_offset) * tk_size(launch->in[0].dtype);
    }
    launch->parts = parts;
    launch->part_at = at;
}

static void run_slice(tk_queue *q, const rt_launch *launch) {
    copy_part(q, launch, &launch->out[0], &launch->in[0], launch->params);
}

/* --- Slice ------------------------------------------------------------------------------------ */

static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* One axis of Slice: its first element, step and number of elements, as ONNX defines them. */
static void slice_axis(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first, int64_t *n) {
    start = start < 0 ? start + size : start;
    end = end < 0 ? (end < -size ? -1 : end + size) : end;
    start = step > 0 ? clamp(start, 0, size) : clamp(start, 0, size - 1);
    end = step > 0 ? clamp(end, 0, size) : clamp(end, -1, size - 1);
    int64_t span = step > 0 ? end - start : start - end;
    int64_t stride = step > 0 ? step : -step;
    *first = start;
    *n = span <= 0 || size == 0 ? 0 : (span - 1) / stride + 1;
}

tc_status rt_launch_slice(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    const int64_t *starts, *ends, *axes = NULL, *steps = NULL;
    int64_t n_starts, n_ends, n_axes = 0, n_steps = 0, inp_strides[TK_MAX_RANK];
    TC_TRY(rt_known_ints(launcher, node, 1, &starts, &n_starts));
    TC_TRY(rt_known_ints(launcher, node, 2, &ends, &n_ends));
    if (rt_in(launch, 3))
        TC_TRY(rt_known_ints(launcher, node, 3, &axes, &n_axes));
    if (rt_in(launch, 4))
        TC_TRY(rt_known_ints(launcher, node, 4, &steps, &n_steps));
    TC_TRY(rt_expect(launcher, node,
                     n_ends == n_starts && n_starts <= inp->rank && (!axes || n_axes == n_starts) &&
                         (!steps || n_steps == n_starts) && inp->rank == out->rank));
    tk_strided *box = RT_PARAMS(launcher, tk_strided);
    box->rank = inp->rank;
    contiguous(inp->rank, inp->dims, inp_strides);
    contiguous(out->rank, out->dims, box->out_strides);
    memcpy(box->dims, inp->dims, (size_t)inp->rank * sizeof *inp->dims);
    memcpy(box->inp_strides, inp_strides, (size_t)inp->rank * sizeof *inp_strides);
    for (int64_t i = 0; i < n_starts; i++) {
        int axis;
        int64_t first, n, step = steps ? steps[i] : 1;
        TC_TRY(rt_axis(launcher, node, axes ? axes[i] : i, inp->rank, false, &axis));
        if (step == 0)
            return tc_error(launcher->ctx, TC_BAD_INPUT, node, "a step of Slice is 0");
        step = step < -INT64_MAX ? -INT64_MAX : step; /* one element at most either way */
        slice_axis(inp->dims[axis], starts[i], ends[i], step, &first, &n);
        box->dims[axis] = n;
        box->inp_offset += first * inp_strides[axis];
        box->inp_strides[axis] = n > 1 ? step * inp_strides[axis] : inp_strides[axis];
    }
    for (int d = 0; d < out->rank; d++)
        TC_TRY(rt_expect(launcher, node, box->dims[d] == out->dims[d]));
    TC_TRY(finish_box(launch, box));
    offer_parts(launcher, launch, box, RT_RESULTS, 1);
    launch->run = run_slice;
    return TC_OK;
}

/* --- Concat and Split: a box per part --------------------------------------------------------- */

static void run_concat(tk_queue *q, const rt_launch *launch) {
    const tk_strided *boxes = launch->params;
    for (uint32_t i = 0; i < launch->n_in; i++)
        copy_part(q, launch, &launch->out[0], &launch->in[i], &boxes[i]);
}

static void run_split(tk_queue *q, const rt_launch *launch) {
    const tk_strided *boxes = launch->params;
    for (uint32_t i = 0; i < launch->n_out; i++)
        if (rt_out(launch, i))
            copy_part(q, launch, &launch->out[i], &launch->in[0], &boxes[i]);
}

/* The box of a part that begins at `at` of the whole along the axis. */
static tc_status part_box(rt_launcher *launcher, const tc_node *node, const rt_arg *whole, int rank,
                          const int64_t *part_dims, int axis, int64_t at, bool part_is_input, tk_strided *box) {
    TC_TRY(rt_expect(launcher, node, rank == whole->rank && at + part_dims[axis] <= whole->dims[axis]));
    for (int d = 0; d < rank; d++)
        TC_TRY(rt_expect(launcher, node, d == axis || part_dims[d] == whole->dims[d]));
    int64_t whole_strides[TK_MAX_RANK] = {0};
    contiguous(rank, whole->dims, whole_strides);
    box->rank = rank;
    memcpy(box->dims, part_dims, (size_t)rank * sizeof *part_dims);
    memcpy(part_is_input ? box->out_strides : box->inp_strides, whole_strides, (size_t)rank * sizeof *whole_strides);
    contiguous(rank, part_dims, part_is_input ? box->inp_strides : box->out_strides);
    *(part_is_input ? &box->out_offset : &box->inp_offset) = at * whole_strides[axis];
    tk_strided_simplify(box);
    return TC_OK;
}

tc_status rt_launch_concat(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *out = &launch->out[0];
    tk_strided *boxes = TC_NEW_ARRAY(launcher->arena, tk_strided, launch->n_in);
    int axis;
    int64_t at = 0;
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", 0), out->rank, false, &axis));
    for (uint32_t i = 0; i < launch->n_in; i++) {
        TC_TRY(rt_expect(launcher, node,
                         rt_in(launch, i) && launch->in[i].rank == out->rank && launch->in[i].dtype == out->dtype));
        TC_TRY(part_box(launcher, node, out, out->rank, launch->in[i].dims, axis, at, true, &boxes[i]));
        at += launch->in[i].dims[axis];
    }
    TC_TRY(rt_expect(launcher, node, at == out->dims[axis]));
    launch->params = boxes;
    launch->run = run_concat;
    offer_parts(launcher, launch, boxes, RT_OPERANDS, launch->n_in);
    if (launch->n_in == 1)
        launch->view_of = 0;
    return TC_OK;
}

/* Unused results are absent, but take their part: sizes come from `split`, from equal parts, or from the results. */
static tc_status split_sizes(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, int64_t size,
                             int64_t *sizes) {
    const int64_t *given = NULL;
    int64_t n_given = 0, parts = launch->n_out, chunk = (size + parts - 1) / parts, left = size;
    if (rt_in(launch, 1)) {
        TC_TRY(rt_known_ints(launcher, node, 1, &given, &n_given));
        TC_TRY(rt_expect(launcher, node, n_given >= parts));
    }
    for (int64_t i = 0; i < parts; i++) {
        sizes[i] = given ? given[i] : left < chunk ? left : chunk;
        TC_TRY(rt_expect(launcher, node, sizes[i] >= 0 && sizes[i] <= left));
        left -= sizes[i];
    }
    return TC_OK;
}

tc_status rt_launch_split(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0];
    tk_strided *boxes = TC_NEW_ARRAY(launcher->arena, tk_strided, launch->n_out);
    int64_t *sizes = TC_NEW_ARRAY(launcher->arena, int64_t, launch->n_out), at = 0;
    int axis;
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", 0), inp->rank, false, &axis));
    TC_TRY(split_sizes(launcher, node, launch, inp->dims[axis], sizes));
    for (uint32_t i = 0; i < launch->n_out; i++) {
        const rt_arg *out = rt_out(launch, i);
        if (out) {
            TC_TRY(rt_expect(launcher, node,
                             out->rank == inp->rank && out->dims[axis] == sizes[i] && out->dtype == inp->dtype));
            TC_TRY(part_box(launcher, node, inp, inp->rank, out->dims, axis, at, false, &boxes[i]));
        }
        at += sizes[i];
    }
    launch->params = boxes;
    launch->run = run_split;
    offer_parts(launcher, launch, boxes, RT_RESULTS, launch->n_out);
    return TC_OK;
}

/* --- Pad -------------------------------------------------------------------------------------- */

#define SMALL_MAPS (1 << 20) /* bytes */
#define FAR ((int64_t)1 << 62)

typedef struct pad_params {
    const int64_t *maps;
} pad_params;

static void run_pad(tk_queue *q, const rt_launch *launch) {
    const pad_params *p = launch->params;
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0], *value = rt_in(launch, 2);
    launch->kernels->pad(q, out->data, inp->data, rt_data(value), inp->rank, out->dims, inp->dims, p->maps,
                         tk_size(inp->dtype));
}

/* Where result position `at` (relative to the operand) comes from in each mode; -1: the constant. */
static int64_t pad_source(int64_t at, int64_t size, char mode) {
    if (at >= 0 && at < size)
        return at;
    if (mode == 'c' || size == 0)
        return -1;
    if (mode == 'e')
        return at < 0 ? 0 : size - 1;
    if (mode == 'w')
        return ((at % size) + size) % size;
    int64_t period = size > 1 ? 2 * (size - 1) : 1;
    at = ((at % period) + period) % period;
    return at < size ? at : period - at;
}

/* The maps are made before the plan, which checks memory for everything else. */
static tc_status check_maps(rt_launcher *launcher, const tc_node *node, const rt_arg *out) {
    uint64_t bytes = (uint64_t)out->count * tk_size(out->dtype);
    for (int d = 0; d < out->rank; d++)
        bytes += (uint64_t)out->dims[d] * sizeof(int64_t);
    if (bytes < SMALL_MAPS)
        return TC_OK;
    return rt_check_memory(launcher->ctx,
                           tc_arena_printf(launcher->arena, "Pad \"%s\"", tc_quote(launcher->ctx, tc_node_label(node))),
                           bytes);
}

tc_status rt_launch_pad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    const int64_t *pads, *axes = NULL;
    int64_t n_pads, n_axes = inp->rank, begins[TK_MAX_RANK] = {0};
    char mode = tc_attr_string(node, "mode", "constant")[0];
    TC_TRY(rt_known_ints(launcher, node, 1, &pads, &n_pads));
    if (rt_in(launch, 3))
        TC_TRY(rt_known_ints(launcher, node, 3, &axes, &n_axes));
    TC_TRY(rt_expect(launcher, node, n_pads == 2 * n_axes && n_axes <= inp->rank && inp->rank == out->rank));
    TC_TRY(rt_expect(launcher, node,
                     !rt_in(launch, 2) || (launch->in[2].count == 1 && launch->in[2].dtype == inp->dtype)));
    for (int64_t i = 0; i < n_axes; i++) {
        int axis;
        TC_TRY(rt_axis(launcher, node, axes ? axes[i] : i, inp->rank, false, &axis));
        begins[axis] = pads[i] < -FAR ? -FAR : pads[i]; /* as far outside, and nothing added to it overflows */
    }
    pad_params *p = RT_PARAMS(launcher, pad_params);
    TC_TRY(check_maps(launcher, node, out));
    int64_t n_map = 0, *map = NULL;
    for (int d = 0; d < out->rank; d++)
        n_map += out->dims[d];
    map = TC_NEW_ARRAY(launcher->arena, int64_t, (size_t)n_map + 1);
    rt_add_table(launcher, map, (size_t)n_map * sizeof *map, &p->maps);
    for (int d = 0; d < inp->rank; d++) { /* wrapping starts after cropping, as in PyTorch */
        int64_t end = out->dims[d] - inp->dims[d] - begins[d], cut = mode == 'w' && begins[d] < 0 ? -begins[d] : 0;
        int64_t size = inp->dims[d] - cut + (mode == 'w' && end < 0 ? end : 0);
        for (int64_t i = 0; i < out->dims[d]; i++) {
            int64_t source = pad_source(i - begins[d] - cut, size > 0 ? size : 0, mode);
            *map++ = source < 0 ? source : source + cut;
        }
    }
    if (inp->rank == 0)
        return rt_launch_view(launcher, node, launch);
    launch->params = p;
    launch->run = run_pad;
    return TC_OK;
}

/* --- the rest --------------------------------------------------------------------------------- */

static void run_trilu(tk_queue *q, const rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *k = rt_in(launch, 1);
    int64_t rows = inp->dims[inp->rank - 2], cols = inp->dims[inp->rank - 1];
    int64_t n = rows * cols > 0 ? inp->count / (rows * cols) : 0;
    bool upper = *(const bool *)launch->params;
    launch->kernels->trilu(q, launch->out[0].data, inp->data, n, rows, cols, rt_data(k), upper, tk_size(inp->dtype));
}

tc_status rt_launch_trilu(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *k = rt_in(launch, 1);
    TC_TRY(rt_expect(launcher, node, launch->in[0].rank >= 2 && launch->in[0].count == launch->out[0].count));
    TC_TRY(rt_expect(launcher, node, !k || (k->count == 1 && k->dtype == TK_I64)));
    bool *upper = RT_PARAMS(launcher, bool);
    *upper = tc_attr_int(node, "upper", 1) != 0;
    launch->params = upper;
    launch->run = run_trilu;
    launch->inplace[0] = rt_inplace(launch, 1);
    return TC_OK;
}

static void run_reverse(tk_queue *q, const rt_launch *launch) {
    launch->kernels->reverse_sequence(q, launch->out[0].data, launch->in[0].data, launch->in[1].data, launch->params,
                                      tk_size(launch->in[0].dtype));
}

tc_status rt_launch_reverse_sequence(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *lens = &launch->in[1];
    int time, batch;
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "time_axis", 0), inp->rank, false, &time));
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "batch_axis", 1), inp->rank, false, &batch));
    TC_TRY(rt_expect(launcher, node, time != batch && lens->dtype == TK_I64 && lens->count == inp->dims[batch]));
    tk_reverse_dims *p = RT_PARAMS(launcher, tk_reverse_dims);
    int first = time < batch ? time : batch, second = time < batch ? batch : time;
    *p = (tk_reverse_dims){rt_product(inp, 0, first),
                           inp->dims[first],
                           rt_product(inp, first + 1, second),
                           inp->dims[second],
                           rt_product(inp, second + 1, inp->rank),
                           time < batch};
    launch->params = p;
    launch->run = run_reverse;
    return TC_OK;
}

static void run_cast(tk_queue *q, const rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    launch->kernels->cast(q, out->data, inp->data, out->count, out->dtype, inp->dtype);
}

/* Cast and CastLike: the type to cast to is the result's. */
tc_status rt_launch_cast(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    TC_TRY(rt_expect(launcher, node, launch->in[0].count == launch->out[0].count));
    if (launch->in[0].dtype == launch->out[0].dtype)
        launch->view_of = 0;
    launch->run = run_cast;
    return TC_OK;
}
