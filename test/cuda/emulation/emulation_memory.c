/* emulation_memory.c: what memory there is: allocations of the device, far from each other, and a block's shared
 * memory. Each has flags and cells for its bytes (emulation_state.h). */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "emulation_state.h"
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define SPACE ((size_t)16 << 40) /* of addresses, which cost nothing */
#define GAP ((size_t)64 << 20)   /* an index that is off by less meets nothing */

static emu_region **regions; /* of the device, by address */
static int n_regions, regions_room;
static uintptr_t space, next_slot;

/* --- allocations of the device ---------------------------------------------------------------------- */

/* The first region that ends behind `at`. */
static int region_behind(uintptr_t at) {
    int lo = 0, hi = n_regions;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if (regions[mid]->slot_end <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A free slot of so many bytes: behind the last one, or from the beginning again. What was freed stays out of reach
 * for as long as may be. */
static uintptr_t find_slot(size_t bytes) {
    if (!space) {
        void *m = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED)
            return 0;
        space = next_slot = (uintptr_t)m;
    }
    for (int round = 0; round < 2; round++) {
        for (int i = region_behind(next_slot); i < n_regions && regions[i]->slot < next_slot + bytes; i++)
            next_slot = regions[i]->slot_end;
        if (next_slot + bytes <= space + SPACE)
            return next_slot;
        next_slot = space;
    }
    return 0;
}

static bool insert(emu_region *r) {
    if (n_regions == regions_room) {
        emu_region **more = realloc(regions, (size_t)(2 * regions_room + 64) * sizeof *more);
        if (!more)
            return false;
        regions = more;
        regions_room = 2 * regions_room + 64;
    }
    const int at = region_behind(r->slot);
    memmove(regions + at + 1, regions + at, (size_t)(n_regions - at) * sizeof *regions);
    regions[at] = r;
    n_regions++;
    return true;
}

/* Memory of zeros that is there when it is touched: shadow is 31 times as large as what it is of, and mostly is not. */
static void *map_zeros(size_t bytes) {
    void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return m == MAP_FAILED ? NULL : m;
}

static size_t words_of(size_t bytes) { return (bytes / 4 + 1) * sizeof(emu_cell); }
static size_t cells_of(size_t bytes) { return (bytes + 4) * sizeof(emu_cell); }

/* Shadow of so many bytes; false: out of memory. */
static bool make_shadow(emu_region *r, size_t bytes) {
    r->flags = map_zeros(bytes + 4);
    r->words = map_zeros(words_of(bytes));
    r->cells = map_zeros(cells_of(bytes));
    return r->flags && r->words && r->cells;
}

static void unmap(void *m, size_t bytes) {
    if (m)
        munmap(m, bytes);
}

static void free_region(emu_region *r) {
    const size_t bytes = r ? r->hi - r->lo : 0;
    if (r)
        unmap(r->flags, bytes + 4), unmap(r->words, words_of(bytes)), unmap(r->cells, cells_of(bytes)), free(r->name);
    free(r);
}

void *emu_malloc(size_t bytes, const char *name) {
    if (bytes > SPACE / 4)
        return NULL;
    const size_t size = (bytes + PAGE) / PAGE * PAGE, gap = GAP + size;
    const uintptr_t slot = find_slot(2 * gap + size);
    emu_region *r = calloc(1, sizeof *r);
    if (!slot || !r || mprotect((void *)(slot + gap), size, PROT_READ | PROT_WRITE) != 0) {
        free(r);
        return NULL;
    }
    r->slot = slot, r->slot_end = slot + 2 * gap + size;
    r->lo = slot + gap + (size - bytes) / 256 * 256; /* what lies behind the end is close, and not there */
    r->hi = r->lo + bytes;
    r->name = strdup(name ? name : "memory");
    if (!make_shadow(r, bytes) || !r->name || !insert(r)) {
        mprotect((void *)(slot + gap), size, PROT_NONE);
        free_region(r);
        return NULL;
    }
    memset((void *)(slot + gap), 0xff, size);
    next_slot = r->slot_end;
    return (void *)r->lo;
}

/* The region of an address, kept by its upper bits: two regions are further apart. */
static emu_region *recent[64];
static void forget_recent(void) { memset(recent, 0, sizeof recent); }

emu_region *emu_device_region(uintptr_t at) {
    emu_region **kept = &recent[at / GAP % (sizeof recent / sizeof *recent)];
    if (*kept && at - (*kept)->slot < (*kept)->slot_end - (*kept)->slot)
        return *kept;
    const int i = region_behind(at);
    if (i < n_regions && regions[i]->slot <= at)
        return *kept = regions[i];
    return i > 0 ? regions[i - 1] : NULL;
}

/* The allocation that the bytes lie in, or NULL. */
static emu_region *region_of(const void *p, size_t bytes) {
    emu_region *r = emu_device_region((uintptr_t)p);
    return r && (uintptr_t)p >= r->lo && (uintptr_t)p <= r->hi && bytes <= r->hi - (uintptr_t)p ? r : NULL;
}

void emu_free(void *p) {
    emu_region *r = region_of(p, 0);
    if (!p)
        return;
    if (!r || r->lo != (uintptr_t)p) {
        emu_found((uintptr_t)p, "bad free", "%p is the start of no allocation", p);
        return;
    }
    /* The pages go back, and whoever comes back to them is stopped. */
    mmap((void *)r->slot, r->slot_end - r->slot, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
    const int at = region_behind(r->slot);
    memmove(regions + at, regions + at + 1, (size_t)(--n_regions - at) * sizeof *regions);
    free_region(r);
    forget_recent();
}

void emu_host_wrote(void *p, size_t bytes) {
    emu_region *r = region_of(p, bytes);
    const size_t at = r ? (uintptr_t)p - r->lo : 0;
    for (size_t i = 0; r && i < bytes; i++)
        r->flags[at + i] |= EMU_WRITTEN;
}

bool emu_is_device(const void *p, size_t bytes) { return region_of(p, bytes) != NULL; }

static bool all_written(const uint8_t flags[64]) {
    uint8_t all = EMU_WRITTEN;
    for (size_t i = 0; i < 64; i++)
        all &= flags[i];
    return all;
}

const char *emu_unread(const void *p, size_t bytes) {
    static char text[256];
    const emu_region *r = region_of(p, bytes);
    if (!r) {
        snprintf(text, sizeof text, "%p and %zu bytes behind it are not of one allocation", p, bytes);
        return text;
    }
    const uint8_t *flags = r->flags + ((uintptr_t)p - r->lo);
    size_t i = 0;
    while (i + 64 <= bytes && all_written(flags + i))
        i += 64;
    for (; i < bytes; i++)
        if (!(flags[i] & EMU_WRITTEN)) {
            snprintf(text, sizeof text, "byte %zu of %zu was never written (byte %zu of %.100s)", i, bytes,
                     (size_t)((uintptr_t)p - r->lo) + i, r->name);
            return text;
        }
    return NULL;
}

static void forget_stamps(emu_region *r, size_t bytes) {
    madvise(r->words, words_of(bytes), MADV_DONTNEED); /* zeros again */
    madvise(r->cells, cells_of(bytes), MADV_DONTNEED);
}

void emu_forget_stamps(void) {
    for (int i = 0; i < n_regions; i++)
        forget_stamps(regions[i], regions[i]->hi - regions[i]->lo);
    forget_stamps(&emu_static, emu_static.hi - emu_static.lo);
    forget_stamps(&emu_dynamic, EMU_MAX_SHARED);
}

/* --- what a launch may touch ------------------------------------------------------------------------ */

static emu_span *allowed;
static int n_allowed;

void emu_allow(const emu_span *spans, int n) {
    free(allowed);
    allowed = n > 0 ? malloc((size_t)n * sizeof *allowed) : NULL;
    n_allowed = allowed ? n : 0;
    if (allowed)
        memcpy(allowed, spans, (size_t)n * sizeof *allowed);
}

bool emu_is_allowed(uintptr_t at, size_t bytes, bool write) {
    static int last; /* which is likely to be asked for again */
    for (int k = 0; k < n_allowed; k++) {
        const int i = (last + k) % n_allowed;
        const uintptr_t lo = (uintptr_t)allowed[i].at;
        if (at >= lo && at + bytes <= lo + allowed[i].bytes && (!write || allowed[i].writable)) {
            last = i;
            return true;
        }
    }
    return n_allowed == 0;
}

/* --- shared memory, and the program's ---------------------------------------------------------------- */

emu_region emu_dynamic = {.shared = true}, emu_static = {.shared = true};
uintptr_t emu_program;
static struct { uintptr_t lo, hi; } constants[8];
static int n_constants;

void *emu_dynamic_shared(void) { return (void *)emu_dynamic.lo; }

bool emu_is_constant(uintptr_t at, size_t bytes) {
    for (int i = 0; i < n_constants; i++)
        if (at >= constants[i].lo && at + bytes <= constants[i].hi)
            return true;
    return false;
}

/* The segments of the program itself, which comes first. */
static int find_segments(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    emu_program = info->dlpi_addr;
    n_constants = 0;
    emu_static.lo = emu_static.hi = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_TLS && info->dlpi_tls_data) {
            emu_static.lo = (uintptr_t)info->dlpi_tls_data;
            emu_static.hi = emu_static.lo + p->p_memsz;
        }
        if (((p->p_type == PT_LOAD && !(p->p_flags & PF_W)) || p->p_type == PT_GNU_RELRO) &&
            n_constants < (int)(sizeof constants / sizeof *constants)) {
            constants[n_constants].lo = at;
            constants[n_constants++].hi = at + p->p_memsz;
        }
    }
    return 1;
}

void emu_find_segments(void) {
    dl_iterate_phdr(find_segments, NULL);
    if (emu_dynamic.lo)
        return;
    const size_t guard = (size_t)1 << 20, room = 256 << 10;
    char *m = mmap(NULL, 2 * guard + room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    emu_static.name = "static shared memory", emu_dynamic.name = "dynamic shared memory";
    if (m == MAP_FAILED || mprotect(m + guard, room, PROT_READ | PROT_WRITE) != 0 ||
        !make_shadow(&emu_static, emu_static.hi - emu_static.lo) || !make_shadow(&emu_dynamic, room))
        perror("emulation: shared memory"), abort();
    emu_dynamic.lo = (uintptr_t)m + guard;
}

/* Nothing of a block before is there. Static variables keep their bytes, since others of the program lie among them. */
void emu_begin_shared(size_t dynamic) {
    emu_dynamic.hi = emu_dynamic.lo + dynamic;
    memset((void *)emu_dynamic.lo, 0xff, dynamic);
    memset(emu_dynamic.flags, 0, dynamic);
    memset(emu_static.flags, 0, emu_static.hi - emu_static.lo);
}
