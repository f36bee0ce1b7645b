/* cases.h: cmocka's tests of one program, each said once: TEST(name) { ... } is a test wherever it stands, and main
 * runs all, in the file's order. A test may read `test_state`. Source: cmocka 1.1, which passes over rows without a
 * name. */
#ifndef TEST_CASES_H
#define TEST_CASES_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct CMUnitTest all_tests[701]; /* by line, of which a file has at most 700 */

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* With what cmocka calls before the test and after it. */
#define TEST_WITH(name, set_up, tear_down)                                                                             \
    static void test_##name(void **test_state);                                                                        \
    __attribute__((constructor)) static void add_##name(void) {                                                        \
        all_tests[__LINE__] = (struct CMUnitTest){"test_" #name, test_##name, set_up, tear_down, NULL};                \
    }                                                                                                                  \
    static void test_##name(void **test_state __attribute__((unused)))

/* A program with OWN_MAIN calls this itself: how many failed; `begin`, `end`: cmocka's, of all tests, or NULL. */
static inline int run_all_tests(CMFixtureFunction begin, CMFixtureFunction end) {
    return cmocka_run_group_tests(all_tests, begin, end);
}

#ifndef OWN_MAIN
int main(void) { return run_all_tests(NULL, NULL); }
#endif
#endif
