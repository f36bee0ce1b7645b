/* unfold_repeated.c: a parameter whose elements the exporter repeated (expand, repeat) or put through functions
 * (exp), or both, becomes an initializer under PyTorch's name, and nodes repeat the computation. */
#include "unfold.h"
#include <math.h>
#include <string.h>

/* --- elements repeated along axes ------------------------------------------------------------- */
/* Whether every slice along the axis has the same bits. */
static bool repeats(const tc_standin *s, int axis) {
    const tc_tensor *tensor = s->value->init;
    size_t outer = 1, inner = tc_unfold_element_bytes(s), n = (size_t)tensor->dims[axis];
    for (int i = 0; i < tensor->rank; i++)
        if (i != axis)
            *(i < axis ? &outer : &inner) *= (size_t)tensor->dims[i];
    for (size_t i = 0; i < outer * n; i++)
        if (memcmp((const char *)s->data + i * inner, (const char *)s->data + i / n * n * inner, inner) != 0)
            return false;
    return true;
}

static bool is_uniform(const tc_standin *s) {
    size_t bytes = tc_unfold_element_bytes(s);
    return s->value->init->bytes <= bytes ||
           memcmp(s->data, (const char *)s->data + bytes, s->value->init->bytes - bytes) == 0;
}

/* The dims before elements were repeated, 1 along those axes. If all elements are equal, or unknown, it is the first
 * axis, that of a batch. */
static void single_dims(const tc_standin *s, int64_t *dims) {
    const tc_tensor *tensor = s->value->init;
    bool first_only = !s->data || is_uniform(s);
    for (int i = 0; i < tensor->rank; i++)
        dims[i] = s->fold.spread && (first_only ? i == 0 : repeats(s, i)) ? 1 : tensor->dims[i];
}

/* All elements are equal, and an axis between the first and the last may have been repeated. */
static bool may_be_any(const tc_standin *s) {
    bool any = false;
    for (int i = 1; i + 1 < s->value->init->rank; i++)
        any = any || s->value->init->dims[i] > 1;
    return any && s->fold.spread && s->data && is_uniform(s);
}

/* The elements at index 0 of the axes that are 1 in `dims`. */
static tc_tensor *single(const tc_unfold *u, const tc_standin *s, const int64_t *dims) {
    const tc_tensor *tensor = s->value->init;
    tc_tensor *result = tc_tensor_create(u->graph->model, tensor->dtype, tensor->rank, dims, NULL);
    size_t bytes = tc_unfold_element_bytes(s), at = 0;
    for (uint64_t i = 0; i < tensor->count; i++) {
        uint64_t rest = i;
        bool taken = true;
        for (int axis = tensor->rank - 1; axis >= 0; axis--) {
            taken = taken && (dims[axis] == tensor->dims[axis] || rest % (uint64_t)tensor->dims[axis] == 0);
            rest /= (uint64_t)tensor->dims[axis];
        }
        if (taken)
            memcpy((char *)(uintptr_t)result->data + at++ * bytes, (const char *)s->data + i * bytes, bytes);
    }
    return result;
}

/* The same for weights that are missing, along the first axis: they are the start of the initializer. */
static tc_tensor *single_external(const tc_unfold *u, const tc_standin *s, const int64_t *dims) {
    tc_model *model = u->graph->model;
    const tc_tensor *tensor = s->value->init;
    tc_tensor *result = TC_NEW(model->arena, tc_tensor);
    tc_external *external = TC_NEW(model->arena, tc_external);
    int64_t *copy = TC_NEW_ARRAY(model->arena, int64_t, (size_t)tensor->rank + 1);
    memcpy(copy, dims, (size_t)tensor->rank * sizeof *copy);
    *result = *tensor;
    result->dims = copy;
    result->origin = NULL;
    tc_shape_count(tensor->rank, dims, &result->count);
    result->bytes = tc_tensor_bytes(tensor->dtype, result->count);
    *external = *tensor->external;
    external->has_length = true;
    external->length = result->bytes;
    result->external = external;
    return result;
}

/* --- functions -------------------------------------------------------------------------------- */
enum { ROUNDING = 16 }; /* units in the last place that may be lost on the way there and back */

static double back(const tc_torch_fold *fold, tc_dtype dtype, double y) {
    for (size_t k = fold->n_functions; k-- > 0;)
        y = fold->functions[k]->inverse(y);
    return tc_round_float(dtype, y);
}

static double forth(const tc_torch_fold *fold, double x) {
    for (size_t k = 0; k < fold->n_functions; k++)
        x = fold->functions[k]->forward(x);
    return x;
}

/* Whether undoing and redoing the functions gives the same numbers again, up to rounding. */
static bool can_undo(const tc_torch_fold *fold, const tc_tensor *tensor) {
    double unit = 1;
    while (tc_round_float(tensor->dtype, 1 + unit / 2) != 1)
        unit /= 2;
    for (uint64_t i = 0; i < tensor->count; i++) {
        double y = tc_tensor_get(tensor, i), x = back(fold, tensor->dtype, y);
        if (!(fabs(forth(fold, x) - y) <= ROUNDING * unit * fabs(y) * fmax(1, fabs(x))))
            return false;
    }
    return true;
}

/* Decides which function came first, if the file does not show it: the order that the numbers allow. */
static bool find_order(tc_torch_fold *fold, const tc_tensor *tensor) {
    bool told = can_undo(fold, tensor);
    if (!fold->any_order)
        return told;
    const tc_torch_function *first = fold->functions[0];
    fold->functions[0] = fold->functions[1];
    fold->functions[1] = first;
    bool turned = can_undo(fold, tensor);
    if (told) {
        fold->functions[1] = fold->functions[0];
        fold->functions[0] = first;
    }
    return told != turned;
}

/* The initializer's parameter holds the same numbers: it was folded from this parameter unchanged. */
static bool is_same(const tc_unfold *u, const tc_value *parameter, const tc_tensor *found, bool exact) {
    const void *data = tc_tensor_peek(u->graph->model, parameter->init);
    if (!data || parameter->init->count != found->count || parameter->init->dtype != found->dtype)
        return false;
    tc_tensor there = *parameter->init;
    there.data = data;
    for (uint64_t i = 0; i < found->count; i++) {
        double a = tc_tensor_get(&there, i), b = tc_tensor_get(found, i);
        if (!(exact ? a == b : fabs(a - b) <= 1e-3 * (fabs(a) + fabs(b)) + 1e-30))
            return false;
    }
    return true;
}

static tc_value *add_ints(const tc_unfold *u, const char *name, const int64_t *dims, int rank) {
    return tc_constant(u->graph, name, tc_tensor_ints(u->graph->model, dims, rank));
}

/* --- undoing ---------------------------------------------------------------------------------- */
static int64_t *all_dims(const tc_unfold *u, const tc_tensor *tensor) {
    int64_t *dims = TC_NEW_ARRAY(u->scratch, int64_t, (size_t)tensor->rank + 1);
    for (int i = 0; i < tensor->rank; i++)
        dims[i] = tensor->dims[i];
    return dims;
}

static bool same_dims(const tc_tensor *tensor, const int64_t *dims, int rank) {
    return tensor->rank == rank && (rank == 0 || memcmp(tensor->dims, dims, (size_t)rank * sizeof *dims) == 0);
}

/* The parameter's axes: those added later are removed, if they can be distinguished from others. */
static int parameter_dims(const tc_standin *s, const int64_t *dims, int64_t *out_dims) {
    int rank = s->value->init->rank, ones = 0, n = 0;
    for (int i = 0; i < rank; i++)
        ones += dims[i] == 1;
    bool drop = s->fold.added_axes > 0 && ones == s->fold.added_axes;
    for (int i = 0; i < rank; i++)
        if (!drop || dims[i] != 1)
            out_dims[n++] = dims[i];
    return n;
}

/* The parameter as an initializer; NULL if another one has that name. */
static tc_value *parameter_for(const tc_unfold *u, const tc_standin *s, const tc_torch_fold *fold, tc_tensor *tensor,
                               const int64_t *dims) {
    tc_value *parameter = tc_unfold_parameter_of(u, s->target);
    int64_t *own = TC_NEW_ARRAY(u->graph->model->arena, int64_t, (size_t)tensor->rank + 1);
    for (uint64_t i = 0; i < tensor->count && fold->n_functions; i++)
        tc_element_set(tensor->dtype, (void *)(uintptr_t)tensor->data, i,
                       back(fold, tensor->dtype, tc_tensor_get(tensor, i)));
    if (parameter)
        return is_same(u, parameter, tensor, fold->n_functions == 0) ? parameter : NULL;
    tensor->rank = parameter_dims(s, dims, own);
    tensor->dims = own;
    return tc_unfold_make_parameter(u, s->target, tensor);
}

void tc_unfold_repeated(tc_unfold *u, const tc_standin *s) {
    const tc_tensor *tensor = s->value->init;
    tc_torch_fold fold = s->fold;
    int64_t *dims = all_dims(u, tensor);
    if (tensor->count == 0)
        return tc_torch_set_name(u->env, s->value->name, s->target, fold.layout); /* nothing to repeat */
    if (!s->data && (fold.n_functions || !tensor->external))
        return tc_unfold_refuse(u, s, "its weights are needed to decide and are missing");
    if (may_be_any(s) && !tc_unfold_parameter_of(u, s->target))
        return tc_unfold_refuse(u, s, "its elements are all equal, so the repeated axes cannot be found");
    single_dims(s, dims);
    tc_tensor *one = s->data ? single(u, s, dims) : single_external(u, s, dims);
    if (fold.n_functions && !find_order(&fold, one))
        return tc_unfold_refuse(u, s, "the parameter cannot be computed from it");
    if (!fold.n_functions && same_dims(tensor, dims, tensor->rank) && !tc_unfold_parameter_of(u, s->target))
        return tc_torch_set_name(u->env, s->value->name, s->target, fold.layout); /* nothing was repeated */
    tc_value *parameter = parameter_for(u, s, &fold, one, dims), *now = parameter;
    if (!parameter)
        return tc_unfold_refuse(u, s, "the file has the parameter, too, with other numbers");
    const tc_type *type = tc_type_tensor_static(u->graph->model, tensor->dtype, tensor->rank, dims);
    if (!same_dims(parameter->init, dims, tensor->rank))
        now = tc_unfold_add_node(u, "Reshape", now, add_ints(u, "shape", dims, tensor->rank), type);
    for (size_t i = 0; i < fold.n_functions; i++)
        now = tc_unfold_add_node(u, fold.functions[i]->onnx, now, NULL, type);
    if (!same_dims(tensor, dims, tensor->rank))
        now = tc_unfold_add_node(u, "Expand", now, add_ints(u, "shape", tensor->dims, tensor->rank), s->value->type);
    tc_unfold_tell(u, &u->undone,
                   tc_arena_printf(u->scratch, "%s (%s in the file)", tc_quote(u->env->ctx, s->target),
                                   tc_quote(u->env->ctx, s->value->name)));
    tc_unfold_put_in_place(u, s, now);
}
