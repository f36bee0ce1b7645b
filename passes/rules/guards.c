/* guards.c: conditions that a pattern cannot express, by their names in `where`. A guard looks only at the values
 * that a match has bound. A guard of an unbound optional name holds (`absent_ok` says otherwise). */
#include "compiler/memory/memory.h"
#include "compiler/shape/shape.h"
#include "side_channels.h"
#include "rule_ir.h"
#include <math.h>
#include <string.h>

enum { MOST_BYTES = 4096, MOST_FLAG_BYTES = 1 << 26 }; /* of constants that are looked at; masks are larger */

static double number_arg(const guard_call *call, uint16_t index) { return call->guard->args[index].number; }
static const char *word_arg(const guard_call *call, uint16_t index) { return call->guard->args[index].string; }

/* --- types ------------------------------------------------------------------------------------ */

static bool is_float(const guard_call *call) { return tc_dtype_is_float(tc_value_dtype(guard_value(call, 0))); }

static bool is_integer(const guard_call *call) {
    tc_dtype dtype = tc_value_dtype(guard_value(call, 0));
    return tc_dtype_bits(dtype) != 0 && !tc_dtype_is_float(dtype) && dtype != TC_BOOL && dtype != TC_COMPLEX64 &&
           dtype != TC_COMPLEX128;
}

static bool is_bool(const guard_call *call) { return tc_value_dtype(guard_value(call, 0)) == TC_BOOL; }

static bool same_dtype(const guard_call *call) {
    tc_dtype dtype = tc_value_dtype(guard_value(call, 0));
    return dtype != TC_UNDEFINED && dtype == tc_value_dtype(guard_value(call, 1));
}

static bool has_rank(const guard_call *call) { return tc_value_rank(guard_value(call, 0)) == (int)number_arg(call, 1); }

static bool has_rank_at_least(const guard_call *call) {
    return tc_value_rank(guard_value(call, 0)) >= (int)number_arg(call, 1);
}

static bool same_shape(const guard_call *call) {
    const tc_value *a = guard_value(call, 0), *b = guard_value(call, 1);
    return a == b || tc_same_shape(a, b);
}

/* Whether n dims of both, from one on of each, are there and equal. */
static bool equal_dims(const tc_value *a, int from_a, const tc_value *b, int from_b, int n) {
    bool inside = from_a >= 0 && from_b >= 0 && from_a + n <= tc_value_rank(a) && from_b + n <= tc_value_rank(b);
    bool equal = n == 0 || inside;
    for (int i = 0; i < n && equal; i++)
        equal = tc_dim_equal(a->type->dims[from_a + i], b->type->dims[from_b + i]);
    return equal;
}

static bool same_head(const guard_call *call) {
    return equal_dims(guard_value(call, 0), 0, guard_value(call, 1), 0, (int)number_arg(call, 2));
}

static bool same_tail(const guard_call *call) {
    const tc_value *a = guard_value(call, 0), *b = guard_value(call, 1);
    int n = (int)number_arg(call, 2);
    return equal_dims(a, tc_value_rank(a) - n, b, tc_value_rank(b) - n, n);
}

static bool same_lead(const guard_call *call) {
    const tc_value *a = guard_value(call, 0), *b = guard_value(call, 1);
    int rank = tc_value_rank(a);
    return rank >= 2 && rank == tc_value_rank(b) && equal_dims(a, 0, b, 0, rank - 2);
}

static bool is_static_tail(const guard_call *call) {
    const tc_value *v = guard_value(call, 0);
    int rank = tc_value_rank(v), n = (int)number_arg(call, 1);
    for (int i = 1; i <= n; i++)
        if (rank < n || !tc_dim_is_const(v->type->dims[rank - i]) || v->type->dims[rank - i].value <= 0)
            return false;
    return true;
}

/* Whether broadcasting `a` against `b` leaves b's shape as it is. */
static bool broadcasts(const guard_call *call) {
    const tc_value *a = guard_value(call, 0), *b = guard_value(call, 1);
    int rank_a = tc_value_rank(a), rank_b = tc_value_rank(b);
    if (rank_a == TC_RANK_UNKNOWN || rank_b == TC_RANK_UNKNOWN || rank_a > rank_b)
        return a == b;
    for (int i = 0; i < rank_a; i++) {
        tc_dim dim = a->type->dims[i];
        bool is_one = tc_dim_is_const(dim) && dim.value == 1;
        if (!is_one && a != b && !tc_dim_equal(dim, b->type->dims[rank_b - rank_a + i]))
            return false;
    }
    return true;
}

static bool has_dim(const guard_call *call) {
    const tc_value *v = guard_value(call, 0);
    int rank = tc_value_rank(v), axis = (int)number_arg(call, 1);
    axis += axis < 0 ? rank : 0;
    return rank != TC_RANK_UNKNOWN && axis >= 0 && axis < rank &&
           tc_dim_equal(v->type->dims[axis], tc_dim_const((int64_t)number_arg(call, 2)));
}

static bool has_bits_at_most(const guard_call *call) {
    unsigned bits = tc_dtype_bits(tc_value_dtype(guard_value(call, 0)));
    return bits > 0 && bits <= (unsigned)number_arg(call, 1);
}

/* --- constants -------------------------------------------------------------------------------- */

static const tc_tensor *constant_of(const guard_call *call, uint16_t index) {
    const tc_value *value = guard_value(call, index);
    const tc_tensor *tensor = tc_may_be_trained(value) ? NULL : tc_value_constant(value);
    return tensor && tensor->data && tensor->dtype != TC_STRING ? tensor : NULL;
}

static bool is_constant(const guard_call *call) { return constant_of(call, 0) != NULL; }

static bool is_scalar(const guard_call *call) {
    const tc_value *v = guard_value(call, 0);
    const tc_tensor *tensor = tc_value_constant(v);
    if (tensor)
        return tensor->count == 1;
    int rank = tc_value_rank(v);
    for (int i = 0; i < rank; i++)
        if (!tc_dim_equal(v->type->dims[i], tc_dim_const(1)))
            return false;
    return rank != TC_RANK_UNKNOWN;
}

static bool every_element(const guard_call *call, uint64_t most_bytes, bool (*holds)(double x)) {
    const tc_tensor *tensor = constant_of(call, 0);
    if (!tensor || tensor->count == 0 || tensor->bytes > most_bytes)
        return false;
    for (uint64_t i = 0; i < tensor->count; i++)
        if (!holds(tc_tensor_get(tensor, i)))
            return false;
    return true;
}

/* Whether its reciprocal is exact and normal in every supported float type. */
static bool is_pow2(double x) {
    int exponent;
    double mantissa = frexp(fabs(x), &exponent);
    return isfinite(x) && mantissa == 0.5 && exponent > -13 && exponent < 15;
}
static bool is_positive(double x) { return x > 0; }
static bool is_finite(double x) { return isfinite(x); }
static bool is_nonzero(double x) { return x != 0; }
static bool all_pow2(const guard_call *call) { return every_element(call, MOST_BYTES, is_pow2); }
static bool all_positive(const guard_call *call) { return every_element(call, MOST_BYTES, is_positive); }
static bool all_nonzero(const guard_call *call) { return every_element(call, MOST_BYTES, is_nonzero); }
static bool all_finite(const guard_call *call) { return every_element(call, MOST_BYTES, is_finite); }

static bool is_flag(double x) { return x == 0 || x == 1; }
static bool are_flags(const guard_call *call) { return every_element(call, MOST_FLAG_BYTES, is_flag); }

/* The exponent of the least normal number of a float type. */
static int least_exponent(tc_dtype dtype) { return dtype == TC_DOUBLE ? -1022 : dtype == TC_FLOAT16 ? -14 : -126; }

/* Whether 1 / c keeps its digits in the type, and is finite: not 0, not subnormal, not too large. */
static bool all_invertible(const guard_call *call) {
    const tc_tensor *tensor = constant_of(call, 0);
    if (!tensor || !tc_dtype_is_float(tensor->dtype) || tensor->count == 0 || tensor->bytes > MOST_BYTES)
        return false;
    for (uint64_t i = 0; i < tensor->count; i++) {
        double inverse = fabs(tc_round_float(tensor->dtype, 1 / tc_tensor_get(tensor, i)));
        if (!isfinite(inverse) || inverse < ldexp(1, least_exponent(tensor->dtype)))
            return false;
    }
    return true;
}

static bool is_below(const guard_call *call) {
    const tc_tensor *tensor = constant_of(call, 0);
    return tensor && tensor->count == 1 && tc_tensor_get(tensor, 0) < number_arg(call, 1);
}

/* --- axes ------------------------------------------------------------------------------------- */

/* The number of axes in a constant list if they are the last of `rank`, each once, in any order; else 0. Without a
 * rank they must be counted from the end. */
static int trailing_count(const tc_tensor *axes, int rank) {
    uint64_t seen = 0;
    if (!axes || axes->dtype != TC_INT64 || axes->rank > 1 || axes->count == 0 || axes->count > TC_MAX_RANK)
        return 0;
    for (uint64_t i = 0; i < axes->count; i++) {
        int64_t axis = tc_tensor_get_int(axes, i);
        if (axis >= 0 && rank != TC_RANK_UNKNOWN)
            axis -= rank;
        if (axis >= 0 || -axis > (int64_t)axes->count || seen >> -axis & 1)
            return 0;
        seen |= (uint64_t)1 << -axis;
    }
    return (int)axes->count;
}

static bool are_trailing(const guard_call *call) {
    return trailing_count(constant_of(call, 0), tc_value_rank(guard_value(call, 1))) > 0;
}

/* The axes of `rank` in a constant list, as bits; 0 if there are none, if one is out of range, or if the list is no
 * constant. */
static uint64_t axes_named(const tc_tensor *axes, int rank) {
    uint64_t seen = 0;
    for (uint64_t i = 0; axes && axes->dtype == TC_INT64 && i < axes->count; i++) {
        int64_t axis = tc_tensor_get_int(axes, i);
        axis += axis < 0 ? rank : 0;
        if (axis < 0 || axis >= rank)
            return 0;
        seen |= (uint64_t)1 << axis;
    }
    return seen;
}

/* The first list of axes of x contains all of the second, which is not empty. */
static bool covers_axes(const guard_call *call) {
    int rank = tc_value_rank(guard_value(call, 2));
    uint64_t wide = axes_named(constant_of(call, 0), rank), narrow = axes_named(constant_of(call, 1), rank);
    return narrow && (wide & narrow) == narrow;
}

static bool same_count(const guard_call *call) {
    const tc_tensor *a = constant_of(call, 0), *b = constant_of(call, 1);
    return a && b && a->count == b->count;
}

/* The shape of `v` is the shape of x along the listed axes. */
static bool spans_axes(const guard_call *call) {
    const tc_value *v = guard_value(call, 0), *x = guard_value(call, 1);
    int rank_x = tc_value_rank(x), n = trailing_count(constant_of(call, 2), rank_x);
    return n > 0 && tc_value_rank(v) == n && equal_dims(v, 0, x, rank_x - n, n);
}

/* --- use and attributes ----------------------------------------------------------------------- */

static bool is_absent(const guard_call *call) { return guard_value(call, 0) == NULL; }
static bool is_present(const guard_call *call) { return guard_value(call, 0) != NULL; }
static bool is_used(const guard_call *call) { return guard_value(call, 0) && tc_value_is_used(guard_value(call, 0)); }
static bool is_output(const guard_call *call) { return guard_value(call, 0)->n_graph_outputs > 0; }

static bool one_use(const guard_call *call) {
    const tc_value *v = guard_value(call, 0);
    return (v->n_graph_outputs == 1 && !v->uses) || (v->n_graph_outputs == 0 && v->uses && !v->uses->next);
}

static bool one_reader(const guard_call *call) {
    const tc_value *v = guard_value(call, 0);
    return v->uses && !v->uses->next;
}

static bool is_needed(const guard_call *call) {
    int input = call->rule->names[call->guard->args[0].name].input;
    return call->needed && input >= 0 && call->needed[input];
}

static bool attr_is(const guard_call *call) {
    const tc_node *node = guard_value(call, 0)->producer;
    const guard_arg *want = &call->guard->args[2];
    const tc_attr *attr = node ? tc_attr_find(node, word_arg(call, 1)) : NULL;
    if (!attr)
        return false;
    if (attr->kind == TC_ATTR_STRING)
        return want->kind != GUARD_NUMBER && strlen(want->string) == attr->s.size &&
               !memcmp(want->string, attr->s.data, attr->s.size);
    if (want->kind != GUARD_NUMBER)
        return false;
    return (attr->kind == TC_ATTR_INT && (double)attr->i == want->number) ||
           (attr->kind == TC_ATTR_FLOAT && attr->f == (float)want->number);
}

static bool has_attr(const guard_call *call) {
    const tc_node *node = guard_value(call, 0)->producer;
    return node && tc_attr_find(node, word_arg(call, 1)) != NULL;
}

/* Absent from both, or the same number or word of both. */
static bool same_attr(const guard_call *call) {
    const tc_node *a = guard_value(call, 0)->producer, *b = guard_value(call, 1)->producer;
    const char *name = word_arg(call, 2);
    const tc_attr *of_a = a ? tc_attr_find(a, name) : NULL, *of_b = b ? tc_attr_find(b, name) : NULL;
    if (!of_a || !of_b)
        return a && b && !of_a && !of_b;
    switch (of_a->kind == of_b->kind ? of_a->kind : TC_ATTR_NONE) {
    case TC_ATTR_INT: return of_a->i == of_b->i;
    case TC_ATTR_FLOAT: return of_a->f == of_b->f;
    case TC_ATTR_STRING: return of_a->s.size == of_b->s.size && !memcmp(of_a->s.data, of_b->s.data, of_a->s.size);
    default: return false;
    }
}

/* --- the backward pass ------------------------------------------------------------------------ */

static bool is_kept_for(const guard_call *call) {
    const tc_value *v = guard_value(call, 0), *result = guard_value(call, 1), *storage = tc_value_storage(v);
    const tc_node *end = call->rule->set->forward_end;
    return end && result->producer && !tc_value_is_given(storage) && !storage->n_graph_outputs && !v->n_graph_outputs &&
           !tc_read_late(storage, end, result->producer, true);
}

static bool is_recomputable(const guard_call *call) {
    const tc_node *end = call->rule->set->forward_end;
    return end && tc_recomputable(guard_value(call, 0), end);
}

static bool is_needed_late(const guard_call *call) {
    const tc_node *end = call->rule->set->forward_end;
    return end && tc_needed_late(guard_value(call, 0), end);
}

static bool lasts(const guard_call *call) { return is_needed_late(call) || tc_is_shown(guard_value(call, 0)); }

/* Whether a scale or bias has the shape and the type of the normalized dims: no broadcast, no cast. */
static bool is_whole(const tc_node *node, const tc_value *value) {
    const tc_value *x = tc_input(node, 0);
    int64_t axis = tc_attr_int(node, "axis", -1);
    int rank = tc_value_rank(value), rank_x = tc_value_rank(x), first = (int)axis + (axis < 0 ? rank_x : 0);
    return rank != TC_RANK_UNKNOWN && rank_x != TC_RANK_UNKNOWN && rank == rank_x - first &&
           tc_value_dtype(value) == tc_value_dtype(x) && equal_dims(value, 0, x, first, rank);
}

/* Capacity for at most a quarter of the channels; beyond that, keeping x-hat itself costs little more. */
static bool has_few_sides(const guard_call *call) {
    const tc_value *y = guard_value(call, 0), *scale = guard_value(call, 1),
                   *bias = call->guard->n_args > 2 ? guard_value(call, 2) : NULL;
    int64_t capacity = tc_side_channel_capacity(scale, bias), n = 1;
    if (!y->producer || capacity == 0 || !is_whole(y->producer, scale) || (bias && !is_whole(y->producer, bias)))
        return false;
    for (int i = 0; i < tc_value_rank(scale); i++)
        n *= scale->type->dims[i].value;
    return capacity <= n / 4;
}

/* docs/how-it-works/rules.md describes them. */
static const guard_row rows[] = {
    {"absent", "v", is_absent, true},
    {"attr", "vsa", attr_is, false},
    {"below", "vn", is_below, false},
    {"bits_at_most", "vn", has_bits_at_most, false},
    {"bool", "v", is_bool, false},
    {"broadcasts", "vv", broadcasts, false},
    {"column", "v", guard_is_column, false},
    {"constant", "v", is_constant, false},
    {"covers", "vvv", covers_axes, false},
    {"dim", "vxn", has_dim, false},
    {"few_sides", "v*", has_few_sides, true},
    {"finite", "v", all_finite, false},
    {"flags", "v", are_flags, false},
    {"float", "v", is_float, false},
    {"has_attr", "vs", has_attr, false},
    {"in_tail", "vvv", guard_is_in_tail, false},
    {"integer", "v", is_integer, false},
    {"invertible", "v", all_invertible, false},
    {"kept_for", "vv", is_kept_for, false},
    {"lasts", "v", lasts, false},
    {"recomputable", "v", is_recomputable, false},
    {"named", "v", guard_is_named, false},
    {"needed", "v", is_needed, true},
    {"nonzero", "v", all_nonzero, false},
    {"one_reader", "v", one_reader, false},
    {"one_use", "v", one_use, false},
    {"output", "v", is_output, false},
    {"positive", "v", all_positive, false},
    {"pow2", "v", all_pow2, false},
    {"present", "v", is_present, true},
    {"product", "v", guard_is_product, false},
    {"rank", "vd", has_rank, false},
    {"rank_at_least", "vd", has_rank_at_least, false},
    {"needed_late", "v", is_needed_late, false},
    {"same_attr", "vvs", same_attr, false},
    {"same_count", "vv", same_count, false},
    {"same_dtype", "vv", same_dtype, false},
    {"same_head", "vvd", same_head, false},
    {"same_lead", "vv", same_lead, false},
    {"same_shape", "vv", same_shape, false},
    {"same_tail", "vvd", same_tail, false},
    {"scalar", "v", is_scalar, false},
    {"scored", "v", guard_is_scored, false},
    {"spans", "vvv", spans_axes, false},
    {"static", "vd", is_static_tail, false},
    {"trailing", "vv", are_trailing, false},
    {"used", "v", is_used, true},
};

const guard_row *guard_find(const char *name) {
    for (size_t i = 0; i < TC_COUNT(rows); i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}

static bool is_vacuous(const guard_call *call) {
    if (call->guard->row->absent_ok)
        return false;
    for (uint16_t i = 0; i < call->guard->n_args; i++) {
        const guard_arg *arg = &call->guard->args[i];
        if (arg->kind == GUARD_NAME && arg->name != RULE_NONE && !call->values[arg->name])
            return true;
    }
    return false;
}

const rule_guard *guards_failing(const tc_rule *rule, tc_value *const *values, const bool *needed) {
    for (uint16_t i = 0; i < rule->n_guards; i++) {
        guard_call call = {rule, values, needed, &rule->guards[i]};
        if (!is_vacuous(&call) && call.guard->row->holds(&call) == call.guard->negated)
            return call.guard;
    }
    return NULL;
}
