/* emulation_copies.c: cp.async: bytes that a thread sends from global to shared memory arrive when it waits for them,
 * the latest that they may. Whoever touches them before is told, and so is a thread that never waits. */
#include "emulation_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void emu_begin_copies(emu_fiber *fiber) { fiber->n_copies = fiber->group = 0; }

void emu_end_copies(void) {
    if (emu_self->n_copies > 0)
        emu_found(0, "unfinished copy", "thread %u of block %u,%u,%u returns without waiting for its copies",
                  emu_self->index, emu_block_at.x, emu_block_at.y, emu_block_at.z);
}

void emu_copy_async(void *shared, const void *global, int size, int bytes) {
    const emu_access to = {(uintptr_t)shared, (uintptr_t)__builtin_return_address(0), (unsigned)size, true, false};
    const emu_access from = {(uintptr_t)global, to.pc, (unsigned)bytes, false, false};
    emu_region *r = emu_shared_region(to.at);
    if (!r || to.at + to.size > r->hi || bytes < 0 || bytes > size)
        emu_fault("out of bounds", to);
    if (to.at % to.size != 0)
        emu_fault("misaligned", to);
    if (bytes > 0 && from.at % to.size != 0)
        emu_fault("misaligned", from);
    if (bytes > 0)
        emu_look(from);
    emu_look(to);
    emu_set_pending(r, to.at, size, true);
    emu_fiber *f = emu_self;
    if (f->n_copies == f->copies_room) {
        f->copies_room = 2 * f->copies_room + 16;
        f->copies = realloc(f->copies, (size_t)f->copies_room * sizeof *f->copies);
        if (!f->copies)
            perror("emulation: copies"), abort();
    }
    f->copies[f->n_copies++] = (emu_copy){shared, global, size, bytes, f->group, to.pc};
}

void emu_copy_commit(void) { emu_self->group++; }

static void arrive(const emu_copy *c) {
    emu_set_pending(emu_shared_region((uintptr_t)c->shared), (uintptr_t)c->shared, c->size, false);
    emu_look((emu_access){(uintptr_t)c->shared, c->pc, (unsigned)c->size, true, false});
    memcpy(c->shared, c->global, (size_t)c->bytes);
    memset(c->shared + c->bytes, 0, (size_t)(c->size - c->bytes));
}

void emu_copy_wait(int groups) {
    emu_fiber *f = emu_self;
    int kept = 0;
    for (int i = 0; i < f->n_copies; i++) {
        const emu_copy c = f->copies[i];
        if (c.group >= f->group - groups)
            f->copies[kept++] = c;
        else
            arrive(&c);
    }
    f->n_copies = kept;
}
