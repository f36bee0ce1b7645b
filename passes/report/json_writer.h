/* json_writer.h: JSON, value after value, to a stream, whose errors stay with it. Indented by tabs. */
#ifndef TC_JSON_WRITER_H
#define TC_JSON_WRITER_H
#include <stdbool.h>
#include <stdio.h>

typedef struct tc_json {
    FILE *out;
    int depth;
    bool is_array, begun; /* the innermost open value; it has an item */
    unsigned arrays;      /* by depth, a bit: 1 where the open value is an array */
} tc_json;

/* An object or array; `key` NULL: an item of an array, or the whole text. */
void tc_json_object(tc_json *json, const char *key);
void tc_json_array(tc_json *json, const char *key);
void tc_json_end(tc_json *json);                                        /* of either */
void tc_json_string(tc_json *json, const char *key, const char *value); /* NULL: there is no such item */
/* With the digits that it takes to read it back; null where it is not finite. */
void tc_json_number(tc_json *json, const char *key, double value);
void tc_json_word(tc_json *json, const char *key, const char *word); /* true, false or null */
#endif
