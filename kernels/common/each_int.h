/* each_int.h: a template compiled for the eight integer types, which sees and undefines T; U, the unsigned type for
 * computing T; SUFFIX; DTYPE; KIND, SIGNED or UNSIGNED; and VECTOR, TK_VECTOR where vector code is worth its bytes. Set
 * before including: TEMPLATE, its path from this folder. */
#define T int8_t
#define U uint32_t
#define SUFFIX i8
#define DTYPE TK_I8
#define KIND SIGNED
#define VECTOR
#include TEMPLATE
#define T int16_t
#define U uint32_t
#define SUFFIX i16
#define DTYPE TK_I16
#define KIND SIGNED
#define VECTOR
#include TEMPLATE
#define T int32_t
#define U uint32_t
#define SUFFIX i32
#define DTYPE TK_I32
#define KIND SIGNED
#define VECTOR TK_VECTOR
#include TEMPLATE
#define T int64_t
#define U uint64_t
#define SUFFIX i64
#define DTYPE TK_I64
#define KIND SIGNED
#define VECTOR TK_VECTOR
#include TEMPLATE
#define T uint8_t
#define U uint32_t
#define SUFFIX u8
#define DTYPE TK_U8
#define KIND UNSIGNED
#define VECTOR
#include TEMPLATE
#define T uint16_t
#define U uint32_t
#define SUFFIX u16
#define DTYPE TK_U16
#define KIND UNSIGNED
#define VECTOR
#include TEMPLATE
#define T uint32_t
#define U uint32_t
#define SUFFIX u32
#define DTYPE TK_U32
#define KIND UNSIGNED
#define VECTOR
#include TEMPLATE
#define T uint64_t
#define U uint64_t
#define SUFFIX u64
#define DTYPE TK_U64
#define KIND UNSIGNED
#define VECTOR
#include TEMPLATE
#undef TEMPLATE
