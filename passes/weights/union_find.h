/* union_find.h: sets that only ever merge. parent[i] == i for the earliest member of each set. */
#ifndef TC_UNION_FIND_H
#define TC_UNION_FIND_H
#include <stddef.h>

static inline size_t tc_set_of(size_t *parent, size_t i) {
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

static inline void tc_set_join(size_t *parent, size_t i, size_t k) {
    size_t a = tc_set_of(parent, i), b = tc_set_of(parent, k);
    parent[a > b ? a : b] = a > b ? b : a;
}
#endif
