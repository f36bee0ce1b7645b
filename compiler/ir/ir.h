/* ir.h: the graph. Read this first.
 *
 * A model holds a main graph, model-local functions and opset imports. A graph is a list of nodes in topological
 * order over values in SSA form: a value is produced once, by a node, as a graph input, or as an initializer. Use lists
 * are exact: every node input that names a value is in that value's list, also from nodes of nested graphs (If, Loop).
 * The IR means what ONNX means (domain, op type, attributes); nothing is renamed and no op is special.
 *
 * Ownership: everything lives in model->arena. Strings and tensor bytes may be borrowed from the unpacked message or
 * from a mapped file; both live as long as the model. No function here frees.
 *
 * Origins: the IR has no field for doc strings, metadata, denotations and unknown protobuf fields. They stay in the
 * message that an entity was read from. `origin` points there, opaque to all but onnx_read.c and onnx_write.c. New
 * entities have none.
 *
 * Invariants (verify.c states them as code):
 *  - an operand's value is defined earlier in the same graph or in an enclosing one;
 *  - a value has at most one producer, and value->producer->outputs[value->out_index] == value;
 *  - names are unique within a graph and its enclosing graphs, and not empty;
 *  - an absent optional operand or result is a NULL value ("" in the file), never missing in the middle;
 *  - node->op is the row of ops.def for (domain, op_type), or NULL for an op we do not know.
 */
#ifndef TC_IR_H
#define TC_IR_H
#include "compiler/base/base.h"
#include "dims.h"
#include <stdbool.h>
#include <stdint.h>

/* Element types, with ONNX's numbers (TensorProto.DataType). */
typedef enum tc_dtype {
    TC_UNDEFINED = 0,
    TC_FLOAT = 1,
    TC_UINT8 = 2,
    TC_INT8 = 3,
    TC_UINT16 = 4,
    TC_INT16 = 5,
    TC_INT32 = 6,
    TC_INT64 = 7,
    TC_STRING = 8,
    TC_BOOL = 9,
    TC_FLOAT16 = 10,
    TC_DOUBLE = 11,
    TC_UINT32 = 12,
    TC_UINT64 = 13,
    TC_COMPLEX64 = 14,
    TC_COMPLEX128 = 15,
    TC_BFLOAT16 = 16,
    TC_FLOAT8E4M3FN = 17,
    TC_FLOAT8E4M3FNUZ = 18,
    TC_FLOAT8E5M2 = 19,
    TC_FLOAT8E5M2FNUZ = 20,
    TC_UINT4 = 21,
    TC_INT4 = 22,
    TC_FLOAT4E2M1 = 23,
    TC_FLOAT8E8M0 = 24,
    TC_UINT2 = 25,
    TC_INT2 = 26,
} tc_dtype;
#define TC_DTYPE_COUNT 27

const char *tc_dtype_name(tc_dtype dtype);     /* "float", "int64", ... as in ONNX text; "undefined" */
tc_dtype tc_dtype_from_name(const char *name); /* TC_UNDEFINED if none */
unsigned tc_dtype_bits(tc_dtype dtype);        /* 0 for string and undefined */
bool tc_dtype_is_float(tc_dtype dtype);        /* float, double, float16, bfloat16 */
bool tc_dtype_is_half(tc_dtype dtype);         /* float16, bfloat16 */

#define TC_RANK_UNKNOWN (-1)
#define TC_MAX_RANK 32 /* refused above, with exit code 4 */

typedef enum tc_type_kind { TC_TENSOR, TC_SPARSE_TENSOR, TC_SEQUENCE, TC_OPTIONAL, TC_MAP, TC_OPAQUE } tc_type_kind;

/* Immutable once built; shared freely between values. */
typedef struct tc_type {
    tc_type_kind kind;
    tc_dtype dtype;             /* tensors; key type of a map */
    int rank;                   /* TC_RANK_UNKNOWN, or the number of dims */
    const tc_dim *dims;         /* [rank] */
    const struct tc_type *elem; /* sequence, optional, map value */
    const char *domain, *name;  /* of an opaque type; each may be NULL */
    const void *origin;         /* TypeProto: written back while the type is this very object */
} tc_type;

/* Where the bytes of an external tensor are. The file is opened by tc_tensor_map, not before. */
typedef struct tc_external {
    const char *location; /* path relative to the model's folder */
    uint64_t offset, length;
    bool has_length; /* else: as many bytes as the dims need */
    bool has_offset; /* the file gives an offset, though it may be 0 */
} tc_external;

typedef struct tc_bytes {
    const char *data;
    size_t size;
} tc_bytes;

/* A constant tensor. Data is little-endian and packed as raw_data is (4-bit types two to a byte). */
typedef struct tc_tensor {
    const char *name; /* may be NULL */
    tc_dtype dtype;
    int rank;
    const int64_t *dims;
    uint64_t count;              /* product of dims, checked */
    const void *data;            /* NULL: external and not mapped, or absent, or strings */
    size_t bytes;                /* of data: the size that count and dtype need, also where data is NULL */
    const tc_external *external; /* NULL: data is in the model */
    const tc_bytes *strings;     /* [count] when dtype is TC_STRING */
    const void *origin;          /* TensorProto */
} tc_tensor;

typedef struct tc_value tc_value;
typedef struct tc_node tc_node;
typedef struct tc_graph tc_graph;
typedef struct tc_model tc_model;
typedef struct tc_op tc_op;             /* a row of ops.def: ops.h */
typedef struct tc_contents tc_contents; /* the known elements of a value: contents.h */

/* One operand of one node; a link in the use list of its value. */
typedef struct tc_use {
    tc_value *value; /* NULL: absent */
    tc_node *user;
    uint32_t index; /* user->inputs[index] is this */
    struct tc_use *prev, *next;
} tc_use;

/* The role of a value in a training graph. The pass that makes the backward pass sets it (autodiff, upgrade_ort); in
 * graphs of other tools it is found from loss and seed (memory/roles.h). The file's metadata keeps it for inputs and
 * outputs; it is never read off a name. A copy has the role of its original; tc_value_replace hands an output's role
 * on. */
typedef enum tc_role {
    TC_ROLE_NONE,     /* not known */
    TC_ROLE_FORWARD,  /* an output beside the loss */
    TC_ROLE_LOSS,     /* the output whose gradients the others are */
    TC_ROLE_BACKWARD, /* depends on the gradient of the loss, or is the input where that gradient enters the graph */
    TC_ROLE_GRADIENT, /* an output: the gradient of the loss with regard to gradient_of */
} tc_role;

/* Whether an initializer is a parameter, as the file or the command line says (trainable.c). */
typedef enum tc_learned {
    TC_LEARNED_UNKNOWN, /* a parameter if its type is float and it has two or more elements */
    TC_LEARNED_YES,     /* a parameter of any size */
    TC_LEARNED_NO,      /* a constant of any size */
} tc_learned;

struct tc_value {
    const char *name;
    tc_graph *graph;
    const tc_type *type; /* NULL: nothing known yet */
    tc_node *producer;   /* NULL: graph input or initializer */
    uint32_t out_index;
    bool is_input;               /* also set for an input with an initializer: that is its default */
    tc_learned learned;          /* of an initializer */
    uint32_t n_graph_outputs;    /* how many of its graph's outputs it is */
    const tc_tensor *init;       /* initializer, or NULL */
    tc_use *uses;                /* first; linked by next, in no particular order */
    const tc_contents *contents; /* set by shape inference where the elements are known; NULL else */
    const void *origin;          /* ValueInfoProto */
    tc_role role;
    tc_value *gradient_of; /* of a gradient: the parameter or input, which may have left the graph; NULL: not known */
    uint32_t id;           /* unique in the model, grows with creation */
};

typedef enum tc_attr_kind { /* with ONNX's numbers (AttributeProto.AttributeType) */
                            TC_ATTR_NONE = 0,
                            TC_ATTR_FLOAT = 1,
                            TC_ATTR_INT = 2,
                            TC_ATTR_STRING = 3,
                            TC_ATTR_TENSOR = 4,
                            TC_ATTR_GRAPH = 5,
                            TC_ATTR_FLOATS = 6,
                            TC_ATTR_INTS = 7,
                            TC_ATTR_STRINGS = 8,
                            TC_ATTR_TENSORS = 9,
                            TC_ATTR_GRAPHS = 10,
                            TC_ATTR_SPARSE_TENSOR = 11,
                            TC_ATTR_SPARSE_TENSORS = 12,
                            TC_ATTR_TYPE = 13,
                            TC_ATTR_TYPES = 14,
} tc_attr_kind;

typedef struct tc_attr {
    const char *name;
    tc_attr_kind kind;
    const char *ref; /* in function bodies: the function's attribute that gives the value, or NULL */
    size_t count;    /* of the plural kinds; 1 for the singular */
    union {
        float f;
        int64_t i;
        tc_bytes s;
        const tc_tensor *t;
        tc_graph *g;
        const tc_type *type;
        const float *floats;
        const int64_t *ints;
        const tc_bytes *strings;
        const tc_tensor *const *tensors;
        tc_graph *const *graphs;
        const tc_type *const *types;
    };
    const void *origin; /* AttributeProto: written back unchanged; setters clear it */
} tc_attr;

struct tc_node {
    const char *name;   /* may be "" */
    const char *domain; /* "" is ai.onnx */
    const char *op_type;
    const char *overload; /* "" as a rule */
    const tc_op *op;      /* NULL: unknown op */
    tc_graph *graph;
    tc_node *prev, *next; /* topological order */
    uint64_t order;       /* grows along the list; see tc_node_before */
    uint32_t n_inputs, n_outputs, cap_inputs;
    tc_use *inputs;     /* [n_inputs]; read by tc_input() */
    tc_value **outputs; /* [n_outputs]; NULL entries are absent */
    tc_attr *attrs;
    uint32_t n_attrs;
    uint32_t id;        /* unique in the model, grows with creation */
    uint32_t ordinal;   /* position in the file as read, kept by clones; UINT32_MAX for new nodes */
    const void *origin; /* NodeProto */
};

struct tc_graph {
    tc_model *model;
    tc_graph *parent; /* enclosing graph, or NULL */
    const char *name;
    tc_node *first, *last;
    uint32_t n_nodes;
    tc_value **inputs, **outputs, **initializers;
    uint32_t n_inputs, n_outputs, n_initializers;
    uint32_t cap_inputs, cap_outputs, cap_initializers; /* private to ir.c */
    tc_value **listed; /* values with a value_info entry, in file order; removed ones stay (`names` shows which) */
    uint32_t n_listed;
    tc_map *names;      /* name -> tc_value, this graph's own */
    const void *origin; /* GraphProto */
};

typedef struct tc_opset {
    const char *domain;
    int64_t version;
} tc_opset;

/* A model-local function. Its body's graph has the function's inputs and outputs, untyped, and no initializers. */
typedef struct tc_function {
    const char *domain, *name, *overload;
    bool is_body; /* tempoc wrote it: the definition of an op of ai.tempo, for runtimes without that op (marks.h) */
    tc_graph *body;
    const char **attrs; /* attributes without default */
    size_t n_attrs;
    tc_attr *defaults; /* attributes with default */
    size_t n_defaults;
    tc_opset *opsets;
    size_t n_opsets;
    const void *origin; /* FunctionProto */
} tc_function;

/* The file's description of itself; strings are NULL where it is silent. The writer uses it for models without
 * origin. */
typedef struct tc_pair {
    const char *key, *value;
} tc_pair;
typedef struct tc_model_info {
    const char *producer_name, *producer_version, *domain, *doc_string;
    bool has_version;
    int64_t version; /* model_version */
    const tc_pair *metadata;
    size_t n_metadata;
} tc_model_info;

struct tc_model {
    tc_arena *arena;
    tc_dim_pool *dims;
    const char *path; /* the file that was read, or NULL: external data is beside it */
    int64_t ir_version;
    tc_opset *opsets;
    size_t n_opsets;
    tc_graph *graph;
    tc_function **functions;
    size_t n_functions, cap_functions; /* capacity: where tc_model_add_function has grown the array */
    tc_model_info info;
    tc_map *nested_names; /* names that nested graphs have or had; NULL: there are none */
    uint32_t next_id;
    uint32_t next_ordinal; /* above every ordinal; 0: not counted yet (inline_call.c counts) */
    tc_map *maps;          /* mapped external files: tensor_map.c */
    tc_model *source;      /* of a clone: the model whose strings, tensors and mapped files it borrows; NULL else */
    bool is_step;          /* the file describes a step of training, which the graph is: tc_merge_training */
    uint64_t evaluated;    /* elements that contents.c has evaluated: it stops folding large results at some point */
    const void *origin;    /* ModelProto */
    tc_held held;
};

/* --- models, graphs, values ------------------------------------------------------------------- */
tc_model *tc_model_create(void);        /* held by the recovery point that is open */
void tc_model_destroy(tc_model *model); /* closes its files, too; NULL is fine */
void tc_model_hold(tc_model *model);    /* from now on the innermost recovery point holds it, no longer its former
                                         * owner */
/* The model borrows from the file, which is closed with it. `key`: the location of external data; a key with a leading
 * slash is no location. model_files.c */
struct tc_file;
void tc_model_keep(tc_model *model, const char *key, struct tc_file *file);
void tc_model_keep_file(tc_model *model, struct tc_file *file);                /* under a key of its own */
int64_t tc_model_opset(const tc_model *model, const char *domain);             /* 0: not imported */
void tc_model_set_opset(tc_model *model, const char *domain, int64_t version); /* adds or changes */
void tc_function_import(tc_model *model, tc_function *function, const char *domain, int64_t version); /* unless it is */
tc_function *tc_model_function(const tc_model *model, const char *domain, const char *name, const char *overload);
void tc_model_add_function(tc_model *model, tc_function *function);
/* The file's metadata_props; NULL: it has none under that key. metadata.c */
const char *tc_model_metadata(const tc_model *model, const char *key);
void tc_model_set_metadata(tc_model *model, const char *key, const char *value);   /* adds or changes; copied */
void tc_model_add_metadata(tc_model *model, const tc_pair *added, size_t n_added); /* the same for many pairs */
/* The number of threads that workspaces are sized for, whatever the machine has: 16, or the number under this key of
 * the file's metadata. TC_BAD_INPUT where that is no number from 1 to 4096. metadata.c */
#define TC_THREADS_KEY "tempo.threads"
#define TC_USUAL_THREADS 16
tc_status tc_model_threads(tc_ctx *ctx, const tc_model *model, int *out_threads);

tc_graph *tc_graph_create(tc_model *model, tc_graph *parent, const char *name);
tc_value *tc_graph_find(const tc_graph *graph, const char *name);   /* this graph, then enclosing ones; or NULL */
tc_value *tc_graph_output(const tc_graph *graph, const char *name); /* NULL: no output is called that */
/* A name not in use in the graph, around it or in any nested graph: `base`, else base_1, base_2, ... In the model's
 * arena. */
const char *tc_graph_unique_name(tc_graph *graph, const char *base);
void tc_graph_set_parent(tc_graph *graph, tc_graph *parent); /* of a graph made without one: it becomes nested */
void tc_graph_clear(tc_graph *graph); /* erases all nodes and outputs of a nested graph that is about to be removed */
void tc_graph_add_input(tc_graph *graph, tc_value *value);
void tc_graph_add_output(tc_graph *graph, tc_value *value);
void tc_graph_set_output(tc_graph *graph, uint32_t index, tc_value *value);
void tc_graph_remove_output(tc_graph *graph, uint32_t index); /* those after it move up; its value stays */
void tc_graph_add_initializer(tc_graph *graph, tc_value *value, const tc_tensor *tensor);
void tc_graph_remove_input(tc_graph *graph, tc_value *value);       /* unused, and without an initializer */
void tc_graph_remove_initializer(tc_graph *graph, tc_value *value); /* no uses may remain unless it is an input */
void tc_graph_remove_unused_initializers(tc_graph *graph); /* all values without uses that are no inputs, in one walk */

/* A new value; `name` is made unique first (NULL: "t"). It has no producer until it becomes a node's output. */
tc_value *tc_value_create(tc_graph *graph, const char *name, const tc_type *type);
/* A new value with exactly this name, which must be free (readers use it after checking). */
tc_value *tc_value_create_exact(tc_graph *graph, const char *name, const tc_type *type);
void tc_value_rename(tc_value *value, const char *name); /* the name must be free */
/* Every use of `from`, graph outputs included, becomes a use of `to`. Types are not touched. The role of an output that
 * is a loss or a gradient goes along. */
void tc_value_replace(tc_value *from, tc_value *to);
bool tc_value_is_used(const tc_value *value);     /* by a node or as a graph output */
size_t tc_value_use_count(const tc_value *value); /* graph outputs included */
/* The tensor of an initializer that is no graph input, or of a Constant node; NULL when not constant. */
const tc_tensor *tc_value_constant(const tc_value *value);

/* --- nodes ------------------------------------------------------------------------------------ */
/* A node outside any graph; its outputs are NULL until set. Strings are borrowed if they live in the arena or are
 * literals. */
tc_node *tc_node_create(tc_graph *graph, const char *domain, const char *op_type, uint32_t n_inputs,
                        uint32_t n_outputs);
void tc_node_append(tc_node *node);                        /* at the end of node->graph */
void tc_node_insert_before(tc_node *node, tc_node *where); /* in where's graph */
void tc_node_insert_after(tc_node *node, tc_node *where);
void tc_node_erase(tc_node *node); /* its outputs must be unused; unlinks it and its uses, forgets its outputs */
void tc_node_move_before(tc_node *node, tc_node *where);
bool tc_node_before(const tc_node *a, const tc_node *b);                     /* same graph; amortised O(1) */
void tc_node_set_op(tc_node *node, const char *domain, const char *op_type); /* changes the op, updates `op` */
void tc_node_set_input(tc_node *node, uint32_t index, tc_value *value); /* grows the list as needed; NULL: absent */
void tc_node_resize_inputs(tc_node *node, uint32_t n_inputs);
void tc_node_resize_outputs(tc_node *node, uint32_t n_outputs); /* dropped outputs must be unused */
tc_value *tc_node_add_output(tc_node *node, uint32_t index, const char *name,
                             const tc_type *type);                       /* creates the value */
void tc_node_set_output(tc_node *node, uint32_t index, tc_value *value); /* value must have no producer */
/* Takes the output away: the value keeps its name and uses and waits for tc_node_set_output of another node. */
tc_value *tc_node_take_output(tc_node *node, uint32_t index);

static inline tc_value *tc_input(const tc_node *node, uint32_t index) {
    return index < node->n_inputs ? node->inputs[index].value : NULL;
}
static inline tc_value *tc_output(const tc_node *node, uint32_t index) {
    return index < node->n_outputs ? node->outputs[index] : NULL;
}
bool tc_node_is(const tc_node *node, const char *domain, const char *op_type); /* also when op is NULL */
/* For messages: the node's name, else its first output's, else its op type. */
static inline const char *tc_node_label(const tc_node *node) {
    if (*node->name)
        return node->name;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i])
            return node->outputs[i]->name;
    return node->op_type;
}

/* --- attributes ------------------------------------------------------------------------------- */
tc_attr *tc_attr_find(const tc_node *node, const char *name); /* NULL: absent */
int64_t tc_attr_int(const tc_node *node, const char *name, int64_t otherwise);
float tc_attr_float(const tc_node *node, const char *name, float otherwise);
/* The string, NUL-terminated in the arena, or `otherwise`. */
const char *tc_attr_string(const tc_node *node, const char *name, const char *otherwise);
/* The ints and their count; NULL and 0 when absent. */
const int64_t *tc_attr_ints(const tc_node *node, const char *name, size_t *count);
/* Setting an attribute anew or removing it clears the graphs that it held, so that their nodes no longer use the values
 * around them. */
void tc_attr_set_int(tc_node *node, const char *name, int64_t value);
void tc_attr_set_float(tc_node *node, const char *name, float value);
void tc_attr_set_string(tc_node *node, const char *name, const char *value);
void tc_attr_set_ints(tc_node *node, const char *name, const int64_t *values, size_t count); /* copied */
void tc_attr_set_tensor(tc_node *node, const char *name, const tc_tensor *value);
void tc_attr_set_graph(tc_node *node, const char *name, tc_graph *value);
/* The next nested graph from position `at`, which advances; 0 is the first position. NULL at the end. For
 * TC_FOR_NESTED. */
tc_graph *tc_next_nested(const tc_node *node, uint64_t *at);
bool tc_has_nested(const tc_node *node);
void tc_attr_copy(tc_node *to, const tc_attr *attr); /* adds or replaces; graphs are cloned */
void tc_attr_remove(tc_node *node, const char *name);

/* --- types and tensors ------------------------------------------------------------------------ */
const tc_type *tc_type_tensor(tc_model *model, tc_dtype dtype, int rank,
                              const tc_dim *dims); /* dims copied; NULL: all unknown */
const tc_type *tc_type_tensor_static(tc_model *model, tc_dtype dtype, int rank, const int64_t *dims);
bool tc_type_equal(const tc_type *a, const tc_type *b);
bool tc_type_is_static(const tc_type *type);                    /* a tensor, and every dim is a number */
uint64_t tc_type_elements(const tc_type *type);                 /* of a tensor; a dim that is no number counts as 1 */
const char *tc_type_text(tc_arena *arena, const tc_type *type); /* "float[batch,16]"; "?" for NULL */
tc_dtype tc_value_dtype(const tc_value *value); /* TC_UNDEFINED when not known, not a tensor, or value is NULL */
int tc_value_rank(const tc_value *value);       /* TC_RANK_UNKNOWN likewise */

/* count = product of dims; false when a dim is negative or a product (times 16 bytes) wraps. */
bool tc_shape_count(int rank, const int64_t *dims, uint64_t *count);
size_t tc_tensor_bytes(tc_dtype dtype, uint64_t count);
/* A new tensor in the arena; data copied, or left zero when NULL (write through the const at creation only). */
tc_tensor *tc_tensor_create(tc_model *model, tc_dtype dtype, int rank, const int64_t *dims, const void *data);
/* The transpose of a tensor of rank 2 whose elements are at `data`. */
tc_tensor *tc_tensor_transposed(tc_model *model, const tc_tensor *tensor, const void *data);
tc_tensor *tc_tensor_ints(tc_model *model, const int64_t *values, int64_t count); /* int64[count] */
tc_tensor *tc_tensor_scalar_int(tc_model *model, int64_t value);                  /* int64 [] */
tc_tensor *tc_tensor_scalar(tc_model *model, tc_dtype dtype, double value);       /* [] of any numeric type */
/* A new initializer of the graph with a unique name made from `name`. */
tc_value *tc_constant(tc_graph *graph, const char *name, const tc_tensor *tensor);
/* Element `index` as a number, for numeric tensors with data. */
double tc_tensor_get(const tc_tensor *tensor, uint64_t index);
int64_t tc_tensor_get_int(const tc_tensor *tensor, uint64_t index);
/* Stores a number that the numeric type can hold as element `index` of packed data; float types round to nearest even.
 */
void tc_element_set(tc_dtype dtype, void *data, uint64_t index, double value);
bool tc_dtype_is_number(tc_dtype dtype); /* a type that these three support: no string, complex or small one */
double tc_round_float(tc_dtype dtype, double value); /* to the nearest value of a float type */
/* Makes `data` of an external tensor readable: maps its file read-only, inside the model's folder only. tensor_map.c */
tc_status tc_tensor_map(tc_ctx *ctx, tc_model *model, const tc_tensor *tensor, const void **out_data);
/* Its data, mapped where need be; NULL, and no message, where it cannot be read. tensor_map.c */
const void *tc_tensor_peek(tc_model *model, const tc_tensor *tensor);

/* --- copying ---------------------------------------------------------------------------------- */
/* Copies a node into `graph` (same model), appended; operands through `values` (tc_value -> tc_value) where mapped
 * there; outputs are created under unique names and added to `values`. Nested graphs are cloned. clone.c */
tc_node *tc_node_clone(tc_graph *graph, const tc_node *node, tc_map *values);
tc_graph *tc_graph_clone(tc_graph *parent, const tc_graph *graph, tc_map *values);
/* A separate model with the same graph, to be changed and thrown away. Nodes, names, ordinals, inputs and outputs are
 * those of `model`, in the same order. Functions are shared; contents and the types that shape inference finds are not
 * copied. Strings, tensors and mapped files are borrowed: `model` must outlive the clone, and files that the clone maps
 * stay mapped with `model`. tc_model_destroy ends it. clone.c */
tc_model *tc_model_clone(tc_model *model);
/* Replaces a node that calls `function` by the function's body: attribute references take the call's values or the
 * defaults, or are dropped; the call's outputs stay the same values. The new nodes get ordinals of their own. On an
 * error nothing has changed. inline_call.c */
tc_status tc_inline_call(tc_ctx *ctx, tc_node *node, const tc_function *function);
/* Inlines every call in the graph and its nested graphs for which `want` is true (NULL: every call), calls inside
 * inlined bodies too. `out_calls` (may be NULL) counts them. */
typedef bool (*tc_inline_want)(void *user, const tc_node *node, const tc_function *function);
tc_status tc_inline_all(tc_ctx *ctx, tc_graph *graph, tc_inline_want want, void *user, uint32_t *out_calls);

#define TC_FOR_NODES(node, graph) for (tc_node *node = (graph)->first; node; node = node->next)
/* Safe when the current node is erased or nodes are inserted around it. */
#define TC_FOR_NODES_SAFE(node, graph)                                                                                 \
    for (tc_node *node = (graph)->first, *node##_next = node ? node->next : NULL; node;                                \
         node = node##_next, node##_next = node ? node->next : NULL)
/* The graphs that a node's attributes hold (the bodies of If, Loop, Scan), in order: `nested` is a tc_graph *. An
 * attribute that refers to an attribute of the function holds none. The node must keep its attributes meanwhile. */
#define TC_FOR_NESTED(nested, node)                                                                                    \
    for (uint64_t nested##_at = 0; nested##_at != UINT64_MAX; nested##_at = UINT64_MAX)                                \
        for (tc_graph * nested; (nested = tc_next_nested((node), &nested##_at)) != NULL;)
#define TC_FOR_USES(use, val) for (tc_use *use = (val)->uses; use; use = use->next)

/* Removes nodes, also of nested graphs, without effect on the graph's outputs, and initializers that nothing reads and
 * that are no graph inputs; returns how many nodes. dead.c */
uint32_t tc_remove_dead(tc_graph *graph);
/* Gives nodes whose name another node of their graph has a suffix. node_names.c */
void tc_unique_node_names(tc_model *model);

/* Whether the tensor may be trained: a float initializer that is a parameter, or, if that is unknown, one of two or
 * more elements. Its elements are not constants to compute with, and two of them are never merged. Tensors of Constant
 * nodes are constants whatever their size. */
static inline bool tc_may_be_trained(const tc_value *value) {
    return value->init && tc_dtype_is_float(value->init->dtype) &&
           (value->learned == TC_LEARNED_YES || (value->learned == TC_LEARNED_UNKNOWN && value->init->count > 1));
}
#endif
