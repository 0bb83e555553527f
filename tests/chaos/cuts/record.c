/* Records every change of a file below a folder, by any process that is started with this library preloaded.
 *
 * LD_PRELOAD names the library, FILES_BELOW the folder, FILES_LOG the file of the records. Each record is one
 * change that has happened, in the order in which the changes happened, over all processes:
 *
 *   kind (1 byte), length of path (4), path, length of second path (4), second path, offset (8),
 *   length of data (4), data
 *
 * Kinds: C create, W write, T set the size (offset), R rename, L hard link, U unlink, M make folder, D remove
 * folder, S flush of a file or folder. Numbers are little-endian.
 *
 * Without FILES_LOG nothing is recorded. FILES_FULL_AFTER=n: after n bytes of a process below the folder, its
 * disk is full. FILES_READ_ONLY=1: no file below the folder can be opened to be written. FILES_SLOW_MS=n: each flush below the folder takes n milliseconds longer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *below = NULL;
static size_t below_length = 0;
static const char *log_path = NULL;
static int log_fd = -1;
static pid_t log_owner = 0;

static long long full_after = -1;
static long slow_ms = 0;
static int read_only = 0;
static long long written = 0;

__attribute__((constructor)) static void configure(void) {
    below = getenv("FILES_BELOW");
    log_path = getenv("FILES_LOG");
    below_length = below ? strlen(below) : 0;
    if (getenv("FILES_FULL_AFTER")) full_after = atoll(getenv("FILES_FULL_AFTER"));
    read_only = getenv("FILES_READ_ONLY") != NULL;
    if (getenv("FILES_SLOW_MS")) slow_ms = atol(getenv("FILES_SLOW_MS"));
}

static int is_below(const char *path) {
    return below && strncmp(path, below, below_length) == 0 &&
           (path[below_length] == '/' || path[below_length] == 0);
}

/* The absolute path of a name relative to an open folder; empty if there is none. */
static void absolute(char *out, int folder, const char *name) {
    char base[PATH_MAX] = "";
    out[0] = 0;
    if (name[0] == '/') {
        snprintf(out, PATH_MAX, "%s", name);
        return;
    }
    if (folder == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t n = readlink(link, base, sizeof base - 1);
        if (n < 0) return;
        base[n] = 0;
    }
    if (strlen(base) + strlen(name) + 2 < PATH_MAX) {
        strcpy(out, base);
        strcat(out, "/");
        strcat(out, name);
    }
}

/* Whether an open file is below the folder; its path now. */
static int path_of(char *out, int fd) {
    char link[64];
    if (!below || fd < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n < 0) return 0;
    out[n] = 0;
    return is_below(out) && !strstr(out, " (deleted)");
}

static void begin(void) {
    pthread_mutex_lock(&lock);
    if (!log_path) return;
    if (log_fd < 0 || log_owner != getpid()) {
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        log_owner = getpid();
    }
    flock(log_fd, LOCK_EX);
}

static void end(void) {
    int kept = errno;
    if (log_path) flock(log_fd, LOCK_UN);
    pthread_mutex_unlock(&lock);
    errno = kept;
}

static void note(char kind, const char *path, const char *second, int64_t offset, const struct iovec *parts,
                 int count, size_t bytes) {
    if (!log_path) return;
    int kept = errno;
    uint32_t first_length = (uint32_t)strlen(path), second_length = (uint32_t)strlen(second);
    uint32_t data_length = (uint32_t)bytes;
    size_t size = 1 + 4 + first_length + 4 + second_length + 8 + 4 + bytes;
    char *record = malloc(size), *at = record;
    *at++ = kind;
    memcpy(at, &first_length, 4), at += 4;
    memcpy(at, path, first_length), at += first_length;
    memcpy(at, &second_length, 4), at += 4;
    memcpy(at, second, second_length), at += second_length;
    memcpy(at, &offset, 8), at += 8;
    memcpy(at, &data_length, 4), at += 4;
    for (int n = 0; n < count && bytes; n++) {
        size_t taken = parts[n].iov_len < bytes ? parts[n].iov_len : bytes;
        memcpy(at, parts[n].iov_base, taken), at += taken, bytes -= taken;
    }
    for (size_t done = 0; done < size;) {
        ssize_t n = syscall(SYS_write, log_fd, record + done, size - done);
        if (n <= 0) abort();
        done += (size_t)n;
    }
    free(record);
    errno = kept;
}

static int open_at(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    struct stat found;
    absolute(path, folder, name);
    if (read_only && (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) && is_below(path)) {
        errno = EROFS;
        return -1;
    }
    if (!(flags & (O_CREAT | O_TRUNC)) || !is_below(path)) {
        return (int)syscall(SYS_openat, folder, name, flags, mode);
    }
    begin();
    int existed = syscall(SYS_newfstatat, AT_FDCWD, path, &found, 0) == 0;
    int fd = (int)syscall(SYS_openat, folder, name, flags, mode);
    if (fd >= 0 && !existed) note('C', path, "", 0, NULL, 0, 0);
    if (fd >= 0 && existed && (flags & O_TRUNC) && found.st_size) note('T', path, "", 0, NULL, 0, 0);
    end();
    return fd;
}

#define MODE(flags)                       \
    mode_t mode = 0;                      \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list more;                     \
        va_start(more, flags);            \
        mode = va_arg(more, mode_t);      \
        va_end(more);                     \
    }

int open(const char *name, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, name, flags | O_LARGEFILE, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE(flags) return open_at(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE(flags) return open_at(folder, name, flags | O_LARGEFILE, mode); }
int creat(const char *name, mode_t mode) { return open_at(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return creat(name, mode); }

static int64_t position(int fd) {
    struct stat found;
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_APPEND)) return fstat(fd, &found) == 0 ? (int64_t)found.st_size : 0;
    return (int64_t)lseek(fd, 0, SEEK_CUR);
}

static ssize_t write_parts(int fd, const struct iovec *parts, int count, int64_t offset) {
    char path[PATH_MAX];
    if (!path_of(path, fd)) {
        return offset < 0 ? syscall(SYS_writev, fd, parts, count)
                          : syscall(SYS_pwritev, fd, parts, count, (long)offset, 0L);
    }
    struct iovec cut;
    begin();
    int64_t at = offset < 0 ? position(fd) : offset;
    if (full_after >= 0) {
        long long left = full_after - written;
        if (left <= 0) {
            end();
            errno = ENOSPC;
            return -1;
        }
        if (count && (long long)parts[0].iov_len > left) {
            cut.iov_base = parts[0].iov_base;
            cut.iov_len = (size_t)left;
            parts = &cut;
            count = 1;
        }
    }
    ssize_t n = offset < 0 ? syscall(SYS_writev, fd, parts, count)
                           : syscall(SYS_pwritev, fd, parts, count, (long)offset, 0L);
    if (n > 0) written += n;
    if (n > 0) note('W', path, "", at, parts, count, (size_t)n);
    end();
    return n;
}

ssize_t write(int fd, const void *data, size_t size) {
    struct iovec part = {(void *)data, size};
    char path[PATH_MAX];
    if (!path_of(path, fd)) return syscall(SYS_write, fd, data, size);
    return write_parts(fd, &part, 1, -1);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    struct iovec part = {(void *)data, size};
    return write_parts(fd, &part, 1, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return pwrite(fd, data, size, offset); }
ssize_t writev(int fd, const struct iovec *parts, int count) { return write_parts(fd, parts, count, -1); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return write_parts(fd, parts, count, offset); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) { return write_parts(fd, parts, count, offset); }

/* Copies inside the kernel would pass by unseen: the callers fall back to read and write. */
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    char path[PATH_MAX];
    if (!path_of(path, out)) return syscall(SYS_copy_file_range, in, from, out, to, size, flags);
    errno = EXDEV;
    return -1;
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t size) {
    char path[PATH_MAX];
    if (!path_of(path, out)) return syscall(SYS_sendfile, out, in, offset, size);
    errno = EINVAL;
    return -1;
}
ssize_t sendfile(int out, int in, off_t *offset, size_t size) { return sendfile64(out, in, offset, size); }

int ftruncate(int fd, off_t size) {
    char path[PATH_MAX];
    if (!path_of(path, fd)) return (int)syscall(SYS_ftruncate, fd, size);
    begin();
    int result = (int)syscall(SYS_ftruncate, fd, size);
    if (result == 0) note('T', path, "", size, NULL, 0, 0);
    end();
    return result;
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
int truncate(const char *name, off_t size) {
    int fd = open(name, O_WRONLY);
    if (fd < 0) return -1;
    int result = ftruncate(fd, size);
    close(fd);
    return result;
}
int truncate64(const char *name, off64_t size) { return truncate(name, size); }

static int two_paths(char kind, int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char first[PATH_MAX], second[PATH_MAX];
    absolute(first, from_folder, from);
    absolute(second, to_folder, to);
    int seen = is_below(second) || is_below(first);
    if (seen) begin();
    int result = kind == 'R' ? (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags)
                             : (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
    if (seen) {
        if (result == 0) note(kind, first, second, 0, NULL, 0, 0);
        end();
    }
    return result;
}
int rename(const char *from, const char *to) { return two_paths('R', AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return two_paths('R', a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return two_paths('R', a, from, b, to, flags); }
int link(const char *from, const char *to) { return two_paths('L', AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return two_paths('L', a, from, b, to, (unsigned)flags); }

static int remove_at(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    absolute(path, folder, name);
    if (!is_below(path)) return (int)syscall(SYS_unlinkat, folder, name, flags);
    begin();
    int result = (int)syscall(SYS_unlinkat, folder, name, flags);
    if (result == 0) note(flags & AT_REMOVEDIR ? 'D' : 'U', path, "", 0, NULL, 0, 0);
    end();
    return result;
}
int unlink(const char *name) { return remove_at(AT_FDCWD, name, 0); }
int unlinkat(int folder, const char *name, int flags) { return remove_at(folder, name, flags); }
int rmdir(const char *name) { return remove_at(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char *name) {
    int result = remove_at(AT_FDCWD, name, 0);
    return result < 0 && errno == EISDIR ? rmdir(name) : result;
}

int mkdirat(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    absolute(path, folder, name);
    if (!is_below(path)) return (int)syscall(SYS_mkdirat, folder, name, mode);
    if (read_only) {
        errno = EROFS;
        return -1;
    }
    begin();
    int result = (int)syscall(SYS_mkdirat, folder, name, mode);
    if (result == 0) note('M', path, "", 0, NULL, 0, 0);
    end();
    return result;
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

static int flush(int number, int fd) {
    char path[PATH_MAX];
    int seen = path_of(path, fd);
    if (seen && slow_ms) usleep((useconds_t)slow_ms * 1000);
    if (seen) begin();
    int result = (int)syscall(number, fd);
    if (seen) {
        if (result == 0) note('S', path, "", 0, NULL, 0, 0);
        end();
    }
    return result;
}
int fsync(int fd) { return flush(SYS_fsync, fd); }
int fdatasync(int fd) { return flush(SYS_fdatasync, fd); }
