/* train_convert.h: elements of one type -> the same numbers in another. */
#ifndef TRAIN_CONVERT_H
#define TRAIN_CONVERT_H
#include "runtime/tempo.h"
#include <stdbool.h>

/* Whether numbers of `from` can become `to`: integers and bools each other, where each number fits; any type whose
 * numbers `to` all holds. */
bool train_can_convert(tempo_dtype from, tempo_dtype to);
/* Converts `n` elements, `from` at any alignment. False: a number does not fit. */
bool train_convert(tempo_dtype from_type, const void *from, tempo_dtype to_type, void *to, uint64_t n);
#endif
