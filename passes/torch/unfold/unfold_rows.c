/* unfold_rows.c: rows that the exporter looked up in a table (positions, token types, relative positions). If the
 * file has each row of a table once, and no other copy of it, it is trained as it is. If rows occur several times,
 * training would change the copies independently, so they become a table of the distinct rows, which nodes look up
 * again. The positions of those rows in PyTorch's table are not known. */
#include "passes/weights/weights.h"
#include "unfold.h"
#include "table_rows.h"
#include <string.h>

static size_t row_elements(const tc_standin *s) { return (size_t)s->value->init->dims[s->axis]; }

static size_t row_count(const tc_standin *s) { return s->value->init->count / row_elements(s); }

static const void *row_at(const tc_standin *s, size_t i) {
    return (const char *)s->rows + i * row_elements(s) * tc_unfold_element_bytes(s);
}

/* The elements with the axis last. */
static const void *rows_along(const tc_unfold *u, const tc_standin *s, int axis) {
    const tc_tensor *tensor = s->value->init;
    size_t bytes = tc_unfold_element_bytes(s), n = (size_t)tensor->dims[axis], inner = 1, at = 0;
    for (int i = axis + 1; i < tensor->rank; i++)
        inner *= (size_t)tensor->dims[i];
    if (!s->data || inner == 1)
        return s->data;
    char *moved = TC_NEW_ARRAY(u->scratch, char, tensor->bytes);
    for (size_t outer = 0; outer < tensor->count / (n * inner); outer++)
        for (size_t k = 0; k < inner; k++)
            for (size_t i = 0; i < n; i++)
                memcpy(moved + at++ * bytes, (const char *)s->data + ((outer * n + i) * inner + k) * bytes, bytes);
    return moved;
}

/* The number of elements in the rows along the axis, with each row counted once. */
static uint64_t distinct_elements(const tc_unfold *u, const tc_standin *s, int axis, size_t row) {
    const char *rows = rows_along(u, s, axis);
    tc_table_rows *table = tc_table_rows_create(u->scratch, s->value->init->dtype, row);
    for (uint64_t i = 0; i < s->value->init->count / row; i++)
        tc_table_rows_add(table, rows + i * row * tc_unfold_element_bytes(s));
    return tc_table_rows_count(table) * row;
}

/* The axis along which the tensor has the fewest distinct rows, because the rows of a table are looked up often; the
 * last one if no row occurs twice. If elements occur far more often than any rows, they were looked up one by one;
 * then equal elements cannot be distinguished, and there are no rows. */
void tc_unfold_find_axis(const tc_unfold *u, tc_standin *s) {
    const tc_tensor *tensor = s->value->init;
    uint64_t best = tensor->count;
    s->axis = tensor->rank - 1;
    for (int axis = tensor->rank - 1; axis >= 0 && s->data && s->fold.moved; axis--) {
        size_t row = (size_t)tensor->dims[axis];
        uint64_t elements = row > 1 ? distinct_elements(u, s, axis, row) : best;
        if (elements < best)
            best = elements, s->axis = axis;
    }
    if (s->data && s->fold.moved && 2 * distinct_elements(u, s, s->axis, 1) < best)
        s->fold.known = false;
    s->rows = rows_along(u, s, s->axis);
}

/* Gather (table, numbers of the rows), with the rows' axis at its place. */
static tc_value *gather_rows(const tc_unfold *u, const tc_standin *s, tc_value *parameter, const tc_table_rows *table) {
    tc_model *model = u->graph->model;
    const tc_tensor *tensor = s->value->init;
    int rank = tensor->rank, at = 0;
    int64_t dims[TC_MAX_RANK], perm[TC_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        perm[i] = i < s->axis ? i : i == s->axis ? rank - 1 : i - 1;
        if (i != s->axis)
            dims[at++] = tensor->dims[i];
    }
    tc_tensor *numbers = tc_tensor_create(model, TC_INT64, at, dims, NULL);
    for (size_t i = 0; i < row_count(s); i++)
        tc_element_set(TC_INT64, (void *)(uintptr_t)numbers->data, i, (double)tc_table_rows_find(table, row_at(s, i)));
    dims[at] = (int64_t)row_elements(s);
    tc_value *rows = tc_constant(u->graph, tc_arena_printf(u->scratch, "%s_rows", s->value->name), numbers);
    tc_value *now =
        tc_unfold_add_node(u, "Gather", parameter, rows, tc_type_tensor_static(model, tensor->dtype, rank, dims));
    if (s->axis == rank - 1)
        return now;
    now = tc_unfold_add_node(u, "Transpose", now, NULL, s->value->type);
    tc_attr_set_ints(now->producer, "perm", perm, (size_t)rank);
    return now;
}

static tc_tensor *tensor_of(const tc_unfold *u, const tc_standin *s, const tc_table_rows *table) {
    size_t n = tc_table_rows_count(table), bytes = row_elements(s) * tc_unfold_element_bytes(s);
    tc_tensor *tensor = tc_tensor_create(u->graph->model, s->value->init->dtype, 2,
                                         (int64_t[]){(int64_t)n, (int64_t)row_elements(s)}, NULL);
    for (size_t i = 0; i < n; i++)
        memcpy((char *)(uintptr_t)tensor->data + i * bytes, tc_table_rows_at(table, i), bytes);
    return tensor;
}

/* All initializers that hold rows of one table. */
typedef struct readers {
    const tc_standin **members;
    size_t n, cap;
    tc_value *parameter; /* the table, if it is there */
} readers;

static const tc_standin *first_reader(const tc_standin *s) {
    const tc_standin *first = s->first;
    while (!first->fold.rows)
        first = first->next;
    return first;
}

static readers readers_of(const tc_unfold *u, const tc_standin *first) {
    readers r = {.parameter = tc_unfold_parameter_of(u, first->target)};
    for (const tc_standin *s = first; s; s = s->next) {
        if (!s->fold.rows)
            continue;
        r.members = tc_arena_grow(u->scratch, r.members, sizeof *r.members, &r.cap, r.n + 1);
        r.members[r.n++] = s;
    }
    return r;
}

/* The table's rows: those of the parameter, if it is in the file, else each distinct row of its readers. NULL and a
 * reason if rows cannot be distinguished. */
static tc_table_rows *rows_of(const tc_unfold *u, const readers *r, const char **out_why) {
    const tc_standin *s = r->members[0];
    tc_table_rows *table = tc_table_rows_create(u->scratch, s->value->init->dtype, row_elements(s));
    const tc_tensor *there = r->parameter ? r->parameter->init : NULL;
    const char *data = there ? tc_tensor_peek(u->graph->model, there) : NULL;
    size_t bytes = row_elements(s) * tc_unfold_element_bytes(s);
    *out_why = "the file has the parameter, too, with other rows";
    if (there && (there->rank != 2 || there->dtype != s->value->init->dtype ||
                  (uint64_t)there->dims[1] != (uint64_t)row_elements(s)))
        return NULL;
    *out_why = "it has rows that the table lacks";
    for (size_t i = 0; data && i < there->bytes / bytes; i++)
        if (tc_table_rows_add(table, data + i * bytes) != i)
            return *out_why = "the table has equal rows", NULL;
    for (size_t k = 0; k < r->n; k++) {
        s = r->members[k];
        if (!s->rows || s->value->init->dtype != r->members[0]->value->init->dtype ||
            row_elements(s) * tc_unfold_element_bytes(s) != bytes)
            return *out_why = "its rows cannot be compared", NULL;
        for (size_t i = 0; i < row_count(s); i++) {
            const void *row = row_at(s, i);
            bool known = tc_table_rows_find(table, row) != SIZE_MAX;
            if (known && !r->parameter && tc_table_row_is_uniform(table, row))
                return *out_why = "it has equal rows that cannot be distinguished", NULL;
            if (!known && r->parameter)
                return NULL;
            tc_table_rows_add(table, row);
        }
    }
    return table;
}

static void tell_part(tc_unfold *u, const tc_standin *s, const char *name, size_t n) {
    tc_unfold_tell(u, &u->parts,
                   tc_arena_printf(u->scratch, "%s (%zu %s, as %s)", tc_quote(u->env->ctx, s->target), n,
                                   n == 1 ? "row" : "rows", tc_quote(u->env->ctx, name)));
}

/* The initializer keeps its name and holds each row once; its readers read the gathered rows. */
static tc_value *shrink_to_table(tc_unfold *u, const tc_standin *s, const tc_table_rows *table) {
    tc_value *value = s->value, *rows = gather_rows(u, s, value, table);
    tc_tensor *tensor = tensor_of(u, s, table);
    tc_node *gather = tc_unfold_insert_first(u, rows);
    tc_value_replace(value, rows);
    tc_node_set_input(gather, 0, value);
    tensor->name = value->name;
    value->init = tensor;
    value->type = tc_type_tensor_static(u->graph->model, tensor->dtype, tensor->rank, tensor->dims);
    tc_record_initializer(u->env, value->name, tensor);
    tc_torch_set_name(u->env, value->name, s->target, TC_TORCH_ROWS);
    tell_part(u, s, value->name, tc_table_rows_count(table));
    return value;
}

/* Each row once, of a table that is not in the file otherwise: these rows are trained. */
static void keep_part(tc_unfold *u, const tc_standin *s, size_t rows) {
    tc_torch_set_name(u->env, s->value->name, s->target, TC_TORCH_ROWS);
    tell_part(u, s, s->value->name, rows);
}

void tc_unfold_rows(tc_unfold *u, const tc_standin *s) {
    const char *why;
    if (s != first_reader(s))
        return;
    readers r = readers_of(u, s);
    if (r.n == 1 && !s->data && !r.parameter && s->value->init->rank > 1)
        return keep_part(u, s, row_count(s));
    tc_table_rows *table = rows_of(u, &r, &why);
    if (!table)
        return tc_unfold_refuse(u, s, why);
    if (r.n == 1 && !r.parameter && tc_table_rows_count(table) == row_count(s))
        return keep_part(u, s, row_count(s));
    tc_value *parameter = r.parameter;
    if (parameter)
        tc_unfold_tell(u, &u->undone,
                       tc_arena_printf(u->scratch, "%s (rows of it are %s in the file)",
                                       tc_quote(u->env->ctx, s->target), tc_quote(u->env->ctx, s->value->name)));
    else
        parameter = shrink_to_table(u, s, table);
    for (size_t k = r.parameter ? 0 : 1; k < r.n; k++)
        tc_unfold_put_in_place(u, r.members[k], gather_rows(u, r.members[k], parameter, table));
}
