/* mask_contents.c: distinguishes the contents of masks and scales from those of parameters. */
#include "mask_contents.h"
#include <math.h>

enum { MOST = 1 << 16 }; /* elements examined: if a mask has only zeros there, its name has to decide */

static const double beyond =
    1e3; /* beyond parameters: float16's lowest number is -65504, and exporters write -1e4 too */
static const double sixteenth = 16; /* slopes of 128 heads are 2^(-k/16) */

typedef struct elements {
    tc_tensor tensor; /* with its data */
    uint64_t n, row;  /* elements examined; those of a row along the last dim that is not 1 */
    double epsilon;   /* relative error of an element */
} elements;

static double at(const elements *e, uint64_t i) { return tc_tensor_get(&e->tensor, i); }

static double epsilon_of(tc_dtype dtype) {
    switch (dtype) {
    case TC_FLOAT16: return ldexp(1, -11);
    case TC_BFLOAT16: return ldexp(1, -8);
    default: return ldexp(1, -18); /* float and double: powers and products that were computed in float */
    }
}

static bool is_mask(const elements *e) {
    bool two = true;
    double other = 0;
    for (uint64_t i = 0; i < e->n; i++) {
        double x = at(e, i);
        if (fabs(x) >= beyond)
            return true;
        two = two && (x == 0 || other == 0 || x == other);
        other = x != 0 ? x : other;
    }
    return two && (other == 1 || other <= -1);
}

static bool are_powers(const elements *e) {
    for (uint64_t i = 0; i < e->n; i++) {
        double x = fabs(at(e, i)), power = log2(x) * sixteenth;
        if (!(x > 0) || !(fabs(power - nearbyint(power)) <= 1.5 * sixteenth * e->epsilon))
            return false;
    }
    return true;
}

/* Whether the row goes up, down or neither by equal steps; adds their number. */
static bool row_steps(const elements *e, uint64_t first, uint64_t *steps) {
    double size = 0, most = fabs(at(e, first));
    for (uint64_t i = first + 1; i < first + e->row; i++) {
        most = fmax(most, fabs(at(e, i)));
        size = fmax(size, fabs(at(e, i) - at(e, i - 1)));
    }
    double slack = 4 * e->epsilon * most;
    if (size <= slack)
        return true;
    for (uint64_t i = first + 1; i < first + e->row; i++) {
        double step = fabs(at(e, i) - at(e, i - 1));
        if (step > slack && size - step > slack)
            return false;
        *steps += step > slack;
    }
    return true;
}

static bool are_steps(const elements *e) {
    uint64_t stepped = 0, steps = 0; /* rows that have steps, and all steps */
    for (uint64_t first = 0; first + e->row <= e->n; first += e->row) {
        uint64_t before = steps;
        if (!row_steps(e, first, &steps))
            return false;
        stepped += steps > before;
    }
    return steps > stepped; /* one step alone proves nothing */
}

/* One number for each distance of row and column: a bias computed from positions. */
static bool are_diagonals(const elements *e) {
    const tc_tensor *t = &e->tensor;
    if (t->rank < 2 || t->dims[t->rank - 1] < 3 || t->dims[t->rank - 2] < 3)
        return false;
    uint64_t columns = (uint64_t)t->dims[t->rank - 1], rows = (uint64_t)t->dims[t->rank - 2];
    for (uint64_t i = columns + 1; i < e->n; i++)
        if (i % columns && i / columns % rows && at(e, i) != at(e, i - columns - 1))
            return false;
    return e->n > columns + 1;
}

static bool is_uniform(const elements *e) {
    for (uint64_t i = 1; i < e->n; i++)
        if (at(e, i) != at(e, 0))
            return false;
    return true;
}

tc_looks tc_looks_of(tc_model *model, const tc_tensor *tensor, double *out_element) {
    elements e = {.tensor = *tensor, .n = tensor->count < MOST ? tensor->count : MOST, .row = 1};
    e.epsilon = epsilon_of(tensor->dtype);
    e.tensor.data = tc_tensor_peek(model, tensor);
    *out_element = 0;
    if (!e.tensor.data)
        return TC_LOOKS_UNKNOWN;
    for (int i = tensor->rank - 1; i >= 0 && e.row == 1; i--)
        e.row = (uint64_t)tensor->dims[i];
    *out_element = at(&e, 0);
    if (is_uniform(&e))
        return fabs(*out_element) < beyond ? TC_LOOKS_UNIFORM : TC_LOOKS_MASK;
    if (is_mask(&e))
        return TC_LOOKS_MASK;
    return are_powers(&e) || are_steps(&e) || are_diagonals(&e) ? TC_LOOKS_RULE : TC_LOOKS_VARIED;
}
