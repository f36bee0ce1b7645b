/* json_read.c: the text of JSON -> values, without recursion. */
#include "json_read.h"
#include "compiler/base/base.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

tc_status rt_json_bad(const rt_json *json, const char *what) {
    return tc_error(json->ctx, TC_BAD_INPUT, NULL, "byte %zu of %s: %s", json->at, json->place, what);
}

static void skip_blanks(rt_json *json) {
    while (json->at < json->end && memchr(" \t\r\n", json->text[json->at], 4))
        json->at++;
}

bool rt_json_accept(rt_json *json, char c) {
    skip_blanks(json);
    if (json->at == json->end || json->text[json->at] != c)
        return false;
    json->at++;
    return true;
}

tc_status rt_json_expect(rt_json *json, char c) {
    if (rt_json_accept(json, c))
        return TC_OK;
    return rt_json_bad(json, tc_arena_printf(json->ctx->arena, "expected '%c'", c));
}

tc_status rt_json_next(rt_json *json, char end, bool *out_more) {
    *out_more = rt_json_accept(json, ',');
    return *out_more ? TC_OK : rt_json_expect(json, end);
}

bool rt_json_ends(rt_json *json) {
    skip_blanks(json);
    return json->at == json->end;
}

/* Four hexadecimal digits; negative: there are none. */
static int32_t read_hex(rt_json *json) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        static const char digits[] = "0123456789abcdef";
        char c = json->at < json->end ? json->text[json->at] : 0;
        const char *digit = strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c);
        if (!c || !digit)
            return -1;
        value = value << 4 | (int32_t)(digit - digits);
    }
    return value;
}

static char *put_utf8(char *out, int32_t c) {
    static const struct {
        int32_t below;
        unsigned char lead;
    } lengths[] = {{0x80, 0}, {0x800, 0xC0}, {0x10000, 0xE0}, {0x110000, 0xF0}};
    int more = 0;
    while (c >= lengths[more].below)
        more++;
    *out++ = (char)(lengths[more].lead | c >> 6 * more);
    while (more-- > 0)
        *out++ = (char)(0x80 | (c >> 6 * more & 0x3F));
    return out;
}

/* After a backslash. A character beyond 16 bits is two escapes, a pair of surrogates. */
static tc_status read_escape(rt_json *json, char **out) {
    static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = json->at < json->end ? json->text[json->at++] : 0;
    const char *found = c ? strchr(plain, c) : NULL;
    if (found) {
        *(*out)++ = meant[found - plain];
        return TC_OK;
    }
    int32_t code = c == 'u' ? read_hex(json) : -1;
    if (code >= 0xD800 && code < 0xDC00) {
        bool pair = json->end - json->at >= 2 && json->text[json->at] == '\\' && json->text[json->at + 1] == 'u';
        json->at += pair ? 2 : 0;
        int32_t low = pair ? read_hex(json) : -1;
        code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : -1;
    }
    if (code <= 0 || (code >= 0xDC00 && code < 0xE000))
        return rt_json_bad(json, "this escape stands for no character of a name");
    *out = put_utf8(*out, code);
    return TC_OK;
}

static tc_status copy_string(rt_json *json, char *out) {
    while (json->at < json->end && json->text[json->at] != '"') {
        unsigned char c = (unsigned char)json->text[json->at];
        size_t length = tc_utf8_length(json->text + json->at, json->end - json->at);
        if (c < 0x20 || length == 0)
            return rt_json_bad(json, c < 0x20 ? "a control character in a string" : "it is not UTF-8");
        if (c == '\\') {
            json->at++;
            TC_TRY(read_escape(json, &out));
            continue;
        }
        memcpy(out, json->text + json->at, length);
        out += length;
        json->at += length;
    }
    return json->at < json->end ? rt_json_expect(json, '"') : rt_json_bad(json, "a string does not end");
}

/* No escape is shorter than its character. */
tc_status rt_json_string(rt_json *json, tc_arena *arena, const char **out_string) {
    TC_TRY(rt_json_expect(json, '"'));
    size_t end = json->at;
    while (end < json->end && json->text[end] != '"')
        end += json->text[end] == '\\' ? 2 : 1;
    char *string = tc_arena_alloc(arena, end - json->at + 1, 1);
    *out_string = string;
    return copy_string(json, string);
}

tc_status rt_json_whole(rt_json *json, uint64_t most, uint64_t *out_number) {
    uint64_t value = 0;
    skip_blanks(json);
    size_t first = json->at;
    while (json->at < json->end && json->text[json->at] >= '0' && json->text[json->at] <= '9') {
        uint64_t digit = (uint64_t)(json->text[json->at] - '0');
        if (value > (most - digit) / 10 || (json->at > first && value == 0))
            return rt_json_bad(json, value ? "the number is too large" : "a number with zeros before it");
        value = value * 10 + digit;
        json->at++;
    }
    if (json->at == first)
        return rt_json_bad(json, "expected a whole number, 0 or more");
    *out_number = value;
    return TC_OK;
}

tc_status rt_json_number(rt_json *json, double *out_number) {
    char text[64], *end;
    size_t n = 0;
    skip_blanks(json);
    while (json->at + n < json->end && n + 1 < sizeof text && strchr("+-.0123456789eE", json->text[json->at + n])) {
        text[n] = json->text[json->at + n];
        n++;
    }
    text[n] = '\0';
    *out_number = strtod(text, &end);
    if (n == 0 || *end || !isfinite(*out_number))
        return rt_json_bad(json, "expected a number");
    json->at += n;
    return TC_OK;
}

static bool accept_word(rt_json *json, const char *word) {
    size_t n = strlen(word);
    skip_blanks(json);
    bool found = json->end - json->at >= n && memcmp(json->text + json->at, word, n) == 0;
    json->at += found ? n : 0;
    return found;
}

tc_status rt_json_bool(rt_json *json, bool *out_bool) {
    *out_bool = accept_word(json, "true");
    return *out_bool || accept_word(json, "false") ? TC_OK : rt_json_bad(json, "expected true or false");
}

bool rt_json_accept_nothing(rt_json *json) {
    static const char *const nothing[] = {"null", "false", "\"\"", "[]", "{}"};
    for (size_t i = 0; i < TC_COUNT(nothing); i++)
        if (accept_word(json, nothing[i]))
            return true;
    return false;
}

/* A value that holds no other one. */
static tc_status skip_plain(rt_json *json) {
    const char *string;
    double number;
    skip_blanks(json);
    if (json->at < json->end && json->text[json->at] == '"')
        return rt_json_string(json, json->ctx->arena, &string);
    return accept_word(json, "true") || rt_json_accept_nothing(json) ? TC_OK : rt_json_number(json, &number);
}

tc_status rt_json_skip(rt_json *json) {
    enum { DEEPEST = 64 };
    char ends[DEEPEST]; /* of the lists around the value */
    const char *key;
    for (size_t depth = 0;;) {
        bool more = false;
        char end = rt_json_accept(json, '[') ? ']' : rt_json_accept(json, '{') ? '}' : '\0';
        if (end && depth == DEEPEST)
            return rt_json_bad(json, "more than 64 values within each other");
        if (end)
            more = !rt_json_accept(json, end);
        else
            TC_TRY(skip_plain(json));
        if (more)
            ends[depth++] = end;
        while (!more && depth > 0) {
            TC_TRY(rt_json_next(json, ends[depth - 1], &more));
            depth -= more ? 0 : 1;
        }
        if (!more)
            return TC_OK;
        if (ends[depth - 1] == '}') {
            TC_TRY(rt_json_string(json, json->ctx->arena, &key));
            TC_TRY(rt_json_expect(json, ':'));
        }
    }
}
