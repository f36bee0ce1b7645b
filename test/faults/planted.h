/* planted.h: faults that plant.py wrote into a copy of the tree, one of which is on while a program runs. Environment
 * TEMPO_FAULT: the number of the fault that is on; TEMPO_FAULT_REACHED: a folder, where a file N appears once the place
 * of fault N is reached. Everything is static, since a file may become part of several programs, and no function of
 * libc that tests replace or forbid is called. */
#ifndef TEMPO_PLANTED_H
#define TEMPO_PLANTED_H
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#define TEMPO_FAULTS 4096

extern char **environ;
long syscall(long number, ...);

static int tempo_fault_on = -1;
static const char *tempo_fault_folder;
static unsigned char tempo_fault_seen[TEMPO_FAULTS];

/* The value of a variable, or NULL; `name` ends in '='. */
static const char *tempo_fault_variable(const char *name) {
    for (char **entry = environ; entry && *entry; entry++) {
        const char *is = *entry, *wanted = name;
        while (*wanted && *is == *wanted)
            is++, wanted++;
        if (!*wanted)
            return is;
    }
    return (const char *)0;
}

/* Before main, so that threads find both. */
__attribute__((constructor)) static void tempo_fault_begin(void) {
    const char *digits = tempo_fault_variable("TEMPO_FAULT=");
    if (digits && *digits)
        for (tempo_fault_on = 0; *digits; digits++)
            tempo_fault_on = tempo_fault_on * 10 + (*digits - '0');
    tempo_fault_folder = tempo_fault_variable("TEMPO_FAULT_REACHED=");
}

__attribute__((noinline, cold)) static void tempo_fault_note(int fault) {
    char path[4096];
    int at = 0, unit = 1, before = errno;
    tempo_fault_seen[fault] = 1;
    while (tempo_fault_folder[at] && at < 4000) {
        path[at] = tempo_fault_folder[at];
        at++;
    }
    path[at++] = '/';
    while (fault / unit >= 10)
        unit *= 10;
    for (; unit > 0; unit /= 10)
        path[at++] = (char)('0' + fault / unit % 10);
    path[at] = 0;
    long file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0)
        syscall(SYS_close, file);
    errno = before;
}

static inline int TEMPO_FAULT(int fault) {
    if (__builtin_expect(tempo_fault_folder != 0, 0) && !tempo_fault_seen[fault])
        tempo_fault_note(fault);
    return tempo_fault_on == fault;
}
#endif
