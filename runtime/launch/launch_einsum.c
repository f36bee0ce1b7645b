/* launch_einsum.c: Einsum nodes. The equation becomes indices with a stride in each operand. Two operands make a batch
 * of products where every index is of the batch (in both and the result), a row (left and result), a column (right and
 * result) or summed (in both). An operand whose rows and columns are no strided matrix is packed into the workspace
 * first, and a result in another order is unpacked from there. All other equations take the plain loop. */
#include "kernels/matmul/einsum.h"
#include "kernels/matmul/matmul.h"
#include "kernels/movement/movement.h"
#include "launch_util.h"
#include <ctype.h>
#include <string.h>

/* --- the equation ----------------------------------------------------------------------------- */

#define DOTS 256 /* labels from here on are dims of the ellipsis, aligned to its last */
#define MAX_LABELS (DOTS + TK_MAX_RANK)

typedef struct term {
    int n;
    int labels[TK_MAX_RANK];
} term;

typedef struct equation {
    term operands[TK_EINSUM_OPERANDS], out;
    int dots; /* dims of the longest ellipsis */
} equation;

static tc_status bad_equation(rt_launcher *launcher, const tc_node *node, const char *why) {
    return tc_error(launcher->ctx, TC_BAD_INPUT, node, "equation '%s': %s",
                    tc_quote(launcher->ctx, tc_attr_string(node, "equation", "")), why);
}

/* Labels of one term up to `end`; an ellipsis stands for `dots` dims. False: a character that no term has. */
static bool read_term(const char *from, const char *end, int dots, term *out) {
    out->n = 0;
    for (; from < end; from++) {
        int n = *from == '.' ? dots : 1;
        if (*from == ' ')
            continue;
        if (!isalpha((unsigned char)*from) && (end - from < 3 || strncmp(from, "...", 3) != 0))
            return false;
        if (out->n + n > TK_MAX_RANK)
            return false;
        for (int i = 0; i < n; i++)
            out->labels[out->n++] = *from == '.' ? MAX_LABELS - dots + i : (unsigned char)*from;
        from += *from == '.' ? 2 : 0;
    }
    return true;
}

static bool has_dots(const char *from, const char *end) {
    for (; from < end; from++)
        if (*from == '.')
            return true;
    return false;
}

/* Without "->" the result has the ellipsis, then the labels that occur once, in alphabetical order. */
static void implicit_out(equation *e, int n_operands) {
    int seen[MAX_LABELS] = {0};
    for (int k = 0; k < n_operands; k++)
        for (int i = 0; i < e->operands[k].n; i++)
            seen[e->operands[k].labels[i]]++;
    e->out.n = 0;
    for (int i = 0; i < e->dots; i++)
        e->out.labels[e->out.n++] = MAX_LABELS - e->dots + i;
    for (int label = 0; label < DOTS && e->out.n < TK_MAX_RANK; label++)
        if (seen[label] == 1)
            e->out.labels[e->out.n++] = label;
}

static tc_status parse(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, equation *e) {
    const char *at = tc_attr_string(node, "equation", ""), *arrow = strstr(at, "->");
    const char *stop = arrow ? arrow : at + strlen(at);
    e->dots = 0;
    for (uint32_t k = 0; k < launch->n_in; k++) {
        const char *comma = memchr(at, ',', (size_t)(stop - at)), *end = comma ? comma : stop;
        if (!comma != (k + 1 == launch->n_in) || !read_term(at, end, 0, &e->operands[k]))
            return bad_equation(launcher, node, "it does not have one term for each operand");
        int dots = launch->in[k].rank - e->operands[k].n;
        if (dots < 0 || (dots > 0 && !has_dots(at, end)) || !read_term(at, end, dots, &e->operands[k]))
            return bad_equation(launcher, node, "a term does not have its operand's rank");
        e->dots = dots > e->dots ? dots : e->dots;
        at = end + 1;
    }
    if (!arrow)
        implicit_out(e, (int)launch->n_in);
    else if (!read_term(arrow + 2, arrow + strlen(arrow), e->dots, &e->out))
        return bad_equation(launcher, node, "the result's term is not one");
    return TC_OK;
}

/* --- indices ---------------------------------------------------------------------------------- */

static tc_status to_indices(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, const equation *eq,
                            tk_einsum *e) {
    int index_of[MAX_LABELS];
    memset(index_of, -1, sizeof index_of);
    *e = (tk_einsum){.n_operands = (int)launch->n_in, .n_out = eq->out.n};
    for (int i = 0; i < eq->out.n; i++, e->n_indices++) {
        if (index_of[eq->out.labels[i]] >= 0)
            return bad_equation(launcher, node, "the result has a label twice");
        index_of[eq->out.labels[i]] = e->n_indices;
        e->dims[e->n_indices] = -1;
    }
    for (int k = 0; k < e->n_operands; k++) {
        int64_t stride = 1;
        for (int i = eq->operands[k].n - 1; i >= 0; i--) {
            int *index = &index_of[eq->operands[k].labels[i]];
            int64_t dim = launch->in[k].dims[i];
            if (*index < 0) {
                if (e->n_indices == TK_MAX_RANK)
                    return bad_equation(launcher, node, "it has too many labels");
                *index = e->n_indices++;
                e->dims[*index] = -1;
            }
            int64_t *known = &e->dims[*index];
            if (*known >= 0 && *known != dim && dim != 1 && *known != 1)
                return bad_equation(launcher, node, "a label stands for dims that differ");
            *known = *known < 0 || *known == 1 ? dim : *known;
            e->strides[k][*index] += dim == 1 ? 0 : stride;
            stride *= dim;
        }
    }
    for (int i = 0; i < e->n_out; i++)
        if (e->dims[i] != launch->out[0].dims[i])
            return bad_equation(launcher, node, "the result's shape does not follow");
    return TC_OK;
}

/* --- as products ------------------------------------------------------------------------------ */

typedef struct group {
    int n;
    int indices[TK_MAX_RANK];
    int64_t size;
} group;
enum { BATCH, ROW, COLUMN, SUMMED };

typedef struct einsum_params {
    tk_einsum loop;
    bool is_product;
    tk_product product;
    tk_strided pack[2], unpack; /* rank 0: not needed */
    size_t at[4];               /* in the workspace: packed operands, packed result, the product's own workspace */
} einsum_params;

/* Every index of more than one element into one of the four groups; false where one fits none. */
static bool classify(const tk_einsum *e, group *groups) {
    for (int i = 0; i < e->n_indices; i++) {
        bool left = e->strides[0][i] != 0, right = e->strides[1][i] != 0, out = i < e->n_out;
        int kind = left && right ? (out ? BATCH : SUMMED) : left && out ? ROW : right && out ? COLUMN : -1;
        if (e->dims[i] == 1)
            continue;
        if (kind < 0)
            return false;
        groups[kind].indices[groups[kind].n++] = i;
        groups[kind].size *= e->dims[i];
    }
    return true;
}

/* A group as one dim of operand k, if it can be: its stride. */
static bool merged(const tk_einsum *e, int k, const group *g, int64_t *out_stride) {
    *out_stride = g->n > 0 ? e->strides[k][g->indices[g->n - 1]] : 1;
    for (int i = 0; i + 1 < g->n; i++)
        if (e->strides[k][g->indices[i]] != e->strides[k][g->indices[i + 1]] * e->dims[g->indices[i + 1]])
            return false;
    return true;
}

/* Operand k as it lies, [rows, columns] or transposed, where one of the groups is contiguous. */
static bool as_it_lies(const tk_einsum *e, int k, const group *rows, const group *columns, int64_t *out_ld,
                       bool *out_trans) {
    int64_t row = 0, column = 0;
    if (!merged(e, k, rows, &row) || !merged(e, k, columns, &column))
        return false;
    row = rows->size == 1 ? columns->size : row;
    if (column == 1 && row >= columns->size) {
        *out_ld = row;
        *out_trans = false;
        return true;
    }
    column = columns->size == 1 ? rows->size : column;
    *out_ld = column;
    *out_trans = true;
    return row == 1 && column >= rows->size;
}

static void add_group(tk_strided *box, const tk_einsum *e, const group *g, const int64_t *strides) {
    for (int i = 0; i < g->n; i++) {
        box->dims[box->rank] = e->dims[g->indices[i]];
        box->inp_strides[box->rank++] = strides[g->indices[i]];
    }
}

/* Dense strides over the box's dims, in order. */
static void dense(const tk_strided *box, int64_t *strides) {
    int64_t stride = 1;
    for (int d = box->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= box->dims[d];
    }
}

/* Where each product's operand k begins; packs the operand if it must be. */
static void place_operand(rt_launcher *launcher, einsum_params *p, int k, const group *groups, bool lies,
                          tk_places *places) {
    const tk_einsum *e = &p->loop;
    const group *rows = &groups[k == 0 ? ROW : SUMMED], *columns = &groups[k == 0 ? SUMMED : COLUMN],
                *batch = &groups[BATCH];
    int64_t *at = TC_NEW_ARRAY(launcher->arena, int64_t, (size_t)batch->size + 1);
    for (int64_t b = 0; b < batch->size; b++) {
        at[b] = lies ? 0 : b * rows->size * columns->size;
        for (int64_t i = batch->n - 1, rest = b; lies && i >= 0; rest /= e->dims[batch->indices[i]], i--)
            at[b] += rest % e->dims[batch->indices[i]] * e->strides[k][batch->indices[i]];
    }
    if (!lies) {
        tk_strided *box = &p->pack[k];
        add_group(box, e, batch, e->strides[k]);
        add_group(box, e, rows, e->strides[k]);
        add_group(box, e, columns, e->strides[k]);
        dense(box, box->out_strides);
        tk_strided_simplify(box);
    }
    rt_places(launcher, at, batch->size, places);
}

/* The products give [batch, row, column]; the result may want another order. */
static void place_result(einsum_params *p, const group *groups) {
    tk_strided *box = &p->unpack;
    int64_t strides[TK_MAX_RANK], stride = 1, last = -1;
    bool in_order = true;
    for (int i = p->loop.n_out - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= p->loop.dims[i];
    }
    for (int kind = BATCH; kind <= COLUMN; kind++)
        for (int i = 0; i < groups[kind].n; i++) {
            in_order = in_order && groups[kind].indices[i] > last;
            last = groups[kind].indices[i];
        }
    if (in_order)
        return;
    for (int kind = BATCH; kind <= COLUMN; kind++)
        add_group(box, &p->loop, &groups[kind], strides);
    memcpy(box->out_strides, box->inp_strides, sizeof box->out_strides);
    dense(box, box->inp_strides);
    tk_strided_simplify(box);
}

static void prepare_product(rt_launcher *launcher, einsum_params *p, rt_launch *launch, const group *groups) {
    tk_product *t = &p->product;
    *t = (tk_product){.batch = groups[BATCH].size,
                      .m = groups[ROW].size,
                      .n = groups[COLUMN].size,
                      .k = groups[SUMMED].size,
                      .alpha = 1};
    bool left = as_it_lies(&p->loop, 0, &groups[ROW], &groups[SUMMED], &t->lda, &t->trans_a);
    bool right = as_it_lies(&p->loop, 1, &groups[SUMMED], &groups[COLUMN], &t->ldb, &t->trans_b);
    if (!left)
        t->lda = t->k, t->trans_a = false;
    if (!right)
        t->ldb = t->n, t->trans_b = false;
    place_operand(launcher, p, 0, groups, left, &t->a_at);
    place_operand(launcher, p, 1, groups, right, &t->b_at);
    place_result(p, groups);
    size_t element = tk_size(launch->out[0].dtype), sizes[4] = {0};
    sizes[0] = left ? 0 : (size_t)(t->batch * t->m * t->k) * element;
    sizes[1] = right ? 0 : (size_t)(t->batch * t->k * t->n) * element;
    sizes[2] = p->unpack.rank == 0 ? 0 : (size_t)(t->batch * t->m * t->n) * element;
    sizes[3] = launcher->kernels->product_workspace(t, launch->out[0].dtype, launcher->slots);
    for (int i = 0; i < 4; i++) {
        p->at[i] = launch->workspace_bytes;
        launch->workspace_bytes += (sizes[i] + 63) / 64 * 64;
    }
}

/* --- running ---------------------------------------------------------------------------------- */

static void run_einsum(tk_queue *q, const rt_launch *launch) {
    const einsum_params *p = launch->params;
    const rt_arg *out = &launch->out[0];
    const void *operands[TK_EINSUM_OPERANDS];
    char *workspace = launch->workspace;
    for (uint32_t k = 0; k < launch->n_in; k++)
        operands[k] = launch->in[k].data;
    if (!p->is_product) {
        launch->kernels->einsum_loop(q, out->data, operands, &p->loop, out->dtype);
        return;
    }
    for (int k = 0; k < 2; k++)
        if (p->pack[k].rank > 0) {
            launch->kernels->copy_strided(q, workspace + p->at[k], operands[k], &p->pack[k], tk_size(out->dtype));
            operands[k] = workspace + p->at[k];
        }
    void *result = p->unpack.rank > 0 ? workspace + p->at[2] : out->data;
    void *room = workspace ? workspace + p->at[3] : NULL;
    launch->kernels->product_run(q, result, operands[0], operands[1], &p->product, out->dtype, room);
    if (p->unpack.rank > 0)
        launch->kernels->copy_strided(q, out->data, result, &p->unpack, tk_size(out->dtype));
}

tc_status rt_launch_einsum(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    einsum_params *p = RT_PARAMS(launcher, einsum_params);
    equation eq;
    group groups[4] = {{.size = 1}, {.size = 1}, {.size = 1}, {.size = 1}};
    if (launch->n_in > TK_EINSUM_OPERANDS)
        return tc_error(launcher->ctx, TC_UNSUPPORTED, node, "there is no kernel for %u operands", launch->n_in);
    for (uint32_t k = 0; k < launch->n_in; k++)
        if (launch->in[k].dtype != launch->in[0].dtype || !tk_einsum_has(launch->in[k].dtype))
            return rt_no_kernel(launcher, node, launch);
    TC_TRY(parse(launcher, node, launch, &eq));
    TC_TRY(to_indices(launcher, node, launch, &eq, &p->loop));
    p->is_product =
        launch->n_in == 2 && launch->out[0].count > 0 && classify(&p->loop, groups) && groups[SUMMED].size > 0;
    if (p->is_product)
        prepare_product(launcher, p, launch, groups);
    launch->params = p;
    launch->run = run_einsum;
    return TC_OK;
}
