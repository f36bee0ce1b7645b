/* places.h: where the operands of a batch begin, in elements: at even steps, or, if broadcasting makes them uneven, by
 * a table. */
#ifndef TK_PLACES_H
#define TK_PLACES_H
#include "vector.h"
#include <stdint.h>

typedef struct tk_places {
    int64_t step;
    const int64_t *at; /* one place an item, in the device's memory; NULL: item i is at i * step */
} tk_places;

TK_INLINE int64_t tk_place(const tk_places *places, int64_t item) {
    return places->at ? places->at[item] : item * places->step;
}
#endif
