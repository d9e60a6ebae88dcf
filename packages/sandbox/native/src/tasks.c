/* Processes as /proc tells of them. */
#include "tasks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* More processes than any sandbox may have; beyond them a machine has other troubles. */
#define MOST_TASKS 65536

struct task {
  pid_t pid, parent;
  bool below;
  uint64_t threads, resident_pages, ticks;
};

/* Reads /proc/PID/stat; its name field may hold anything, so fields are counted from behind the last bracket. */
static bool read_task(int proc, const char *name, struct task *task) {
  char path[32], text[1024];
  snprintf(path, sizeof path, "%.16s/stat", name);
  int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return false;
  text[length] = 0;
  char *fields = strrchr(text, ')');
  int parent;
  unsigned long user, system, threads;
  long resident;
  char state;
  if (fields == NULL) return false;
  if (sscanf(fields + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %lu %*d %*u %*u %ld", &state,
             &parent, &user, &system, &threads, &resident) != 6) {
    return false;
  }
  *task = (struct task){atoi(name), parent, false, threads, resident > 0 ? (uint64_t)resident : 0, user + system};
  return true;
}

/* Processes of ours that are no part of what runs here; 0 where there are none. */
static pid_t spared[2];

void spare_tasks(const pid_t bridge[2]) { memcpy(spared, bridge, sizeof spared); }

static bool is_spared(pid_t pid) { return pid == spared[0] || pid == spared[1]; }

static ssize_t list_tasks(struct task **list) {
  DIR *proc = opendir("/proc");
  size_t count = 0, room = 0;
  *list = NULL;
  if (proc == NULL) return -1;
  for (struct dirent *entry; count < MOST_TASKS && (entry = readdir(proc)) != NULL;) {
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    if (count == room) {
      room = room == 0 ? 64 : room * 2;
      struct task *larger = realloc(*list, room * sizeof **list);
      if (larger == NULL) break;
      *list = larger;
    }
    if (read_task(dirfd(proc), entry->d_name, &(*list)[count]) && !is_spared((*list)[count].pid)) count++;
  }
  closedir(proc);
  return (ssize_t)count;
}

void end_tasks(void) {
  struct task *list;
  if (spared[0] == 0) return (void)kill(-1, SIGKILL);
  /* All at once, because what is stopped neither forks nor ends others. */
  kill(-1, SIGSTOP);
  ssize_t count = list_tasks(&list);
  for (ssize_t index = 0; index < count; index++) {
    if (list[index].pid != getpid()) kill(list[index].pid, SIGKILL);
  }
  free(list);
  for (size_t index = 0; index < 2; index++) kill(spared[index], SIGCONT);
}

/* Marks what descends from this process: rounds over the list until nothing is added. */
static void mark_below(struct task *list, size_t count) {
  pid_t self = getpid();
  for (bool added = true; added;) {
    added = false;
    for (size_t index = 0; index < count; index++) {
      if (list[index].below || list[index].pid == self) continue;
      bool below = list[index].parent == self;
      for (size_t other = 0; other < count && !below; other++) {
        below = list[other].below && list[other].pid == list[index].parent;
      }
      if (below) list[index].below = added = true;
    }
  }
}

bool sum_tasks(bool all, struct task_sums *sums) {
  struct task *list;
  ssize_t count = list_tasks(&list);
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), tick = 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
  *sums = (struct task_sums){0, 0, 0};
  if (count < 0) return false;
  if (!all) mark_below(list, (size_t)count);
  for (ssize_t index = 0; index < count; index++) {
    if (all ? list[index].pid == getpid() : !list[index].below) continue;
    sums->resident_bytes += list[index].resident_pages * page;
    sums->tasks += list[index].threads;
    sums->cpu_ms += list[index].ticks * tick;
  }
  free(list);
  return true;
}

bool only_task(pid_t other) {
  struct task *list;
  ssize_t count = list_tasks(&list);
  bool only = count == 2;
  for (ssize_t index = 0; index < count; index++) only = only && (list[index].pid == getpid() || list[index].pid == other);
  free(list);
  return only;
}

bool has_only_spared(void) {
  struct task *list;
  if (spared[0] == 0) return false;
  ssize_t count = list_tasks(&list);
  bool only = count == 1 && list[0].pid == getpid();
  free(list);
  return only;
}

bool reap(pid_t main_pid, int *status, bool *ended) {
  for (;;) {
    int one;
    pid_t pid = waitpid(-1, &one, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return pid < 0;
    if (pid != main_pid) continue;
    *status = one;
    *ended = true;
  }
}

bool kill_below(uint64_t ms) {
  uint64_t until = now_ms() + ms;
  int status;
  bool ended;
  while (!reap(-1, &status, &ended)) {
    struct task *list;
    ssize_t count = list_tasks(&list);
    if (count > 0) mark_below(list, (size_t)count);
    for (ssize_t index = 0; index < count; index++) {
      if (list[index].below) kill(list[index].pid, SIGKILL);
    }
    free(list);
    if (reap(-1, &status, &ended)) return true;
    if (now_ms() >= until) return false;
    poll(NULL, 0, 1);
  }
  return true;
}
