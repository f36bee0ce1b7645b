/* utf8.h: validity of text. Names come from files: they must be UTF-8, and no byte of them may control a terminal. */
#ifndef TC_UTF8_H
#define TC_UTF8_H
#include <stddef.h>

/* The length in bytes of the first character of `text`, which has `left` >= 1 bytes; 0 when it is not valid: overlong
 * forms, surrogates and values above U+10FFFF are not. NUL is a character. */
size_t tc_utf8_length(const char *text, size_t left);

/* The same, but 0 also for control characters (C0, DEL and C1, which some terminals obey): characters that messages may
 * hold. */
size_t tc_utf8_printable(const char *text, size_t left);
#endif
