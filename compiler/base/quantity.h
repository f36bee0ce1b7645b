/* quantity.h: switches, whole numbers, amounts of memory and times, as people write them. The one place that knows
 * these spellings. Each function takes the whole text, and returns false for any other text and for values out of
 * range. */
#ifndef TC_QUANTITY_H
#define TC_QUANTITY_H
#include <stdbool.h>
#include <stdint.h>

/* A decimal without a sign: 12, 1.5, 3e2; `millionths` is the fraction. */
typedef struct tc_decimal {
    uint64_t whole, millionths;
} tc_decimal;

/* Moves *text past the number; false where there is none, or one beyond 2^62. */
bool tc_read_decimal(const char **text, tc_decimal *out);

bool tc_parse_switch(const char *text, bool *out);   /* on, off, true, false, yes, no, 1, 0 */
bool tc_parse_whole(const char *text, int64_t *out); /* -3, 10000, 10,000, 1e4 */

/* 1 to 2^62 bytes. GiB, G and the like count 1024, GB and the like 1000, as in coreutils and ulimits. */
#define TC_BYTES_USAGE "bytes (12GiB or 1.5G by 1024, 16GB by 1000)"
bool tc_parse_bytes(const char *text, uint64_t *out);

#define TC_SECONDS_USAGE "a time: seconds, or 90s, 2m, 1.5h or 500ms"
bool tc_parse_seconds(const char *text, double *out);
#endif
