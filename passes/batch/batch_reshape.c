/* batch_reshape.c: a Reshape whose target holds the batch of the file. Elements keep their order, so the batch stays
 * where it was: a fixed number of elements lies inside of it. The target's sizes show that place, whatever other
 * numbers may be equal to the batch. Only a batch of 1 can be in several places. */
#include "compiler/contents/contents.h"
#include "compiler/shape/shape.h"
#include "batch.h"
#include <string.h>

typedef struct shape {
    int rank;
    int64_t dims[TC_MAX_RANK];
} shape;

static bool sizes_of(const tc_type *type, const tc_batch *b, shape *out) {
    if (!type || type->kind != TC_TENSOR || type->rank < 0)
        return false;
    out->rank = type->rank;
    for (int i = 0; i < type->rank; i++) {
        tc_dim d = tc_batch_at(b, type->dims[i], b->was);
        if (!tc_dim_is_const(d) || d.value < 1)
            return false;
        out->dims[i] = d.value;
    }
    return true;
}

static int64_t elements_after(const shape *s, int axis) {
    int64_t n = 1; /* of a shape whose elements were counted: no overflow */
    for (int i = axis + 1; i < s->rank; i++)
        n *= s->dims[i];
    return n;
}

static bool holds(const tc_batch *b, const shape *s, int axis, int64_t stride) {
    int64_t behind = elements_after(s, axis);
    return behind <= stride && stride % behind == 0 && behind * s->dims[axis] % (stride * b->was) == 0;
}

/* Where the batch can be in a target: alone on an axis, or on one together with other dims. For a batch above 1
 * there is at most one place. */
typedef struct places {
    int n_alone, n_among, first_alone, first_among;
    bool at_same; /* alone on the axis of the operand's number */
} places;

static places find_places(const tc_batch *b, const shape *s, int64_t stride, int from) {
    places p = {0};
    for (int i = s->rank - 1; i >= 0; i--) {
        if (!holds(b, s, i, stride))
            continue;
        bool is_alone = s->dims[i] == b->was && elements_after(s, i) == stride;
        *(is_alone ? &p.first_alone : &p.first_among) = i;
        *(is_alone ? &p.n_alone : &p.n_among) += 1;
        p.at_same = p.at_same || (is_alone && i == from);
    }
    return p;
}

/* An axis of its own is preferred to a shared one. Of several axes of size 1, the batch is at its old position;
 * between several shared axes for a batch of 1 the choice is not known. -1: not known, or split. */
static int find(const places *p, int from) {
    if (p->n_alone > 1)
        return p->at_same ? from : -1;
    return p->n_alone == 1 ? p->first_alone : p->n_among == 1 ? p->first_among : -1;
}

/* With the target as it is, the batch is alone at that axis, and the sizes are those of the file. */
static bool follows(const tc_batch *b, const tc_value *y, const shape *s, int axis) {
    if (tc_value_rank(y) != s->rank)
        return false;
    for (int i = 0; i < s->rank; i++) {
        tc_dim d = y->type->dims[i], then = tc_batch_at(b, d, b->was);
        if (!tc_dim_is_const(then) || then.value != s->dims[i] || tc_batch_in(b, d) != (i == axis))
            return false;
    }
    return true;
}

static tc_status set_target(tc_batch *b, tc_node *node, const shape *s, int axis) {
    shape target = *s;
    target.dims[axis] = -1;
    const tc_tensor *sizes = tc_tensor_ints(b->model, target.dims, target.rank);
    tc_node_set_input(node, 1, tc_constant(node->graph, node->inputs[1].value->name, sizes));
    node->outputs[0]->type = NULL;
    b->n_changed++;
    return tc_batch_infer(b, node);
}

tc_status tc_batch_reshape(tc_batch *b, tc_node *node) {
    const tc_value *x = tc_input(node, 0);
    tc_value *y = node->outputs[0];
    int from = tc_batch_axis(b, x);
    shape before, after;
    if (from < 0)
        return TC_OK;
    const tc_type *old = tc_map_get(b->types, y->name);
    if (!sizes_of(x->type, b, &before) || !sizes_of(old ? old : y->type, b, &after))
        return tc_batch_refuse(b, node,
                               "its shape depends on other dimensions without a value, too; set "
                               "them by --dim");
    const int64_t *inner = tc_map_get(b->inner, x->name);
    int64_t stride = (inner ? *inner : 1) * elements_after(&before, from);
    places p = find_places(b, &after, stride, from);
    int to = find(&p, from);
    if (to < 0)
        return tc_batch_refuse(b, node, "%s the batch of '%s' (%s)",
                               p.n_alone + p.n_among > 0 ? "several of its sizes may hold" : "it splits",
                               tc_quote(b->env->ctx, x->name), tc_type_text(b->env->ctx->arena, x->type));
    int64_t *inside = TC_NEW(b->env->ctx->arena, int64_t);
    *inside = stride / elements_after(&after, to);
    if (*inside != 1)
        tc_map_set(b->inner, y->name, inside);
    if (follows(b, y, &after, to))
        return TC_OK;
    b->n_ambiguous += p.n_alone > 1;
    return set_target(b, node, &after, to);
}
