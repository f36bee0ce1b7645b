/* reach.c: which functions a program ran. A library that gate_reach.py puts before Tempo's programs (LD_PRELOAD): it
 * sets a breakpoint at the start of each function, and takes it away when the function is first called, so that a
 * program runs as fast as ever from then on.
 *
 * TEMPO_REACH_SITES and TEMPO_REACH_HITS are folders of files that are called as the program, with ! for /, here /a/b.
 *   SITES/!a!b       where its functions start: 32-bit addresses in ascending order, relative to where it is loaded;
 *                    then the bytes that are there
 *   SITES/!a!b!text  the pages from the first site to the last, with breakpoints
 *   HITS/!a!b        a byte that says whether the program was watched, and one for each site, 1 when it was reached
 *   HITS/!a!b!text   as above, less the breakpoints of what was reached: made here, and used by all processes of a test
 * Programs without these files run as if the library were not there.
 *
 * x86-64 and Linux alone: elsewhere nobody builds it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { UNWATCHED = 1, WATCHED = 2 }; /* bits of the first byte of hits: how processes ran the program */

static uint8_t *program;      /* where it is loaded */
static const uint32_t *sites; /* [count] */
static const uint8_t *bytes;  /* [count]: what was at the sites */
static uint8_t *hits;         /* [1 + count], shared with the file */
static size_t count;

typedef struct path {
    char text[PATH_MAX];
} path;

static path file_in(const char *folder, const char *name, const char *suffix) {
    path p;
    const char *at = getenv(folder);
    int length = snprintf(p.text, sizeof p.text, "%s/%s%s", at ? at : "", name, suffix);
    if (!at || length >= (int)sizeof p.text)
        p.text[0] = '\0'; /* which is no file */
    return p;
}

static void *mapped(path file, bool shared, size_t *size) {
    int fd = open(file.text, shared ? O_RDWR | O_CLOEXEC : O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct stat status;
    void *at = MAP_FAILED;
    if (fstat(fd, &status) == 0 && status.st_size > 0) {
        *size = (size_t)status.st_size;
        at = mmap(NULL, *size, shared ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    }
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

/* Opens the pages of this test, which the first process makes. Where files may not grow, nobody makes them. */
static int open_text(const char *name) {
    path from = file_in("TEMPO_REACH_SITES", name, "!text"), to = file_in("TEMPO_REACH_HITS", name, "!text"), mine;
    int made = open(to.text, O_RDWR | O_CLOEXEC);
    if (made >= 0)
        return made;
    struct rlimit growth;
    struct stat status;
    int fd = open(from.text, O_RDONLY | O_CLOEXEC);
    snprintf(mine.text, sizeof mine.text, "%.4000s.%ld", to.text, (long)getpid());
    if (fd >= 0 && fstat(fd, &status) == 0 && getrlimit(RLIMIT_FSIZE, &growth) == 0 && growth.rlim_cur == RLIM_INFINITY)
        made = open(mine.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made >= 0) {
        off_t left = status.st_size;
        for (ssize_t n = 1; left > 0 && n > 0; left -= n)
            n = sendfile(made, fd, NULL, (size_t)left);
        if (left == 0)
            link(mine.text, to.text); /* or another process was faster */
        unlink(mine.text);
        close(made);
        made = open(to.text, O_RDWR | O_CLOEXEC);
    }
    if (fd >= 0)
        close(fd);
    return made;
}

/* Another thread may have taken the breakpoint away already: then its byte is just put back once more. */
static void reached(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint8_t *at = (uint8_t *)registers[REG_RIP] - 1;
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (program + sites[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || program + sites[low] != at)
        abort(); /* somebody else's breakpoint */
    hits[1 + low] = 1;
    *at = bytes[low];
    registers[REG_RIP] -= 1;
}

/* A thread that blocks all signals would end at a breakpoint. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
    static int (*next)(int, const sigset_t *, sigset_t *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_sigmask");
    sigset_t open;
    if (set && how != SIG_UNBLOCK) {
        open = *set;
        sigdelset(&open, SIGTRAP);
        set = &open;
    }
    return next(how, set, before);
}

static uint8_t *loaded_at(void) {
    const ElfW(Phdr) *header = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    for (size_t i = getauxval(AT_PHNUM); i-- > 0;)
        if (header[i].p_type == PT_PHDR)
            return (uint8_t *)((uintptr_t)header - header[i].p_vaddr);
    return NULL;
}

/* Puts the pages with breakpoints in the place of the program's own. */
static bool watch(const char *name) {
    program = loaded_at();
    if (!program)
        return false;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint8_t *from = program + sites[0] / page * page, *to = program + (sites[count - 1] / page + 1) * page;
    struct sigaction action = {.sa_sigaction = reached, .sa_flags = SA_SIGINFO | SA_NODEFER};
    int text = open_text(name);
    /* Not by mmap(), which may be a sanitizer's, in the pages that are replaced. */
    bool done =
        text >= 0 && sigaction(SIGTRAP, &action, NULL) == 0 &&
        syscall(SYS_mmap, from, to - from, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_FIXED, text, 0) != -1;
    if (text >= 0)
        close(text);
    return done;
}

__attribute__((constructor)) static void begin(void) {
    char name[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", name, sizeof name - 1);
    if (length <= 0)
        return;
    name[length] = '\0';
    for (char *c = name; *c; c++)
        if (*c == '/')
            *c = '!';
    size_t told, size;
    hits = mapped(file_in("TEMPO_REACH_HITS", name, ""), true, &told);
    if (!hits)
        return;
    sites = mapped(file_in("TEMPO_REACH_SITES", name, ""), false, &size);
    count = told - 1;
    bytes = (const uint8_t *)(sites + count);
    bool watched = sites && size == count * (sizeof *sites + sizeof *bytes) && watch(name);
    __atomic_fetch_or(&hits[0], watched ? WATCHED : UNWATCHED, __ATOMIC_RELAXED);
}
