/* text_words.h: the words of ONNX text that its parser and its printer must agree on. Inside compiler/ only. */
#ifndef TC_TEXT_WORDS_H
#define TC_TEXT_WORDS_H
#include "compiler/ir/ir.h"
#include <locale.h>

bool tc_text_is_type_word(const char *word);     /* "float", "seq", ...: words that a type may begin with */
bool tc_text_is_special_float(const char *word); /* inf, infinity, nan in any case */

/* "ints" and the like; NULL for TC_ATTR_NONE. */
const char *tc_text_attr_kind_name(tc_attr_kind kind);
tc_attr_kind tc_text_attr_kind(const char *name); /* TC_ATTR_NONE if none */
bool tc_text_is_plural(tc_attr_kind kind);
tc_attr_kind tc_text_singular(tc_attr_kind kind); /* itself where it is singular */
tc_attr_kind tc_text_plural(tc_attr_kind kind);

/* Bytes of one number in a tensor's braces: an element, half of a complex one, or a byte of packed 4- and 2-bit ones.
 */
size_t tc_text_item_bytes(tc_dtype dtype);

/* Numbers are read and written with a decimal point, whatever locale the program has chosen. */
typedef struct tc_text_locale {
    locale_t mine, before;
    tc_held held;
} tc_text_locale;
void tc_text_enter_locale(tc_text_locale *locale);
void tc_text_leave_locale(tc_text_locale *locale);
#endif
