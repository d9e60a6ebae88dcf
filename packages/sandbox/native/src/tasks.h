/* Looks at processes through /proc: for machines without control groups, and to end what is left over. */
#ifndef GANTRY_TASKS_H
#define GANTRY_TASKS_H

#include "sandbox.h"

/* How often processes are looked at where no control group holds the limits. */
#define LOOK_MS 25
/* And how often at locks: seldom, because the kernel stops every lock of the machine for some milliseconds meanwhile. */
#define LOCKS_MS 2000

struct task_sums {
  uint64_t resident_bytes;
  uint64_t tasks;
  uint64_t cpu_ms;
};

/* Adds up the processes below this one, or all that are seen when `all`, this one never; false when /proc cannot be read. */
bool sum_tasks(bool all, struct task_sums *sums);

/* Whether there is nothing in the sandbox but this process and another, whatever threads that has. */
bool only_task(pid_t other);

/* Leaves two processes out of every count and every kill: the bridge of a pod, or the agent in a Proxmox container. */
void spare_tasks(const pid_t bridge[2]);

/* Whether nothing lives but this process and spared ones; false where none are spared. */
bool has_only_spared(void);

/* Kills every process of the sandbox but this one. */
void end_tasks(void);

/* Kills every process below this one and collects them; false when some would not end within `ms`. Needs a subreaper. */
bool kill_below(uint64_t ms);

/* Collects children that have ended; true when none is left. `main_pid`'s status is kept when it is among them. */
bool reap(pid_t main_pid, int *status, bool *ended);

#endif
