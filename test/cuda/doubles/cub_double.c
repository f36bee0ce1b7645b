/* cub_double.c: sorts and sums of kernels/cuda/cub.h for the emulated device: work on the stream, as CUB's kernels
 * are, that asks for what it reads and writes. What CUB leaves open is different here: it fills its room and the place
 * that pairs came from with bits that are no number, and pairs lie where they were where there is an even number. */
#include "cuda_work.h"
#include "kernels/cuda/cub.h"
#include <stdlib.h>
#include <string.h>

static cudaError_t queue(tk_cuda *cuda, void (*run)(void *), const void *context, size_t bytes) {
    void *copy = malloc(bytes);
    if (!copy)
        return cudaErrorMemoryAllocation;
    memcpy(copy, context, bytes);
    return emu_on_stream(cuda->stream, run, free, copy);
}

static bool may_write(void *at, size_t bytes, const char *who, const char *what) {
    return emu_may_touch(at, bytes, true, who, what);
}

/* --- sorts ------------------------------------------------------------------------------------ */

typedef struct sort {
    tk_pairs from, to, other; /* `to` is one of the two others */
    int64_t n;
    int bits;
    void *room;
} sort;

/* Runs of `run` pairs, in order, become runs of two as many: the first of equals is that of the first run. */
static void merge(tk_pairs to, tk_pairs from, size_t n, size_t run) {
    for (size_t begin = 0; begin < n; begin += 2 * run) {
        size_t middle = begin + run < n ? begin + run : n, end = middle + run < n ? middle + run : n;
        for (size_t at = begin, a = begin, b = middle; at < end; at++) {
            size_t next = b == end || (a < middle && from.keys[a] <= from.keys[b]) ? a++ : b++;
            to.keys[at] = from.keys[next];
            to.values[at] = from.values[next];
        }
    }
}

static void run_sort(void *context) {
    static const char who[] = "cub::DeviceRadixSort";
    const sort *s = context;
    const size_t n = (size_t)s->n, bytes = n * sizeof(uint64_t);
    if (!emu_may_read(s->from.keys, bytes, who, "keys") || !emu_may_read(s->from.values, bytes, who, "values") ||
        !may_write(s->from.keys, 2 * bytes, who, "pairs") || !may_write(s->other.keys, 2 * bytes, who, "pairs") ||
        !may_write(s->room, tk_sort_room(s->n), who, "room"))
        return;
    uint64_t *all = malloc(4 * bytes + 1);
    if (!all)
        abort();
    tk_pairs sorted = {all, all + n}, next = {all + 2 * n, all + 3 * n};
    memcpy(all, s->from.keys, bytes);
    memcpy(all + n, s->from.values, bytes);
    for (size_t i = 0; i < n; i++)
        if (s->bits < 64 && sorted.keys[i] >> s->bits != 0) {
            emu_misused(who, "key %zu has more than %d bits", i, s->bits);
            break;
        }
    for (size_t run = 1; run < n; run *= 2) {
        merge(next, sorted, n, run);
        const tk_pairs before = sorted;
        sorted = next;
        next = before;
    }
    memset(s->from.keys, 0xff, 2 * bytes);
    memset(s->other.keys, 0xff, 2 * bytes);
    memset(s->room, 0xff, tk_sort_room(s->n));
    memcpy(s->to.keys, sorted.keys, bytes);
    memcpy(s->to.values, sorted.values, bytes);
    emu_host_wrote(s->to.keys, 2 * bytes);
    free(all);
}

tk_pairs tk_sort(tk_cuda *cuda, void *workspace, tk_pairs pairs, int64_t n, int bits) {
    const tk_pairs other = tk_sort_other(workspace, n, pairs);
    const sort s = {pairs, n % 2 == 0 ? pairs : other, other, n, bits, (uint64_t *)workspace + 4 * n};
    if (n > 0)
        tk_cuda_note(cuda, queue(cuda, run_sort, &s, sizeof s), "cub::DeviceRadixSort");
    return s.to;
}

/* --- sums ------------------------------------------------------------------------------------- */

typedef struct sums {
    uint64_t *numbers;
    int64_t n;
    void *room;
} sums;

static void run_sums(void *context) {
    static const char who[] = "cub::DeviceScan";
    const sums *s = context;
    const size_t bytes = (size_t)s->n * sizeof(uint64_t);
    if (!emu_may_read(s->numbers, bytes, who, "numbers") || !may_write(s->numbers, bytes, who, "sums") ||
        !may_write(s->room, tk_sums_workspace(s->n), who, "room"))
        return;
    memset(s->room, 0xff, tk_sums_workspace(s->n));
    uint64_t sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const uint64_t number = s->numbers[i];
        s->numbers[i] = sum;
        sum += number;
    }
}

void tk_sums_before(tk_cuda *cuda, uint64_t *numbers, int64_t n, void *workspace) {
    const sums s = {numbers, n, workspace};
    if (n > 0)
        tk_cuda_note(cuda, queue(cuda, run_sums, &s, sizeof s), "cub::DeviceScan");
}
