/* A disk that loses power: what fsync made durable is copied to NAME.durable, and nothing else survives a cut.
   POWER_FOLDER: the folder of the files. POWER_FAILS: how many of 1000 syncs fail with EIO. POWER_LIES: syncs do nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int sync_file(int fd) {
    const char *folder = getenv("POWER_FOLDER"), *fails = getenv("POWER_FAILS");
    char link[64], path[4096], durable[4200], copy[4200], buffer[65536];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1), size;
    if (length < 0) return -1;
    path[length] = 0;
    if (!folder || strncmp(path, folder, strlen(folder))) return syscall(SYS_fdatasync, fd);
    if (fails && random() % 1000 < atoi(fails)) { errno = EIO; return -1; }
    if (getenv("POWER_LIES")) return 0;
    snprintf(durable, sizeof durable, "%s.durable", path);
    snprintf(copy, sizeof copy, "%s.copy", path);
    int from = open(path, O_RDONLY | O_CLOEXEC), to = open(copy, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (from < 0 || to < 0) { if (from >= 0) close(from); if (to >= 0) close(to); return 0; } /* a folder */
    while ((size = read(from, buffer, sizeof buffer)) > 0)
        if (write(to, buffer, size) != size) { size = -1; break; }
    close(from);
    close(to);
    return size < 0 || rename(copy, durable) ? -1 : 0;
}

int fsync(int fd) { return sync_file(fd); }
int fdatasync(int fd) { return sync_file(fd); }

__attribute__((constructor)) static void seed(void) {
    const char *given = getenv("POWER_SEED");
    srandom(given ? atoi(given) : 1);
}
