/*
 * The life inside: process 1 of the sandbox. Takes jobs from Node, runs programs and hands back what they write and leave.
 *
 *   ready → [ an interpreter ahead ] → files → GO → running → program ended → all others killed → files out → EXIT → exit
 *                     ↑                                ↓
 *                     └── TURN ← files out ← FINISH ───┘     (an interpreter that is kept: Node has seen its done line)
 *
 * FINISH for one that is not kept: it has flushed everything, said how it ends, and only takes itself apart, which can
 * take longer than its program did. The run is over then, and it goes with the sandbox.
 *
 * Nothing of ours can be traced or read (not dumpable), signalled (process 1) or inherited by a program. All waiting is one
 * poll; writing to Node may block, and then the program waits too. Node says that a job was the last by half of an end of
 * its channel; the whole of it means that Node is gone, and the sandbox with it.
 */
#include "init.h"
#include "tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct init self = {
    .intake = {.file = -1},
    .channels = {-1, -1, -1, -1, -1, -1, -1, -1},
    .out = {.fd = -1},
    .err = {.fd = -1},
    .line = {.fd = -1},
};

_Noreturn void leave(int code) {
  if (self.host) kill_below(1000);
  _exit(code);
}

void to_node(uint8_t type, const void *bytes, size_t length) {
  if (!write_frame(self.to_node, type, bytes, length)) leave(1);
}

void fault(int failure, const char *what) {
  static struct payload payload;
  start_payload(&payload);
  put_u32(&payload, (uint32_t)failure);
  put_text(&payload, what);
  to_node(RUN_FAULT, payload.bytes, payload.length);
}

static void take_stdin(struct frame *frame) {
  if (self.refused || self.channels.in < 0) return;
  if (frame->length > 0) {
    feed(&self.in_feed, frame);
    give(&self.in_feed, &self.channels.in, true);
  } else {
    close(self.channels.in);
    self.channels.in = -1;
  }
}

static void take_line(struct frame *frame) {
  if (self.refused || self.channels.line < 0) return;
  feed(&self.line_feed, frame);
  give(&self.line_feed, &self.channels.line, false);
}

static void heed_node(void) {
  struct frame frame;
  if (!read_frame(self.from_node, &frame)) {
    self.heard_all = true;
    if (!self.running) leave(0);
    return;
  }
  struct cursor from = cursor_of(&frame);
  if (frame.type == JOB_START) start_ahead(&frame);
  else if (frame.type == JOB_FILE) take_file(&from);
  else if (frame.type == JOB_BYTES) take_bytes(&frame);
  else if (frame.type == JOB_GO) go(&frame);
  else if (frame.type == JOB_LINE) take_line(&frame);
  else if (frame.type == JOB_STDIN) take_stdin(&frame);
  else if (frame.type == JOB_RELAY) start_relay(&frame);
  else if (frame.type == JOB_FINISH) finish_turn(&frame);
  else fault(EINVAL, "frame");
  free(frame.bytes);
}

static void heed_signals(void) {
  struct signalfd_siginfo info;
  while (read(self.signals, &info, sizeof info) > 0) {
    if (info.ssi_signo == SIGTERM) leave(0);
  }
  reap(self.main, &self.status, &self.ended);
  if (!self.ended) return;
  bool more = self.running && self.step + 1 < self.steps_count;
  if (!more || !WIFEXITED(self.status) || WEXITSTATUS(self.status) != 0) finish();
  self.ended = false;
  self.step++;
  start_step();
}

static _Noreturn void serve(void) {
  enum { NODE, SIGNALS, OUT, ERR, LINE, IN };
  for (;;) {
    bool feeding = self.in_feed.bytes != NULL || self.line_feed.bytes != NULL;
    bool lines = self.running && self.line.fd >= 0;
    struct pollfd at[] = {
        [NODE] = {self.from_node, feeding || self.heard_all ? 0 : POLLIN, 0},
        [SIGNALS] = {self.signals, POLLIN, 0},
        [OUT] = {self.running ? self.out.fd : -1, POLLIN, 0},
        [ERR] = {self.running ? self.err.fd : -1, POLLIN, 0},
        [LINE] = {lines || self.line_feed.bytes != NULL ? self.channels.line : -1,
                  (short)((lines ? POLLIN : 0) | (self.line_feed.bytes != NULL ? POLLOUT : 0)), 0},
        [IN] = {self.in_feed.bytes != NULL ? self.channels.in : -1, POLLOUT, 0},
    };
    if (poll(at, sizeof at / sizeof *at, watching() ? LOOK_MS : self.running && !self.host ? LOCKS_MS : -1) < 0 && errno != EINTR) leave(1);
    if ((at[NODE].revents & (POLLHUP | POLLERR)) != 0) leave(0);
    if (at[OUT].revents != 0) pass_on(&self.out, CHUNK);
    if (at[ERR].revents != 0) pass_on(&self.err, CHUNK);
    if (lines && (at[LINE].revents & ~POLLOUT) != 0) pass_on_lines();
    if (self.line_feed.bytes != NULL && (at[LINE].revents & ~POLLIN) != 0) {
      give(&self.line_feed, &self.channels.line, false);
    }
    if (at[IN].revents != 0) give(&self.in_feed, &self.channels.in, true);
    if (watching()) look_at_tasks();
    if (self.running && !self.host) look_at_locks();
    if (self.hit != HIT_NOTHING) finish();
    if (at[SIGNALS].revents != 0) heed_signals();
    if (at[NODE].revents != 0) heed_node();
  }
}

/* Everything as a program expects it at its start, but that writing to a closed pipe or over a limit is an error here. */
static void take_signals(void) {
  sigset_t set;
  for (int number = 1; number < 65; number++) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  /* On the host our end does not end what we started, so the supervisor's end must not come as a kill. */
  if (self.host) sigaddset(&set, SIGTERM);
  sigprocmask(SIG_SETMASK, &set, NULL);
  if (self.host) prctl(PR_SET_PDEATHSIG, SIGTERM);
  self.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Above every descriptor that a program is given. */
#define FIRST_OWN 16

/*
 * In a container the channel is its stdin and stdout, moved away so that no program finds them at 0 and 1; Node keeps its end
 * of stdin open until the run has ended, so the end of stdin means that Node or the engine's connection to it is gone.
 */
static bool take_stdio(void) {
  self.from_node = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, FIRST_OWN);
  self.to_node = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, FIRST_OWN);
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (self.from_node < 0 || self.to_node < 0 || nothing < 0) return false;
  return dup2(nothing, STDIN_FILENO) == STDIN_FILENO;
}

/* What bubblewrap makes where there is one: a tmpfs that the engine mounts is empty. */
static bool make_folders(void) {
  static const char *const names[] = {".gantry", ".gantry/tmp", ".gantry/code", ".gantry/shm"};
  for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
    if (mkdirat(self.workspace, names[index], 0700) != 0 && errno != EEXIST) return false;
  }
  return true;
}

/* The longest filter that the kernel takes. */
#define MOST_INSTRUCTIONS 4096

/* What bubblewrap does where there is one: no process of the sandbox is without the filter, the init included. */
static bool apply_filter(const char *path) {
  static struct sock_filter instructions[MOST_INSTRUCTIONS + 1];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t length = read(fd, instructions, sizeof instructions);
  close(fd);
  size_t count = length > 0 ? (size_t)length / sizeof *instructions : 0;
  if (count == 0 || count > MOST_INSTRUCTIONS || (size_t)length != count * sizeof *instructions) {
    errno = EINVAL;
    return false;
  }
  struct sock_fprog program = {(unsigned short)count, instructions};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int run_init(enum init_mode mode, const char *workspace, const char *filter) {
  bool host = mode == INIT_HOST;
  self.host = host;
  prctl(PR_SET_DUMPABLE, 0);
  if (host) prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (mode == INIT_STDIO) {
    syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
    if (!take_stdio() || !apply_filter(filter)) {
      dprintf(STDERR_FILENO, "%s: %s\n", filter, strerror(errno));
      return 1;
    }
  } else {
    syscall(SYS_close_range, INIT_CHANNEL + 1, ~0u, 0);
    fcntl(INIT_CHANNEL, F_SETFD, FD_CLOEXEC);
    self.from_node = self.to_node = INIT_CHANNEL;
  }
  umask(022);
  take_signals();
  self.workspace = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (self.workspace < 0 || self.signals < 0 || (mode == INIT_STDIO && !make_folders())) {
    dprintf(STDERR_FILENO, "%s: %s\n", workspace, strerror(errno));
    return 1;
  }
  /* From here on the stream on which bubblewrap complains is out of reach for every process inside; 0 is /dev/null. */
  dup2(STDIN_FILENO, STDOUT_FILENO);
  dup2(STDIN_FILENO, STDERR_FILENO);
  to_node(RUN_READY, LAUNCHER_VERSION, sizeof LAUNCHER_VERSION - 1);
  serve();
}
