/* Sets the wall clock of a process: CLOCK_SHIFT seconds are added to it. Other clocks stay.
   A wait until a time of the wall clock ends at that time of the real clock, which the kernel uses. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    const char *given = getenv("CLOCK_SHIFT");
    return given ? atol(given) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int result = (int)syscall(SYS_gettimeofday, now, zone);
    if (result == 0 && now) now->tv_sec += shift();
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return clock_gettime(CLOCK_REALTIME, now) ? 0 : base;
}

/* A monotonic clock counts from the machine's start: it is far below the seconds since 1970. */
static struct timespec real(const struct timespec *until) {
    struct timespec moved = *until;
    if (moved.tv_sec > 500000000) moved.tv_sec -= shift();
    return moved;
}

static void *next(const char *name, const char *version) {
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
    return found ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!wait) wait = next("pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec moved = real(until);
    return wait(cond, mutex, &moved);
}

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict until) {
    static int (*wait)(cnd_t *, mtx_t *, const struct timespec *);
    if (!wait) wait = next("cnd_timedwait", NULL);
    struct timespec moved = real(until);
    return wait(cond, mutex, &moved);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*wait)(sem_t *, const struct timespec *);
    if (!wait) wait = next("sem_timedwait", NULL);
    struct timespec moved = real(until);
    return wait(semaphore, &moved);
}
