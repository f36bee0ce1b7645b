/* emulation_fibers.c: threads of a block as fibers of one host thread, which give way to each other where CUDA's
 * threads wait. Switching saves the registers that a call keeps: twelve lines of assembly; ucontext elsewhere. */
#include "emulation_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(EMU_UCONTEXT)
#define EMU_UCONTEXT
#endif
#ifdef EMU_UCONTEXT
#include <ucontext.h>
#endif

enum { GUARD = 64 << 10 };

emu_fiber emu_fibers[EMU_MAX_THREADS], *emu_self;
int emu_threads, emu_live;
emu_dim3 emu_block_at, emu_block_size, emu_grid_size;

static emu_fiber host;
static void (*body)(const void *);
static const void *body_arguments;

emu_dim3 emu_thread_idx(void) { return emu_self->idx; }
emu_dim3 emu_block_idx(void) { return emu_block_at; }
emu_dim3 emu_block_dim(void) { return emu_block_size; }
emu_dim3 emu_grid_dim(void) { return emu_grid_size; }

/* --- switching -------------------------------------------------------------------------------------- */

static void fiber_main(void);

#if defined(EMU_UCONTEXT)
static void load(void **save, void *to) {
    ucontext_t from;
    *save = &from;
    swapcontext(&from, to);
}
static void make(emu_fiber *f) {
    static ucontext_t contexts[EMU_MAX_THREADS];
    ucontext_t *c = &contexts[f->index];
    getcontext(c);
    c->uc_stack.ss_sp = f->stack;
    c->uc_stack.ss_size = EMU_STACK;
    c->uc_link = NULL;
    makecontext(c, fiber_main, 0);
    f->sp = c;
}
#else
/* Saves the running stack pointer, below it the registers, and goes on with those below `to`. */
void emu_switch_stack(void **save, void *to);
#define load emu_switch_stack
#if defined(__x86_64__)
__asm__(".text\n.globl emu_switch_stack\n.type emu_switch_stack,@function\nemu_switch_stack:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp,(%rdi)\n  mov %rsi,%rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n  ret\n"
        ".size emu_switch_stack,.-emu_switch_stack\n");
enum { SAVED = 8, RETURN_AT = 6 }; /* words: 6 registers, where to return to, and nobody's address behind that */
#else
__asm__(".text\n.globl emu_switch_stack\n.type emu_switch_stack,%function\nemu_switch_stack:\n"
        "  sub sp,sp,#160\n  stp x19,x20,[sp]\n  stp x21,x22,[sp,#16]\n  stp x23,x24,[sp,#32]\n"
        "  stp x25,x26,[sp,#48]\n  stp x27,x28,[sp,#64]\n  stp x29,x30,[sp,#80]\n  stp d8,d9,[sp,#96]\n"
        "  stp d10,d11,[sp,#112]\n  stp d12,d13,[sp,#128]\n  stp d14,d15,[sp,#144]\n  mov x9,sp\n  str x9,[x0]\n"
        "  mov sp,x1\n  ldp x19,x20,[sp]\n  ldp x21,x22,[sp,#16]\n  ldp x23,x24,[sp,#32]\n"
        "  ldp x25,x26,[sp,#48]\n  ldp x27,x28,[sp,#64]\n  ldp x29,x30,[sp,#80]\n  ldp d8,d9,[sp,#96]\n"
        "  ldp d10,d11,[sp,#112]\n  ldp d12,d13,[sp,#128]\n  ldp d14,d15,[sp,#144]\n  add sp,sp,#160\n  ret\n"
        ".size emu_switch_stack,.-emu_switch_stack\n");
enum { SAVED = 20, RETURN_AT = 11 }; /* words; x30 */
#endif
static void make(emu_fiber *f) {
    void **sp = (void **)(void *)(f->stack + EMU_STACK - 64) - SAVED;
    memset(sp, 0, SAVED * sizeof *sp);
    void (*start)(void) = fiber_main;
    memcpy(&sp[RETURN_AT], &start, sizeof start);
    f->sp = sp;
}
#endif

static void switch_to(emu_fiber *to) {
    emu_fiber *from = emu_self ? emu_self : &host;
    if (from == to)
        return;
    emu_self = to == &host ? NULL : to;
    emu_last.switches++;
    emu_begin_turn();
    load(&from->sp, to->sp);
}

/* --- who runs next ---------------------------------------------------------------------------------- */

/* Those that can run: a ring, each of them once. */
static emu_fiber *ring[EMU_MAX_THREADS];
static unsigned ring_head, ring_count;
static uint64_t random_state;

static emu_fiber **ready(unsigned i) { return &ring[(ring_head + i) % EMU_MAX_THREADS]; }
static void swap_ready(unsigned a, unsigned b) {
    emu_fiber *f = *ready(a);
    *ready(a) = *ready(b);
    *ready(b) = f;
}

void emu_seed(uint64_t seed) { random_state = seed; }
uint32_t emu_draw(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

void emu_release(emu_fiber *fiber) {
    fiber->waits_in = NULL;
    *ready(ring_count++) = fiber;
}

int emu_ready_count(void) { return (int)ring_count; }
void emu_order_released(int from) {
    const unsigned first = (unsigned)from;
    if (emu_order == 1)
        for (unsigned a = first, b = ring_count; a + 1 < b; a++)
            swap_ready(a, --b);
    else if (emu_order > 1)
        for (unsigned i = ring_count; i > first + 1; i--)
            swap_ready(i - 1, first + emu_draw() % (i - first));
}

/* Tells where all threads that are left wait: "32 threads in __syncthreads at a.cu:7; ..." */
static void tell_deadlock(void) {
    char text[512];
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < emu_threads; i++) {
        const emu_fiber *f = &emu_fibers[i];
        int like = 0;
        bool first = true;
        for (int k = 0; k < emu_threads; k++)
            if (!emu_fibers[k].done && !f->done && emu_fibers[k].waits_in == f->waits_in &&
                emu_fibers[k].place.line == f->place.line) {
                like++;
                first = first && k >= i;
            }
        if (f->done || !first || at >= sizeof text - 1)
            continue;
        const char *slash = strrchr(f->place.file, '/');
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d threads in %s at %s:%d", at > 0 ? "; " : "", like,
                               f->waits_in, slash ? slash + 1 : f->place.file, f->place.line);
    }
    emu_found(0, "deadlock", "%s; %d of %d threads have returned", text, emu_threads - emu_live, emu_threads);
}

/* Gives the processor to the next thread that can run, or back to the host. */
static void run_next(void) {
    if (ring_count == 0) {
        if (emu_live > 0) {
            tell_deadlock();
            emu_set_failed();
        }
        switch_to(&host);
        return;
    }
    if (emu_order > 1) { /* some run far ahead of the others */
        const unsigned reach = emu_draw() % 4 ? 2 : EMU_MAX_THREADS;
        swap_ready(0, emu_draw() % (ring_count < reach ? ring_count : reach));
    }
    emu_fiber *f = *ready(0);
    ring_head = (ring_head + 1) % EMU_MAX_THREADS;
    ring_count--;
    switch_to(f);
}

void emu_wait(const char *what, emu_place place) {
    emu_self->waits_in = what;
    emu_self->place = place;
    run_next();
}

void emu_yield(void) {
    emu_release(emu_self);
    run_next();
}

noreturn void emu_end_launch(void) {
    emu_set_failed();
    switch_to(&host);
    abort(); /* nobody comes back here */
}

static void fiber_main(void) {
    body(body_arguments);
    emu_end_copies();
    emu_self->done = true;
    emu_live--;
    emu_thread_left();
    run_next();
}

void emu_make_stacks(void) {
    for (int i = 0; i < EMU_MAX_THREADS; i++) {
        char *m =
            mmap(NULL, GUARD + EMU_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED || mprotect(m, GUARD, PROT_NONE) != 0)
            perror("emulation: stacks"), abort();
        emu_fibers[i].stack = m + GUARD;
    }
}

void emu_run_fibers(void (*call)(const void *), const void *f) {
    body = call, body_arguments = f;
    emu_live = emu_threads;
    ring_head = ring_count = 0;
    for (int i = 0; i < emu_threads; i++) {
        emu_fiber *fiber = &emu_fibers[i];
        const unsigned n = (unsigned)i, x = emu_block_size.x, y = emu_block_size.y;
        fiber->index = n, fiber->lane = n % EMU_WARP, fiber->warp = n / EMU_WARP;
        fiber->idx = (emu_dim3){n % x, n / x % y, n / x / y};
        fiber->done = false;
        fiber->barrier = NULL;
        emu_begin_copies(fiber);
        make(fiber);
        emu_release(fiber);
    }
    emu_order_released(0);
    run_next();
    emu_self = NULL;
}
