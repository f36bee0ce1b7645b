/* emulated_device.c: the CUDA device on the doubles, which are told before each launch what it may touch: its operands,
 * results and workspace, tables of the plan, and what is the device's own. */
#include "kernels/matmul/cublas.h"
#include "runtime/plan/plan.h"
#include "test/cuda/doubles/cuda_work.h"
#include "emulated_device.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_SPANS = 4096 };

typedef struct spans {
    emu_span list[MOST_SPANS];
    int n;
} spans;

static void add(spans *s, const void *at, size_t bytes, bool writable) {
    if (s->n == MOST_SPANS)
        fprintf(stderr, "emulated device: more than %d spans in a launch\n", MOST_SPANS), abort();
    if (bytes > 0)
        s->list[s->n++] = (emu_span){at, bytes, writable};
}

static void add_arg(spans *s, const rt_arg *arg, bool writable) {
    if (arg->present)
        add(s, arg->data, (size_t)arg->count * tk_size(arg->dtype), writable);
}

static void begin(tk_queue *q, const rt_plan *plan, uint32_t index) {
    static spans s;
    const tk_cuda *cuda = tk_queue_cuda(q);
    const rt_launch *launch = &plan->launches[index];
    s.n = 0;
    for (uint32_t i = 0; i < launch->n_in; i++)
        add_arg(&s, &launch->in[i], false);
    for (uint32_t i = 0; i < launch->n_out; i++)
        add_arg(&s, &launch->out[i], true);
    add(&s, launch->workspace, launch->workspace_bytes, true);
    for (size_t i = 0; i < plan->launcher.n_tables; i++)
        add(&s, plan->launcher.tables[i].memory, plan->launcher.tables[i].bytes, false);
    add(&s, cuda->fault, sizeof *cuda->fault, true);
    size_t bytes;
    const void *products = tk_cublas_workspace(cuda->cublas, &bytes);
    add(&s, products, bytes, true);
    emu_declare(cuda->stream, s.list, s.n);
}

/* What follows a run is nobody's launch. */
static tk_status wait(tk_queue *q, uint32_t *out_launch) {
    emu_declare(tk_queue_cuda(q)->stream, NULL, 0);
    return rt_device_cuda.wait(q, out_launch);
}

rt_device rt_device_emulated;

__attribute__((constructor)) static void set_up(void) {
    const char *order = getenv("EMU_ORDER"), *bucket = getenv("EMU_BUCKET");
    emu_order = order ? (unsigned)strtoul(order, NULL, 10) : 0;
    rt_bucket_bytes = bucket ? strtoul(bucket, NULL, 10) : rt_bucket_bytes;
    rt_device_emulated = rt_device_cuda;
    rt_device_emulated.begin = begin;
    rt_device_emulated.wait = wait;
}
