/* emulation_numbers.h: CUDA's functions of numbers, for emulation.h, which includes it. */
#ifndef EMULATION_NUMBERS_H
#define EMULATION_NUMBERS_H

/* --- bits ------------------------------------------------------------------------------------------- */

EMU_CALL float __uint_as_float(unsigned u) { return emu_of_bits<float>(u); }
EMU_CALL float __int_as_float(int i) { return emu_of_bits<float>((unsigned)i); }
EMU_CALL unsigned __float_as_uint(float f) { return (unsigned)emu_bits(f); }
EMU_CALL int __float_as_int(float f) { return (int)(unsigned)emu_bits(f); }
EMU_CALL long long __double_as_longlong(double d) { return (long long)emu_bits(d); }
EMU_CALL double __longlong_as_double(long long i) { return emu_of_bits<double>((uint64_t)i); }
EMU_CALL int __popc(unsigned x) { return __builtin_popcount(x); }
EMU_CALL int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EMU_CALL int __ffs(int x) { return __builtin_ffs(x); }
EMU_CALL int __ffsll(long long x) { return __builtin_ffsll(x); }
EMU_CALL int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
EMU_CALL int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
EMU_CALL unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; i++)
        y |= (x >> i & 1u) << (31 - i);
    return y;
}
EMU_CALL unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
EMU_CALL unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
/* hi:lo shifted by the lower 5 bits of n; the upper, and the lower word. */
EMU_CALL unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
    return (unsigned)(((uint64_t)hi << 32 | lo) << (n & 31) >> 32);
}
EMU_CALL unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
    return (unsigned)(((uint64_t)hi << 32 | lo) >> (n & 31));
}
/* PTX's prmt.b32: of the 8 bytes of b:a, four by the numbers in s; a number's highest bit asks for the byte's sign in
 * its place. CUDA's function takes three bits of each number. */
EMU_CALL unsigned emu_prmt(unsigned a, unsigned b, unsigned s) {
    const uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned y = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned pick = s >> 4 * i & 15u, byte = (unsigned)(bytes >> 8 * (pick & 7u)) & 255u;
        y |= (pick & 8u ? (byte & 128u ? 255u : 0u) : byte) << 8 * i;
    }
    return y;
}
EMU_CALL unsigned __byte_perm(unsigned a, unsigned b, unsigned s) { return emu_prmt(a, b, s & 0x7777u); }

/* --- arithmetic: rounded to the nearest, never contracted ------------------------------------------- */

EMU_CALL float __fadd_rn(float a, float b) { return a + b; }
EMU_CALL float __fsub_rn(float a, float b) { return a - b; }
EMU_CALL float __fmul_rn(float a, float b) { return a * b; }
EMU_CALL float __fdiv_rn(float a, float b) { return a / b; }
EMU_CALL float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
EMU_CALL float __frcp_rn(float x) { return 1.0f / x; }
EMU_CALL float __fsqrt_rn(float x) { return sqrtf(x); }
EMU_CALL float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
EMU_CALL double __dadd_rn(double a, double b) { return a + b; }
EMU_CALL double __dmul_rn(double a, double b) { return a * b; }
EMU_CALL double __ddiv_rn(double a, double b) { return a / b; }
EMU_CALL double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
EMU_CALL double __dsqrt_rn(double x) { return sqrt(x); }
EMU_CALL float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; } /* 0 for what is not a number */
EMU_CALL int __float2int_rn(float x) {
    return x != x ? 0 : x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? INT32_MIN : (int)rintf(x);
}

/* Of two, as CUDA's overloads are: a number where one of the two is not one. */
EMU_CALL int min(int a, int b) { return b < a ? b : a; }
EMU_CALL int max(int a, int b) { return a < b ? b : a; }
EMU_CALL unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
EMU_CALL unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
EMU_CALL long min(long a, long b) { return b < a ? b : a; }
EMU_CALL long max(long a, long b) { return a < b ? b : a; }
EMU_CALL unsigned long min(unsigned long a, unsigned long b) { return b < a ? b : a; }
EMU_CALL unsigned long max(unsigned long a, unsigned long b) { return a < b ? b : a; }
EMU_CALL long long min(long long a, long long b) { return b < a ? b : a; }
EMU_CALL long long max(long long a, long long b) { return a < b ? b : a; }
EMU_CALL unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
EMU_CALL unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
EMU_CALL float min(float a, float b) { return fminf(a, b); }
EMU_CALL float max(float a, float b) { return fmaxf(a, b); }
EMU_CALL double min(double a, double b) { return fmin(a, b); }
EMU_CALL double max(double a, double b) { return fmax(a, b); }

/* --- approximations: their errors are injected by emu_ex2_error -------------------------------------- */

/* glibc has functions of these names. */
#define __expf emu_expf
#define __exp10f emu_exp10f
#define __logf emu_logf
#define __log2f emu_lg2
#define __tanhf emu_tanh
#define rsqrtf emu_rsqrtf
#define rsqrt emu_rsqrt_double
EMU_CALL float emu_expf(float x) { return emu_ex2(x * 1.44269504f); }
EMU_CALL float emu_exp10f(float x) { return emu_ex2(x * 3.32192809f); }
EMU_CALL float emu_logf(float x) { return emu_lg2(x) * 0.693147181f; }
EMU_CALL float emu_rsqrtf(float x) { return emu_rsqrt(x); }
EMU_CALL double emu_rsqrt_double(double x) { return 1.0 / sqrt(x); }
/* 0 for a large divisor, as CUDA's. */
EMU_CALL float __fdividef(float a, float b) {
    return fabsf(b) > 0x1p126f && !isinf(b) ? (isinf(a) ? NAN : copysignf(0.0f, a * copysignf(1.0f, b)))
                                            : a * emu_rcp(b);
}
#endif
