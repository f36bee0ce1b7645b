/* json_read.h: a reader of JSON: the caller asks for the values that it expects, one after the other, and skips others.
 * Every failure is TC_BAD_INPUT with the byte in its message; `at` is the byte that is read next. */
#ifndef RT_JSON_READ_H
#define RT_JSON_READ_H
#include "compiler/base/base.h"

typedef struct rt_json {
    tc_ctx *ctx;
    const char *place; /* what `at` counts bytes of, for messages: "the header" */
    const char *text;
    size_t at, end;
} rt_json;

tc_status rt_json_bad(const rt_json *json, const char *what);
/* Whether the next character but blanks is this one; goes on after it then. */
bool rt_json_accept(rt_json *json, char c);
tc_status rt_json_expect(rt_json *json, char c);
/* Between two items of a list, or after its last one. */
tc_status rt_json_next(rt_json *json, char end, bool *out_more);
/* Whether nothing but blanks is left. */
bool rt_json_ends(rt_json *json);
/* A string in UTF-8 without NUL, in the arena. */
tc_status rt_json_string(rt_json *json, tc_arena *arena, const char **out_string);
/* A whole number from 0 to `most`. */
tc_status rt_json_whole(rt_json *json, uint64_t most, uint64_t *out_number);
/* Any number. */
tc_status rt_json_number(rt_json *json, double *out_number);
tc_status rt_json_bool(rt_json *json, bool *out_bool);
/* Whether the next value is null, false, "", [] or {}: goes on after it then. */
bool rt_json_accept_nothing(rt_json *json);
/* Any value, of which at most 64 lie within each other. */
tc_status rt_json_skip(rt_json *json);
#endif
