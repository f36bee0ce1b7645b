/* arena.c: a bump allocator over malloc'ed chunks. Chunks grow with the arena so that a model of any size costs
 * O(log size) calls to malloc; large requests get a chunk of their own. */
#include "arena.h"
#include "recover.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct chunk {
    struct chunk *next;
    size_t size, used; /* of the bytes after the header */
} chunk;

struct tc_arena {
    tc_held held;
    chunk *chunks; /* newest first */
    size_t total;
};

enum { FIRST_CHUNK = 16 << 10, LARGEST_CHUNK = 1 << 20, BIG_OBJECT = 1024 };

static void destroy(void *arena) { tc_arena_destroy(arena); }

tc_arena *tc_arena_create(void) {
    tc_arena *arena = calloc(1, sizeof *arena);
    if (!arena)
        tc_out_of_memory(sizeof *arena);
    tc_hold(&arena->held, destroy, arena);
    return arena;
}

void tc_arena_destroy(tc_arena *arena) {
    if (!arena)
        return;
    tc_let_go(&arena->held);
    for (chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(arena);
}

size_t tc_arena_bytes(const tc_arena *arena) { return arena->total; }

static chunk *chunk_add(tc_arena *arena, size_t bytes) {
    size_t size = arena->chunks ? arena->total : FIRST_CHUNK;
    if (size > LARGEST_CHUNK)
        size = LARGEST_CHUNK;
    if (size < bytes)
        size = bytes;
    chunk *c = calloc(1, sizeof *c + size);
    if (!c)
        tc_out_of_memory(bytes);
    c->size = size;
    arena->total += size;
    /* A chunk for one big object goes after the open chunk, which still has room for small ones. */
    if (size == bytes && arena->chunks) {
        c->next = arena->chunks->next;
        arena->chunks->next = c;
    } else {
        c->next = arena->chunks;
        arena->chunks = c;
    }
    return c;
}

void *tc_arena_alloc(tc_arena *arena, size_t count, size_t size) {
    if (size && count > (SIZE_MAX / 4) / size)
        tc_out_of_memory(SIZE_MAX);
    size_t bytes = count * size, align = bytes > BIG_OBJECT ? 64 : 16;
    if (!bytes)
        bytes = 1;
    chunk *c = arena->chunks;
    for (;;) {
        if (c) {
            uintptr_t base = (uintptr_t)(c + 1), at = (base + c->used + align - 1) & ~(uintptr_t)(align - 1);
            size_t end = (size_t)(at - base) + bytes;
            if (end <= c->size) {
                c->used = end;
                return (void *)at;
            }
        }
        c = chunk_add(arena, bytes + align);
    }
}

void *tc_arena_grow(tc_arena *arena, void *items, size_t size, size_t *cap, size_t need) {
    if (need <= *cap)
        return items;
    size_t grown = *cap ? *cap * 2 : 8;
    if (grown < need)
        grown = need;
    void *moved = tc_arena_alloc(arena, grown, size);
    if (items && *cap)
        memcpy(moved, items, *cap * size);
    *cap = grown;
    return moved;
}

char *tc_arena_strndup(tc_arena *arena, const char *s, size_t n) {
    char *copy = tc_arena_alloc(arena, n + 1, 1);
    memcpy(copy, s, n);
    return copy;
}

char *tc_arena_strdup(tc_arena *arena, const char *s) { return tc_arena_strndup(arena, s, strlen(s)); }

char *tc_arena_vprintf(tc_arena *arena, const char *fmt, va_list args) {
    va_list second;
    va_copy(second, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    char *text = tc_arena_alloc(arena, (size_t)(n < 0 ? 0 : n) + 1, 1);
    if (n > 0)
        vsnprintf(text, (size_t)n + 1, fmt, second);
    va_end(second);
    return text;
}

char *tc_arena_printf(tc_arena *arena, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    char *text = tc_arena_vprintf(arena, fmt, args);
    va_end(args);
    return text;
}
