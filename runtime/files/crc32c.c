/* crc32c.c: bytes -> CRC-32C, eight at a time: by SSE4.2's instruction, or by tables. */
#include "crc32c.h"
#include <pthread.h>
#include <string.h>

/* The polynomial 0x1EDC6F41 with its bits in reverse. */
#define POLYNOMIAL UINT32_C(0x82F63B78)

/* tables[k][b]: the sum of byte b followed by k zero bytes. */
static uint32_t tables[8][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        tables[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++)
            tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 255];
}

static uint32_t by_tables(uint32_t crc, const unsigned char *at, size_t bytes) {
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint32_t next = 0;
        for (int k = 0; k < 8; k++)
            next ^= tables[7 - k][(at[k] ^ (k < 4 ? crc >> 8 * k : 0)) & 255];
        crc = next;
    }
    for (; bytes > 0; bytes--, at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 255];
    return crc;
}

uint32_t rt_crc32c_by_tables(uint32_t crc, const void *data, size_t bytes) {
    pthread_once(&made, make_tables);
    return ~by_tables(~crc, data, bytes);
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const unsigned char *at, size_t bytes) {
    uint64_t sum = crc;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        sum = __builtin_ia32_crc32di(sum, word);
    }
    crc = (uint32_t)sum;
    for (; bytes > 0; bytes--, at++)
        crc = __builtin_ia32_crc32qi(crc, *at);
    return crc;
}

uint32_t rt_crc32c(uint32_t crc, const void *data, size_t bytes) {
    return __builtin_cpu_supports("sse4.2") ? ~by_instruction(~crc, data, bytes)
                                            : rt_crc32c_by_tables(crc, data, bytes);
}
#else
uint32_t rt_crc32c(uint32_t crc, const void *data, size_t bytes) { return rt_crc32c_by_tables(crc, data, bytes); }
#endif

uint32_t rt_crc32c_masked(uint32_t crc) { return (crc >> 15 | crc << 17) + UINT32_C(0xA282EAD8); }
