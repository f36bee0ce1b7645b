/* ops.c: the table of ops.def as data, and the lookup of a row by (domain, name). The index is a hash table filled
 * once: a reader of large files pays O(1) for each node. */
#include "ops.h"
#include <pthread.h>
#include <string.h>

/* Short words of ops.def. */
enum {
    COMM = TC_COMMUTATIVE,
    ELEM = TC_ELEMENTWISE,
    VIEW = TC_VIEW,
    RAND = TC_RANDOM,
    SHAPE = TC_SHAPE_ONLY,
    CTRL = TC_CONTROL,
    SAME = TC_SAME_TYPE,
    NOGRAD = TC_NO_GRADIENT,
    MASK = TC_PASSES_MASK,
};
#define BIT(type) (1u << TC_##type)
#define FLT (BIT(FLOAT) | BIT(DOUBLE) | BIT(FLOAT16) | BIT(BFLOAT16))
#define INT (BIT(INT8) | BIT(INT16) | BIT(INT32) | BIT(INT64) | BIT(UINT8) | BIT(UINT16) | BIT(UINT32) | BIT(UINT64))
#define NUM (FLT | INT)
#define BOOL BIT(BOOL)
#define STR BIT(STRING)
#define ANY UINT32_MAX
#define MANY TC_VARIADIC
/* 1 where a column says `none`, which brings a comma along. */
#define SECOND(a, b, ...) b
#define PROBE(...) SECOND(__VA_ARGS__, 0, 0)
#define COMMA_none , 1
#define IS_NONE(word) PROBE(COMMA_##word)

/* A row ends on a line of its own, and that line names its position: Dropout is in both domains. */
#define ROW_NAME_(line) ROW_##line
#define ROW_NAME(line) ROW_NAME_(line)
enum {
#define ONNX(...) ROW_NAME(__LINE__),
#define TEMPO(...) ROW_NAME(__LINE__),
#include "ops.def"
#undef ONNX
#undef TEMPO
    ROW_COUNT
};

static const tc_op rows[ROW_COUNT] = {
#define OP(domain_, name_, since_, in_lo, in_hi, out_lo, out_hi, types_, traits_, shape_, eval_, attrs_)               \
    {.domain = (domain_),                                                                                              \
     .name = #name_,                                                                                                   \
     .since = (since_),                                                                                                \
     .min_inputs = (in_lo),                                                                                            \
     .max_inputs = (in_hi),                                                                                            \
     .min_outputs = (out_lo),                                                                                          \
     .max_outputs = (out_hi),                                                                                          \
     .types = (types_),                                                                                                \
     .traits = (uint32_t)(traits_),                                                                                    \
     .has_shape = !IS_NONE(shape_),                                                                                    \
     .has_contents = !IS_NONE(eval_),                                                                                  \
     .attrs = (attrs_),                                                                                                \
     .index = ROW_NAME(__LINE__)},
#define ONNX(...) OP("", __VA_ARGS__)
#define TEMPO(...) OP(TC_TEMPO_DOMAIN, __VA_ARGS__)
#include "ops.def"
#undef ONNX
#undef TEMPO
#undef OP
};

#define SLOTS 1024            /* a power of two, some four times the rows */
static uint16_t slots[SLOTS]; /* row + 1, or 0 */
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static uint64_t hash(const char *domain, const char *name, size_t n) {
    return tc_hash_bytes(name, n, tc_hash_bytes(domain, strlen(domain), 0));
}

static void fill(void) {
    for (uint16_t i = 0; i < ROW_COUNT; i++) {
        uint64_t at = hash(rows[i].domain, rows[i].name, strlen(rows[i].name)) % SLOTS;
        while (slots[at])
            at = (at + 1) % SLOTS;
        slots[at] = (uint16_t)(i + 1);
    }
}

static const tc_op *find(const char *domain, const char *name, size_t n) {
    for (uint64_t at = hash(domain, name, n) % SLOTS; slots[at]; at = (at + 1) % SLOTS) {
        const tc_op *op = &rows[slots[at] - 1];
        if (strcmp(op->domain, domain) == 0 && strncmp(op->name, name, n) == 0 && op->name[n] == '\0')
            return op;
    }
    return NULL;
}

const tc_op *tc_op_find(const char *domain, const char *name) {
    pthread_once(&filled, fill);
    if (strcmp(domain, "ai.onnx") == 0)
        domain = "";
    bool suffix = strcmp(domain, TC_TEMPO_DOMAIN) == 0;
    return find(domain, name, suffix ? strcspn(name, "_") : strlen(name));
}

size_t tc_op_count(void) { return ROW_COUNT; }

const tc_op *tc_op_at(size_t index) {
    TC_ASSERT(index < ROW_COUNT);
    return &rows[index];
}

static tc_attr_kind kind_of(char letter) {
    static const struct {
        char letter;
        tc_attr_kind kind;
    } kinds[] = {
        {'i', TC_ATTR_INT},           {'f', TC_ATTR_FLOAT}, {'s', TC_ATTR_STRING}, {'t', TC_ATTR_TENSOR},
        {'g', TC_ATTR_GRAPH},         {'I', TC_ATTR_INTS},  {'F', TC_ATTR_FLOATS}, {'S', TC_ATTR_STRINGS},
        {'p', TC_ATTR_SPARSE_TENSOR}, {'y', TC_ATTR_TYPE},
    };
    for (size_t i = 0; i < TC_COUNT(kinds); i++)
        if (kinds[i].letter == letter)
            return kinds[i].kind;
    return TC_ATTR_NONE;
}

bool tc_op_attr(const tc_op *op, const char *name, tc_attr_kind *out_kind, bool *out_required) {
    size_t n = strlen(name);
    for (const char *at = op->attrs; *at; at += strcspn(at, " "), at += *at == ' ') {
        if (strncmp(at, name, n) != 0 || at[n] != ':')
            continue;
        *out_kind = kind_of(at[n + 1]);
        *out_required = at[n + 2] == '!';
        return true;
    }
    return false;
}
