/* bags_build.c: bags of rows without a loop. If all bags have one size, a reduction along an axis. Otherwise each
 * row finds its bag by a cumulative count of the positions where bags begin, and is added to it, so that gradients
 * are rows looked up. */
#include "bags.h"
#include <math.h>

/* The size of each bag as int64[1], if all bags have the same size and fill the rows exactly; NULL: not known. The
 * table is a list of numbers, or Range(0, limit, size) followed by the number of rows. */
static tc_value *one_size(tc_build *g, const tc_bags *bags) {
    const tc_contents *known = tc_value_contents(g->model, bags->table);
    tc_dim rows = bags->rows->type->dims[0];
    if (known && tc_contents_is_const(known) && known->count > 1 && tc_dim_is_const(rows)) {
        int64_t size = known->items[1].i.value;
        for (uint64_t i = 0; i < known->count; i++)
            if (known->items[i].i.value != (int64_t)i * size)
                return NULL;
        bool fills = size > 0 && rows.value == (int64_t)(known->count - 1) * size;
        return fills ? tc_build_int(g, size) : NULL;
    }
    const tc_node *concat = bags->table->producer;
    if (!concat || !tc_node_is(concat, "", "Concat") || concat->n_inputs != 2)
        return NULL;
    const tc_node *range = tc_input(concat, 0)->producer;
    if (!range || !tc_node_is(range, "", "Range"))
        return NULL;
    const tc_contents *start = tc_value_contents(g->model, tc_input(range, 0)),
                      *limit = tc_value_contents(g->model, tc_input(range, 1)),
                      *step = tc_value_contents(g->model, tc_input(range, 2)),
                      *last = tc_value_contents(g->model, tc_input(concat, 1));
    if (!start || !limit || !step || !last || last->count != 1 || !tc_dim_is_const(start->items[0].i) ||
        start->items[0].i.value != 0 || !tc_dim_equal(limit->items[0].i, rows) || !tc_dim_equal(last->items[0].i, rows))
        return NULL;
    tc_dim size = step->items[0].i, n = tc_dim_div(g->model->dims, rows, size);
    if (!tc_dim_equal(tc_dim_mul(g->model->dims, n, size), rows))
        return NULL;
    return tc_build_reshape(g, tc_build_cast(g, tc_input(range, 2), TC_INT64), tc_build_int(g, 1));
}

static const char *const reductions[] = {
    [TC_BAG_SUM] = "ReduceSum", [TC_BAG_MEAN] = "ReduceMean", [TC_BAG_MAX] = "ReduceMax"};

static tc_value *equal_bags(tc_build *g, const tc_bags *bags, tc_value *size) {
    int rank = tc_value_rank(bags->rows);
    tc_value *parts[] = {tc_build_int(g, -1), size, tc_build_dims(g, bags->rows, 1, rank)};
    tc_value *shape = tc_build_concat(g, rank > 1 ? 3 : 2, parts, 0);
    tc_value *apart = TC_OP(g, "Reshape", bags->rows, shape);
    return tc_build_reduce(g, reductions[bags->kind], apart, (int64_t[]){1}, 1, false);
}

/* --- bags of any sizes ------------------------------------------------------------------------ */

typedef struct uneven {
    tc_build *g;
    const tc_bags *bags;
    tc_value *count;  /* int64[1] */
    tc_value *begins; /* int64[bags], and one more: the end of the last one */
    tc_value *places; /* int64[rows,1]: the bag of each row; the number of bags for a row of none */
    tc_value *sums;   /* int64[rank]: shape of the results with one more, for rows of no bag */
} uneven;

static tc_value *slice(tc_build *g, tc_value *x, tc_value *from, tc_value *to) {
    return TC_OP(g, "Slice", x, from, to, tc_build_int(g, 0));
}

static tc_value *scatter(uneven *u, tc_value *into, tc_value *updates, const char *reduction) {
    tc_node *node = TC_BEGIN(u->g, "ScatterND", into, u->places, updates);
    tc_attr_set_string(node, "reduction", reduction);
    return tc_build_finish(u->g, node);
}

static tc_value *filled(tc_build *g, tc_value *shape, tc_dtype dtype, double number) {
    tc_node *node = TC_BEGIN(g, "ConstantOfShape", shape);
    tc_tensor *tensor =
        tc_tensor_create(g->model, dtype, 1, (int64_t[]){1}, tc_tensor_scalar(g->model, dtype, number)->data);
    tc_attr_set_tensor(node, "value", tensor);
    return tc_build_finish(g, node);
}

/* The bag of a row is the number of bags that begin at or before it, minus one. */
static void find_places(uneven *u) {
    tc_build *g = u->g;
    tc_value *rows = tc_build_dims(g, u->bags->rows, 0, 1);
    tc_value *more = TC_OP(g, "Add", rows, tc_build_int(g, 1));
    tc_value *zeros = tc_build_zeros(g, more, TC_INT64);
    tc_node *marks =
        TC_BEGIN(g, "ScatterElements", zeros, u->begins, filled(g, TC_OP(g, "Shape", u->begins), TC_INT64, 1));
    tc_attr_set_string(marks, "reduction", "add");
    tc_value *begun = TC_OP(g, "CumSum", tc_build_finish(g, marks), tc_build_scalar(g, TC_INT64, 0));
    tc_value *bag = TC_OP(g, "Sub", slice(g, begun, tc_build_int(g, 0), rows), tc_build_int(g, 1));
    u->places = tc_build_unsqueeze(g, bag, (int64_t[]){1}, 1);
}

/* The rows that are the largest of their bag, with each element divided by the number of equal ones. Their sum is
 * the maximum, and equal rows share the gradient; in a bag of embeddings they are the same row of the table. */
static tc_value *largest(uneven *u) {
    tc_build *g = u->g;
    tc_value *rows = u->bags->rows;
    tc_dtype dtype = tc_value_dtype(rows);
    tc_value *most = scatter(u, filled(g, u->sums, dtype, -INFINITY), rows, "max");
    tc_value *is_most = tc_build_cast(g, TC_OP(g, "Equal", rows, TC_OP(g, "GatherND", most, u->places)), dtype);
    tc_value *equals = scatter(u, tc_build_zeros(g, u->sums, dtype), is_most, "add");
    tc_value *share = TC_OP(g, "Div", is_most, TC_OP(g, "GatherND", equals, u->places));
    return TC_OP(g, "Mul", rows, share);
}

static tc_value *uneven_bags(tc_build *g, const tc_bags *bags) {
    uneven u = {.g = g, .bags = bags};
    tc_dtype dtype = tc_value_dtype(bags->rows);
    int rank = tc_value_rank(bags->rows);
    u.count = tc_build_reshape(g, bags->count, tc_build_int(g, 1));
    tc_value *more = TC_OP(g, "Add", u.count, tc_build_int(g, 1)), *zero = tc_build_int(g, 0);
    u.begins = slice(g, bags->table, zero, more);
    find_places(&u);
    tc_value *parts[] = {more, tc_build_dims(g, bags->rows, 1, rank)};
    u.sums = tc_build_concat(g, rank > 1 ? 2 : 1, parts, 0);
    tc_value *rows = bags->kind == TC_BAG_MAX ? largest(&u) : bags->rows;
    tc_value *sum = slice(g, scatter(&u, tc_build_zeros(g, u.sums, dtype), rows, "add"), zero, u.count);
    if (bags->kind != TC_BAG_MEAN)
        return sum;
    tc_value *sizes = TC_OP(g, "Sub", slice(g, u.begins, tc_build_int(g, 1), more), slice(g, u.begins, zero, u.count));
    int64_t axes[TC_MAX_RANK];
    for (int i = 1; i < rank; i++)
        axes[i - 1] = i;
    sizes = TC_OP(g, "Max", sizes, tc_build_scalar(g, TC_INT64, 1));
    return TC_OP(g, "Div", sum, tc_build_unsqueeze(g, tc_build_cast(g, sizes, dtype), axes, (size_t)(rank - 1)));
}

tc_value *tc_build_bags(tc_insert *insert, const tc_bags *bags) {
    tc_value *size = one_size(&insert->g, bags);
    return size ? equal_bags(&insert->g, bags, size) : uneven_bags(&insert->g, bags);
}
