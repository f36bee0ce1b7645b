/* table_rows.c: rows by their bytes. */
#include "table_rows.h"
#include <string.h>

typedef struct entry {
    const void *row;
    size_t number;
    struct entry *next; /* of the same hash */
} entry;

struct tc_table_rows {
    tc_arena *arena;
    size_t bytes, element;
    const void **rows;
    size_t n, cap;
    tc_map *by_hash; /* -> entry; a hash as the key, never 0 */
};

tc_table_rows *tc_table_rows_create(tc_arena *arena, tc_dtype dtype, size_t row_elements) {
    tc_table_rows *table = TC_NEW(arena, tc_table_rows);
    table->arena = arena;
    table->element = tc_dtype_bits(dtype) / 8;
    table->bytes = row_elements * table->element;
    table->by_hash = tc_map_create(arena);
    return table;
}

static const void *hash_of(const tc_table_rows *table, const void *row) {
    return (const void *)((uintptr_t)tc_hash_bytes(row, table->bytes, 1) | 1);
}

static entry *find(const tc_table_rows *table, const void *row, const void *hash) {
    entry *e = tc_map_get_ptr(table->by_hash, hash);
    while (e && memcmp(e->row, row, table->bytes) != 0)
        e = e->next;
    return e;
}

size_t tc_table_rows_add(tc_table_rows *table, const void *row) {
    const void *hash = hash_of(table, row);
    entry *e = find(table, row, hash);
    if (e)
        return e->number;
    e = TC_NEW(table->arena, entry);
    *e = (entry){row, table->n, tc_map_get_ptr(table->by_hash, hash)};
    tc_map_set_ptr(table->by_hash, hash, e);
    table->rows = tc_arena_grow(table->arena, table->rows, sizeof *table->rows, &table->cap, table->n + 1);
    table->rows[table->n++] = row;
    return e->number;
}

size_t tc_table_rows_find(const tc_table_rows *table, const void *row) {
    const entry *e = find(table, row, hash_of(table, row));
    return e ? e->number : SIZE_MAX;
}

size_t tc_table_rows_count(const tc_table_rows *table) { return table->n; }

const void *tc_table_rows_at(const tc_table_rows *table, size_t number) { return table->rows[number]; }

bool tc_table_row_is_uniform(const tc_table_rows *table, const void *row) {
    return table->bytes <= table->element ||
           memcmp(row, (const char *)row + table->element, table->bytes - table->element) == 0;
}
