/* plan_exact.c: a search for places below a capacity, depth first.
 *
 * Any packing can sink until each buffer lies on the ground or on another one. So `low`, the lowest place that is left
 * for a buffer, sums up all that was placed: placing a buffer at its low lifts the low of all that are live with it to
 * its top. The state is the set of buffers left to place, with their lows. Where no life crosses a step, it falls into
 * two independent states. A buffer that is live through all of a state goes to the top of the arena and is done.
 *
 * A state cannot be packed if in some section v plus the bytes of all with low v or more is above the capacity. Else
 * one section is chosen whose lowest low is a valley: the next buffer in it can only be one of those with this low, or
 * none, and then the bytes up to the next top are lost. Each packing is in exactly one of these branches.
 *
 * States that failed are kept as hashes: the same buffers with the same bytes left above them come again. Two states of
 * one hash would hide a packing, never make a wrong one. */
#include "plan_exact.h"
#include "plan_problem.h"
#include "plan_random.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef tc_exact_item item;

#define FAILED (1u << 18)             /* states that are remembered */
#define MOST_BYTES ((size_t)64 << 20) /* of the stack; a search that needs more ends as if out of work */
#define MISSING UINT64_MAX

/* Buffers left to place between two steps, by low. */
typedef struct state {
    item *items;
    uint32_t n, first, last;
    uint64_t capacity;
} state;

typedef struct frame {
    state state;
    uint64_t hash, floor;                 /* of the section: its lowest low */
    uint32_t section, n_candidates, next; /* n_candidates + 1: the section's loss was tried too */
    uint32_t n_parts, next_part;          /* of the state left after the candidate */
    item *candidates;                     /* the better one first */
    state *parts;
    size_t begin, mark; /* of the stack: before the candidates and after them */
} frame;

struct tc_exact {
    const item *items;
    uint32_t n;
    uint64_t *sum, *floor; /* [sections]: bytes of the items so far; the lowest low */
    uint32_t *reach;       /* [sections + 1] */
    item *lifted;          /* [n] */
    uint64_t *ranks;       /* [n] */
    frame *frames;         /* [n_frames] */
    uint32_t n_frames;
    unsigned char *stack;
    size_t top, bytes;
    uint64_t *failed; /* [FAILED] */
    uint32_t shift;   /* makes bytes 36 bits at most */
    /* of a search */
    const tc_exact_how *how;
    uint64_t random, work;
    uint64_t *offsets;
    bool full; /* the stack */
};

/* --- memory ----------------------------------------------------------------------------------- */

/* Large zeroed memory comes from the system and goes back to it: freed memory that malloc keeps would stay resident
 * beside the planned arena. */
static void *take(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void give_back(void *memory, size_t bytes) {
    if (memory)
        munmap(memory, bytes);
}

tc_exact *tc_exact_make(const item *items, uint32_t n, uint32_t n_sections) {
    tc_exact *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    size_t many = n + (size_t)1, sections = n_sections + (size_t)1;
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += items[i].bytes;
    while (total >> x->shift >= (uint64_t)1 << 36)
        x->shift++;
    x->items = items;
    x->n = n;
    x->bytes = many < 2000 ? 2 * many * (many + 64) * sizeof(item) : MOST_BYTES;
    x->bytes = x->bytes < MOST_BYTES ? x->bytes : MOST_BYTES;
    x->sum = malloc(sections * sizeof *x->sum);
    x->floor = malloc(sections * sizeof *x->floor);
    x->reach = malloc(sections * sizeof *x->reach);
    x->lifted = malloc(many * sizeof *x->lifted);
    x->ranks = malloc(many * sizeof *x->ranks);
    x->n_frames = 2 * n + 16;
    x->frames = take(x->n_frames * sizeof *x->frames);
    x->stack = take(x->bytes);
    x->failed = take(FAILED * sizeof *x->failed);
    if (x->sum && x->floor && x->reach && x->lifted && x->ranks && x->frames && x->stack && x->failed)
        return x;
    tc_exact_free(x);
    return NULL;
}

void tc_exact_free(tc_exact *x) {
    if (!x)
        return;
    free(x->sum);
    free(x->floor);
    free(x->reach);
    free(x->lifted);
    free(x->ranks);
    give_back(x->frames, x->n_frames * sizeof *x->frames);
    give_back(x->stack, x->bytes);
    give_back(x->failed, FAILED * sizeof *x->failed);
    free(x);
}

/* NULL: the stack is full. */
static void *push(tc_exact *x, size_t n, size_t size) {
    size_t bytes = (n * size + 15) & ~(size_t)15;
    x->full |= bytes > x->bytes - x->top;
    if (x->full)
        return NULL;
    x->top += bytes;
    return x->stack + x->top - bytes;
}

/* --- states ----------------------------------------------------------------------------------- */

static bool meet(const item *a, const item *b) { return a->first <= b->last && b->first <= a->last; }

/* The parts of a state between steps that no life crosses: their sections, in x->reach from the front as pairs. */
static uint32_t cut(tc_exact *x, const state *s) {
    uint32_t *reach = x->reach, n = 0, end = 0;
    memset(reach + s->first, 0, (s->last - s->first + (size_t)1) * sizeof *reach);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->items[i].last + 1 > reach[s->items[i].first])
            reach[s->items[i].first] = s->items[i].last + 1;
    for (uint32_t at = s->first; at <= s->last; at++) {
        if (at >= end && reach[at] > 0)
            n++;
        end = reach[at] > end ? reach[at] : end;
        reach[at] = n > 0 && at < end ? n : 0; /* from here: the part of each section, from 1 on */
    }
    return n;
}

/* A buffer that is live through all of the state leaves it for the top. False: it does not fit there. */
static bool lift_spanning(tc_exact *x, state *s, bool *out_any) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const item *it = &s->items[i];
        if (it->first != s->first || it->last != s->last) {
            s->items[n++] = *it;
            continue;
        }
        if (it->low + it->bytes > s->capacity)
            return false;
        s->capacity = (s->capacity - it->bytes) & ~(uint64_t)(it->align - 1);
        if (it->low > s->capacity)
            return false;
        x->offsets[it->index] = s->capacity;
    }
    *out_any = n < s->n;
    s->n = n;
    return true;
}

static void find_ends(state *s) {
    s->first = UINT32_MAX;
    s->last = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        s->first = s->items[i].first < s->first ? s->items[i].first : s->first;
        s->last = s->items[i].last > s->last ? s->items[i].last : s->last;
    }
}

/* The state's items in the order of its pieces, and a state for each, the last one at `to`, the others below. */
static void list_pieces(tc_exact *x, const state *s, uint32_t n_pieces, state *to) {
    uint32_t at = 0;
    memcpy(x->lifted, s->items, s->n * sizeof *s->items);
    for (uint32_t piece = 1; piece <= n_pieces; piece++) {
        state part = {.items = s->items + at, .capacity = s->capacity};
        for (uint32_t i = 0; i < s->n; i++)
            if (x->reach[x->lifted[i].first] == piece)
                s->items[at++] = x->lifted[i];
        part.n = (uint32_t)(s->items + at - part.items);
        find_ends(&part);
        *to-- = part;
        x->work += s->n;
    }
}

/* Cuts a state until no part can be cut and no buffer is live through all of a part. The items are the stack's and are
 * moved within it. False: something does not fit, or the stack is full. */
static bool split(tc_exact *x, state whole, state **out_parts, uint32_t *out_n) {
    uint32_t end = whole.n + 1, todo = end, n = 0; /* parts from the front, states to be cut from the end on */
    state *parts = push(x, end, sizeof *parts);
    if (!parts)
        return false;
    find_ends(&whole);
    parts[--todo] = whole;
    while (todo < end) {
        state s = parts[todo++];
        bool any = false;
        x->work += s.n;
        if (s.n == 0)
            continue;
        uint32_t n_pieces = cut(x, &s);
        if (n_pieces > 1) {
            list_pieces(x, &s, n_pieces, parts + todo - 1);
            todo -= n_pieces;
        } else if (!lift_spanning(x, &s, &any)) {
            return false;
        } else if (any) {
            find_ends(&s);
            parts[--todo] = s;
        } else {
            parts[n++] = s;
        }
    }
    *out_parts = parts;
    *out_n = n;
    return true;
}

/* --- one state -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h) {
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

static uint64_t hash_of(const state *s) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < s->n; i++)
        hash += mix(s->items[i].index + mix(s->capacity - s->items[i].low + 1));
    return hash | 1;
}

/* Sums of all sections and their lowest lows. False: too much for some section, or a buffer that ends too high. */
static bool sum_sections(tc_exact *x, const state *s) {
    memset(x->sum + s->first, 0, (s->last - s->first + (size_t)1) * sizeof *x->sum);
    for (uint32_t i = s->n; i-- > 0;) {
        const item *it = &s->items[i];
        uint64_t most = 0;
        for (uint32_t at = it->first; at <= it->last; at++) {
            x->sum[at] += it->bytes;
            x->floor[at] = it->low;
            most = x->sum[at] > most ? x->sum[at] : most;
        }
        x->work += (it->last - it->first) / 4 + 1;
        if (it->low + most > s->capacity)
            return false;
    }
    return true;
}

static bool is_candidate(const frame *f, const item *it) {
    return it->low == f->floor && it->first <= f->section && f->section <= it->last;
}

/* How promising this valley is, at its tightest section: less is better. */
static uint64_t rate(tc_exact *x, const frame *f, uint64_t slack) {
    uint64_t n = 0;
    if (x->how->where == TC_EXACT_TIGHT)
        return slack;
    if (x->how->where == TC_EXACT_DEEP)
        return f->floor;
    for (uint32_t i = 0; i < f->state.n && f->state.items[i].low <= f->floor; i++)
        n += is_candidate(f, &f->state.items[i]);
    return n;
}

static void choose_section(tc_exact *x, frame *f) {
    const state *s = &f->state;
    uint64_t best = UINT64_MAX;
    frame trial = *f;
    for (uint32_t from = s->first, to; from <= s->last; from = to + 1) {
        uint64_t least = UINT64_MAX;
        for (to = from; to < s->last && x->floor[to + 1] == x->floor[from];)
            to++;
        if ((from > s->first && x->floor[from - 1] < x->floor[from]) ||
            (to < s->last && x->floor[to + 1] < x->floor[from]))
            continue;
        trial.floor = x->floor[from];
        for (uint32_t at = from; at <= to; at++) {
            if (s->capacity - x->floor[at] - x->sum[at] < least) {
                least = s->capacity - x->floor[at] - x->sum[at];
                trial.section = at;
            }
        }
        uint64_t rated = rate(x, &trial, least);
        if (rated < best) {
            best = rated;
            f->section = trial.section;
            f->floor = trial.floor;
        }
    }
}

static uint64_t draw(tc_exact *x) { return tc_plan_random(&x->random) >> 33; }

/* At most 2^61: 36 bits of bytes, 20 of sections, and a random factor of at most five. */
static uint64_t rank(tc_exact *x, const item *it) {
    uint64_t life = it->last - it->first + (uint64_t)1, bytes = it->bytes >> x->shift;
    uint64_t key = x->how->order == TC_EXACT_WIDE   ? life << 16
                   : x->how->order == TC_EXACT_TALL ? bytes << 8
                                                    : life * bytes;
    return x->how->noise > 0 ? key / 16 * (16 + draw(x) % (16 * (uint64_t)x->how->noise + 1)) : key;
}

static bool is_same(const item *a, const item *b) {
    return a->first == b->first && a->last == b->last && a->bytes == b->bytes && a->align == b->align;
}

/* Candidates for the floor of the section, the better one first; of equal buffers one. */
static bool list_candidates(tc_exact *x, frame *f) {
    const state *s = &f->state;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n && s->items[i].low <= f->floor; i++)
        n += is_candidate(f, &s->items[i]);
    f->candidates = push(x, n, sizeof *f->candidates);
    f->n_candidates = 0;
    for (uint32_t i = 0; f->candidates && i < s->n && s->items[i].low <= f->floor; i++) {
        const item *it = &s->items[i];
        bool again = !is_candidate(f, it);
        for (uint32_t k = 0; k < f->n_candidates && !again; k++)
            again = is_same(it, &f->candidates[k]);
        if (again)
            continue;
        uint64_t key = rank(x, it);
        uint32_t at = f->n_candidates++;
        for (; at > 0 && x->ranks[at - 1] < key; at--) {
            f->candidates[at] = f->candidates[at - 1];
            x->ranks[at] = x->ranks[at - 1];
        }
        f->candidates[at] = *it;
        x->ranks[at] = key;
    }
    return f->candidates != NULL;
}

/* Opens a frame for the state. False: it cannot be packed. */
static bool enter(tc_exact *x, frame *f, const state *s) {
    *f = (frame){.state = *s, .hash = hash_of(s), .begin = x->top};
    x->work += s->n + (s->last - s->first) / 2;
    if (x->failed[f->hash % FAILED] == f->hash || !sum_sections(x, s))
        return false;
    choose_section(x, f);
    bool ok = list_candidates(x, f);
    f->mark = x->top;
    return ok;
}

/* --- branches --------------------------------------------------------------------------------- */

/* Merges the n items of `moved`, sorted here, and the m of `others`, sorted by low, into `to`. */
static void merge(item *moved, uint32_t n, const item *others, uint32_t m, item *to) {
    for (uint32_t i = 1; i < n; i++) {
        item it = moved[i];
        uint32_t at = i;
        for (; at > 0 && moved[at - 1].low > it.low; at--)
            moved[at] = moved[at - 1];
        moved[at] = it;
    }
    for (uint32_t i = 0, k = 0; i < n || k < m;)
        *to++ = k == m || (i < n && moved[i].low <= others[k].low) ? moved[i++] : others[k++];
}

/* The state without the candidate, which lies on the floor: buffers live with it lie above it. */
static bool place(tc_exact *x, frame *f, const item *placed) {
    const state *s = &f->state;
    uint32_t n = 0, at = 0, i = 0;
    uint64_t top = f->floor + placed->bytes;
    item *items = push(x, s->n, sizeof *items);
    for (; items && i < s->n && s->items[i].low < top; i++) {
        const item *it = &s->items[i];
        if (it->index == placed->index)
            continue;
        if (!meet(it, placed)) {
            items[at++] = *it;
            continue;
        }
        x->lifted[n] = *it;
        x->lifted[n].low = tc_plan_round(top, it->align);
        if (x->lifted[n].low + it->bytes > s->capacity)
            return false;
        n++;
    }
    if (!items)
        return false;
    x->work += i;
    x->offsets[placed->index] = f->floor;
    merge(x->lifted, n, s->items + i, s->n - i, items + at);
    return split(x, (state){items, s->n - 1, 0, 0, s->capacity}, &f->parts, &f->n_parts);
}

/* The lowest top of those live with `it` that are no candidates. */
static uint64_t lowest_top(const frame *f, const item *it) {
    uint64_t lowest = MISSING;
    for (uint32_t i = 0; i < f->state.n; i++) {
        const item *other = &f->state.items[i];
        if (meet(it, other) && !is_candidate(f, other) && other->low + other->bytes < lowest)
            lowest = other->low + other->bytes;
    }
    return lowest;
}

/* The state with nothing on the floor of the section: each candidate lies on a buffer that is none, or on another
 * candidate that does. */
static bool lose(tc_exact *x, frame *f) {
    const state *s = &f->state;
    uint32_t n = 0, at = 0;
    uint64_t lowest = MISSING, least = MISSING, second = MISSING;
    item *items = push(x, s->n, sizeof *items);
    for (uint32_t i = 0; items && i < s->n; i++) {
        const item *it = &s->items[i];
        if (!is_candidate(f, it))
            continue;
        uint64_t low = lowest_top(f, it);
        x->work += s->n / 2;
        x->lifted[n] = *it;
        x->lifted[n++].low = low;
        lowest = low < lowest ? low : lowest;
        second = it->bytes < least ? least : it->bytes < second ? it->bytes : second;
        least = it->bytes < least ? it->bytes : least;
    }
    if (!items || lowest >= s->capacity)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t other = x->lifted[i].bytes == least ? second : least;
        uint64_t on_other = other < s->capacity ? lowest + other : MISSING;
        uint64_t low = x->lifted[i].low < on_other ? x->lifted[i].low : on_other;
        if (low > s->capacity || tc_plan_round(low, x->lifted[i].align) + x->lifted[i].bytes > s->capacity)
            return false;
        x->lifted[i].low = tc_plan_round(low, x->lifted[i].align);
    }
    item *others = push(x, s->n, sizeof *others);
    for (uint32_t i = 0; others && i < s->n; i++)
        if (!is_candidate(f, &s->items[i]))
            others[at++] = s->items[i];
    if (!others)
        return false;
    merge(x->lifted, n, others, at, items);
    return split(x, (state){items, s->n, 0, 0, s->capacity}, &f->parts, &f->n_parts);
}

/* The next branch of a frame. False: there is none. */
static bool advance(tc_exact *x, frame *f) {
    while (!x->full && f->next <= f->n_candidates) {
        uint32_t at = f->next++;
        x->top = f->mark;
        f->n_parts = f->next_part = 0;
        if (at < f->n_candidates ? place(x, f, &f->candidates[at]) : lose(x, f))
            return true;
    }
    if (!x->full)
        x->failed[f->hash % FAILED] = f->hash;
    x->top = f->begin;
    return false;
}

/* --- the search ------------------------------------------------------------------------------- */

/* Frame 0 has the whole as its parts, and no candidates. */
static tc_exact_status search(tc_exact *x, uint64_t capacity) {
    item *items = push(x, x->n, sizeof *items);
    frame *frames = x->frames;
    uint32_t n = 1;
    frames[0] = (frame){0};
    if (!items)
        return TC_EXACT_LIMIT;
    memcpy(items, x->items, x->n * sizeof *items);
    if (!split(x, (state){items, x->n, 0, 0, capacity}, &frames[0].parts, &frames[0].n_parts))
        return x->full ? TC_EXACT_LIMIT : TC_EXACT_NONE;
    for (;;) {
        frame *f = &frames[n - 1];
        if (x->work > x->how->limit || n == x->n_frames)
            return TC_EXACT_LIMIT;
        if (f->next_part == f->n_parts) {
            if (n-- == 1)
                return TC_EXACT_FOUND;
            x->top = f->begin;
        } else if (enter(x, &frames[n], &f->parts[f->next_part++]) && advance(x, &frames[n])) {
            n++;
        } else {
            while (n > 1 && !advance(x, &frames[n - 1]))
                n--;
            if (n == 1)
                return x->full ? TC_EXACT_LIMIT : TC_EXACT_NONE;
        }
    }
}

tc_exact_status tc_exact_search(tc_exact *x, uint64_t capacity, const tc_exact_how *how, uint64_t *out_offsets,
                                uint64_t *work) {
    x->how = how;
    x->random = how->random;
    x->offsets = out_offsets;
    x->work = x->top = 0;
    x->full = false;
    tc_exact_status status = search(x, capacity);
    *work += x->work;
    return status;
}
