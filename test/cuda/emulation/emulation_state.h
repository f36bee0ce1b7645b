/* emulation_state.h: what the files of the emulation's run time share. A block runs alone on the processor, its threads
 * as fibers; happens-before is kept by warps: a warp has a clock, which moves at every barrier it passes, and knows up
 * to where it has seen every other warp's. Clocks and launches draw their stamps from one counter. */
#ifndef EMULATION_STATE_H
#define EMULATION_STATE_H
#include "emulation_calls.h"
#include <stdnoreturn.h>

enum {
    EMU_WARP = 32,
    EMU_MAX_THREADS = 1024,
    EMU_MAX_WARPS = EMU_MAX_THREADS / EMU_WARP,
    EMU_BARRIERS = 16,
    EMU_STACK = 128 << 10,
    EMU_MAX_SHARED = 227 << 10,
    EMU_MAX_FINDINGS = 12, /* of one launch, before it is ended */
};

/* --- threads: emulation_fibers.c -------------------------------------------------------------------- */

typedef struct emu_copy {
    char *shared;
    const char *global;
    int size, bytes, group;
    uintptr_t pc;
} emu_copy;

typedef struct emu_fiber {
    void *sp; /* of a thread that does not run */
    char *stack;
    unsigned index, lane, warp;
    emu_dim3 idx;
    bool done;
    const char *waits_in; /* NULL: it can run */
    emu_place place;      /* of the wait */
    struct emu_barrier_state *barrier;
    /* What it gives to an exchange and takes from it. */
    uint64_t bits, result;
    int arg, width;
    const void *operands;
    /* Copies under way. */
    emu_copy *copies;
    int n_copies, copies_room, group;
} emu_fiber;

extern emu_fiber emu_fibers[EMU_MAX_THREADS], *emu_self; /* emu_self: the one that runs, NULL: the host */
extern int emu_threads, emu_live;                        /* of the block: all, and those that have not returned */
extern emu_dim3 emu_block_at, emu_block_size, emu_grid_size;

void emu_make_stacks(void); /* once */
/* Runs a block: call(f) by each of emu_threads fibers. Back when all have returned or the launch was ended. */
void emu_run_fibers(void (*call)(const void *), const void *f);
noreturn void emu_end_launch(void);
/* The thread that runs waits until another releases it. */
void emu_wait(const char *what, emu_place place);
void emu_release(emu_fiber *fiber);
/* Between these two, released threads are put in the order of emu_order. */
int emu_ready_count(void);
void emu_order_released(int from);
void emu_yield(void); /* whoever can run goes first */
uint32_t emu_draw(void);
void emu_seed(uint64_t seed);

/* --- warps and barriers: emulation_warps.c ---------------------------------------------------------- */

extern uint32_t emu_counter; /* of stamps; below 2^28 */
uint32_t emu_clock(void);    /* the stamp of what the running thread does now */
/* Whether the running thread's warp has seen what `thread` of this block did at `stamp`. */
bool emu_has_seen(unsigned thread, uint32_t stamp);
void emu_begin_warps(void);
void emu_thread_left(void); /* the running thread has returned */
/* The running thread takes part in an exchange of the lanes of `mask`; back when it is done. */
void emu_take_part(uint32_t mask, emu_kind kind, emu_place place);

/* --- tensor cores and copies: emulation_tensor.c, emulation_copies.c -------------------------------- */

void emu_compute_mma(const emu_fiber *lanes, bool tf32);
void emu_compute_ldmatrix(emu_fiber *lanes);
void emu_begin_copies(emu_fiber *fiber);
void emu_end_copies(void); /* the running thread returns */

/* --- memory: emulation_memory.c --------------------------------------------------------------------- */

/* What a thread did to a byte last: 28 bits of stamp, 10 of the thread, 26 of where in the program; 0: nothing. */
enum { EMU_STAMP_AT = 36, EMU_THREAD_AT = 26, EMU_PC_MASK = (1 << EMU_THREAD_AT) - 1 };
typedef uint64_t emu_touch;
typedef struct emu_cell {
    emu_touch wrote, read, before; /* before: a read that the last one does not follow */
} emu_cell;
/* Flags of a byte. Of 4 bytes, SPLIT in the first says that each has its own cell; else they have one together. */
enum { EMU_WRITTEN = 1, EMU_ATOMIC = 2, EMU_PENDING = 4, EMU_SPLIT = 8 };
typedef struct emu_region {
    uintptr_t lo, hi; /* lo: aligned to 4 bytes */
    uint8_t *flags;
    emu_cell *words, *cells; /* of 4 bytes, and of single ones */
    bool shared;
    char *name;
    uintptr_t slot, slot_end; /* of the pages */
} emu_region;
extern emu_region emu_dynamic, emu_static;   /* shared memory of the block */
emu_region *emu_device_region(uintptr_t at); /* the last one that begins at or before, or NULL */
/* NULL: it is not shared memory. */
static inline emu_region *emu_shared_region(uintptr_t at) {
    return at - emu_dynamic.lo < emu_dynamic.hi - emu_dynamic.lo ? &emu_dynamic
           : at - emu_static.lo < emu_static.hi - emu_static.lo  ? &emu_static
                                                                 : NULL;
}
void emu_forget_stamps(void);
void emu_find_segments(void); /* of the program: static shared memory is the thread's own variables */
void emu_begin_shared(size_t dynamic);
bool emu_is_constant(uintptr_t at, size_t bytes); /* of the program: constants that kernels may read */
extern uintptr_t emu_program;                     /* where it was loaded */
/* NULL: allowed (emu_allow). */
bool emu_is_allowed(uintptr_t at, size_t bytes, bool write);

/* --- accesses: emulation_shadow.c ------------------------------------------------------------------- */

extern uint32_t emu_launch_stamp, emu_block_stamp;
typedef struct emu_access {
    uintptr_t at, pc;
    unsigned size;
    bool write, atomic;
} emu_access;
void emu_look(emu_access access);
noreturn void emu_fault(const char *kind, emu_access access);
void emu_set_pending(const emu_region *r, uintptr_t at, int size, bool pending);

/* --- kernels that do not end by themselves: emulation_crash.c ---------------------------------------- */

void emu_begin_watch(void); /* of a launch */
void emu_end_watch(void);
void emu_begin_turn(void);         /* another thread runs */
void emu_count_turn(uintptr_t pc); /* which accesses memory */

/* --- findings: emulation_findings.c ----------------------------------------------------------------- */

extern const char *emu_kernel;
extern int emu_found_now; /* in this launch */
/* Whether a finding of this kind and key was not told yet in this kernel. */
bool emu_is_new(uint64_t key, const char *kind);
__attribute__((format(printf, 3, 4))) void emu_found(uint64_t key, const char *kind, const char *format, ...);
void emu_set_failed(void);
/* FILE:LINE of the kernel's code, by addr2line: of one finding after another (static). */
const char *emu_where(uintptr_t pc);

/* --- counting: emulation_counts.c ------------------------------------------------------------------- */

void emu_count(const emu_access *access, bool shared);
void emu_sum_counts(void); /* at the end of a block */
#endif
