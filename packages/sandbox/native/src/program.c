/* Starts programs inside: their descriptors, limits and signals. */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

bool take_step(struct cursor *from, struct step *step) {
  step->argv = take_texts(from);
  step->env = take_texts(from);
  step->folder = take_text(from);
  step->rlimits_count = take_count(from, 13);
  if (step->rlimits_count > sizeof step->rlimits / sizeof *step->rlimits) from->bad = true;
  for (uint32_t index = 0; index < step->rlimits_count && !from->bad; index++) {
    step->rlimits[index].name = take_text(from);
    step->rlimits[index].value = take_u64(from);
  }
  return !from->bad && step->argv[0] != NULL;
}

static void not_blocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

/* Pipes for the streams, so that a program can open /dev/stdout; a socket, which goes both ways, for its own channel. */
bool open_channels(struct channels *channels) {
  int in[2], out[2], err[2], line[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return false;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) != 0) return false;
  *channels = (struct channels){in[1], out[0], err[0], line[0], in[0], out[1], err[1], line[1]};
  not_blocking(channels->in);
  not_blocking(channels->out);
  not_blocking(channels->err);
  not_blocking(channels->line);
  return true;
}

static void close_end(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

void close_program_ends(struct channels *channels) {
  close_end(&channels->program_in);
  close_end(&channels->program_out);
  close_end(&channels->program_err);
  close_end(&channels->program_line);
}

/* Says what a shell would say, with the codes that it would end with. */
static _Noreturn void cannot(const char *what) {
  int failure = errno;
  dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(failure));
  _exit(failure == ENOENT ? 127 : 126);
}

static void close_from(unsigned first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  for (int fd = (int)first; fd < 1024; fd++) close(fd);
}

/* Our own 0 is /dev/null; the channel to Node is 3 here and becomes the program's own there. */
static _Noreturn void become(const struct step *step, bool reads) {
  const struct channels *channels = &self.channels;
  sigset_t none;
  setsid();
  if (self.host) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if ((reads && dup2(channels->program_in, STDIN_FILENO) < 0) || dup2(channels->program_out, STDOUT_FILENO) < 0 ||
      dup2(channels->program_err, STDERR_FILENO) < 0 || dup2(channels->program_line, INIT_CHANNEL) < 0) {
    _exit(126);
  }
  if (fchdir(self.workspace) != 0 || (step->folder[0] != 0 && chdir(step->folder) != 0)) cannot(step->folder);
  close_from(INIT_CHANNEL + 1);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  for (uint32_t index = 0; index < step->rlimits_count; index++) {
    if (!set_rlimit(step->rlimits[index].name, step->rlimits[index].value)) cannot(step->rlimits[index].name);
  }
  environ = step->env;
  execvp(step->argv[0], step->argv);
  cannot(step->argv[0]);
}

/* Nothing of this process is copied, which takes a kernel in user space longer than the start of the program itself. */
pid_t start_program(const struct step *step, bool reads) {
  pid_t pid = vfork();
  if (pid == 0) become(step, reads);
  return pid;
}
