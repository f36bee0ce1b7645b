/* emulation_launch.c: a launch of a kernel: its blocks one after another. */
#include "emulation_state.h"
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LARGE = 256, PLAIN_SHARED = 48 << 10 };
static const uint32_t stamps_left = UINT32_C(1) << 27; /* for one block: stamps have 28 bits */

unsigned emu_order;
bool emu_truncate, emu_float_atomics, emu_counting;
emu_counts emu_total, emu_last;

/* --- dynamic shared memory -------------------------------------------------------------------------- */

static struct {
    const char *name;
    size_t bytes;
} large[MAX_LARGE];
static int n_large;

void emu_allow_shared(const char *name, size_t bytes) {
    int i = 0;
    while (i < n_large && strcmp(large[i].name, name) != 0)
        i++;
    if (i == MAX_LARGE)
        fprintf(stderr, "emulation: too many kernels with much shared memory\n"), abort();
    large[i].name = name, large[i].bytes = bytes;
    n_large += i == n_large;
}

static size_t allowed_shared(const char *name) {
    for (int i = 0; i < n_large; i++)
        if (strcmp(large[i].name, name) == 0)
            return large[i].bytes < EMU_MAX_SHARED ? large[i].bytes : EMU_MAX_SHARED;
    return PLAIN_SHARED;
}

/* --- blocks ----------------------------------------------------------------------------------------- */

static bool is_valid(emu_dim3 grid, emu_dim3 block, size_t shared) {
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    const bool fits = grid.x > 0 && grid.x <= INT32_MAX && grid.y > 0 && grid.y <= 65535 && grid.z > 0 &&
                      grid.z <= 65535 && threads > 0 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
                      threads <= EMU_MAX_THREADS && shared <= allowed_shared(emu_kernel);
    if (!fits)
        emu_found(threads, "invalid launch", "grid %u,%u,%u, block %u,%u,%u, %zu bytes of shared memory (of %zu)",
                  grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, allowed_shared(emu_kernel));
    return fits;
}

/* The order that blocks run in; NULL: ascending, or descending. */
static uint64_t *shuffled(uint64_t blocks) {
    uint64_t *order = emu_order > 1 ? malloc(blocks * sizeof *order) : NULL;
    if (!order)
        return NULL;
    for (uint64_t i = 0; i < blocks; i++)
        order[i] = i;
    for (uint64_t i = blocks; i > 1; i--) {
        const uint64_t k = emu_draw() % i, last = order[i - 1];
        order[i - 1] = order[k];
        order[k] = last;
    }
    return order;
}

static void add_counts(void) {
    uint64_t sums[sizeof(emu_counts) / sizeof(uint64_t)], last[sizeof sums / sizeof *sums];
    memcpy(sums, &emu_total, sizeof sums);
    memcpy(last, &emu_last, sizeof last);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        sums[i] += last[i];
    memcpy(&emu_total, sums, sizeof sums);
}

static void begin_launch(void) {
    static bool prepared;
    emu_find_segments();
    if (!prepared)
        emu_make_stacks();
    prepared = true;
    emu_seed(emu_order);
    emu_launch_stamp = ++emu_counter;
    emu_last = (emu_counts){0};
}

/* Stamps begin anew when few are left: what blocks before touched is nobody's then. */
static void begin_block(size_t shared) {
    if (emu_counter > stamps_left) {
        emu_forget_stamps();
        emu_counter = 1;
        emu_launch_stamp = ++emu_counter;
    }
    emu_block_stamp = ++emu_counter;
    emu_begin_shared(shared);
    emu_begin_warps();
}

static void run_blocks(emu_dim3 grid, emu_dim3 block, size_t shared, void (*call)(const void *), const void *f) {
    begin_launch();
    emu_threads = (int)(block.x * block.y * block.z);
    emu_block_size = block, emu_grid_size = grid;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    uint64_t *order = shuffled(blocks);
    emu_begin_watch();
    for (uint64_t i = 0; i < blocks && !emu_failed(); i++) {
        const uint64_t at = order ? order[i] : emu_order > 0 ? blocks - 1 - i : i;
        emu_block_at =
            (emu_dim3){(unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y), (unsigned)(at / grid.x / grid.y)};
        begin_block(shared);
        emu_run_fibers(call, f);
        if (emu_counting)
            emu_sum_counts();
    }
    emu_end_watch();
    free(order);
    add_counts();
}

void emu_run(const char *name, emu_dim3 grid, emu_dim3 block, size_t shared, void (*call)(const void *),
             const void *f) {
    if (emu_failed())
        return;
    emu_kernel = name;
    emu_found_now = 0;
    if (is_valid(grid, block, shared))
        run_blocks(grid, block, shared, call, f);
    else
        emu_set_failed();
    emu_kernel = "no kernel";
}
