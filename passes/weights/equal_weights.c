/* equal_weights.c: tensors -> groups that hold the same numbers, each member a copy or a transpose of the first.
 * Permuting axes keeps the multiset of dims and of elements, and leaves the first and the last element in place. So
 * tensors are sorted by type, sorted dims, first and last element. That separates nearly all real weights at the price
 * of reading two elements each. Tensors that agree are sorted further by a hash that adds up all elements in any order,
 * and those with equal hashes are compared element by element. A tensor is compared with at most DIFFERENT others, so
 * that a malicious file (many rearrangements of the same elements) costs a constant times its bytes like any other. */
#include "equal_weights.h"
#include <stdlib.h>
#include <string.h>

enum { DIFFERENT = 4, BLOCK = 64 };

typedef struct entry {
    const tc_weight *weight;
    size_t index;
    int64_t dims[TC_MAX_RANK]; /* sorted */
    uint64_t first, last, hash;
} entry;

static size_t element_size(const tc_tensor *tensor) { return tc_dtype_bits(tensor->dtype) / 8; }

static uint64_t load(const char *data, size_t size, uint64_t index) {
    uint16_t half;
    uint32_t single;
    uint64_t whole = 0;
    switch (size) {
    case 2: memcpy(&half, data + 2 * index, 2); return half;
    case 4: memcpy(&single, data + 4 * index, 4); return single;
    case 8: memcpy(&whole, data + 8 * index, 8); return whole;
    default: return 0;
    }
}

/* --- sorting ---------------------------------------------------------------------------------- */
static bool is_uniform(const entry *e) {
    size_t size = element_size(e->weight->tensor);
    const char *data = e->weight->data;
    return e->first == e->last && memcmp(data, data + size, e->weight->tensor->bytes - size) == 0;
}

static uint64_t mix(uint64_t bits) {
    bits = (bits + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 29)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 32);
}

static uint64_t sum_of_elements(const tc_weight *weight) {
    size_t size = element_size(weight->tensor);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < weight->tensor->count; i++)
        sum += mix(load(weight->data, size, i));
    return sum;
}

static int compare_numbers(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int compare_dims(const void *x, const void *y) {
    const int64_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

static int compare_outside(const entry *a, const entry *b) {
    const tc_tensor *s = a->weight->tensor, *t = b->weight->tensor;
    if (s->dtype != t->dtype || s->rank != t->rank)
        return s->dtype != t->dtype ? (s->dtype < t->dtype ? -1 : 1) : s->rank < t->rank ? -1 : 1;
    for (int i = 0; i < s->rank; i++)
        if (a->dims[i] != b->dims[i])
            return a->dims[i] < b->dims[i] ? -1 : 1;
    int order = compare_numbers(a->first, b->first);
    return order ? order : compare_numbers(a->last, b->last);
}

static int compare_entries(const void *x, const void *y) {
    const entry *a = x, *b = y;
    int order = compare_outside(a, b);
    if (order == 0)
        order = compare_numbers(a->hash, b->hash);
    return order ? order : compare_numbers(a->index, b->index);
}

/* --- exact comparison ------------------------------------------------------------------------- */
/* b's elements in order against a's along `perm`: b[i0, i1, ..] = a[..] with i_k along a's axis perm[k]. In blocks
 * of the last two axes, so that neither side of a large matrix is read from a new page for each element. */
static bool same_permuted(const tc_weight *a, const tc_weight *b, const int64_t *perm) {
    int64_t stride[TC_EQUAL_RANK], dim[TC_EQUAL_RANK] = {1, 1, 1, 1}, step[TC_EQUAL_RANK] = {0}, size = 1;
    int rank = b->tensor->rank, pad = TC_EQUAL_RANK - rank;
    size_t bytes = element_size(b->tensor);
    for (int i = rank; i-- > 0; size *= a->tensor->dims[i])
        stride[i] = size;
    for (int i = 0; i < rank; i++) {
        dim[pad + i] = b->tensor->dims[i];
        step[pad + i] = stride[perm[i]];
    }
    for (int64_t outer = 0; outer < dim[0] * dim[1]; outer++) {
        int64_t from = outer / dim[1] * step[0] + outer % dim[1] * step[1], to = outer * dim[2] * dim[3];
        for (int64_t block = 0; block < dim[2]; block += BLOCK)
            for (int64_t column = 0; column < dim[3]; column += BLOCK)
                for (int64_t i = block; i < dim[2] && i < block + BLOCK; i++)
                    for (int64_t j = column; j < dim[3] && j < column + BLOCK; j++)
                        if (load(a->data, bytes, (uint64_t)(from + i * step[2] + j * step[3])) !=
                            load(b->data, bytes, (uint64_t)(to + i * dim[3] + j)))
                            return false;
    }
    return true;
}

/* The next permutation in lexicographic order; false after the last. */
static bool next_permutation(int64_t *perm, int n) {
    int i = n - 2, j = n - 1;
    while (i >= 0 && perm[i] > perm[i + 1])
        i--;
    if (i < 0)
        return false;
    while (perm[j] < perm[i])
        j--;
    int64_t swapped = perm[i];
    perm[i] = perm[j], perm[j] = swapped;
    for (i++, j = n - 1; i < j; i++, j--) {
        swapped = perm[i];
        perm[i] = perm[j], perm[j] = swapped;
    }
    return true;
}

static bool fits(const tc_tensor *a, const tc_tensor *b, const int64_t *perm) {
    for (int i = 0; i < b->rank; i++)
        if (b->dims[i] != a->dims[perm[i]])
            return false;
    return true;
}

static bool is_equal(const tc_weight *a, const tc_weight *b, tc_equal *out, uint64_t *read) {
    const tc_tensor *s = a->tensor, *t = b->tensor;
    if (memcmp(s->dims, t->dims, (size_t)s->rank * sizeof *s->dims) == 0) {
        *read += 2 * s->bytes;
        out->permuted = false;
        if (memcmp(a->data, b->data, s->bytes) == 0)
            return true;
    }
    if (s->rank < 2 || s->rank > TC_EQUAL_RANK)
        return false;
    for (int i = 0; i < TC_EQUAL_RANK; i++)
        out->perm[i] = i;
    while (next_permutation(out->perm, s->rank)) { /* start after the identity */
        if (!fits(s, t, out->perm))
            continue;
        *read += 2 * s->bytes;
        out->permuted = true;
        if (same_permuted(a, b, out->perm))
            return true;
    }
    return false;
}

/* Entries [0, n) agree in sort key and hash, and are sorted by their indices. */
static void group(const entry *entries, size_t n, tc_equal *out, uint64_t *read) {
    const entry *different[DIFFERENT];
    size_t n_different = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = entries[i].index, k = 0;
        while (k < n_different && !is_equal(different[k]->weight, entries[i].weight, &out[at], read))
            k++;
        if (k < n_different)
            out[at].first = different[k]->index;
        else if (n_different < DIFFERENT)
            different[n_different++] = &entries[i];
    }
}

static void add_hashes(entry *entries, size_t n, uint64_t *read) {
    for (size_t i = 0; i < n && n > 1; i++) {
        entries[i].hash = sum_of_elements(entries[i].weight);
        *read += entries[i].weight->tensor->bytes;
    }
}

/* Calls it for each run of entries that compare as equal. */
static size_t run_length(const entry *entries, size_t n, int (*compare)(const entry *a, const entry *b)) {
    size_t length = 1;
    while (length < n && compare(entries, entries + length) == 0)
        length++;
    return length;
}

static int compare_all(const entry *a, const entry *b) {
    int order = compare_outside(a, b);
    return order ? order : compare_numbers(a->hash, b->hash);
}

static entry make_entry(const tc_weight *weight, size_t index) {
    const tc_tensor *tensor = weight->tensor;
    entry e = {.weight = weight, .index = index};
    memcpy(e.dims, tensor->dims, (size_t)tensor->rank * sizeof *tensor->dims);
    qsort(e.dims, (size_t)tensor->rank, sizeof *e.dims, compare_dims);
    e.first = load(weight->data, element_size(tensor), 0);
    e.last = load(weight->data, element_size(tensor), tensor->count - 1);
    return e;
}

uint64_t tc_find_equal(const tc_weight *weights, size_t n, tc_equal *out) {
    tc_arena *scratch = tc_arena_create();
    entry *entries = TC_NEW_ARRAY(scratch, entry, n + 1);
    uint64_t read = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        entry e = make_entry(&weights[i], i);
        out[i] = (tc_equal){.first = i, .uniform = is_uniform(&e)};
        read += out[i].uniform ? weights[i].tensor->bytes : 2 * element_size(weights[i].tensor);
        if (!out[i].uniform)
            entries[kept++] = e;
    }
    qsort(entries, kept, sizeof *entries, compare_entries);
    for (size_t at = 0, length; at < kept; at += length) {
        length = run_length(entries + at, kept - at, compare_outside);
        add_hashes(entries + at, length, &read);
        qsort(entries + at, length, sizeof *entries, compare_entries);
    }
    for (size_t at = 0, length; at < kept; at += length) {
        length = run_length(entries + at, kept - at, compare_all);
        group(entries + at, length, out, &read);
    }
    tc_arena_destroy(scratch);
    return read;
}
