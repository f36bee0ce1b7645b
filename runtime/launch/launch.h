/* launch.h: from a node to a launch. kernels.def has one row per op; its launch function reads the node's attributes
 * and static shapes, chooses the kernel for the element types, and fills a launch. That happens once per set of shapes;
 * a launch allocates nothing. */
#ifndef TEMPO_LAUNCH_H
#define TEMPO_LAUNCH_H
#include "compiler/ir/ir.h"
#include "kernels/table.h"
#include "runtime/device/device.h"

/* One operand or result of a launch. `data` is set by the plan before the first run: kernels read it when they run.
 * Operands are read-only; data is aligned to its element at least, results and workspace to 64 bytes. An unused result
 * beyond the first is absent; result 0 always has a buffer. Data is never NULL where present, also when count is 0. */
typedef struct rt_arg {
    void *data; /* NULL: absent */
    tk_dtype dtype;
    int rank;
    const int64_t *dims; /* [rank] */
    int64_t count;
    bool present; /* false: the operand or result is absent */
} rt_arg;

/* The source of random numbers: read when a launch runs, so that a session can be seeded again between runs. */
typedef struct rt_random {
    int64_t pair[2]; /* seed and step, Philox's key and its last counter word: the elements of `tempo.seed` */
    bool ort;        /* Dropouts draw ONNX Runtime's masks by their own seeds and the step */
} rt_random;

typedef struct rt_launch rt_launch;
/* Calls kernels on operands and results, whose bytes are the device's: it reads none of them. */
typedef void (*rt_run_fn)(tk_queue *q, const rt_launch *launch);

/* Parts that move without changing, along the first dims: results that are bytes of operand 0 (Split, Slice), or
 * operands that become bytes of result 0 (Concat). The plan may place the parts in the whole; the launch copies the
 * others. */
typedef enum rt_parts { RT_NO_PARTS, RT_RESULTS, RT_OPERANDS } rt_parts;

#define RT_INPLACE 2 /* the results that may be written over operands: the first ones */

struct rt_launch {
    rt_run_fn run;
    const tk_table *kernels; /* of the plan's device */
    const void *params;      /* from rt_params */
    const tc_node *node;     /* for messages and profiles */
    uint32_t n_in, n_out;
    rt_arg *in, *out;
    size_t workspace_bytes; /* asked for by the launch function; planned like a buffer that lives during this launch */
    void *workspace;
    int view_of; /* >= 0: result 0 is operand view_of's bytes unchanged (Reshape): no kernel runs */
    rt_parts parts;
    const size_t *part_at; /* [n_out] or [n_in]: bytes from the begin of the whole */
    const void *constant;  /* result 0 is known already, these bytes, as long as the launcher's arena: no kernel runs */
    uint64_t inplace[RT_INPLACE]; /* of a result, bit i: it may be written over operand i (same bytes, each element read
                                   * before it is written); if an operand occurs twice the plan asks for both bits */
    const uint32_t *over;         /* [n_out], instead of these: result i may be written over operand over[i] alone */
};

/* Data that a kernel reads besides operands: uploaded to the device once, when the plan is made. */
typedef struct rt_table {
    const void *data; /* the host's */
    size_t bytes;
    void *pointer; /* in the launch's parameters: gets the table's address on the device */
    void *memory;  /* the device's, where it has memory of its own */
    bool changes;  /* from run to run: uploaded each time */
} rt_table;

typedef struct rt_launcher {
    tc_ctx *ctx;
    tc_model *model;
    tc_arena *arena;         /* lives as long as the launches */
    const tk_table *kernels; /* of the device */
    int slots;               /* of the queue that the launches run on: threads that a workspace has scratch for */
    const rt_random *random; /* lives as long as the launches */
    const tc_map *chains; /* nodes with chains of elementwise ops -> rt_chains (fuse_chains.h); NULL: there are none */
    const tc_map *products; /* nodes ai.tempo.Product -> rt_fused_product (fuse_products.h); NULL: there are none */
    rt_table *tables;       /* of all launches */
    size_t n_tables, cap_tables;
} rt_launcher;

/* Fills `launch` (in, out, node are set already). TC_UNSUPPORTED for attributes or types it has no kernel for. */
typedef tc_status (*rt_launch_fn)(rt_launcher *launcher, const tc_node *node, rt_launch *launch);

/* A zeroed parameter block of that type for launch->params. */
#define RT_PARAMS(launcher, type) ((type *)tc_arena_alloc((launcher)->arena, 1, sizeof(type)))

/* Operand or result `index`, or NULL when it is absent. For launch functions and for running. */
static inline const rt_arg *rt_in(const rt_launch *launch, uint32_t index) {
    return index < launch->n_in && launch->in[index].present ? &launch->in[index] : NULL;
}
static inline const rt_arg *rt_out(const rt_launch *launch, uint32_t index) {
    return index < launch->n_out && launch->out[index].present ? &launch->out[index] : NULL;
}

/* Whether the result may be written over the operand. */
static inline bool rt_may_lie_over(const rt_launch *launch, uint32_t result, uint32_t operand) {
    if (launch->over)
        return launch->over[result] == operand;
    return result < RT_INPLACE && operand < 64 && (launch->inplace[result] >> operand & 1) != 0;
}

/* Elements of a small operand that must be known when the launch is made (axes, Slice's bounds, Reshape's target): from
 * constants, from contents of graph inputs, or TC_UNSUPPORTED naming the node. `out_ints` is in the launcher's
 * arena. */
tc_status rt_known_ints(rt_launcher *launcher, const tc_node *node, uint32_t input, const int64_t **out_ints,
                        int64_t *out_count);

/* Adds a table of `bytes` at `data`, which lives as long as the launches; `pointer` is the address of the pointer in
 * the launch's parameters by which the kernel reads it. */
rt_table *rt_add_table(rt_launcher *launcher, const void *data, size_t bytes, void *pointer);

/* How many gradients the node updates weights by, from operand *out_first on; 0: it is no optimizer. One that adds
 * gradients up (Accumulate) is none: its sums go into another. launch_optimizer.c */
uint32_t rt_gradient_operands(const tc_node *node, uint32_t *out_first);

/* Rows of kernels.def. */
typedef struct rt_kernel_row {
    const char *domain, *op;
    uint32_t dtypes[RT_DEVICE_KINDS]; /* bit 1 << tk_dtype: element types of operand 0 (of result 0 where there is no
                                       * operand) that a device of this kind has a kernel for; 0: it has none */
    rt_launch_fn launch;
} rt_kernel_row;
/* NULL: no kernel on any device; the op's function body is inlined. */
const rt_kernel_row *rt_kernel_find(const char *domain, const char *op);
/* Of the op that the node has in ops.def, whatever function it names. O(1) where ops.def has it. */
const rt_kernel_row *rt_kernel_for(const tc_node *node);
size_t rt_kernel_count(void);
const rt_kernel_row *rt_kernel_at(size_t index);

/* Whether the device has a kernel for the node as it is: for the op, and for its element types where those are known;
 * and the error for a node without. kernels_table.c */
bool rt_has_kernel(const rt_device *device, const tc_node *node);
tc_status rt_tell_no_kernel(tc_ctx *ctx, const rt_device *device, const tc_node *node);
#endif
