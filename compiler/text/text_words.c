/* text_words.c: the words of ONNX text: types, kinds of attributes, numbers that are words. */
#include "text_words.h"
#include "compiler/base/base.h"
#include <string.h>
#include <strings.h>

static bool is_one_of(const char *word, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

bool tc_text_is_type_word(const char *word) {
    static const char *const words[] = {"seq", "map", "optional", "sparse_tensor", "opaque", "undefined"};
    return is_one_of(word, words, TC_COUNT(words)) || tc_dtype_from_name(word) != TC_UNDEFINED;
}

bool tc_text_is_special_float(const char *word) {
    return strcasecmp(word, "inf") == 0 || strcasecmp(word, "nan") == 0 || strcasecmp(word, "infinity") == 0;
}

static const struct {
    const char *name;
    tc_attr_kind other; /* the plural of a singular kind, the singular of a plural one */
    bool plural;
} kinds[] = {
    [TC_ATTR_FLOAT] = {"float", TC_ATTR_FLOATS, false},
    [TC_ATTR_INT] = {"int", TC_ATTR_INTS, false},
    [TC_ATTR_STRING] = {"string", TC_ATTR_STRINGS, false},
    [TC_ATTR_TENSOR] = {"tensor", TC_ATTR_TENSORS, false},
    [TC_ATTR_GRAPH] = {"graph", TC_ATTR_GRAPHS, false},
    [TC_ATTR_SPARSE_TENSOR] = {"sparse_tensor", TC_ATTR_SPARSE_TENSORS, false},
    [TC_ATTR_TYPE] = {"type_proto", TC_ATTR_TYPES, false},
    [TC_ATTR_FLOATS] = {"floats", TC_ATTR_FLOAT, true},
    [TC_ATTR_INTS] = {"ints", TC_ATTR_INT, true},
    [TC_ATTR_STRINGS] = {"strings", TC_ATTR_STRING, true},
    [TC_ATTR_TENSORS] = {"tensors", TC_ATTR_TENSOR, true},
    [TC_ATTR_GRAPHS] = {"graphs", TC_ATTR_GRAPH, true},
    [TC_ATTR_SPARSE_TENSORS] = {"sparse_tensors", TC_ATTR_SPARSE_TENSOR, true},
    [TC_ATTR_TYPES] = {"type_protos", TC_ATTR_TYPE, true},
};

const char *tc_text_attr_kind_name(tc_attr_kind kind) { return kinds[kind].name; }

tc_attr_kind tc_text_attr_kind(const char *name) {
    for (size_t i = 1; i < TC_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return (tc_attr_kind)i;
    return TC_ATTR_NONE;
}

bool tc_text_is_plural(tc_attr_kind kind) { return kinds[kind].plural; }

tc_attr_kind tc_text_singular(tc_attr_kind kind) { return kinds[kind].plural ? kinds[kind].other : kind; }

tc_attr_kind tc_text_plural(tc_attr_kind kind) { return kinds[kind].plural ? kind : kinds[kind].other; }

size_t tc_text_item_bytes(tc_dtype dtype) {
    unsigned bits = tc_dtype_bits(dtype);
    if (dtype == TC_COMPLEX64 || dtype == TC_COMPLEX128)
        bits /= 2;
    return bits < 8 ? 1 : bits / 8;
}

static void leave(void *locale) { tc_text_leave_locale(locale); }

void tc_text_enter_locale(tc_text_locale *locale) {
    *locale = (tc_text_locale){.mine = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (!locale->mine)
        return;
    locale->before = uselocale(locale->mine);
    tc_hold(&locale->held, leave, locale);
}

void tc_text_leave_locale(tc_text_locale *locale) {
    if (!locale->mine)
        return;
    tc_let_go(&locale->held);
    uselocale(locale->before);
    freelocale(locale->mine);
}
