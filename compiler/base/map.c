/* map.c: open addressing over an array of entries in insertion order. The index holds entry numbers; removed entries
 * stay in the array with a NULL value and are skipped. */
#include "map.h"
#include <string.h>

typedef struct entry {
    const void *key;
    void *value;
    uint64_t hash;
} entry;

struct tc_map {
    tc_arena *arena;
    entry *entries;
    size_t n_entries, cap_entries, live;
    uint32_t *index; /* entry number + 1; 0 is free */
    size_t mask;     /* index size - 1 */
};

/* FNV-1a, with a final mix since the low bits choose the slot. */
uint64_t tc_hash_bytes(const void *data, size_t n, uint64_t seed) {
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u ^ seed;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    h ^= h >> 32;
    return h * 0x9e3779b97f4a7c15u;
}

tc_map *tc_map_create(tc_arena *arena) {
    tc_map *map = TC_NEW(arena, tc_map);
    map->arena = arena;
    return map;
}

size_t tc_map_count(const tc_map *map) { return map->live; }

static uint64_t hash_string(const char *key) { return tc_hash_bytes(key, strlen(key), 0); }

static uint64_t hash_pointer(const void *key) { return tc_hash_bytes(&key, sizeof key, 1); }

static bool same(const entry *e, uint64_t hash, const void *key, bool is_string) {
    return e->hash == hash && (is_string ? strcmp(e->key, key) == 0 : e->key == key);
}

static entry *find(const tc_map *map, const void *key, uint64_t hash, bool is_string) {
    if (!map->index)
        return NULL;
    for (size_t slot = (size_t)(hash >> 20) & map->mask; map->index[slot]; slot = (slot + 1) & map->mask) {
        entry *e = &map->entries[map->index[slot] - 1];
        if (same(e, hash, key, is_string))
            return e;
    }
    return NULL;
}

static void place(tc_map *map, size_t number) {
    size_t slot = (size_t)(map->entries[number].hash >> 20) & map->mask;
    while (map->index[slot])
        slot = (slot + 1) & map->mask;
    map->index[slot] = (uint32_t)number + 1;
}

static void reindex(tc_map *map) {
    size_t size = map->index ? (map->mask + 1) * 2 : 16;
    map->index = TC_NEW_ARRAY(map->arena, uint32_t, size);
    map->mask = size - 1;
    for (size_t i = 0; i < map->n_entries; i++)
        place(map, i);
}

static void set(tc_map *map, const void *key, uint64_t hash, bool is_string, void *value) {
    entry *e = find(map, key, hash, is_string);
    if (e) {
        map->live += (value != NULL) - (size_t)(e->value != NULL);
        e->key = key; /* the old key may be shorter-lived */
        e->value = value;
        return;
    }
    if (!value)
        return;
    map->entries = tc_arena_grow(map->arena, map->entries, sizeof(entry), &map->cap_entries, map->n_entries + 1);
    if (!map->index || (map->n_entries + 1) * 2 > map->mask + 1)
        reindex(map); /* done first: if memory is out, the map stays as it was */
    map->entries[map->n_entries++] = (entry){key, value, hash};
    map->live++;
    place(map, map->n_entries - 1);
}

void *tc_map_get(const tc_map *map, const char *key) {
    entry *e = find(map, key, hash_string(key), true);
    return e ? e->value : NULL;
}

void tc_map_set(tc_map *map, const char *key, void *value) { set(map, key, hash_string(key), true, value); }

void *tc_map_get_ptr(const tc_map *map, const void *key) {
    entry *e = find(map, key, hash_pointer(key), false);
    return e ? e->value : NULL;
}

void tc_map_set_ptr(tc_map *map, const void *key, void *value) { set(map, key, hash_pointer(key), false, value); }

bool tc_map_next(const tc_map *map, size_t *cursor, const void **key, void **value) {
    while (*cursor < map->n_entries) {
        const entry *e = &map->entries[(*cursor)++];
        if (!e->value)
            continue;
        if (key)
            *key = e->key;
        if (value)
            *value = e->value;
        return true;
    }
    return false;
}
