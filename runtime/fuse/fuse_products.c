/* fuse_products.c: a product with a bias, a sum or the gradient of a bias in one launch: each saves a walk through
 * memory, which costs the library's products almost nothing. */
#include "fuse_products.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "fuse_transposes.h"

typedef struct fuser {
    tc_arena *arena, *scratch;
    tc_map *products; /* node -> rt_fused_product */
    tc_map *averaged; /* values; or NULL */
    tc_map *lines;    /* storage of an operand whose lines a product sums over -> the product's node */
} fuser;

/* --- nodes as products ---------------------------------------------------------------------------- */

static bool has_dims(const tc_value *value, int rank) {
    return value && value->type && tc_type_is_static(value->type) && value->type->rank >= rank;
}

static int64_t dim(const tc_value *value, int from_last) {
    return value->type->dims[value->type->rank - from_last].value;
}

static int64_t count(const tc_value *value) { return (int64_t)tc_type_elements(value->type); }

/* Every row of A by one matrix. */
static bool read_matmul(const tc_node *node, rt_fused_product *out) {
    const tc_value *a = tc_input(node, 0), *b = tc_input(node, 1);
    const bool turned = tc_attr_int(node, RT_TRANS_B, 0) != 0;
    if (!has_dims(a, 2) || !has_dims(b, 2) || b->type->rank != 2 || dim(a, 1) != dim(b, 2))
        return false;
    const int64_t k = dim(a, 1), n = dim(b, 1);
    out->product = (tk_product){
        .m = k > 0 ? count(a) / k : 0, .n = n, .k = k, .lda = k, .ldb = turned ? k : n, .trans_b = turned, .alpha = 1};
    return true;
}

static bool is_row(const tc_value *value, int64_t n) {
    return has_dims(value, 1) && count(value) == n && dim(value, 1) == n;
}

/* The product adds nothing or a bias. */
static bool read_gemm(const tc_node *node, rt_fused_product *out) {
    const tc_value *a = tc_input(node, 0), *b = tc_input(node, 1), *c = tc_input(node, 2);
    const bool ta = tc_attr_int(node, "transA", 0) != 0, tb = tc_attr_int(node, "transB", 0) != 0;
    const float beta = tc_attr_float(node, "beta", 1);
    if (!has_dims(a, 2) || !has_dims(b, 2) || dim(a, ta ? 2 : 1) != dim(b, tb ? 1 : 2))
        return false;
    out->product = (tk_product){.m = dim(a, ta ? 1 : 2),
                                .n = dim(b, tb ? 2 : 1),
                                .k = dim(a, ta ? 2 : 1),
                                .lda = dim(a, 1),
                                .ldb = dim(b, 1),
                                .trans_a = ta,
                                .trans_b = tb,
                                .alpha = (double)tc_attr_float(node, "alpha", 1)};
    out->has_bias = c != NULL;
    return !c || (beta == 1 && is_row(c, out->product.n));
}

static bool is_narrow_float(tc_dtype dtype) { return tc_dtype_is_float(dtype) && dtype != TC_DOUBLE; }

/* Whether the node is a product that may absorb another node, and which. */
static bool read_product(const fuser *f, const tc_node *node, rt_fused_product *out) {
    const rt_fused_product *known = tc_map_get_ptr(f->products, node);
    *out = known ? *known : (rt_fused_product){0};
    if (known)
        return true;
    if (!is_narrow_float(tc_value_dtype(tc_output(node, 0))) ||
        !(tc_node_is(node, "", "MatMul") ? read_matmul(node, out)
                                         : tc_node_is(node, "", "Gemm") && read_gemm(node, out)))
        return false;
    const tk_product *p = &out->product;
    out->product.batch = 1;
    return p->m > 0 && p->n > 0 && p->k > 0;
}

/* The node becomes ai.tempo.Product, if it is none yet. */
static rt_fused_product *make_product(fuser *f, tc_node *node) {
    rt_fused_product *made = tc_map_get_ptr(f->products, node);
    if (made)
        return made;
    made = TC_NEW(f->arena, rt_fused_product);
    read_product(f, node, made);
    if (!made->has_bias)
        tc_node_resize_inputs(node, 2);
    tc_node_set_op(node, "ai.tempo", "Product");
    tc_map_set_ptr(f->products, node, made);
    return made;
}

/* --- values with one reader --------------------------------------------------------------------------- */

static bool is_averaged(const fuser *f, const tc_value *value) {
    return f->averaged && tc_map_get_ptr(f->averaged, value);
}

/* The product that the value shows, if nothing else reads that, and it has absorbed nothing yet. */
static tc_node *product_behind(const fuser *f, tc_value *value, rt_fused_product *out) {
    while (value && value->producer && tc_value_use_count(value) == 1 && !is_averaged(f, value)) {
        tc_node *node = value->producer;
        if (read_product(f, node, out))
            return value->out_index == 0 && !out->has_bias && !out->has_add && !out->product.sums_of ? node : NULL;
        value = tc_is_view(node) ? tc_input(node, 0) : NULL;
    }
    return NULL;
}

static bool is_there_for(const tc_value *value, const tc_node *node) {
    return !value->producer || tc_node_before(value->producer, node);
}

/* Erases the views between the product and `value`, which have no readers any more. */
static void erase_views(tc_value *value, const tc_node *product) {
    while (value->producer && value->producer != product) {
        tc_node *view = value->producer;
        value = tc_input(view, 0);
        tc_node_erase(view);
    }
}

/* Removes node `last`, which reads the product as `shown`; its result is the product's. */
static void give_result(tc_node *product, tc_value *shown, tc_node *last) {
    tc_value *result = tc_node_take_output(last, 0);
    tc_node_erase(last);
    erase_views(shown, product);
    tc_node_take_output(product, 0);
    tc_node_set_output(product, 0, result);
}

/* --- a bias ------------------------------------------------------------------------------------- */

static bool take_bias(fuser *f, tc_node *add) {
    for (uint32_t entry = 0; entry < 2; entry++) {
        tc_value *shown = tc_input(add, entry), *bias = tc_input(add, 1 - entry);
        rt_fused_product p;
        tc_node *product = product_behind(f, shown, &p);
        if (!product || !is_row(bias, p.product.n) || !is_there_for(bias, product) ||
            !is_row(bias, dim(add->outputs[0], 1)) || count(add->outputs[0]) != p.product.m * p.product.n)
            continue;
        make_product(f, product)->has_bias = true;
        tc_node_set_input(product, 2, bias);
        give_result(product, shown, add);
        return true;
    }
    return false;
}

/* --- sums ----------------------------------------------------------------------------------------- */

#define MOST_TERMS 16

/* A term of a sum: a product that nothing else reads, or anything. */
typedef struct term {
    tc_value *value;
    tc_node *product; /* NULL: the product cannot absorb another term */
    bool is_taken;    /* into a product: it is no term any more */
} term;

static bool read_terms(const fuser *f, const tc_node *node, term *terms) {
    if (node->n_inputs < 2 || node->n_inputs > MOST_TERMS)
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        tc_value *value = tc_input(node, i);
        rt_fused_product p;
        if (!value || !value->type || !tc_type_equal(value->type, node->outputs[0]->type))
            return false;
        terms[i] = (term){value, product_behind(f, value, &p), false};
    }
    return true;
}

/* The first of the products after `after` (NULL: of all); NULL: there is none. */
static term *next_product(term *terms, uint32_t n, const term *after) {
    term *first = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (terms[i].product && (!after || tc_node_before(after->product, terms[i].product)) &&
            (!first || tc_node_before(terms[i].product, first->product)))
            first = &terms[i];
    return first;
}

/* A term that is no product, and is there when the product is made. */
static term *other_for(term *terms, uint32_t n, const tc_node *product) {
    for (uint32_t i = 0; i < n; i++)
        if (!terms[i].product && !terms[i].is_taken && is_there_for(terms[i].value, product))
            return &terms[i];
    return NULL;
}

/* The remaining terms are those of the sum; where one is left, the last product is the sum. */
static void keep_rest(tc_node *sum, term *terms, uint32_t n, term *last) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!terms[i].is_taken)
            tc_node_set_input(sum, left++, terms[i].value);
    if (left == 1) {
        give_result(last->product, last->value, sum);
    } else {
        tc_node_resize_inputs(sum, left);
        if (left == 2)
            tc_node_set_op(sum, "", "Add");
    }
}

/* The first product absorbs a term that is there, each later one the product before. */
static bool take_terms(fuser *f, tc_node *sum) {
    term terms[MOST_TERMS], *last = NULL;
    const uint32_t n = sum->n_inputs;
    bool any = false;
    if (!read_terms(f, sum, terms))
        return false;
    for (term *at = next_product(terms, n, NULL); at; last = at, at = next_product(terms, n, at)) {
        term *other = last ? last : other_for(terms, n, at->product);
        if (!other)
            continue;
        make_product(f, at->product)->has_add = true;
        tc_node_set_input(at->product, 2, other == last ? last->product->outputs[0] : other->value);
        other->is_taken = any = true;
    }
    if (!any)
        return false;
    keep_rest(sum, terms, n, last);
    for (uint32_t i = 0; i < n; i++)
        if (terms[i].is_taken && terms[i].product)
            erase_views(terms[i].value, terms[i].product);
    return true;
}

/* --- the gradient of a bias ----------------------------------------------------------------------- */

/* Products that sum over the lines of an operand: op(A) of A stored [k, m], op(B) of B stored [k, n]. */
static void note_lines(fuser *f, tc_node *node) {
    rt_fused_product p;
    if (!read_product(f, node, &p) || p.has_bias || p.product.alpha != 1)
        return;
    const bool lies[] = {p.product.trans_a, !p.product.trans_b};
    for (uint32_t i = 0; i < 2; i++) {
        const tc_value *storage = tc_value_storage(tc_input(node, i));
        if (lies[i] && !tc_map_get_ptr(f->lines, storage))
            tc_map_set_ptr(f->lines, storage, node);
    }
}

/* Whether all dims but the last are reduced. */
static bool sums_rows(const tc_node *node) {
    const tc_value *inp = tc_input(node, 0), *axes = tc_input(node, 1);
    const tc_tensor *known = axes ? tc_value_constant(axes) : NULL;
    if (!known || !known->data || !has_dims(inp, 2) || known->count != (uint64_t)inp->type->rank - 1)
        return false;
    uint32_t reduced = 0;
    for (uint64_t i = 0; i < known->count; i++) {
        const int64_t axis = tc_tensor_get_int(known, i);
        reduced |= 1u << (axis < 0 ? axis + inp->type->rank : axis);
    }
    return reduced == (1u << (inp->type->rank - 1)) - 1;
}

static bool all_behind(const tc_value *value, const tc_node *node) {
    TC_FOR_USES(use, value)
        if (use->user->graph != node->graph || !tc_node_before(node, use->user))
            return false;
    return true;
}

static void take_sums(fuser *f, tc_node *sum) {
    const tc_value *inp = tc_input(sum, 0);
    if (!sums_rows(sum) || !is_narrow_float(tc_value_dtype(inp)) || !all_behind(sum->outputs[0], sum))
        return;
    const tc_value *storage = tc_value_storage(inp);
    tc_node *product = tc_map_get_ptr(f->lines, storage);
    rt_fused_product p;
    if (!product || !read_product(f, product, &p) || p.has_bias || p.has_add || p.product.sums_of ||
        !all_behind(sum->outputs[0], product))
        return;
    const tk_product_sums of =
        tc_value_storage(tc_input(product, 0)) == storage && p.product.trans_a ? TK_SUMS_OF_A : TK_SUMS_OF_B;
    if (dim(inp, 1) != (of == TK_SUMS_OF_A ? p.product.m : p.product.n) || count(inp) != dim(inp, 1) * p.product.k)
        return;
    make_product(f, product)->product.sums_of = of;
    tc_value *result = tc_node_take_output(sum, 0);
    tc_node_erase(sum);
    tc_node_resize_outputs(product, 2);
    tc_node_set_output(product, 1, result);
}

/* --- all of them ---------------------------------------------------------------------------------- */

static void take_in(fuser *f, tc_node *node) {
    const bool adds = tc_node_is(node, "", "Add");
    if (node->n_outputs == 0 || !node->outputs[0] || !has_dims(node->outputs[0], 1))
        return;
    if (adds && take_bias(f, node))
        return;
    if (adds || tc_node_is(node, "", "Sum"))
        take_terms(f, node);
    else if (tc_node_is(node, "", "ReduceSum"))
        take_sums(f, node);
}

tc_map *rt_fuse_products(tc_graph *graph, tc_arena *arena, tc_map *averaged) {
    tc_arena *scratch = tc_arena_create();
    fuser f = {arena, scratch, tc_map_create(arena), averaged, tc_map_create(scratch)};
    TC_FOR_NODES(node, graph)
        note_lines(&f, node);
    TC_FOR_NODES_SAFE(node, graph)
        take_in(&f, node);
    tc_arena_destroy(scratch);
    return f.products;
}
