/* tensor_table.cuh: many tensors in one launch: a table of them is passed to the kernel by value, so that a recording
 * keeps it, and nothing is uploaded. Tensors are cut into chunks of one size; blocks take chunk after chunk in steps of
 * the grid, and look up each chunk's tensor. */
#ifndef TK_TENSOR_TABLE_CUH
#define TK_TENSOR_TABLE_CUH
#include "../cuda/device.cuh"

/* The most bytes of a kernel's parameters, for all architectures from 70 on (CUDA 12.1). */
#define TK_PARAMETER_BYTES 32764

/* E: a kernel's description of a tensor. Tensors without elements have no chunk and no entry. */
template <class E, int MOST> struct tk_tensor_table {
    int count;
    uint32_t first[MOST + 1]; /* chunks before each entry's, and all of them: side by side, for the search */
    E at[MOST];
};

static inline int64_t tk_chunks(int64_t n, int64_t chunk) { return (n + chunk - 1) / chunk; }

template <class E, int MOST>
static inline void tk_table_add(tk_tensor_table<E, MOST> &table, const E &entry, int64_t chunks) {
    table.at[table.count] = entry;
    table.first[table.count + 1] = table.first[table.count] + (uint32_t)chunks;
    table.count++;
}

template <class E, int MOST>
__device__ __forceinline__ uint32_t tk_table_chunks(const tk_tensor_table<E, MOST> &table) {
    return table.first[table.count];
}

/* The entry that has the chunk. */
template <class E, int MOST>
__device__ __forceinline__ int tk_table_find(const tk_tensor_table<E, MOST> &table, uint32_t chunk) {
    int low = 0, high = table.count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (table.first[middle] <= chunk)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
#endif
