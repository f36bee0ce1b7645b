/* kernels_table.c: the rows of kernels.def as a table, found by domain and op. Launch functions are declared from the
 * same rows, so that adding an op touches its launch file and its row only. */
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
