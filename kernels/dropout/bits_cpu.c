/* bits_cpu.c: masks of a byte an element to a bit an element, and back. */
#include "../common/parallel.h"
#include "../common/vector.h"
#include "dropout.h"

typedef struct bits_ctx {
    uint8_t *out;
    const uint8_t *inp;
    int64_t n; /* elements */
} bits_ctx;

TK_VECTOR static void pack(uint8_t *bits, const uint8_t *mask, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++) {
        unsigned byte = 0;
        for (int k = 0; k < 8; k++)
            byte |= (unsigned)(mask[8 * i + k] != 0) << k;
        bits[i] = (uint8_t)byte;
    }
}

TK_VECTOR static void unpack(uint8_t *mask, const uint8_t *bits, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++)
        for (int k = 0; k < 8; k++)
            mask[8 * i + k] = bits[i] >> k & 1;
}

/* Bytes of bits; of the last one there may be fewer elements than 8. */
static void pack_range(void *ctx, tk_share share) {
    const bits_ctx *c = ctx;
    int64_t whole = share.end * 8 <= c->n ? share.end : c->n / 8;
    pack(c->out + share.begin, c->inp + 8 * share.begin, whole - share.begin);
    for (int64_t i = 8 * whole; i < c->n && whole < share.end; i++)
        c->out[whole] = (uint8_t)((i % 8 ? c->out[whole] : 0) | (c->inp[i] != 0) << i % 8);
}

static void unpack_range(void *ctx, tk_share share) {
    const bits_ctx *c = ctx;
    int64_t whole = share.end * 8 <= c->n ? share.end : c->n / 8;
    unpack(c->out + 8 * share.begin, c->inp + share.begin, whole - share.begin);
    for (int64_t i = 8 * whole; i < c->n && whole < share.end; i++)
        c->out[i] = c->inp[whole] >> i % 8 & 1;
}

void tk_pack_bits(tk_queue *q, uint8_t *bits, const uint8_t *mask, int64_t n) {
    bits_ctx c = {bits, mask, n};
    tk_parallel_for(q, tk_bit_bytes(n), TK_GRAIN, pack_range, &c);
}

void tk_unpack_bits(tk_queue *q, uint8_t *mask, const uint8_t *bits, int64_t n) {
    bits_ctx c = {mask, bits, n};
    tk_parallel_for(q, tk_bit_bytes(n), TK_GRAIN, unpack_range, &c);
}
