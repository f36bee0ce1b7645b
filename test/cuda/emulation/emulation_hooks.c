/* emulation_hooks.c: what the code of kernels calls around its accesses. -fsanitize=thread puts the __tsan_ calls
 * before every load and store; this takes the place of ThreadSanitizer's run time. The host's own accesses, and those
 * of a thread to its stack, pass. */
#include "emulation_state.h"
#include <string.h>

#define HERE ((uintptr_t)__builtin_return_address(0))

static inline void look(const void *at, size_t size, bool write, bool atomic, uintptr_t pc) {
    if (emu_self && (uintptr_t)at - (uintptr_t)emu_self->stack >= EMU_STACK && size > 0)
        emu_look((emu_access){(uintptr_t)at, pc, (unsigned)size, write, atomic});
}

/* --- ThreadSanitizer's names ------------------------------------------------------------------------ */

#define HOOK(name, size, write)                                                                                        \
    void name##size(void *p);                                                                                          \
    void name##size(void *p) { look(p, size, write, false, HERE); }
#define HOOKS(size)                                                                                                    \
    HOOK(__tsan_read, size, false)                                                                                     \
    HOOK(__tsan_write, size, true)                                                                                     \
    HOOK(__tsan_unaligned_read, size, false)                                                                           \
    HOOK(__tsan_unaligned_write, size, true)                                                                           \
    HOOK(__tsan_volatile_read, size, false)                                                                            \
    HOOK(__tsan_volatile_write, size, true)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

#define NOTHING(name, ...)                                                                                             \
    void name(__VA_ARGS__);                                                                                            \
    void name(__VA_ARGS__) {}
NOTHING(__tsan_init, void)
NOTHING(__tsan_func_exit, void)

void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc) { (void)pc; }

void __tsan_read_range(void *p, size_t n);
void __tsan_read_range(void *p, size_t n) { look(p, n, false, false, HERE); }
void __tsan_write_range(void *p, size_t n);
void __tsan_write_range(void *p, size_t n) { look(p, n, true, false, HERE); }

void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n) {
    look(from, n, false, false, HERE), look(to, n, true, false, HERE);
    return memcpy(to, from, n);
}
void *__tsan_memmove(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n) {
    look(from, n, false, false, HERE), look(to, n, true, false, HERE);
    return memmove(to, from, n);
}
void *__tsan_memset(void *to, int value, size_t n);
void *__tsan_memset(void *to, int value, size_t n) {
    look(to, n, true, false, HERE);
    return memset(to, value, n);
}

/* --- accesses that name their size ------------------------------------------------------------------ */

uint64_t emu_load(const void *from, unsigned size) {
    uint64_t bits = 0;
    look(from, size, false, false, HERE);
    memcpy(&bits, from, size);
    return bits;
}
emu_16 emu_load16(const void *from) {
    emu_16 bits;
    look(from, sizeof bits, false, false, HERE);
    memcpy(&bits, from, sizeof bits);
    return bits;
}
void emu_store(void *to, uint64_t bits, unsigned size) {
    look(to, size, true, false, HERE);
    memcpy(to, &bits, size);
}
void emu_store16(void *to, emu_16 bits) {
    look(to, sizeof bits, true, false, HERE);
    memcpy(to, &bits, sizeof bits);
}

/* --- atomics ---------------------------------------------------------------------------------------- */

static uint64_t combined(uint64_t old, uint64_t value, emu_atomic op) {
    switch (op) {
    case EMU_ATOMIC_ADD: return old + value;
    case EMU_ATOMIC_MAX: return old > value ? old : value;
    case EMU_ATOMIC_MIN: return old < value ? old : value;
    case EMU_ATOMIC_OR: return old | value;
    case EMU_ATOMIC_AND: return old & value;
    case EMU_ATOMIC_XOR: return old ^ value;
    default: return value; /* EMU_ATOMIC_EXCHANGE */
    }
}

uint32_t emu_atomic32(uint32_t *p, uint32_t value, emu_atomic op) {
    look(p, sizeof *p, true, true, HERE);
    const uint32_t old = *p;
    *p = (uint32_t)combined(old, value, op);
    return old;
}

int32_t emu_atomic_signed(int32_t *p, int32_t value, emu_atomic op) {
    look(p, sizeof *p, true, true, HERE);
    const int32_t old = *p;
    if (op == EMU_ATOMIC_MAX || op == EMU_ATOMIC_MIN)
        *p = (op == EMU_ATOMIC_MAX) == (old > value) ? old : value;
    else
        *p = (int32_t)(uint32_t)combined((uint32_t)old, (uint32_t)value, op);
    return old;
}

uint64_t emu_atomic64(uint64_t *p, uint64_t value, emu_atomic op) {
    look(p, sizeof *p, true, true, HERE);
    const uint64_t old = *p;
    *p = combined(old, value, op);
    return old;
}

uint32_t emu_atomic_swap32(uint32_t *p, uint32_t expected, uint32_t value) {
    look(p, sizeof *p, true, true, HERE);
    const uint32_t old = *p;
    *p = old == expected ? value : old;
    return old;
}

uint64_t emu_atomic_swap64(uint64_t *p, uint64_t expected, uint64_t value) {
    look(p, sizeof *p, true, true, HERE);
    const uint64_t old = *p;
    *p = old == expected ? value : old;
    return old;
}

static void tell_order(uintptr_t pc) {
    if (!emu_float_atomics && emu_is_new(pc, "order"))
        emu_found(pc, "order", "an atomicAdd of floats, whose result depends on the order of threads (%s)",
                  emu_where(pc - emu_program));
}

float emu_atomic_float(float *p, float value) {
    tell_order(HERE);
    look(p, sizeof *p, true, true, HERE);
    const float old = *p;
    *p = old + value;
    return old;
}

double emu_atomic_double(double *p, double value) {
    tell_order(HERE);
    look(p, sizeof *p, true, true, HERE);
    const double old = *p;
    *p = old + value;
    return old;
}
