/* emulation_shadow.c: every load and store of a kernel, looked at before it happens: whether the bytes are there, were
 * written, and whom it races with. Faults end the launch, as they do on a device; the rest is told and goes on. */
#include "emulation_state.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

uint32_t emu_launch_stamp, emu_block_stamp;

static uint32_t stamp_of(emu_touch t) { return (uint32_t)(t >> EMU_STAMP_AT); }
static unsigned thread_of(emu_touch t) { return (unsigned)(t >> EMU_THREAD_AT) & (EMU_MAX_THREADS - 1); }
static uintptr_t pc_of(emu_touch t) { return t & EMU_PC_MASK; }

/* --- faults ----------------------------------------------------------------------------------------- */

noreturn void emu_fault(const char *kind, emu_access x) {
    const emu_region *r = emu_device_region(x.at);
    const ptrdiff_t into = (ptrdiff_t)(x.at - emu_dynamic.lo);
    char place[256];
    if (emu_shared_region(x.at) == &emu_static)
        snprintf(place, sizeof place, "static shared memory");
    else if (into > -(1 << 20) && into < 1 << 20)
        snprintf(place, sizeof place, "byte %td of dynamic shared memory, which has %zu", into,
                 (size_t)(emu_dynamic.hi - emu_dynamic.lo));
    else if (r && x.at >= r->slot && x.at < r->slot_end)
        snprintf(place, sizeof place, "byte %td of '%.100s', which has %zu", (ptrdiff_t)(x.at - r->lo), r->name,
                 (size_t)(r->hi - r->lo));
    else
        snprintf(place, sizeof place, "%p, which is no device memory", (void *)x.at);
    const uintptr_t pc = x.pc - emu_program;
    if (emu_is_new(pc, kind))
        emu_found(pc, kind, "thread %u of block %u,%u,%u %s %u bytes at %s (%s)", emu_self->index, emu_block_at.x,
                  emu_block_at.y, emu_block_at.z, x.write ? "writes" : "reads", x.size, place, emu_where(pc));
    emu_end_launch();
}

/* --- races ------------------------------------------------------------------------------------------ */

/* Whether the running thread comes after what was done. */
static inline bool ordered(emu_touch before, const emu_region *r) {
    const uint32_t stamp = stamp_of(before);
    if (stamp < emu_launch_stamp || (r->shared && stamp < emu_block_stamp))
        return true;
    return stamp >= emu_block_stamp && emu_has_seen(thread_of(before), stamp);
}

static void tell_race(const char *kind, emu_touch before, bool before_wrote, uintptr_t at, const emu_access *x,
                      const emu_region *r) {
    const uintptr_t pc = x->pc - emu_program;
    const uint64_t key = (uint64_t)pc_of(before) << 32 ^ pc;
    if (!emu_is_new(key, kind))
        return;
    char there[512];
    snprintf(there, sizeof there, "%s", emu_where(pc_of(before)));
    emu_found(key, kind, "thread %u of block %u,%u,%u %s byte %td of %.100s (%s), which thread %u%s %s (%s)",
              emu_self->index, emu_block_at.x, emu_block_at.y, emu_block_at.z, x->write ? "writes" : "reads",
              (ptrdiff_t)(at - r->lo), r->name, emu_where(pc), thread_of(before),
              stamp_of(before) < emu_block_stamp ? " of another block" : "", before_wrote ? "wrote" : "read", there);
}

static inline void check_order(emu_touch before, bool before_wrote, uintptr_t at, const emu_access *x,
                               const emu_region *r) {
    if (before && !ordered(before, r))
        tell_race(stamp_of(before) < emu_block_stamp ? "race between blocks" : "race", before, before_wrote, at, x, r);
}

/* The access touches the byte, or the 4 bytes, of a cell. */
static inline void touch(emu_cell *c, uint8_t flags, uintptr_t at, const emu_access *x, const emu_region *r,
                         emu_touch now) {
    if (flags & EMU_PENDING)
        tell_race("copy still under way", c->wrote, true, at, x, r);
    else if (!(x->atomic && flags & EMU_ATOMIC))
        check_order(c->wrote, true, at, x, r);
    if (x->write) {
        check_order(c->read, false, at, x, r);
        check_order(c->before, false, at, x, r);
        *c = (emu_cell){.wrote = now};
        return;
    }
    if (c->read && thread_of(c->read) != thread_of(now) && !ordered(c->read, r))
        c->before = c->read;
    c->read = now;
}

static void tell_unwritten(uintptr_t at, const emu_access *x, const emu_region *r) {
    const uintptr_t pc = x->pc - emu_program;
    if (emu_is_new(pc, "uninitialised"))
        emu_found(pc, "uninitialised",
                  "thread %u of block %u,%u,%u reads byte %td of %.100s, which nothing has written (%s)",
                  emu_self->index, emu_block_at.x, emu_block_at.y, emu_block_at.z, (ptrdiff_t)(at - r->lo), r->name,
                  emu_where(pc));
}

/* --- flags and cells of what is accessed ------------------------------------------------------------- */

#define EACH_OF_4(flag) ((uint32_t)(flag)*UINT32_C(0x01010101))

static inline void touch_byte(emu_region *r, size_t i, const emu_access *x, emu_touch now) {
    const uint8_t flags = r->flags[i];
    if (!x->write && !(flags & (EMU_WRITTEN | EMU_PENDING))) {
        tell_unwritten(r->lo + i, x, r);
        r->flags[i] |= EMU_WRITTEN; /* told once */
    }
    touch(&r->cells[i], flags, r->lo + i, x, r, now);
    if (x->write)
        r->flags[i] = (uint8_t)((flags & EMU_SPLIT) | EMU_WRITTEN | (x->atomic ? EMU_ATOMIC : 0));
}

/* Whether the 4 bytes at i were taken at once. */
static inline bool touch_word(emu_region *r, size_t i, const emu_access *x, emu_touch now) {
    uint32_t flags;
    memcpy(&flags, r->flags + i, 4);
    const bool alike = flags == EACH_OF_4(flags & 0xff);
    if (!alike || flags & EMU_SPLIT || (!x->write && !(flags & (EMU_WRITTEN | EMU_PENDING))))
        return false;
    touch(&r->words[i / 4], (uint8_t)flags, r->lo + i, x, r, now);
    if (x->write)
        memset(r->flags + i, EMU_WRITTEN | (x->atomic ? EMU_ATOMIC : 0), 4);
    return true;
}

/* The 4 bytes at i have cells of their own. */
static inline void split(emu_region *r, size_t i) {
    if (r->flags[i] & EMU_SPLIT)
        return;
    r->flags[i] |= EMU_SPLIT;
    for (size_t k = 0; k < 4; k++)
        r->cells[i + k] = r->words[i / 4];
}

/* They have one again: somebody has written all of them. */
static inline void unite(emu_region *r, size_t i) {
    r->flags[i] &= (uint8_t)~EMU_SPLIT;
    r->words[i / 4] = r->cells[i];
}

static void touch_all(emu_region *r, const emu_access *x) {
    const emu_touch now = (emu_touch)emu_clock() << EMU_STAMP_AT | (emu_touch)emu_self->index << EMU_THREAD_AT |
                          ((x->pc - emu_program) & EMU_PC_MASK);
    size_t i = x->at - r->lo;
    const size_t end = i + x->size;
    while (i < end) {
        const size_t word = i & ~(size_t)3, to = word + 4 < end ? word + 4 : end;
        if (to - i == 4 && touch_word(r, i, x, now)) {
            i += 4;
            continue;
        }
        const bool whole = to - i == 4 && x->write;
        split(r, word);
        for (; i < to; i++)
            touch_byte(r, i, x, now);
        if (whole)
            unite(r, word);
    }
}

void emu_set_pending(const emu_region *r, uintptr_t at, int size, bool pending) {
    for (int i = 0; i < size; i++) {
        uint8_t *flags = &r->flags[at - r->lo + (size_t)i];
        *flags = (uint8_t)(pending ? *flags | EMU_PENDING : *flags & ~EMU_PENDING);
    }
}

void emu_look(emu_access x) {
    emu_region *r = emu_shared_region(x.at);
    r = r ? r : emu_device_region(x.at);
    if (!r || x.at < r->lo || x.at >= r->hi || x.size > r->hi - x.at) {
        if (!x.write && emu_is_constant(x.at, x.size))
            return;
        emu_fault("out of bounds", x);
    }
    if (x.size <= 16 && (x.size & (x.size - 1)) == 0 && x.at % x.size != 0)
        emu_fault("misaligned", x);
    if (!r->shared && !emu_is_allowed(x.at, x.size, x.write))
        emu_fault("not an operand", x);
    if (emu_counting)
        emu_count(&x, r->shared);
    touch_all(r, &x);
    emu_count_turn(x.pc);
    if (emu_found_now >= EMU_MAX_FINDINGS)
        emu_end_launch();
}
