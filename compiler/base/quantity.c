/* quantity.c: numbers with units, without floating point: an amount is the same everywhere. */
#include "quantity.h"
#include "diag.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST (UINT64_C(1) << 62)
#define MILLION 1000000

typedef struct unit {
    const char *name; /* in any case */
    uint64_t size;
} unit;

static const unit bytes[] = {
    {"", 1},
    {"B", 1},
    {"bytes", 1},
    {"K", UINT64_C(1) << 10},
    {"KiB", UINT64_C(1) << 10},
    {"KB", 1000},
    {"M", UINT64_C(1) << 20},
    {"MiB", UINT64_C(1) << 20},
    {"MB", 1000000},
    {"G", UINT64_C(1) << 30},
    {"GiB", UINT64_C(1) << 30},
    {"GB", 1000000000},
    {"T", UINT64_C(1) << 40},
    {"TiB", UINT64_C(1) << 40},
    {"TB", UINT64_C(1000000000000)},
};
/* Milliseconds. */
static const unit times[] = {{"", 1000},   {"s", 1000},    {"sec", 1000},  {"ms", 1},
                             {"m", 60000}, {"min", 60000}, {"h", 3600000}, {"d", 86400000}};

static const char *const switches[][2] = {{"off", "on"}, {"false", "true"}, {"no", "yes"}, {"0", "1"}};

/* --- numbers ------------------------------------------------------------------------------------ */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* By ten, up or down. */
static bool move_point(tc_decimal *d, bool up) {
    if (up) {
        if (d->whole > UINT64_MAX / 10 - 1)
            return false;
        d->whole = d->whole * 10 + d->millionths / (MILLION / 10);
        d->millionths = d->millionths % (MILLION / 10) * 10;
    } else {
        d->millionths = (d->whole % 10 * MILLION + d->millionths) / 10;
        d->whole /= 10;
    }
    return true;
}

bool tc_read_decimal(const char **text, tc_decimal *out) {
    const char *at = *text;
    uint64_t place = MILLION;
    *out = (tc_decimal){0, 0};
    if (!is_digit(*at))
        return false;
    for (; is_digit(*at); at++) {
        if (out->whole > UINT64_MAX / 10 - 1)
            return false;
        out->whole = out->whole * 10 + (uint64_t)(*at - '0');
    }
    if (*at == '.' && is_digit(at[1]))
        for (at++; is_digit(*at); at++)
            out->millionths += (uint64_t)(*at - '0') * (place /= 10);
    bool is_signed = (*at == 'e' || *at == 'E') && (at[1] == '+' || at[1] == '-');
    if ((*at == 'e' || *at == 'E') && is_digit(at[1 + is_signed])) {
        bool up = at[1] != '-';
        char *end;
        unsigned long exponent = strtoul(at + 1 + is_signed, &end, 10);
        for (unsigned long i = 0; i < exponent && i < 64; i++)
            if (!move_point(out, up))
                return false;
        at = end;
    }
    *text = at;
    return out->whole <= MOST;
}

static bool with_unit(const char *text, const unit *units, size_t n, tc_decimal *out, uint64_t *out_size) {
    if (!tc_read_decimal(&text, out))
        return false;
    text += strspn(text, " ");
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(text, units[i].name) == 0) {
            *out_size = units[i].size;
            return true;
        }
    return false;
}

/* --- values of options -------------------------------------------------------------------------- */

bool tc_parse_switch(const char *text, bool *out) {
    for (size_t i = 0; i < TC_COUNT(switches); i++)
        for (int on = 0; on < 2; on++)
            if (strcasecmp(text, switches[i][on]) == 0) {
                *out = on;
                return true;
            }
    return false;
}

/* Removes the separators of thousands, where they stand right: 10,000 or 10_000. */
static bool without_marks(const char *text, char *out, size_t size) {
    size_t n = 0;
    for (const char *at = text; *at; at++) {
        bool mark = *at == ',' || *at == '_';
        bool right = mark && at > text && is_digit(at[-1]) && strspn(at + 1, "0123456789") == 3;
        if (n + 1 >= size || (mark && !right))
            return false;
        if (!mark)
            out[n++] = *at;
    }
    out[n] = '\0';
    return true;
}

bool tc_parse_whole(const char *text, int64_t *out) {
    char plain[40], *end;
    tc_decimal d;
    if (!without_marks(text, plain, sizeof plain))
        return false;
    errno = 0;
    *out = strtoll(plain, &end, 10);
    if (errno == 0 && end != plain && *end == '\0')
        return true;
    const char *at = plain + (*plain == '-');
    if (!tc_read_decimal(&at, &d) || *at || d.millionths)
        return false;
    *out = *plain == '-' ? -(int64_t)d.whole : (int64_t)d.whole;
    return true;
}

bool tc_parse_bytes(const char *text, uint64_t *out) {
    tc_decimal d;
    uint64_t size;
    if (!with_unit(text, bytes, TC_COUNT(bytes), &d, &size) || d.whole > MOST / size)
        return false;
    *out = d.whole * size + size * d.millionths / MILLION;
    return *out > 0 && *out <= MOST;
}

bool tc_parse_seconds(const char *text, double *out) {
    tc_decimal d;
    uint64_t size;
    if (!with_unit(text, times, TC_COUNT(times), &d, &size))
        return false;
    *out = ((double)d.whole + (double)d.millionths / MILLION) * ((double)size / 1000);
    return true;
}
