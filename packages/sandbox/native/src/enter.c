/* The child between fork and exec: everything that must be so before bubblewrap runs. */
#include "plan.h"
#include "quota.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From linux/keyctl.h, which is not everywhere. */
enum { JOIN_SESSION_KEYRING = 1, SET_PERMISSION = 5 };
/* Processes of this user may find and view it; none may write to it or change that: the possessor's and user's bits. */
#define SEARCH_AND_VIEW 0x09090000
/* One name for all sandboxes of an ordinary user, who may have only 200 keys at a time. */
#define SHARED_KEYRING "gantry-sandbox"

static _Noreturn void fail(int errors, const char *what) {
  char message[512];
  int length = snprintf(message, sizeof message, "%s: %s", what, strerror(errno));
  if (length > 0) {
    size_t size = (size_t)length < sizeof message ? (size_t)length : sizeof message - 1;
    if (write(errors, message, size) < 0) _exit(126);
  }
  _exit(126);
}

/*
 * Leaves the session's keyring, and the secrets in it, behind. A uid of its own gets a keyring of its own; an ordinary user
 * would run out of keys, so all its sandboxes share one that is empty and stays so because no process may write to it.
 */
static bool leave_keyring(bool own) {
  long ring = syscall(SYS_keyctl, JOIN_SESSION_KEYRING, own ? NULL : SHARED_KEYRING);
  if (ring < 0) return errno == ENOSYS;
  /* The process that creates it removes the write permission; for a later one it is removed already. */
  if (!own) syscall(SYS_keyctl, SET_PERMISSION, ring, SEARCH_AND_VIEW);
  return true;
}

/* When memory runs out the kernel kills a sandbox before it kills us; no process inside can go below our value. */
static void be_first_to_die(void) {
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t ignored = write(fd, "1000", 4);
  (void)ignored;
  close(fd);
}

static void close_between(unsigned first, unsigned last) {
  if (first > last || syscall(SYS_close_range, first, last, 0) == 0) return;
  unsigned most = (unsigned)sysconf(_SC_OPEN_MAX);
  for (unsigned fd = first; fd <= last && fd < most; fd++) close((int)fd);
}

/* What the supervisor changed for itself; the init sets all the others back. */
static void restore_signals(void) {
  sigset_t none;
  signal(SIGPIPE, SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

_Noreturn void enter(const struct plan *plan, const char *joined, int errors) {
  char *nothing[] = {NULL};
  pid_t parent = getppid();
  int filter = -1;
  for (char **group = plan->groups; *group != NULL; group++) {
    if (*group != joined && !join_group(*group)) fail(errors, *group);
  }
  be_first_to_die();
  if (plan->seccomp_file[0] != 0) {
    filter = open(plan->seccomp_file, O_RDONLY | O_CLOEXEC);
    if (filter < 0) fail(errors, plan->seccomp_file);
  }
  errors = fcntl(errors, F_DUPFD_CLOEXEC, SECCOMP_FD + 1);
  if (errors < 0) _exit(126);
  /* Where it lies there already, dup2 changes nothing, and it would be closed for bubblewrap. */
  if (filter >= 0 && (dup2(filter, SECCOMP_FD) < 0 || fcntl(SECCOMP_FD, F_SETFD, 0) != 0)) fail(errors, "the seccomp filter");
  close_between(SUPERVISOR_CHANNEL, filter >= 0 ? SECCOMP_FD - 1 : SECCOMP_FD);
  close_between(SECCOMP_FD + 1, (unsigned)errors - 1);
  close_between((unsigned)errors + 1, ~0u);
  if (chdir("/") != 0) fail(errors, "/");
  setsid();
  umask(022);
  restore_signals();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(errors, "no-new-privs");
  /* Before the limit on descriptors, which is also that on descriptors on their way, of all programs of this user together. */
  if (plan->epoll_watches > 0) {
    int listener = ask_for_watches();
    if (listener < 0 || !send_descriptor(errors, listener)) fail(errors, "counting registrations with epoll, which needs Linux 5.5");
  }
  for (uint32_t index = 0; index < plan->rlimits_count; index++) {
    if (!set_rlimit(plan->rlimits[index].name, plan->rlimits[index].value)) fail(errors, plan->rlimits[index].name);
  }
  if (plan->drop) {
    if (setgroups(0, NULL) != 0) fail(errors, "setgroups");
    if (setresgid(plan->gid, plan->gid, plan->gid) != 0) fail(errors, "setresgid");
    if (setresuid(plan->uid, plan->uid, plan->uid) != 0) fail(errors, "setresuid");
  }
  if (!leave_keyring(plan->drop)) fail(errors, "a fresh session keyring");
  /* After the change of uid, which would undo it; no signal arrives when the supervisor died before this. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(errors, "parent-death signal");
  if (getppid() != parent) _exit(126);
  execve(plan->argv[0], plan->argv, nothing);
  fail(errors, plan->argv[0]);
}
