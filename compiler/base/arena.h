/* arena.h: the memory of a model. Everything that belongs to a model (nodes, values, names, tensors that are not
 * mapped) is taken from one arena and dies with it; passes that need scratch space create their own. There is no free:
 * destroying the arena frees all. An arena is held by the recovery point (recover.h) that is open when it is
 * created. */
#ifndef TC_ARENA_H
#define TC_ARENA_H
#include <stdarg.h>
#include <stddef.h>

typedef struct tc_arena tc_arena;

tc_arena *tc_arena_create(void);
void tc_arena_destroy(tc_arena *arena); /* NULL is fine */

/* `count` objects of `size` bytes, zeroed, aligned to 64 bytes when larger than 1 KiB and to 16 otherwise. Never NULL:
 * when memory is out or the product wraps, tc_out_of_memory() ends the call. */
void *tc_arena_alloc(tc_arena *arena, size_t count, size_t size);
#define TC_NEW(arena, type) ((type *)tc_arena_alloc((arena), 1, sizeof(type)))
#define TC_NEW_ARRAY(arena, type, count) ((type *)tc_arena_alloc((arena), (count), sizeof(type)))

/* A growable array in an arena: room for at least `need` items; returns the (moved) array and updates *cap. */
void *tc_arena_grow(tc_arena *arena, void *items, size_t size, size_t *cap, size_t need);

char *tc_arena_strdup(tc_arena *arena, const char *s);
char *tc_arena_strndup(tc_arena *arena, const char *s, size_t n);
char *tc_arena_printf(tc_arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *tc_arena_vprintf(tc_arena *arena, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
size_t tc_arena_bytes(const tc_arena *arena); /* bytes taken from the system */

/* Ends the call at the innermost recovery point, with TC_LIMIT. recover.c */
_Noreturn void tc_out_of_memory(size_t wanted);
#endif
