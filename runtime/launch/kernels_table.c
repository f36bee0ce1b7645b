/* kernels_table.c: the rows of kernels.def as a table, found by domain and op. Launch functions are declared from the
 * same rows: adding an op touches its launch file and its row only. */
#include "compiler/cli/cli.h"
#include "runtime/device/device.h"
#include "launch.h"
#include "compiler/ir/ops.h"
#include <pthread.h>
#include <string.h>

#define KERNEL(domain, op, on_cpu, on_cuda, launch_fn)                                                                 \
    tc_status launch_fn(rt_launcher *launcher, const tc_node *node, rt_launch *launch);
#include "kernels.def"
#undef KERNEL

#define NONE 0
#define BIT(dtype) (UINT32_C(1) << (dtype))
#define F (BIT(TK_F32) | BIT(TK_F64) | BIT(TK_F16) | BIT(TK_BF16))
#define BYTES (BIT(TK_I8) | BIT(TK_U8))
#define WIDE (BIT(TK_I32) | BIT(TK_I64))
#define UWIDE (BIT(TK_U32) | BIT(TK_U64))
#define SIGNED (BIT(TK_I8) | BIT(TK_I16) | WIDE)
#define UNSIGNED (BIT(TK_U8) | BIT(TK_U16) | UWIDE)
#define I (SIGNED | UNSIGNED)
#define B BIT(TK_BOOL)
#define N (F | I)
#define ANY (F | I | B)

#define KERNEL(domain, op, on_cpu, on_cuda, launch_fn)                                                                 \
    {domain, op, {[RT_CPU] = on_cpu, [RT_CUDA] = on_cuda}, launch_fn},
static const rt_kernel_row rows[] = {
#include "kernels.def"
    {NULL, NULL, {0}, NULL},
};

size_t rt_kernel_count(void) { return TC_COUNT(rows) - 1; }

const rt_kernel_row *rt_kernel_at(size_t index) { return index < rt_kernel_count() ? &rows[index] : NULL; }

const rt_kernel_row *rt_kernel_find(const char *domain, const char *op) {
    if (strcmp(domain, "ai.onnx") == 0)
        domain = "";
    for (size_t i = 0; i < rt_kernel_count(); i++)
        if (strcmp(rows[i].op, op) == 0 && strcmp(rows[i].domain, domain) == 0)
            return &rows[i];
    return NULL;
}

/* --- by op ------------------------------------------------------------------------------------ */

enum { MAX_OPS = 1024 };
static const rt_kernel_row *of_op[MAX_OPS]; /* by tc_op.index */
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void fill(void) {
    TC_ASSERT(tc_op_count() <= MAX_OPS);
    for (size_t i = 0; i < tc_op_count(); i++)
        of_op[i] = rt_kernel_find(tc_op_at(i)->domain, tc_op_at(i)->name);
}

const rt_kernel_row *rt_kernel_for(const tc_node *node) {
    pthread_once(&filled, fill);
    return node->op ? of_op[node->op->index] : rt_kernel_find(node->domain, node->op_type);
}

/* --- nodes without a kernel --------------------------------------------------------------------- */

/* What the element types of kernels.def are those of. */
static tc_dtype deciding_dtype(const tc_node *node) {
    const tc_value *decides = tc_input(node, 0);
    decides = decides ? decides : tc_output(node, 0);
    return decides ? tc_value_dtype(decides) : TC_UNDEFINED;
}

bool rt_has_kernel(const rt_device *device, const tc_node *node) {
    const rt_kernel_row *row = rt_kernel_for(node);
    tc_dtype dtype = deciding_dtype(node);
    uint32_t dtypes = row ? row->dtypes[device->kind] : 0;
    return dtype == TC_UNDEFINED ? dtypes != 0 : (dtypes >> dtype & 1) != 0;
}

/* Later ops without a kernel on the device, each once: users who move a model to another device need the whole list. */
static void note_others(tc_ctx *ctx, const rt_device *device, const tc_node *first) {
    tc_map *told = tc_map_create(ctx->arena);
    const char *names = "";
    tc_map_set(told, first->op_type, told);
    for (const tc_node *node = first->next; node; node = node->next) {
        if (rt_has_kernel(device, node) || tc_map_get(told, node->op_type))
            continue;
        tc_map_set(told, node->op_type, told);
        names = tc_arena_printf(ctx->arena, "%s%s%s of %s", names, names[0] ? ", " : "", tc_quote(ctx, node->op_type),
                                tc_dtype_name(deciding_dtype(node)));
    }
    if (names[0])
        tc_note(ctx, NULL, "device '%s' has no kernel for these either: %s", device->name, names);
}

tc_status rt_tell_no_kernel(tc_ctx *ctx, const rt_device *device, const tc_node *node) {
    const rt_kernel_row *row = rt_kernel_for(node);
    const char *domain = node->domain[0] ? node->domain : "ai.onnx";
    if (row && device->kind != RT_CPU)
        tc_error(ctx, TC_UNSUPPORTED, node, "device '%s' has no %s kernel for this op", device->name,
                 tc_dtype_name(deciding_dtype(node)));
    else if (row)
        tc_error(ctx, TC_UNSUPPORTED, node, "there is no %s kernel for this op", tc_dtype_name(deciding_dtype(node)));
    else
        tc_error(ctx, TC_UNSUPPORTED, node,
                 "there is no kernel for op %s of domain %s, and the model has no function for it",
                 tc_quote(ctx, node->op_type), tc_quote(ctx, domain));
    const char *way = row ? NULL : tc_way_around(node);
    tc_hint(ctx, "%s%stempo-run --device=%s --list-kernels lists what there is", way ? way : "", way ? "; " : "",
            device->name);
    if (device->kind != RT_CPU)
        note_others(ctx, device, node);
    return TC_UNSUPPORTED;
}
