/* emulation_warps.c: what threads of a block wait for: barriers, and the lanes of their warp. Both say who has seen
 * whose accesses: a barrier joins the clocks of all warps that meet there, __syncwarp of a whole warp moves its own. */
#include "emulation_state.h"
#include <string.h>

typedef struct pending {
    uint32_t mask, arrived;
    emu_kind kind;
    emu_place place;
} pending;

typedef struct warp {
    uint32_t clock, exited, present;
    uint32_t seen[EMU_MAX_WARPS];
    pending waiting[EMU_WARP];
    int n_waiting;
} warp;

typedef struct emu_barrier_state {
    int arrived, count;
    emu_place place;
} barrier;

uint32_t emu_counter = 1;
static warp warps[EMU_MAX_WARPS];
static barrier barriers[EMU_BARRIERS];
static int n_warps;

uint32_t emu_clock(void) { return warps[emu_self->warp].clock; }

bool emu_has_seen(unsigned thread, uint32_t stamp) {
    const unsigned v = thread / EMU_WARP, w = emu_self->warp;
    return thread == emu_self->index || stamp < (v == w ? warps[w].clock : warps[w].seen[v]);
}

void emu_begin_warps(void) {
    n_warps = (emu_threads + EMU_WARP - 1) / EMU_WARP;
    for (int w = 0; w < n_warps; w++) {
        const int lanes = emu_threads - w * EMU_WARP;
        warps[w].clock = ++emu_counter;
        warps[w].exited = 0;
        warps[w].present = lanes >= EMU_WARP ? UINT32_MAX : (UINT32_C(1) << lanes) - 1;
        warps[w].n_waiting = 0;
        memset(warps[w].seen, 0, sizeof warps[w].seen);
    }
    memset(barriers, 0, sizeof barriers);
}

/* --- barriers --------------------------------------------------------------------------------------- */

/* The warps of `in` have seen all that any of them had done or seen. */
static void join(const bool in[EMU_MAX_WARPS]) {
    uint32_t all[EMU_MAX_WARPS] = {0};
    for (int w = 0; w < n_warps; w++) {
        if (!in[w])
            continue;
        warps[w].clock = ++emu_counter;
        for (int v = 0; v < n_warps; v++)
            all[v] = warps[w].seen[v] > all[v] ? warps[w].seen[v] : all[v];
    }
    for (int w = 0; w < n_warps; w++)
        all[w] = in[w] ? warps[w].clock : all[w];
    for (int w = 0; w < n_warps; w++)
        if (in[w])
            memcpy(warps[w].seen, all, sizeof all);
}

static void open_barrier(barrier *b) {
    bool in[EMU_MAX_WARPS] = {false};
    const int from = emu_ready_count();
    for (int i = 0; i < emu_threads; i++) {
        emu_fiber *f = &emu_fibers[i];
        if (!f->done && f->barrier == b) {
            in[f->warp] = true;
            f->barrier = NULL;
            if (f != emu_self)
                emu_release(f);
        }
    }
    for (int w = 0; w < n_warps && b->count == 0; w++) /* those that have returned, too */
        in[w] = true;
    join(in);
    emu_order_released(from);
    *b = (barrier){0};
}

static bool same_place(emu_place a, emu_place b) {
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

void emu_barrier(int id, int count, emu_place place) {
    const char *what = count > 0 ? "a named barrier" : "__syncthreads";
    if (id < 0 || id >= EMU_BARRIERS || count < 0 || count % EMU_WARP != 0 || count > EMU_MAX_THREADS ||
        (count > 0 && id == 0)) {
        emu_found((uint64_t)place.line, "invalid barrier", "barrier %d of %d threads, at line %d", id, count,
                  place.line);
        emu_end_launch();
    }
    barrier *b = &barriers[id];
    if (b->arrived > 0 && (b->count != count || (count == 0 && !same_place(b->place, place))))
        emu_found((uint64_t)place.line, "barrier divergence",
                  "thread %u waits at line %d while another waits at line %d", emu_self->index, place.line,
                  b->place.line);
    b->place = place, b->count = count;
    b->arrived++;
    emu_self->barrier = b;
    if (b->arrived < (count > 0 ? count : emu_live)) {
        emu_wait(what, place);
        return;
    }
    open_barrier(b);
    if (emu_order > 1) /* whoever came last is not the first to go on */
        emu_yield();
}

/* --- exchanges of a warp ---------------------------------------------------------------------------- */

static const char *const kind_names[] = {
    [EMU_SYNC] = "__syncwarp",
    [EMU_IDX] = "__shfl_sync",
    [EMU_UP] = "__shfl_up_sync",
    [EMU_DOWN] = "__shfl_down_sync",
    [EMU_XOR] = "__shfl_xor_sync",
    [EMU_BALLOT] = "__ballot_sync",
    [EMU_ANY] = "__any_sync",
    [EMU_ALL] = "__all_sync",
    [EMU_ADD] = "__reduce_add_sync",
    [EMU_MAX] = "__reduce_max_sync",
    [EMU_MIN] = "__reduce_min_sync",
    [EMU_MAX_SIGNED] = "__reduce_max_sync",
    [EMU_MIN_SIGNED] = "__reduce_min_sync",
    [EMU_OR] = "__reduce_or_sync",
    [EMU_AND] = "__reduce_and_sync",
    [EMU_MATCH] = "__match_any_sync",
    [EMU_MMA] = "mma",
    [EMU_LDMATRIX] = "ldmatrix",
};

static uint64_t combine(emu_kind kind, uint64_t a, uint64_t b) {
    const int32_t x = (int32_t)(uint32_t)a, y = (int32_t)(uint32_t)b;
    switch (kind) {
    case EMU_ALL:
    case EMU_AND: return a & b;
    case EMU_ADD: return (uint32_t)(a + b);
    case EMU_MAX: return a > b ? a : b;
    case EMU_MIN: return a < b ? a : b;
    case EMU_MAX_SIGNED: return x > y ? a : b;
    case EMU_MIN_SIGNED: return x < y ? a : b;
    default: return a | b; /* EMU_ANY, EMU_BALLOT, EMU_OR */
    }
}

static uint64_t reduce(const emu_fiber *lanes, const pending *p) {
    uint64_t all = 0;
    bool first = true;
    for (unsigned l = 0; l < EMU_WARP; l++)
        if (p->arrived >> l & 1) {
            const uint64_t bits = p->kind == EMU_BALLOT ? lanes[l].bits << l : lanes[l].bits;
            all = first ? bits : combine(p->kind, all, bits);
            first = false;
        }
    return all;
}

/* The lane that lane l reads in a shuffle, as CUDA defines it: its own where the source is outside its part. */
static unsigned source_lane(const emu_fiber *f, emu_kind kind) {
    const unsigned l = f->lane, width = (unsigned)f->width, first = l / width * width, last = first + width - 1;
    const unsigned arg = (unsigned)f->arg;
    switch (kind) {
    case EMU_IDX: return first | (arg & (width - 1));
    case EMU_UP: return l >= first + arg ? l - arg : l;
    case EMU_DOWN: return l + arg <= last ? l + arg : l;
    default: return (l ^ arg) <= last ? l ^ arg : l; /* EMU_XOR: lower parts may be read */
    }
}

static uint64_t shuffled(const emu_fiber *lanes, const emu_fiber *f, const pending *p) {
    const unsigned from = source_lane(f, p->kind);
    if (p->arrived >> from & 1)
        return lanes[from].bits;
    emu_found((uint64_t)p->place.line, "undefined shuffle", "lane %u reads lane %u, which does not take part (%s:%d)",
              f->lane, from, p->place.file, p->place.line);
    return UINT64_C(0x7ff7ff7f7ff7ff7f); /* not a number in every type */
}

static uint64_t matching(const emu_fiber *lanes, const emu_fiber *f, const pending *p) {
    uint64_t mask = 0;
    for (unsigned l = 0; l < EMU_WARP; l++)
        if (p->arrived >> l & 1 && lanes[l].bits == f->bits)
            mask |= UINT64_C(1) << l;
    return mask;
}

/* All lanes are there: each gets its result. */
static void complete(warp *w, const pending *p) {
    emu_fiber *lanes = &emu_fibers[(w - warps) * EMU_WARP];
    if (p->kind == EMU_SYNC) { /* of a part of a warp: not modelled, as if it were none */
        if ((p->arrived | w->exited) == w->present) {
            w->clock = ++emu_counter;
            w->seen[w - warps] = w->clock;
        }
        return;
    }
    if (p->kind == EMU_MMA || p->kind == EMU_LDMATRIX) {
        if (p->arrived != UINT32_MAX) {
            emu_found((uint64_t)p->place.line, "part of a warp", "%s by lanes %08x (%s:%d)", kind_names[p->kind],
                      p->arrived, p->place.file, p->place.line);
            emu_end_launch();
        }
        if (p->kind == EMU_MMA)
            emu_compute_mma(lanes, lanes[0].arg == EMU_TF32);
        else
            emu_compute_ldmatrix(lanes);
        return;
    }
    const bool shuffle = p->kind >= EMU_IDX && p->kind <= EMU_XOR;
    const uint64_t all = shuffle || p->kind == EMU_MATCH ? 0 : reduce(lanes, p);
    for (unsigned l = 0; l < EMU_WARP; l++)
        if (p->arrived >> l & 1)
            lanes[l].result = shuffle                ? shuffled(lanes, &lanes[l], p)
                              : p->kind == EMU_MATCH ? matching(lanes, &lanes[l], p)
                                                     : all;
}

static void release_lanes(const warp *w, uint32_t arrived) {
    const int from = emu_ready_count();
    for (unsigned l = 0; l < EMU_WARP; l++) {
        emu_fiber *f = &emu_fibers[(w - warps) * EMU_WARP + l];
        if (arrived >> l & 1 && f != emu_self)
            emu_release(f);
    }
    emu_order_released(from);
}

/* Takes the exchange out of those that wait when nobody is missing; whether it did. */
static bool finish(warp *w, int i) {
    const pending p = w->waiting[i];
    if ((p.arrived | (w->exited & p.mask)) != p.mask)
        return false;
    w->waiting[i] = w->waiting[--w->n_waiting];
    complete(w, &p);
    release_lanes(w, p.arrived);
    return true;
}

void emu_take_part(uint32_t mask, emu_kind kind, emu_place place) {
    warp *w = &warps[emu_self->warp];
    const uint32_t me = UINT32_C(1) << emu_self->lane;
    mask &= w->present;
    if (!(mask & me)) {
        emu_found((uint64_t)place.line, "bad mask", "lane %u calls %s with mask %08x, which lacks it (%s:%d)",
                  emu_self->lane, kind_names[kind], mask, place.file, place.line);
        emu_end_launch();
    }
    int i = 0;
    while (i < w->n_waiting && !(w->waiting[i].arrived & mask) && w->waiting[i].mask != mask)
        i++;
    pending *p = &w->waiting[i];
    if (i == w->n_waiting) {
        *p = (pending){mask, 0, kind, place};
        w->n_waiting++;
    } else if (p->mask != mask || p->kind != kind || !same_place(p->place, place)) {
        emu_found((uint64_t)place.line, "warp divergence",
                  "lane %u is in %s (mask %08x) at line %d while others of the mask are in %s (mask %08x) at line %d",
                  emu_self->lane, kind_names[kind], mask, place.line, kind_names[p->kind], p->mask, p->place.line);
        emu_end_launch();
    }
    p->arrived |= me;
    if (!finish(w, i))
        emu_wait(kind_names[kind], place);
}

uint64_t emu_exchange(uint32_t mask, uint64_t bits, emu_kind kind, int arg, int width, emu_place place) {
    emu_self->bits = bits, emu_self->arg = arg, emu_self->width = width;
    emu_take_part(mask, kind, place);
    return emu_self->result;
}

uint32_t emu_active_mask(void) { return warps[emu_self->warp].present & ~warps[emu_self->warp].exited; }

/* --- returning -------------------------------------------------------------------------------------- */

/* Others may wait for it no longer. */
void emu_thread_left(void) {
    warp *w = &warps[emu_self->warp];
    w->exited |= UINT32_C(1) << emu_self->lane;
    for (int i = w->n_waiting - 1; i >= 0; i--)
        finish(w, i);
    barrier *all = &barriers[0];
    if (all->arrived > 0 && all->arrived == emu_live)
        open_barrier(all);
}
