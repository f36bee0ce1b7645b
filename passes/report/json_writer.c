/* json_writer.c: values -> JSON text. Items of an object stand on lines of their own, those of an array after each
 * other. */
#include "json_writer.h"
#include <math.h>
#include <stdlib.h>

static void put_tabs(const tc_json *json) {
    for (int i = 0; i < json->depth; i++)
        fputc('\t', json->out);
}

static void put_string(FILE *out, const char *text) {
    static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    fputc('"', out);
    for (; *text; text++) {
        size_t i = 0;
        while (escaped[i] && escaped[i] != *text)
            i++;
        if (escaped[i])
            fprintf(out, "\\%c", letters[i]);
        else if ((unsigned char)*text < ' ')
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

/* Writes the separator before a value. */
static void begin(tc_json *json, const char *key) {
    if (json->begun)
        fputs(json->is_array ? ", " : ",\n", json->out);
    json->begun = true;
    if (!key)
        return;
    put_tabs(json);
    put_string(json->out, key);
    fputs(":\t", json->out);
}

static void open(tc_json *json, const char *key, bool is_array) {
    begin(json, key);
    fputs(is_array ? "[" : "{\n", json->out);
    json->arrays = json->arrays << 1 | json->is_array;
    json->is_array = is_array;
    json->begun = false;
    json->depth++;
}

void tc_json_object(tc_json *json, const char *key) { open(json, key, false); }
void tc_json_array(tc_json *json, const char *key) { open(json, key, true); }

void tc_json_end(tc_json *json) {
    json->depth--;
    if (!json->is_array && json->begun)
        fputc('\n', json->out);
    if (!json->is_array)
        put_tabs(json);
    fputc(json->is_array ? ']' : '}', json->out);
    json->is_array = json->arrays & 1;
    json->arrays >>= 1;
    json->begun = true;
}

void tc_json_string(tc_json *json, const char *key, const char *value) {
    if (!value)
        return;
    begin(json, key);
    put_string(json->out, value);
}

void tc_json_word(tc_json *json, const char *key, const char *word) {
    begin(json, key);
    fputs(word, json->out);
}

void tc_json_number(tc_json *json, const char *key, double value) {
    char text[32] = "null";
    if (isfinite(value))
        snprintf(text, sizeof text, "%.15g", value);
    if (isfinite(value) && strtod(text, NULL) != value)
        snprintf(text, sizeof text, "%.17g", value);
    tc_json_word(json, key, text);
}
