/* rotary_tables.c: recognizes tables of rotary position embeddings by the rotations that read them,
 *     x cos + (-b, a) sin                 of the parts a and b of x (Llama; GPT-J with a and b interleaved), or
 *     a cos - b sin and b cos + a sin     (complex numbers), and the op. Between initializer and rotation there may be
 * parts, copies and scales of it, the angles' Cos and Sin, and frequencies times positions. A learned complex weight is
 * used in the same way; its elements decide. */
#include "rotary_tables.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "mask_contents.h"
#include "parameter_uses.h"
#include <math.h>
#include <string.h>

enum {
    DEPTH = 24,    /* nodes between the initializer and a rotation, or between x and its parts */
    READERS = 4096 /* of one table, over all layers */
};

typedef struct search {
    const tc_value *root;
    const tc_value *partner; /* initializer of the other table of a rotation; the root itself if it holds both */
    int left;                /* budget of readers to examine */
    bool cosines, sines;     /* taken of it by nodes */
} search;

static bool is_any(const tc_node *node, const char *const *ops, size_t n) {
    for (size_t i = 0; node && i < n; i++)
        if (tc_node_is(node, "", ops[i]))
            return true;
    return false;
}

/* Elements of operand 0, a part of them or repeated, in another order or type. */
static bool moves(const tc_node *node) {
    static const char *const ops[] = {"Cast",  "Expand", "Gather",  "Identity",  "Reshape",  "Slice",
                                      "Split", "Tile",   "Squeeze", "Transpose", "Unsqueeze"};
    return is_any(node, ops, TC_COUNT(ops));
}

static const tc_value *other_operand(const tc_node *node, const tc_value *value) {
    return tc_input(node, tc_input(node, 0) == value);
}

static bool is_scalar(const tc_value *value) {
    const tc_tensor *constant = value ? tc_value_constant(value) : NULL;
    return constant && constant->count == 1;
}

static const tc_value *before_moves(const tc_value *value) {
    for (int depth = 0; depth < DEPTH && value && value->producer && moves(value->producer); depth++)
        value = tc_input(value->producer, 0);
    return value;
}

/* Integers as floats, or a constant: no activation. */
static bool is_position(const tc_value *value) {
    for (int depth = 0; depth < DEPTH && value; depth++) {
        tc_dtype dtype = tc_value_dtype(value);
        if (dtype != TC_UNDEFINED && !tc_dtype_is_float(dtype))
            return true;
        const tc_node *node = value->producer;
        if (!node)
            return false;
        if (!moves(node))
            return tc_node_is(node, "", "Constant") || tc_node_is(node, "", "Range");
        value = tc_input(node, 0);
    }
    return false;
}

/* --- rotations -------------------------------------------------------------------------------- */
/* The value that this is a part of, also after a negation. */
static const tc_value *whole_of(const tc_value *value) {
    value = before_moves(value);
    if (value && value->producer && tc_node_is(value->producer, "", "Neg"))
        value = before_moves(tc_input(value->producer, 0));
    return value;
}

/* (-b, a) of parts of `x`, in any layout. */
static bool is_turned(const tc_value *value, const tc_value *x) {
    const tc_value *joined = before_moves(value);
    const tc_node *node = joined ? joined->producer : NULL;
    if (!node || !tc_node_is(node, "", "Concat") || node->n_inputs != 2)
        return false;
    const tc_value *minus_b = before_moves(tc_input(node, 0)), *a = before_moves(tc_input(node, 1));
    return minus_b && a && minus_b->producer && tc_node_is(minus_b->producer, "", "Neg") && whole_of(minus_b) == x &&
           whole_of(a) == x && a != minus_b;
}

/* The node that reads the only product of the two; NULL: there is none, or more than one. */
static const tc_node *reader_of_product(const tc_value *a, const tc_value *b) {
    TC_FOR_USES(use, a) {
        const tc_node *node = use->user;
        if (!tc_node_is(node, "", "Mul") || other_operand(node, a) != b)
            continue;
        const tc_value *product = tc_output(node, 0);
        return product && product->uses && !product->uses->next ? product->uses->user : NULL;
    }
    return NULL;
}

static bool is_sum(const tc_node *node) { return tc_node_is(node, "", "Add"); }
static bool is_difference(const tc_node *node) { return tc_node_is(node, "", "Sub"); }

/* a u and b v are the operands of `node`; so are b u and a v those of another one, one of the two being a difference.
 */
static bool is_complex_product(const tc_node *node, const tc_value *a, const tc_value *u, const tc_value *b,
                               const tc_value *v) {
    const tc_node *other = reader_of_product(b, u);
    bool crossed = other && other != node && other == reader_of_product(a, v);
    return crossed && a != b && whole_of(a) == whole_of(b) &&
           ((is_sum(node) && is_difference(other)) || (is_difference(node) && is_sum(other)));
}

/* The initializer that a table was computed from; NULL: there is none. */
static const tc_value *root_of(const tc_value *value) {
    for (int depth = 0; depth < DEPTH && value; depth++) {
        const tc_node *node = value->producer;
        if (!node)
            return value->init ? value : NULL;
        bool mul = tc_node_is(node, "", "Mul") || tc_node_is(node, "", "MatMul");
        bool on = moves(node) || tc_node_is(node, "", "Cos") || tc_node_is(node, "", "Sin") ||
                  tc_node_is(node, "", "Concat") || mul;
        value = on ? tc_input(node, mul && (is_scalar(tc_input(node, 0)) || is_position(tc_input(node, 0)))) : NULL;
    }
    return NULL;
}

/* Whether x times the table is a term of a rotation. */
static bool turns(search *s, const tc_node *product, const tc_value *table) {
    const tc_value *x = other_operand(product, table), *term = tc_output(product, 0);
    if (!term->uses || term->uses->next || term->n_graph_outputs)
        return false;
    const tc_node *node = term->uses->user;
    if (!is_sum(node) && !is_difference(node))
        return false;
    const tc_value *other = other_operand(node, term);
    if (!other->producer || !tc_node_is(other->producer, "", "Mul"))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const tc_value *y = tc_input(other->producer, i), *other_table = tc_input(other->producer, 1 - i);
        const tc_value *root = root_of(other_table);
        bool halves = is_sum(node) && (is_turned(y, whole_of(x)) || is_turned(x, whole_of(y)));
        if (root && other_table != table && (halves || is_complex_product(node, x, table, y, other_table))) {
            s->partner = root == s->root && s->partner ? s->partner : root;
            return true;
        }
    }
    return false;
}

/* --- from the initializer on ------------------------------------------------------------------ */
static bool only_turns(search *s, const tc_value *value, int depth);

static bool all_only_turn(search *s, const tc_node *node, int depth) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (tc_output(node, i) && tc_output(node, i)->uses && !only_turns(s, tc_output(node, i), depth - 1))
            return false;
    return true;
}

/* This node's result is still the same table. */
static bool passes_table(const tc_node *node, const tc_value *value) {
    if (moves(node) || tc_node_is(node, "", "Cos") || tc_node_is(node, "", "Sin"))
        return tc_input(node, 0) == value;
    if (tc_node_is(node, "", "Mul") || tc_node_is(node, "", "MatMul")) {
        const tc_value *other = other_operand(node, value);
        return other != value && (is_scalar(other) || is_position(other) || other->init);
    }
    if (!tc_node_is(node, "", "Concat"))
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (before_moves(tc_input(node, i)) != before_moves(value))
            return false;
    return true;
}

static bool read_turns(search *s, const tc_node *node, const tc_value *value, uint32_t index, int depth) {
    if (tc_node_is(node, TC_TEMPO_DOMAIN, "RotaryEmbedding"))
        return index == 1 || index == 2;
    if (passes_table(node, value)) {
        s->cosines = s->cosines || tc_node_is(node, "", "Cos");
        s->sines = s->sines || tc_node_is(node, "", "Sin");
        return all_only_turn(s, node, depth);
    }
    return tc_node_is(node, "", "Mul") && other_operand(node, value) != value && turns(s, node, value);
}

static bool only_turns(search *s, const tc_value *value, int depth) {
    if (depth == 0 || !value->uses)
        return false;
    TC_FOR_USES(use, value) {
        if (tc_operand_read(use->user, use->index) == TC_READ_SHAPE)
            continue;
        if (s->left-- <= 0 || use->user->graph != value->graph || !read_turns(s, use->user, value, use->index, depth))
            return false;
    }
    return true;
}

/* --- elements --------------------------------------------------------------------------------- */
enum { MOST = 1 << 16 }; /* elements examined */

static double tolerance(tc_dtype dtype) {
    return dtype == TC_BFLOAT16 ? 1.0 / 64 : dtype == TC_FLOAT16 ? 1.0 / 512 : 1e-4;
}

/* Whether a^2 + b^2 is one number over all pairs, and a is not: cosines and sines, perhaps times one scale. `pair`:
 * for element i of `a`, the index in `b`; i from 0 in steps of rows of `row`, `of_row` of them in a row. */
static bool are_on_circle(const tc_tensor *a, const tc_tensor *b, uint64_t row, uint64_t of_row, uint64_t step,
                          uint64_t distance) {
    double square = -1, first = 0, slack = tolerance(a->dtype);
    bool varied = false;
    for (uint64_t at = 0; at < a->count && at < MOST; at += row)
        for (uint64_t i = 0; i < of_row; i++) {
            double u = tc_tensor_get(a, at + i * step), v = tc_tensor_get(b, at + i * step + distance);
            double now = u * u + v * v;
            first = square < 0 ? u : first;
            square = square < 0 ? now : square;
            varied = varied || u != first;
            if (!(fabs(now - square) <= slack * square))
                return false;
        }
    return varied;
}

static bool same_dims(const tc_tensor *a, const tc_tensor *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof(int64_t) * (size_t)a->rank) == 0;
}

/* Both in one tensor: side by side, in halves of rows, or one after the other. */
static bool holds_both(const tc_tensor *t) {
    uint64_t row = t->rank > 0 ? (uint64_t)t->dims[t->rank - 1] : 1, half = t->count / 2;
    return (row % 2 == 0 && are_on_circle(t, t, 2, 1, 1, 1)) ||
           (row % 2 == 0 && are_on_circle(t, t, row, row / 2, 1, row / 2)) ||
           (t->count % 2 == 0 && half <= MOST && are_on_circle(t, t, t->count, half, 1, half));
}

/* The increase of element j of a row from row to row; for a single row, the element. */
static double step_of(const tc_tensor *t, uint64_t row, uint64_t rows, uint64_t j) {
    return rows > 1 ? tc_tensor_get(t, row + j) - tc_tensor_get(t, j) : tc_tensor_get(t, j);
}

/* Positive numbers that decrease along a row: frequencies; or steps of such sizes from row to row: angles by
 * position. Both may occur twice. */
static bool are_angles(const tc_tensor *t) {
    uint64_t row = 1;
    for (int i = t->rank - 1; i >= 0 && row == 1; i--)
        row = (uint64_t)t->dims[i];
    uint64_t rows = (t->count < MOST ? t->count : MOST) / row, half = row / 2;
    bool twice = row >= 4 && row % 2 == 0 && step_of(t, row, rows, 0) == step_of(t, row, rows, half);
    double slack = tolerance(t->dtype), before = 0;
    for (uint64_t j = 0; j < row; j++) {
        double first = tc_tensor_get(t, j), step = step_of(t, row, rows, j);
        bool falls = j == 0 || (twice && j == half) || step <= before * (1 + slack);
        if (!(step > 0) || !falls)
            return false;
        for (uint64_t i = 1; i < rows; i++)
            if (!(fabs(tc_tensor_get(t, i * row + j) - first - (double)i * step) <= slack * (double)i * step))
                return false;
        before = step;
    }
    return row > 1;
}

static bool read_elements(const tc_value *value, tc_tensor *out_tensor) {
    *out_tensor = *value->init;
    out_tensor->data = tc_tensor_peek(value->graph->model, value->init);
    return out_tensor->data != NULL;
}

static bool elements_fit(const search *s) {
    tc_tensor own, other;
    double element;
    bool both = s->partner == s->root, known = read_elements(s->root, &own);
    if (s->cosines || s->sines)
        return s->cosines && s->sines &&
               (!known || are_angles(&own) ||
                tc_looks_of(s->root->graph->model, s->root->init, &element) == TC_LOOKS_RULE);
    if (!known)
        return !both || tc_name_is_generated(s->root->name);
    if (both)
        return holds_both(&own);
    if (!s->partner || !read_elements(s->partner, &other) || !same_dims(&own, &other))
        return true;
    return are_on_circle(&own, &other, own.count, own.count < MOST ? own.count : MOST, 1, 0);
}

bool tc_is_rotary_table(const tc_value *value) {
    search s = {.root = value, .left = READERS};
    return value->init && only_turns(&s, value, DEPTH) && elements_fit(&s);
}
