/*
 * The channel of an init in a pod. Kubernetes starts process 1 by itself and gives a client only the streams of another
 * process that the client starts there, the bridge. They meet in two named pipes, which are removed as soon as both ends
 * are open, so that no program of the sandbox finds them.
 *
 *   client ⇄ stdin, stdout of the bridge ⇄ pipes ⇄ stdin, stdout of the init
 *
 * The bridge tells its two processes first, which the init neither counts nor kills. The end of the bridge's stdin is the
 * end of the init's: the client is gone, or done.
 */
#include "tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const to_init = ".to-init", *const from_init = ".from-init";

static int failed(const char *what) {
  dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(errno));
  return 1;
}

/* Waits until a bridge has opened both pipes, in the same order. */
int init_by_pipes(const char *folder, const char *filter) {
  prctl(PR_SET_DUMPABLE, 0);
  if (chdir(folder) != 0) return failed(folder);
  if (mkfifo(to_init, 0600) != 0 || mkfifo(from_init, 0600) != 0) return failed(folder);
  int in = open(to_init, O_RDONLY | O_CLOEXEC);
  int out = open(from_init, O_WRONLY | O_CLOEXEC);
  if (in < 0 || out < 0 || unlink(to_init) != 0 || unlink(from_init) != 0) return failed(folder);
  pid_t bridge[2];
  if (read(in, bridge, sizeof bridge) != sizeof bridge) return failed("bridge");
  spare_tasks(bridge);
  /* As in containers: at 1 the kernel also gives up a dump that it would pipe to a program of the host. The filter keeps it. */
  if (!set_rlimit("core", 1)) return failed("core");
  if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || chdir("/") != 0) return failed(folder);
  return run_init(INIT_STDIO, folder, filter);
}

static void copy(int from, int to) {
  static char bytes[CHUNK];
  for (;;) {
    ssize_t length = read(from, bytes, sizeof bytes);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return;
    for (ssize_t at = 0; at < length;) {
      ssize_t written = write(to, bytes + at, (size_t)(length - at));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      at += written;
    }
  }
}

static void end_of_init(int number) {
  (void)number;
  _exit(0);
}

int bridge(const char *folder) {
  /* Not to be opened through /proc by programs, which have the same uid. */
  prctl(PR_SET_DUMPABLE, 0);
  if (chdir(folder) != 0) return failed(folder);
  int in = open(to_init, O_WRONLY | O_CLOEXEC);
  int out = open(from_init, O_RDONLY | O_CLOEXEC);
  if (in < 0 || out < 0) return failed(folder);
  signal(SIGPIPE, SIG_IGN);
  /* The init stops and continues the bridge with everything else when it ends a program. */
  struct sigaction ended = {.sa_handler = end_of_init, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGCHLD, &ended, NULL);
  pid_t parent = getpid();
  pid_t child = fork();
  if (child < 0) return failed("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    close(in);
    copy(out, STDOUT_FILENO);
    _exit(0);
  }
  close(out);
  pid_t own[2] = {parent, child};
  if (write(in, own, sizeof own) != sizeof own) return failed("pipes");
  copy(STDIN_FILENO, in);
  close(in);
  for (;;) pause();
}
