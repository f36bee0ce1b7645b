/* emulation_crash.c: what would end the program ends the launch: a kernel that the processor stops (an integer divided
 * by 0, memory that no hook saw), and one that never comes to an end. */
#define _GNU_SOURCE /* REG_RIP */
#include "emulation_state.h"
#include <signal.h>
#include <string.h>
#include <ucontext.h>

uint32_t emu_most_accesses = UINT32_C(1) << 28;

static const int stops[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { STOPS = sizeof stops / sizeof *stops };
static struct sigaction before[STOPS];
static uint32_t accesses;

static uintptr_t stopped_at(const void *context) {
    const ucontext_t *c = context;
    (void)c;
#if defined(__x86_64__)
    return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)c->uc_mcontext.pc;
#else
    return 0;
#endif
}

/* On the stack of the thread that was stopped, which nobody comes back to. */
static void stopped(int number, siginfo_t *info, void *context) {
    if (!emu_self) { /* the host itself: as ever */
        emu_end_watch();
        raise(number);
        return;
    }
    const uintptr_t pc = stopped_at(context) - emu_program + 1; /* as if it were where a call returns to */
    if (emu_is_new(pc, "crash"))
        emu_found(pc, "crash", "thread %u of block %u,%u,%u was stopped by signal %d, address %p (%s)", emu_self->index,
                  emu_block_at.x, emu_block_at.y, emu_block_at.z, number, info->si_addr, emu_where(pc));
    emu_end_launch();
}

void emu_begin_watch(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = stopped;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    for (int i = 0; i < STOPS; i++)
        sigaction(stops[i], &action, &before[i]);
}

void emu_end_watch(void) {
    for (int i = 0; i < STOPS; i++)
        sigaction(stops[i], &before[i], NULL);
}

void emu_begin_turn(void) { accesses = 0; }

void emu_count_turn(uintptr_t pc) {
    if (++accesses < emu_most_accesses)
        return;
    emu_found(pc, "endless", "thread %u of block %u,%u,%u waits for nobody in %u accesses (%s)", emu_self->index,
              emu_block_at.x, emu_block_at.y, emu_block_at.z, accesses, emu_where(pc - emu_program));
    emu_end_launch();
}
