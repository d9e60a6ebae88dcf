/* Control groups: made, read, emptied by killing, removed. Paths come from the plan; nothing here knows v1 from v2. */
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long the kernel may take to let go of a group whose processes have ended. */
#define BUSY_MS 2000

static bool write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t length = strlen(text);
  bool written = write(fd, text, length) == (ssize_t)length;
  int failure = errno;
  close(fd);
  errno = failure;
  return written;
}

static bool path_in(char *to, size_t size, const char *folder, const char *name) {
  int length = snprintf(to, size, "%s/%s", folder, name);
  return length > 0 && (size_t)length < size;
}

bool make_groups(const struct plan *plan, size_t *made, char *message, size_t size) {
  for (*made = 0; plan->groups[*made] != NULL; ++*made) {
    if (mkdir(plan->groups[*made], 0755) == 0) continue;
    snprintf(message, size, "the control group %s cannot be made: %s", plan->groups[*made], strerror(errno));
    return false;
  }
  for (uint32_t index = 0; index < plan->settings_count; index++) {
    const struct pair *setting = &plan->settings[index];
    if (write_text(setting->name, setting->text)) continue;
    snprintf(message, size, "%s cannot be set to %s: %s", setting->name, setting->text, strerror(errno));
    return false;
  }
  return true;
}

bool join_group(const char *folder) {
  char path[4096];
  /* A thread that moves itself alone, which only v1 has, takes no lock that every fork on the machine has to wait for. */
  if (path_in(path, sizeof path, folder, "tasks") && write_text(path, "0")) return true;
  return path_in(path, sizeof path, folder, "cgroup.procs") && write_text(path, "0");
}

const char *group_to_fork_into(const struct plan *plan) {
  char path[4096];
  for (char **group = plan->groups; *group != NULL; group++) {
    if (path_in(path, sizeof path, *group, "cgroup.kill") && strcmp(path, plan->kill_file) == 0) return *group;
  }
  return NULL;
}

static void kill_members(const char *folder) {
  char path[4096];
  if (!path_in(path, sizeof path, folder, "cgroup.procs")) return;
  FILE *members = fopen(path, "re");
  if (members == NULL) return;
  long pid;
  while (fscanf(members, "%ld", &pid) == 1) {
    /* 0 stands for a process that this namespace cannot see; kill(0) would be ourselves. */
    if (pid > 0) kill((pid_t)pid, SIGKILL);
  }
  fclose(members);
}

void kill_groups(const struct plan *plan) {
  if (plan->kill_file[0] != 0 && write_text(plan->kill_file, "1")) return;
  for (char **group = plan->groups; *group != NULL; group++) kill_members(*group);
}

uint32_t remove_groups(const struct plan *plan, size_t made, bool orphaned, struct payload *left) {
  uint32_t count = 0;
  uint64_t until = now_ms() + BUSY_MS;
  while (made-- > 0) {
    while (rmdir(plan->groups[made]) != 0 && errno != ENOENT) {
      if (errno == EBUSY && now_ms() < until) {
        poll(NULL, 0, 1);
        continue;
      }
      put_text(left, plan->groups[made]);
      count++;
      break;
    }
  }
  for (char **parent = plan->parents; orphaned && *parent != NULL; parent++) rmdir(*parent);
  return count;
}

/* The number in a text, or behind a key that begins a line. */
static bool find_number(const char *text, const char *key, uint64_t *value) {
  size_t length = strlen(key);
  for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (length > 0 && (strncmp(line, key, length) != 0 || line[length] != ' ')) continue;
    const char *digits = length > 0 ? line + length + 1 : line;
    if (*digits < '0' || *digits > '9') return false;
    *value = strtoull(digits, NULL, 10);
    return true;
  }
  return false;
}

static bool open_figure(struct figure *figure) {
  if (figure->fd < 0) figure->fd = open(figure->file, O_RDONLY | O_CLOEXEC);
  return figure->fd >= 0;
}

void open_figures(struct plan *plan) {
  for (uint32_t index = 0; index < plan->figures_count; index++) open_figure(&plan->figures[index]);
  for (uint32_t index = 0; index < plan->watches_count; index++) open_figure(&plan->watches[index]);
}

bool read_figure(struct figure *figure, uint64_t *value) {
  char text[4096];
  if (!open_figure(figure)) return false;
  ssize_t length = pread(figure->fd, text, sizeof text - 1, 0);
  if (length < 0) return false;
  text[length] = 0;
  return find_number(text, figure->key, value);
}

void put_figures(struct payload *to, struct plan *plan) {
  uint64_t values[64];
  bool known[64];
  uint32_t count = 0, most = plan->figures_count < 64 ? plan->figures_count : 64;
  for (uint32_t index = 0; index < most; index++) {
    known[index] = read_figure(&plan->figures[index], &values[index]);
    if (known[index]) count++;
  }
  put_u32(to, count);
  for (uint32_t index = 0; index < most; index++) {
    if (!known[index]) continue;
    put_text(to, plan->figures[index].name);
    put_u64(to, values[index]);
  }
}

static bool is_hit(struct figure *watch) {
  uint64_t value;
  return read_figure(watch, &value) && value >= watch->base && value - watch->base >= watch->at_least;
}

struct figure *watch_hit(struct plan *plan) {
  for (uint32_t index = 0; index < plan->watches_count; index++) {
    if (is_hit(&plan->watches[index])) return &plan->watches[index];
  }
  return NULL;
}

void put_hits(struct payload *to, struct plan *plan) {
  const char *names[64];
  uint32_t count = 0;
  for (uint32_t index = 0; index < plan->watches_count && count < 64; index++) {
    if (is_hit(&plan->watches[index])) names[count++] = plan->watches[index].name;
  }
  put_u32(to, count);
  for (uint32_t index = 0; index < count; index++) put_text(to, names[index]);
}

void rebase_watches(struct plan *plan) {
  for (uint32_t index = 0; index < plan->watches_count; index++) {
    if (!read_figure(&plan->watches[index], &plan->watches[index].base)) plan->watches[index].base = 0;
  }
}
