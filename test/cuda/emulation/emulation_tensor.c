/* emulation_tensor.c: what a warp does together on tensor cores: products of small matrices and the loads for them,
 * operands laid out over the lanes as PTX states for m16n8k16, m16n8k8 and ldmatrix. Products are exact, and a sum is
 * rounded once, or cut (emu_truncate). */
#include "emulation_state.h"
#include <math.h>
#include <string.h>

enum { ROWS = 16, COLUMNS = 8, DEPTH = 16, HALVES = 2 };

typedef struct product {
    float *d;
    const uint32_t *a, *b;
    const float *c;
} product;

static float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* By IEEE 754's definition: subnormals are whole 2^-24. */
static float float_of_half(uint16_t h) {
    const uint32_t exponent = h >> 10 & 31, mantissa = h & 1023u, sign = (uint32_t)(h >> 15) << 31;
    if (exponent == 0) {
        const float tiny = (float)mantissa * 0x1p-24f;
        return sign ? -tiny : tiny;
    }
    return float_of_bits(sign | (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13);
}

/* One of the two elements of a register, or the only one. */
static float element(uint32_t reg, int half, emu_operand type) {
    if (type == EMU_TF32)
        return float_of_bits(reg & ~UINT32_C(0x1fff)); /* the lower bits are not looked at */
    const uint16_t bits = (uint16_t)(reg >> 16 * half);
    return type == EMU_BF16 ? float_of_bits((uint32_t)bits << 16) : float_of_half(bits);
}

/* Bits below a quarter of the largest addend's last place are cut. */
static float cut(double sum, double largest) {
    if (!isfinite(sum) || !isfinite(largest) || largest == 0)
        return (float)sum;
    int exponent;
    frexp(largest, &exponent);
    const double unit = ldexp(1, exponent - 26), whole = trunc(sum / unit) * unit;
    const float f = (float)whole;
    return fabs((double)f) > fabs(whole) ? nextafterf(f, 0.0f) : f;
}

static float sum_of(const float a[DEPTH], const float b[DEPTH], float c, int depth) {
    double sum = c;
    for (int k = 0; k < depth; k++)
        sum += (double)a[k] * (double)b[k];
    if (!emu_truncate)
        return (float)sum;
    double largest = fabs((double)c);
    for (int k = 0; k < depth; k++)
        largest = fmax(largest, fabs((double)a[k] * (double)b[k]));
    return cut(sum, largest);
}

/* Lane l has, of a group of four, rows l / 4 and 8 below, and columns from l % 4 on: pairs in 16 bits, single ones 4
 * apart in tf32. */
static void gather(float a[ROWS][DEPTH], float b[COLUMNS][DEPTH], const emu_fiber *lanes, bool tf32) {
    const int per = tf32 ? 1 : HALVES, next = 4 * per;
    for (int l = 0; l < EMU_WARP; l++) {
        const product *p = lanes[l].operands;
        const emu_operand type = (emu_operand)lanes[l].arg;
        const int g = l / 4, t = l % 4 * per;
        for (int h = 0; h < per; h++) {
            a[g][t + h] = element(p->a[0], h, type);
            a[g + 8][t + h] = element(p->a[1], h, type);
            a[g][t + next + h] = element(p->a[2], h, type);
            a[g + 8][t + next + h] = element(p->a[3], h, type);
            b[g][t + h] = element(p->b[0], h, type);
            b[g][t + next + h] = element(p->b[1], h, type);
        }
    }
}

void emu_compute_mma(const emu_fiber *lanes, bool tf32) {
    float a[ROWS][DEPTH], b[COLUMNS][DEPTH];
    const int depth = tf32 ? DEPTH / 2 : DEPTH;
    gather(a, b, lanes, tf32);
    for (int l = 0; l < EMU_WARP; l++) {
        const product *p = lanes[l].operands;
        for (int i = 0; i < 4; i++)
            p->d[i] = sum_of(a[l / 4 + i / 2 * 8], b[l % 4 * 2 + i % 2], p->c[i], depth);
    }
}

static void multiply(const product *p, emu_operand type, emu_place place) {
    emu_self->operands = p;
    emu_self->arg = (int)type;
    emu_take_part(UINT32_MAX, EMU_MMA, place);
}

void emu_mma_16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4], emu_operand type,
                   emu_place place) {
    multiply(&(product){d, a, b, c}, type, place);
}

void emu_mma_1688(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4], emu_place place) {
    multiply(&(product){d, a, b, c}, EMU_TF32, place);
}

/* --- ldmatrix --------------------------------------------------------------------------------------- */

typedef struct matrices {
    uint32_t *r;
    const void *row;
    int n;
    bool trans;
    uintptr_t pc;
} matrices;

/* Lane i has the address of row i % 8 of matrix i / 8. */
void emu_compute_ldmatrix(emu_fiber *lanes) {
    uint16_t m[4][8][8];
    emu_fiber *me = emu_self;
    const int n = ((const matrices *)lanes[0].operands)->n;
    for (int i = 0; i < n * 8; i++) {
        const matrices *x = lanes[i].operands;
        const emu_access access = {(uintptr_t)x->row, x->pc, 16, false, false};
        emu_self = &lanes[i];
        if (!emu_shared_region(access.at))
            emu_fault("not shared memory", access);
        emu_look(access);
        memcpy(m[i / 8][i % 8], x->row, sizeof m[0][0]);
    }
    emu_self = me;
    for (int l = 0; l < EMU_WARP; l++) {
        const matrices *x = lanes[l].operands;
        const int g = l / 4, t = l % 4 * 2;
        for (int i = 0; i < n; i++) {
            const uint16_t first = x->trans ? m[i][t][g] : m[i][g][t];
            const uint16_t second = x->trans ? m[i][t + 1][g] : m[i][g][t + 1];
            x->r[i] = (uint32_t)first | (uint32_t)second << 16;
        }
    }
}

void emu_ldmatrix(uint32_t *r, int n, bool trans, const void *row, emu_place place) {
    const matrices x = {r, row, n, trans, (uintptr_t)__builtin_return_address(0)};
    emu_self->operands = &x;
    emu_take_part(UINT32_MAX, EMU_LDMATRIX, place);
}
