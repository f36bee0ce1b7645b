/* usage.c: runs a program and prints its costs as a last line of JSON on standard output: seconds on the clock, seconds
 * of processor time, the most bytes resident. A small program does it, since a process's count of resident bytes begins
 * with those of the one that started it. usage PROGRAM ARGUMENT... */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

int main(int argc, char **argv) {
    struct rusage used;
    int status = 0;
    if (argc < 2) {
        fputs("usage: usage PROGRAM ARGUMENT...\n", stderr);
        return 64;
    }
    double start = now();
    pid_t child = fork();
    if (child == 0) {
        execv(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) < 0) {
        perror("usage");
        return 5;
    }
    printf("{\"wall\": %.6f, \"cpu\": %.6f, \"resident\": %lld}\n", now() - start,
           seconds(used.ru_utime) + seconds(used.ru_stime), 1024LL * used.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
