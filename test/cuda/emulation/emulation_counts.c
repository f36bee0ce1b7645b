/* emulation_counts.c: what a kernel asks of memory: the accesses of a warp that go together are those of the same code,
 * the n-th time that each lane gets there. */
#include "emulation_state.h"
#include <stdio.h>
#include <stdlib.h>

enum { SECTOR = 32, BANKS = 32, WORD = 4, AT_ONCE = BANKS * WORD };

typedef struct record {
    uintptr_t pc, at;
    uint32_t nth, size;
    uint16_t thread;
    bool shared;
} record;

/* Of the block that runs, in the order of time. */
static record *records;
static size_t n_records, room;

void emu_count(const emu_access *x, bool shared) {
    if (n_records == room) {
        room = 2 * room + 4096;
        records = realloc(records, room * sizeof *records);
        if (!records)
            perror("emulation: counts"), abort();
    }
    records[n_records] = (record){x->pc, x->at, (uint32_t)n_records, x->size, (uint16_t)emu_self->index, shared};
    n_records++;
    if (shared)
        emu_last.shared_accesses++;
    else if (x->write)
        emu_last.bytes_written += x->size;
    else
        emu_last.bytes_read += x->size;
}

static int less(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int by_thread(const void *left, const void *right) {
    const record *a = left, *b = right;
    return a->pc != b->pc           ? less(a->pc, b->pc)
           : a->thread != b->thread ? less(a->thread, b->thread)
                                    : less(a->nth, b->nth);
}

static int by_warp(const void *left, const void *right) {
    const record *a = left, *b = right;
    const int v = a->thread / EMU_WARP, w = b->thread / EMU_WARP;
    return a->pc != b->pc           ? less(a->pc, b->pc)
           : a->shared != b->shared ? less(a->shared, b->shared)
           : v != w                 ? v - w
           : a->nth != b->nth       ? less(a->nth, b->nth)
                                    : less(a->thread, b->thread);
}

static int by_number(const void *a, const void *b) { return less(*(const uint64_t *)a, *(const uint64_t *)b); }

/* How many different units of `unit` bytes the accesses touch; `list` gets them, ascending. */
static size_t units_of(const record *r, size_t n, unsigned unit, uint64_t *list) {
    size_t all = 0, different = 0;
    for (size_t i = 0; i < n; i++)
        for (uint64_t u = r[i].at / unit; u <= (r[i].at + r[i].size - 1) / unit; u++)
            list[all++] = u;
    qsort(list, all, sizeof *list, by_number);
    for (size_t i = 0; i < all; i++)
        if (i == 0 || list[i] != list[i - 1])
            list[different++] = list[i];
    return different;
}

/* Room for the units of a warp's accesses, of at most 16 bytes each but for those of whole structures. */
static uint64_t *unit_list(const record *r, size_t n, unsigned unit) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        most += r[i].size / unit + 2;
    uint64_t *list = malloc(most * sizeof *list);
    if (!list)
        perror("emulation: counts"), abort();
    return list;
}

static void sum_global(const record *r, size_t n) {
    uint64_t bytes = 0, *list = unit_list(r, n, SECTOR);
    for (size_t i = 0; i < n; i++)
        bytes += r[i].size;
    emu_last.sectors += units_of(r, n, SECTOR, list);
    emu_last.ideal_sectors += (bytes + SECTOR - 1) / SECTOR;
    free(list);
}

/* Lanes whose bytes fill 128 go together; a bank gives one word at a time. */
static void sum_shared(const record *r, size_t n) {
    const size_t together = AT_ONCE / (r->size <= WORD ? WORD : r->size < AT_ONCE ? r->size : AT_ONCE);
    uint64_t *list = unit_list(r, n, WORD);
    for (size_t i = 0; i < n; i += together) {
        const size_t words = units_of(r + i, n - i < together ? n - i : together, WORD, list);
        unsigned of_bank[BANKS] = {0}, most = 0;
        for (size_t k = 0; k < words; k++) {
            const unsigned bank = (unsigned)(list[k] % BANKS);
            of_bank[bank]++;
            most = of_bank[bank] > most ? of_bank[bank] : most;
        }
        emu_last.wavefronts += most;
        emu_last.ideal_wavefronts += (words + BANKS - 1) / BANKS;
    }
    free(list);
}

void emu_sum_counts(void) {
    qsort(records, n_records, sizeof *records, by_thread);
    for (size_t i = 0; i < n_records; i++) {
        const record *before = i > 0 ? &records[i - 1] : NULL;
        records[i].nth =
            before && before->pc == records[i].pc && before->thread == records[i].thread ? before->nth + 1 : 0;
    }
    qsort(records, n_records, sizeof *records, by_warp);
    for (size_t from = 0, to; from < n_records; from = to) {
        const record *r = &records[from];
        for (to = from + 1; to < n_records; to++)
            if (records[to].pc != r->pc || records[to].nth != r->nth || records[to].shared != r->shared ||
                records[to].thread / EMU_WARP != r->thread / EMU_WARP)
                break;
        (r->shared ? sum_shared : sum_global)(r, to - from);
    }
    n_records = 0;
}
