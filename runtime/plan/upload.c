/* upload.c: copies the host's bytes to a device with memory of its own, and results back: parameters once a session,
 * tables once a plan, inputs before each run. A device that reads the host's memory gets addresses instead of copies.
 */
#include "compiler/base/base.h"
#include "runtime/files/files.h"
#include "kernels/queue.h"
#include "plan.h"
#include <string.h>

/* Memory of a device, held until the session closes or its plan is freed; it lies in the arena of either. */
struct rt_device_memory {
    tc_held held;
    const rt_shared *shared;
    char *memory;
    bool is_host; /* the host's, for downloads */
    rt_device_memory *next;
};

static void release(void *what) {
    const rt_device_memory *m = what;
    const rt_device *device = m->shared->device;
    (m->is_host ? device->host_free : device->free)(m->shared->queue, m->memory);
}

static const tc_tensor *of_session(const rt_shared *shared, const rt_storage *s) {
    const tc_value *value = s->value->init ? tc_graph_find(shared->model->graph, s->value->name) : NULL;
    return value && value->init && value->init->bytes == s->bytes ? value->init : NULL;
}

tc_status rt_make_ready(tc_ctx *ctx, const rt_shared *shared) {
    tk_status status = shared->device->ready ? shared->device->ready(shared->queue) : TK_OK;
    if (status == TK_OK)
        return TC_OK;
    if (status == TK_NO_MEMORY)
        return tc_error(ctx, TC_LIMIT, NULL, "not enough memory for the code that multiplies matrices");
    if (status == TK_NO_THREADS)
        tc_error(ctx, TC_LIMIT, NULL, "%d threads cannot be started", tk_queue_threads(shared->queue));
    else
        tc_error(ctx, TC_LIMIT, NULL, "a thread's stack is smaller than what kernels need, 1.25 MiB");
    tc_hint(ctx, status == TK_NO_THREADS ? "fewer threads may do (--threads=1), or a higher ulimit -u or -v"
                                         : "OMP_STACKSIZE=8M and ulimit -s 8192 make them larger");
    return TC_LIMIT;
}

tc_status rt_check_room(tc_ctx *ctx, const rt_shared *shared, const char *what, uint64_t bytes) {
    const rt_device *device = shared->device;
    const char *where = tc_arena_printf(ctx->arena, "on device '%s'", device->name);
    if (device->available)
        return rt_check_usable(ctx, what, bytes, device->available(shared->queue), where);
    return rt_check_memory(ctx, what, bytes);
}

static tc_status take(tc_ctx *ctx, tc_arena *arena, const rt_shared *shared, size_t bytes, rt_device_memory **out) {
    rt_device_memory *m = TC_NEW(arena, rt_device_memory);
    *m = (rt_device_memory){.shared = shared, .memory = shared->device->alloc(shared->queue, bytes)};
    *out = m->memory ? m : NULL;
    if (!m->memory)
        return tc_error(ctx, TC_LIMIT, NULL, "not enough memory on device '%s': %zu bytes wanted", shared->device->name,
                        bytes);
    tc_hold(&m->held, release, m);
    return TC_OK;
}

/* The session's parameters that the plan reads and that are not on the device yet: one block, as long as the session.
 * `block` NULL: only counts its bytes. */
static size_t fill_parameters(rt_plan *plan, char *block) {
    const rt_shared *shared = plan->shared;
    size_t at = 0;
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        rt_storage *s = &plan->storages[i];
        const tc_tensor *tensor = s->home == RT_PARAMETER && s->root == i ? of_session(shared, s) : NULL;
        if (!tensor)
            continue;
        char *resident = tc_map_get_ptr(shared->resident, tensor);
        bool is_new = !resident;
        if (is_new && block) {
            resident = block + at;
            tc_map_set_ptr(shared->resident, tensor, resident);
            shared->device->upload(shared->queue, resident, s->host, s->bytes);
        }
        at += is_new ? rt_aligned(s->bytes) : 0;
        s->data = resident;
    }
    return at;
}

static tc_status upload_parameters(tc_ctx *ctx, rt_plan *plan) {
    rt_device_memory *block;
    size_t bytes = fill_parameters(plan, NULL);
    if (bytes == 0)
        return TC_OK;
    TC_TRY(rt_check_room(ctx, plan->shared, "the model's parameters", bytes));
    TC_TRY(take(ctx, plan->shared->arena, plan->shared, bytes, &block));
    fill_parameters(plan, block->memory);
    return TC_OK;
}

/* --- the plan's block: inputs, tables, constants that came about with the plan -------------------- */

/* Walks over the block. `block` NULL: only counts its bytes. */
static size_t fill_block(rt_plan *plan, char *block) {
    const rt_shared *shared = plan->shared;
    size_t at = 0;
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        rt_storage *s = &plan->storages[i];
        if (s->home == RT_ARENA || s->home == RT_STATE || s->root != i ||
            (s->home == RT_PARAMETER && of_session(shared, s)))
            continue;
        if (block)
            s->data = block + at;
        if (block && s->home == RT_PARAMETER)
            shared->device->upload(shared->queue, block + at, s->host, s->bytes);
        at += rt_aligned(s->bytes);
    }
    for (size_t i = 0; i < plan->launcher.n_tables; i++) {
        rt_table *table = &plan->launcher.tables[i];
        if (block) {
            table->memory = block + at;
            memcpy(table->pointer, &table->memory, sizeof table->memory);
            shared->device->upload(shared->queue, table->memory, table->data, table->bytes);
        }
        at += rt_aligned(table->bytes);
    }
    return at;
}

tc_status rt_upload_plan(tc_ctx *ctx, rt_plan *plan) {
    rt_shared *shared = plan->shared;
    if (shared->device->host_memory || plan->block)
        return TC_OK;
    TC_TRY(upload_parameters(ctx, plan));
    TC_TRY(take(ctx, plan->launcher.arena, shared, fill_block(plan, NULL), &plan->block));
    fill_block(plan, plan->block->memory);
    return TC_OK;
}

void rt_upload_inputs(const rt_plan *plan) {
    const rt_shared *shared = plan->shared;
    if (shared->device->host_memory)
        return;
    for (uint32_t i = 0; i < plan->n_bound; i++) {
        const rt_storage *s = &plan->storages[i];
        if (s->home == RT_INPUT)
            shared->device->upload(shared->queue, s->data, s->host, s->bytes);
    }
    for (size_t i = 0; i < plan->launcher.n_tables; i++) {
        const rt_table *table = &plan->launcher.tables[i];
        if (table->changes)
            shared->device->upload(shared->queue, table->memory, table->data, table->bytes);
    }
}

/* --- back ------------------------------------------------------------------------------------- */

/* As long as the plan: the device's kind of the host's memory, where it has one and there is enough. */
static void *take_host(const rt_plan *plan, size_t bytes) {
    const rt_shared *shared = plan->shared;
    void *memory = shared->device->host_alloc ? shared->device->host_alloc(shared->queue, bytes) : NULL;
    if (!memory)
        return tc_arena_alloc(plan->launcher.arena, bytes + 1, 1);
    rt_device_memory *m = TC_NEW(plan->launcher.arena, rt_device_memory);
    *m = (rt_device_memory){.shared = shared, .memory = memory, .is_host = true, .next = *plan->host_blocks};
    *plan->host_blocks = m;
    tc_hold(&m->held, release, m);
    return memory;
}

void *rt_download(const rt_plan *plan, const rt_storage *s, void *memory) {
    const rt_shared *shared = plan->shared;
    void **copy = &plan->downloads[s - plan->storages];
    if (shared->device->host_memory)
        return memory;
    if (!*copy)
        *copy = take_host(plan, s->bytes);
    shared->device->download(shared->queue, *copy, memory, s->bytes);
    return *copy;
}

static void free_block(rt_device_memory *m) {
    tc_let_go(&m->held);
    release(m);
}

void rt_free_blocks(rt_plan *plan) {
    if (plan->block)
        free_block(plan->block);
    for (rt_device_memory *m = plan->host_blocks ? *plan->host_blocks : NULL; m; m = m->next)
        free_block(m);
}
