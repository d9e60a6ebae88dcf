/* Small things that both lives of the launcher need. */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

uint64_t now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

int open_beneath(int folder, const char *name, int flags, mode_t mode) {
  return openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
}

static const struct {
  const char *name;
  int resource;
} rlimits[] = {
    {"as", RLIMIT_AS},           {"core", RLIMIT_CORE},     {"cpu", RLIMIT_CPU},           {"data", RLIMIT_DATA},
    {"fsize", RLIMIT_FSIZE},     {"locks", RLIMIT_LOCKS},   {"memlock", RLIMIT_MEMLOCK},   {"msgqueue", RLIMIT_MSGQUEUE},
    {"nice", RLIMIT_NICE},       {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC},       {"rss", RLIMIT_RSS},
    {"rtprio", RLIMIT_RTPRIO},   {"rttime", RLIMIT_RTTIME}, {"sigpending", RLIMIT_SIGPENDING}, {"stack", RLIMIT_STACK},
};

bool set_rlimit(const char *name, uint64_t value) {
  for (size_t index = 0; index < sizeof rlimits / sizeof *rlimits; index++) {
    if (strcmp(rlimits[index].name, name) != 0) continue;
    struct rlimit limit = {value, value};
    struct rlimit held;
    if (setrlimit(rlimits[index].resource, &limit) == 0) return true;
    /* Without privilege a limit cannot be raised; one that is lower already holds all the more. */
    return errno == EPERM && getrlimit(rlimits[index].resource, &held) == 0 && held.rlim_max <= value;
  }
  errno = EINVAL;
  return false;
}
