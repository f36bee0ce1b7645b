/* products.c: a table of ops that multiply by a weight, and the names that PyTorch had for it. A weight reaches its
 * product as it is, or through transposes and casts. */
#include "products.h"
#include "passes/weights/parameter_uses.h"
#include "passes/weights/weights.h"
#include <string.h>

/* --- which nodes ------------------------------------------------------------------------------ */
static bool read_matmul(const tc_node *node, tc_product *p) {
    p->x = tc_input(node, 0), p->factor = tc_input(node, 1);
    return true;
}

static bool read_gemm(const tc_node *node, tc_product *p) {
    p->x = tc_input(node, 0), p->factor = tc_input(node, 1), p->bias = tc_input(node, 2);
    p->flipped = tc_attr_int(node, "transB", 0) != 0;
    return tc_attr_int(node, "transA", 0) == 0 && tc_attr_float(node, "alpha", 1) == 1 &&
           (!p->bias || tc_attr_float(node, "beta", 1) == 1);
}

static const struct product_op {
    const char *domain, *op;
    bool (*read)(const tc_node *node, tc_product *p); /* x, factor, bias, flipped */
} ops[] = {{"", "MatMul", read_matmul}, {"", "Gemm", read_gemm}};

/* The initializer before transposes and casts. */
static void find_weight(tc_product *p) {
    p->turned = !p->flipped;
    p->weight = p->factor;
    while (p->weight && p->weight->producer) {
        const tc_node *node = p->weight->producer;
        bool transposes = tc_node_is(node, "", "Transpose");
        if (!transposes && !tc_node_is(node, "", "Identity") && !tc_node_is(node, "", "Cast"))
            break;
        p->turned = p->turned != transposes; /* of two axes, so it swaps them or, with perm [0, 1], is none */
        size_t n = 0;
        const int64_t *perm = transposes ? tc_attr_ints(node, "perm", &n) : NULL;
        if (n == 2 && perm[0] == 0)
            p->turned = !p->turned;
        p->weight = tc_input(node, 0);
    }
}

/* x W + b in two nodes: the bias is a vector of the file, and nothing else reads the product. */
static void find_bias(tc_product *p) {
    const tc_value *result = p->node->outputs[0];
    const tc_use *use = result->uses;
    p->end = p->node;
    if (p->bias || result->n_graph_outputs || !use || use->next || !tc_node_is(use->user, "", "Add"))
        return;
    tc_value *other = tc_input(use->user, 1 - use->index);
    if (other && other->init && other->init->rank == 1)
        p->end = use->user, p->bias = other;
}

static bool read_product(tc_node *node, tc_product *p) {
    for (size_t i = 0; i < TC_COUNT(ops); i++) {
        *p = (tc_product){.node = node};
        if (!tc_node_is(node, ops[i].domain, ops[i].op) || !ops[i].read(node, p))
            continue;
        find_weight(p);
        find_bias(p);
        const tc_tensor *tensor = p->weight ? p->weight->init : NULL;
        if (!tensor || p->weight->graph != node->graph || tensor->rank != 2 || !tc_dtype_is_float(tensor->dtype) ||
            !tc_dtype_is_float(tc_value_dtype(p->x)))
            return false;
        p->in = tensor->dims[p->turned ? 0 : 1], p->out = tensor->dims[p->turned ? 1 : 0];
        return p->in > 0 && p->out > 0;
    }
    return false;
}

/* --- names ------------------------------------------------------------------------------------ */
const char *tc_module_of_weight(tc_arena *arena, const char *weight) {
    static const char *const ends[] = {".MatMul.weight", ".weight"};
    for (size_t i = 0; i < TC_COUNT(ends); i++)
        if (tc_ends_with(weight, ends[i]) && strlen(weight) > strlen(ends[i]))
            return tc_arena_strndup(arena, weight, strlen(weight) - strlen(ends[i]));
    return weight;
}

typedef struct naming {
    tc_pass_env *env;
    tc_arena *scratch;
    tc_graph *graph;
    tc_torch_program *program;
    const tc_torch_signature *signature;
} naming;

static bool reads(const tc_use *use, const tc_product *p) {
    return use->user == p->node || (use->user->n_outputs == 1 && use->user->outputs[0] == p->factor);
}

/* The parameter that this use of the initializer means, if the exporter stored several equal ones once. */
static const char *name_of_use(const naming *n, const tc_product *p) {
    tc_use_groups groups = tc_group_uses(n->scratch, n->program, p->weight, false);
    for (size_t i = 0; groups.recorded && i < groups.n; i++)
        for (size_t k = 0; k < groups.groups[i].n; k++)
            if (reads(groups.groups[i].uses[k], p))
                return groups.groups[i].name;
    return NULL;
}

static bool is_embedding(const tc_value *weight) {
    TC_FOR_USES(use, weight)
        if (tc_node_is(use->user, "", "Gather") && use->index == 0)
            return true;
    return false;
}

/* Of a parameter with several names, that of the product's module: "lm_head.weight", not "embed.weight". */
static const char *tied_name(const naming *n, const tc_product *p, const char *name) {
    const char *module = is_embedding(p->weight) ? tc_script_module(n->scratch, p->node) : "";
    if (*module)
        return tc_arena_printf(n->scratch, "%s.weight", module);
    const tc_torch_input *own = n->signature ? tc_map_get(n->signature->by_target, name) : NULL;
    const tc_torch_input *other =
        own ? tc_torch_tied_name(n->scratch, n->signature, n->graph, tc_torch_module(n->scratch, p->node), own) : NULL;
    return other ? other->target : name;
}

/* Of a weight whose name is lost, by the bias of its module. */
static const char *name_by_bias(const naming *n, const tc_product *p) {
    const char *bias = p->bias ? tc_torch_name_or_own(n->env->summary, p->bias->name) : "";
    if (!tc_name_is_generated(p->weight->name) || !tc_ends_with(bias, ".bias"))
        return NULL;
    return tc_arena_printf(n->scratch, "%.*s.weight", (int)(strlen(bias) - strlen(".bias")), bias);
}

static void name_product(const naming *n, tc_product *p) {
    tc_arena *arena = n->env->ctx->arena;
    tc_torch_name found;
    const char *name = name_of_use(n, p);
    if (!name && tc_torch_find_name(arena, n->env->summary, p->weight, &found))
        name = found.name;
    name = name ? name : name_by_bias(n, p);
    name = name ? name : p->weight->name;
    const char *tied = tied_name(n, p, name);
    bool embedding = strcmp(tied, name) != 0; /* the file's name is that of another module, too */
    name = tied;
    p->name = tc_arena_strdup(arena, name), p->module = tc_module_of_weight(arena, p->name);
    p->own_name = tc_arena_strdup(arena, p->weight->name),
    p->own_module = embedding ? p->module : tc_module_of_weight(arena, p->own_name);
}

size_t tc_find_products(tc_pass_env *env, tc_arena *scratch, tc_graph *graph, tc_product **out_products) {
    const naming names = {env, scratch, graph, tc_torch_program_read(scratch, graph),
                          tc_torch_signature_read(scratch, graph)};
    tc_product *products = TC_NEW_ARRAY(scratch, tc_product, graph->n_nodes + (size_t)1);
    size_t n = 0;
    TC_FOR_NODES(node, graph)
        if (read_product(node, &products[n]))
            name_product(&names, &products[n++]);
    *out_products = products;
    return n;
}
