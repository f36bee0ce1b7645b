/* utf8.h: what is text. Names come from files: they must be UTF-8, and no byte of them may steer a terminal. */
#ifndef TC_UTF8_H
#define TC_UTF8_H
#include <stddef.h>

/* The length in bytes of the character that `text` begins with, `left` >= 1 bytes being there; 0 when it is none:
 * overlong forms, surrogates and values above U+10FFFF are none. NUL is a character. */
size_t tc_utf8_length(const char *text, size_t left);

/* The same, but 0 also for control characters (C0, DEL and C1, which some terminals obey): what messages may hold. */
size_t tc_utf8_printable(const char *text, size_t left);
#endif
