/* crc32c.h: the checksum CRC-32C (Castagnoli), used by RFC 3720 (12.1) and TensorBoard's record files. Every error of a
 * single bit changes it, and every burst of up to 32 bits. */
#ifndef RT_CRC32C_H
#define RT_CRC32C_H
#include <stddef.h>
#include <stdint.h>

/* Of bytes, `crc` being the sum of all bytes before them: 0 at the beginning. Uses the processor's instruction where it
 * has one, several gigabytes a second. */
uint32_t rt_crc32c(uint32_t crc, const void *data, size_t bytes);
/* The same without the instruction: for tests. */
uint32_t rt_crc32c_by_tables(uint32_t crc, const void *data, size_t bytes);
/* The form in TFRecord files (tensorflow/core/lib/hash/crc32c.h): a sum stored among bytes that another sum covers is
 * changed to another number. */
uint32_t rt_crc32c_masked(uint32_t crc);
#endif
