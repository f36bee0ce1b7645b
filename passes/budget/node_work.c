/* node_work.c: flops and bytes of a node from its types, by the rows of work.def. Numbers are capped at MOST, so
 * that shapes claimed by a file cannot overflow. */
#include "node_work.h"
#include "compiler/contents/contents.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include <string.h>

#define MOST (UINT64_C(1) << 62)

static uint64_t add(uint64_t a, uint64_t b) { return a >= MOST - (b < MOST ? b : MOST) ? MOST : a + b; }
static uint64_t mul(uint64_t a, uint64_t b) { return b != 0 && a > MOST / b ? MOST : a * b; }

/* --- sizes -------------------------------------------------------------------------------------- */

/* Dim `at` of the value, from the end if negative; 1 if it is not known or absent. */
static uint64_t dim(const tc_value *value, int at) {
    int rank = tc_value_rank(value);
    at += at < 0 ? rank : 0;
    if (at < 0 || at >= rank || !value->type->dims)
        return 1;
    tc_dim d = value->type->dims[at];
    return !tc_dim_is_const(d) ? 1 : d.value < 0 ? 0 : (uint64_t)d.value;
}

static uint64_t count(const tc_value *value) {
    uint64_t n = value ? 1 : 0;
    for (int i = 0; i < tc_value_rank(value); i++)
        n = mul(n, dim(value, i));
    return n;
}

static uint64_t bytes_of(const tc_value *value) {
    return mul(count(value), (tc_dtype_bits(tc_value_dtype(value)) + 7) / 8);
}

static uint64_t largest(const tc_node *node) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        bool is_read = i >= node->n_inputs || tc_operand_read(node, i) == TC_READ_ELEMENTS;
        uint64_t n = count(i < node->n_inputs ? tc_input(node, i) : tc_output(node, i - node->n_inputs));
        most = is_read && n > most ? n : most;
    }
    return most;
}

/* --- counted by --------------------------------------------------------------------------------- */

typedef uint64_t (*flops_fn)(const tc_node *node, unsigned each);

static uint64_t elements(const tc_node *node, unsigned each) { return mul(largest(node), each); }

/* Every window is read in full. */
static uint64_t pool(const tc_node *node, unsigned each) {
    size_t n = 0;
    const int64_t *kernel = tc_attr_ints(node, "kernel_shape", &n);
    uint64_t window = each;
    for (size_t i = 0; i < n; i++)
        window = mul(window, kernel[i] > 0 ? (uint64_t)kernel[i] : 1);
    return mul(count(tc_output(node, 0)), window);
}

static uint64_t matmul(const tc_node *node, unsigned each) {
    (void)each;
    return mul(2, mul(count(tc_output(node, 0)), dim(tc_input(node, 0), -1)));
}

static uint64_t gemm(const tc_node *node, unsigned each) {
    (void)each;
    uint64_t inner = dim(tc_input(node, 0), tc_attr_int(node, "transA", 0) ? 0 : 1);
    return mul(2, mul(count(tc_output(node, 0)), inner));
}

/* The products of one window: the weight's elements for one of its first channels, which are those of the result. */
static uint64_t window_of(const tc_node *node) {
    const tc_value *weight = tc_input(node, 1);
    uint64_t n = 1;
    for (int i = 1; i < tc_value_rank(weight); i++)
        n = mul(n, dim(weight, i));
    return n;
}

static uint64_t conv(const tc_node *node, unsigned each) {
    (void)each;
    return mul(2, mul(count(tc_output(node, 0)), window_of(node)));
}

/* Its weight's first channels are those of the operand. */
static uint64_t conv_transpose(const tc_node *node, unsigned each) {
    (void)each;
    return mul(2, mul(count(tc_input(node, 0)), window_of(node)));
}

/* The product of one operand's dims for letters of its term that were not seen before; `...` stands for the dims
 * without letters. */
static uint64_t new_letters(const tc_value *value, const char *term, size_t length, bool seen[256]) {
    uint64_t n = 1;
    int letters = 0, at = 0, spread;
    for (size_t i = 0; i < length; i++)
        letters += term[i] != ' ' && term[i] != '.';
    spread = tc_value_rank(value) - letters;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)term[i];
        if (c == ' ' || (c == '.' && i > 0 && term[i - 1] == '.'))
            continue;
        for (int taken = 0; taken < (c == '.' ? spread : 1); taken++)
            n = seen[c] ? n : mul(n, dim(value, at + taken));
        at += c == '.' ? spread : 1;
        seen[c] = true;
    }
    return n;
}

/* Each point of the space of all letters takes a multiplication for each operand but the first, and an addition. */
static uint64_t einsum(const tc_node *node, unsigned each) {
    (void)each;
    const char *term = tc_attr_string(node, "equation", "");
    bool seen[256] = {false};
    uint64_t points = 1;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        size_t length = strcspn(term, ",-");
        points = mul(points, new_letters(tc_input(node, i), term, length, seen));
        term += length + (term[length] == ',' ? 1 : 0);
    }
    return mul(points, node->n_inputs);
}

/* X (T, B, I), operand `first`: each row of it, and of the state, is multiplied by W and R, for all gates and
 * directions. */
static uint64_t layer_of(const tc_node *node, uint32_t first) {
    const tc_value *x = tc_input(node, first);
    uint64_t rows = mul(dim(x, 0), dim(x, 1));
    return mul(2, mul(rows, add(count(tc_input(node, first + 1)), count(tc_input(node, first + 2)))));
}

static uint64_t recurrent(const tc_node *node, unsigned each) {
    (void)each;
    return layer_of(node, 0);
}

/* The forward sums once more, and two products for each of them. */
static uint64_t recurrence_grad(const tc_node *node, unsigned each) {
    (void)each;
    return mul(3, layer_of(node, 1));
}

/* Products between scores and rows with `products` elements in all, and the other work per element of the scores. */
static uint64_t with_scores(uint64_t scores, uint64_t products, unsigned each) {
    return mul(scores, add(mul(2, products), each));
}

static uint64_t attention(const tc_node *node, unsigned each) {
    const tc_value *q = tc_input(node, 0), *k = tc_input(node, 1), *y = tc_output(node, 0);
    uint64_t keys = dim(k, -2); /* (B, H, S, D) or (B, S, H D): either way Q has an element for each head's D */
    const tc_value *past = tc_input(node, 4);
    keys = add(keys, past ? dim(past, -2) : 0);
    uint64_t heads = tc_value_rank(q) == 3 ? (uint64_t)tc_attr_int(node, "q_num_heads", 1) : dim(q, 1);
    uint64_t scores = mul(mul(dim(q, 0), heads), mul(dim(q, -2), keys));
    return add(mul(scores, each), mul(mul(2, keys), add(count(q), count(y))));
}

/* Y has a row for each row of the scores; K^T is (.., D, T), V (.., T, Dv). */
static uint64_t scores_of(const tc_value *y, const tc_value *kt, const tc_value *v) {
    uint64_t wide = dim(v, -1);
    return wide == 0 ? 0 : mul(count(y) / wide, dim(kt, -1));
}

enum { DRAWN = 9 }; /* an eighth of Philox's seven rounds of ten operations, as the row of Dropout counts it */

static uint64_t dot_attention(const tc_node *node, unsigned each) {
    const tc_value *kt = tc_input(node, 1), *v = tc_input(node, 2);
    return with_scores(scores_of(tc_output(node, 0), kt, v), add(dim(kt, -2), dim(v, -1)),
                       each + (tc_input(node, 6) ? DRAWN : 0));
}

/* dP = dY V^T, dQ = dS K, dK^T = Q^T dS, dV = P^T dY, without those that have no reader; before them Q K^T if P is
 * recomputed. */
static uint64_t gradient(const tc_node *node, unsigned each, bool again) {
    const tc_value *kt = tc_input(node, 2), *v = tc_input(node, 3);
    uint64_t d = dim(kt, -2), wide = dim(v, -1), products = add(wide, again ? d : 0);
    products = add(products, tc_output(node, 0) ? d : 0);
    products = add(products, tc_output(node, 1) ? d : 0);
    products = add(products, tc_output(node, 2) ? wide : 0);
    return with_scores(scores_of(tc_input(node, 0), kt, v), products, each);
}

static uint64_t dot_grad(const tc_node *node, unsigned each) { return gradient(node, each, false); }

static uint64_t tiled_grad(const tc_node *node, unsigned each) {
    return gradient(node, each + (tc_input(node, 7) ? DRAWN : 0), true);
}

/* Scores X W, a row for each label; dX = dZ W^T and dW = X^T dZ in the same pass. */
static uint64_t linear_loss(const tc_node *node, unsigned each) {
    bool transposed = tc_attr_int(node, "transB", 0) != 0;
    uint64_t scores = mul(count(tc_input(node, 2)), dim(tc_input(node, 1), transposed ? 0 : 1)),
             products = 1u + (tc_output(node, 1) ? 1 : 0) + (tc_output(node, 2) ? 1 : 0);
    return with_scores(scores, mul(products, dim(tc_input(node, 0), -1)), each);
}

/* --- rows --------------------------------------------------------------------------------------- */

typedef struct row {
    const char *domain, *op;
    flops_fn flops;
    unsigned each;
    uint32_t in_part;
} row;

#define BIT(n) (1u << (n))
static const row rows[] = {
#define WORK(domain, op, counted_by, each, in_part) {domain, #op, counted_by, each, in_part},
#include "work.def"
#undef WORK
};
static const row other = {"", "", elements, 1, 0};

static const row *row_of(const tc_node *node) {
    for (size_t i = 0; node->op && i < TC_COUNT(rows); i++)
        if (strcmp(rows[i].op, node->op->name) == 0 && strcmp(rows[i].domain, node->op->domain) == 0)
            return &rows[i];
    return &other;
}

/* --- a node ------------------------------------------------------------------------------------- */

static bool is_first_use(const tc_node *node, uint32_t index) {
    for (uint32_t i = 0; i < index; i++)
        if (tc_input(node, i) == tc_input(node, index))
            return false;
    return true;
}

static uint64_t traffic(const tc_node *node, uint32_t in_part) {
    uint64_t written = 0, read = 0;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        written = add(written, bytes_of(tc_output(node, i)));
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (tc_operand_read(node, i) != TC_READ_ELEMENTS || !is_first_use(node, i))
            continue;
        uint64_t bytes = bytes_of(tc_input(node, i));
        read = add(read, i < 32 && (in_part & BIT(i)) && bytes > written ? written : bytes);
    }
    return add(written, read);
}

bool tc_node_runs(const tc_node *node) {
    const tc_value *y = tc_output(node, 0);
    if (y && (tc_value_constant(y) || tc_is_view(node)))
        return false;
    return !(y && node->n_outputs == 1 && y->contents && tc_contents_is_const(y->contents));
}

static tc_work both(tc_work a, tc_work b) {
    return (tc_work){add(a.flops, b.flops), add(a.bytes, b.bytes), a.is_products || b.is_products};
}

static tc_work turn_of(const tc_node *node) {
    tc_work sum = {0};
    TC_FOR_NESTED(nested, node)
        TC_FOR_NODES(inner, nested)
            sum = both(sum, tc_node_work(inner));
    return sum;
}

tc_work tc_node_work(const tc_node *node) {
    if (!tc_node_runs(node))
        return (tc_work){0};
    if (tc_has_nested(node))
        return turn_of(node);
    const row *r = row_of(node);
    return (tc_work){r->flops(node, r->each), traffic(node, r->in_part), r->flops != elements && r->flops != pool};
}
