/* What Node asks the supervisor to start; launch-plan.ts says what each part means. */
#ifndef GANTRY_PLAN_H
#define GANTRY_PLAN_H

#include "wire.h"

/* A figure of a control group: a plain number, or the number behind a key. */
struct figure {
  const char *name;
  const char *file;
  const char *key; /* "" for a plain number */
  uint64_t at_least; /* of a watch */
  uint64_t base;     /* what a watch stood at when the run began */
  int fd;            /* of a watch, open while there is one; -1 before */
};

struct pair {
  const char *name, *text;
};

struct rlimit_plan {
  const char *name;
  uint64_t value;
};

struct plan {
  char **argv;
  const char *seccomp_file; /* "" for none */
  bool drop;
  uid_t uid;
  gid_t gid;
  char **groups;
  char **parents;
  struct pair *settings;
  uint32_t settings_count;
  const char *kill_file; /* "" for none */
  struct figure *figures;
  uint32_t figures_count;
  struct figure *watches;
  uint32_t watches_count;
  struct rlimit_plan *rlimits;
  uint32_t rlimits_count;
  char **folders;
  char **orphans;
  uint64_t epoll_watches; /* how often programs may register with epoll; 0 for no count */
};

/* Reads a plan out of a frame, which must outlive it; false when it is not one. */
bool parse_plan(const struct frame *frame, struct plan *plan);

/* Makes the groups and writes the settings; on failure the message says which file and why. `made` counts the groups. */
bool make_groups(const struct plan *plan, size_t *made, char *message, size_t size);
/* Joins a group as the process that calls. */
bool join_group(const char *folder);
/* The group with the kill file, which is of v2, so that a process can be born in it; NULL when there is none. */
const char *group_to_fork_into(const struct plan *plan);
/* Kills every process in the groups that there is now. */
void kill_groups(const struct plan *plan);
/* Removes the first `made` groups, and then the parents when they have no owner any more; adds what is left to the payload and counts it. */
uint32_t remove_groups(const struct plan *plan, size_t made, bool orphaned, struct payload *left);

/* Reads a figure; false when the file is gone or holds no number. */
bool read_figure(struct figure *figure, uint64_t *value);
/* Opens all figures, which takes longer than to read them; those that are not there yet stay closed. */
void open_figures(struct plan *plan);
void put_figures(struct payload *to, struct plan *plan);
/* The first watch whose figure has come so far since the run began, or NULL. */
struct figure *watch_hit(struct plan *plan);
void put_hits(struct payload *to, struct plan *plan);
/* Begins a further run in the same sandbox: what was used before does not count. */
void rebase_watches(struct plan *plan);

/* The child's part: joins, drops, closes and executes; `joined` is the group that it was born in, or NULL. */
_Noreturn void enter(const struct plan *plan, const char *joined, int errors);

/* Removes a folder with all it holds, never through a link or into another mount; false when something is left. */
bool remove_tree(const char *path);

#endif
