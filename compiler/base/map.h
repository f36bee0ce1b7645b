/* map.h: a hash map from strings or pointers to pointers, in an arena. Insertion order is kept for iteration. */
#ifndef TC_MAP_H
#define TC_MAP_H
#include "arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct tc_map tc_map;

tc_map *tc_map_create(tc_arena *arena);
size_t tc_map_count(const tc_map *map);

/* String keys: compared by content, borrowed (they must live as long as the map). NULL when absent. */
void *tc_map_get(const tc_map *map, const char *key);
void tc_map_set(tc_map *map, const char *key, void *value); /* replaces; a NULL value removes */

/* Pointer keys: compared by address. Do not mix both kinds in one map. */
void *tc_map_get_ptr(const tc_map *map, const void *key);
void tc_map_set_ptr(tc_map *map, const void *key, void *value);

/* Iterates over live entries in insertion order: start with *cursor = 0; false at the end. */
bool tc_map_next(const tc_map *map, size_t *cursor, const void **key, void **value);

uint64_t tc_hash_bytes(const void *data, size_t n, uint64_t seed);
#endif
