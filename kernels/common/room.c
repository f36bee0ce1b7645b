/* room.c: see room.h. */
#include "room.h"
#include <sys/mman.h>
#include <sys/resource.h>

bool tk_has_room(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at != MAP_FAILED && munmap(at, bytes) == 0;
}

bool tk_is_limited(void) {
    static const int kinds[] = {RLIMIT_AS, RLIMIT_DATA};
    struct rlimit limit;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (getrlimit(kinds[i], &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
            return true;
    return false;
}
