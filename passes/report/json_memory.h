/* json_memory.h: cJSON's memory is an arena's, which never fails (compiler/base/recover.h): none of its calls does, and
 * nothing is given back by hand. For the two files that see cJSON. */
#ifndef TC_JSON_MEMORY_H
#define TC_JSON_MEMORY_H
#include "compiler/base/arena.h"
#include <cjson/cJSON.h>

static tc_arena *tc_json_arena;

static void *tc_json_alloc(size_t bytes) { return tc_arena_alloc(tc_json_arena, bytes, 1); }
static void tc_json_free(void *memory) { (void)memory; }

/* From now on, until the arena is destroyed. */
static inline void tc_json_use(tc_arena *arena) {
    cJSON_Hooks hooks = {tc_json_alloc, tc_json_free};
    tc_json_arena = arena;
    cJSON_InitHooks(&hooks);
}
#endif
