/* test_crc32c.c: the checksum against RFC 3720's examples (appendix B.4), and both ways of making it against each
 * other. */
#include "test/unit/cases.h"
#include "test/unit/random_below.h"
#include "runtime/files/files.h"
#include <string.h>
// clang-format off
// clang-format on

static void check(const void *bytes, size_t n, uint32_t expected) {
    assert_int_equal(rt_crc32c(0, bytes, n), expected);
    assert_int_equal(rt_crc32c_by_tables(0, bytes, n), expected);
}

TEST(examples_of_the_rfc) {
    static const unsigned char read_command[48] = {
        0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02};
    unsigned char bytes[32];
    memset(bytes, 0, 32);
    check(bytes, 32, 0x8a9136aa);
    memset(bytes, 0xff, 32);
    check(bytes, 32, 0x62a8ab43);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    check(bytes, 32, 0x46dd794e);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    check(bytes, 32, 0x113fdb5c);
    check(read_command, 48, 0xd9963a56);
    check("123456789", 9, 0xe3069283); /* the check value of catalogues of CRCs */
    check("", 0, 0);
}

TEST(both_ways_in_pieces) {
    unsigned char bytes[600];
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)random_below(&random, 256);
    for (size_t first = 0; first < 20; first++) {
        for (size_t n = 0; n < 40; n++) {
            uint32_t whole = rt_crc32c(7, bytes + first, 500 + n);
            assert_int_equal(whole, rt_crc32c_by_tables(7, bytes + first, 500 + n));
            assert_int_equal(whole, rt_crc32c(rt_crc32c(7, bytes + first, n), bytes + first + n, 500));
        }
    }
}

/* The numbers of tensorflow/core/lib/hash/crc32c.h: rotated right by 15, plus a constant. */
TEST(masked) {
    assert_int_equal(rt_crc32c_masked(0), 0xa282ead8);
    assert_int_equal(rt_crc32c_masked(0x8000), 0xa282ead9);
    assert_int_equal(rt_crc32c_masked(1), 0xa284ead8);
    assert_int_equal(rt_crc32c_masked(0xffffffff), 0xa282ead7);
}
