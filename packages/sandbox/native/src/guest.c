/*
 * The first process of a virtual machine. The init of the sandbox runs below it, unprivileged and in namespaces of its own,
 * as it does in a container; this process keeps what the init must not have: the clock, the kernel's random numbers, the
 * control group and the channel.
 *
 *   booted → channel open → RENEW → sandbox started → [ frames pass ⇄ restored: RENEW ] → channel or init ended → power off
 *
 * Two processes, so that neither direction waits for the other. Towards the init every frame is looked at, because some are
 * for the guest; towards the host the figures go ahead of the frame that ends a run. An escaped program may write any frame:
 * the host believes none of them.
 */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* No seed is longer. */
#define LONGEST_SEED 256

static int channel = -1;
/* What the process towards the host sends in addition to what the init says: whole frames. */
static int replies[2] = {-1, -1};

static _Noreturn void power_off(void) {
  sync();
  reboot(RB_AUTOBOOT);
  for (;;) pause();
}

_Noreturn void give_up(const char *what) {
  static struct payload payload;
  char message[512];
  snprintf(message, sizeof message, "%s: %s", what, strerror(errno));
  start_payload(&payload);
  put_text(&payload, message);
  if (channel >= 0) send_payload(channel, GUEST_FAULT, &payload);
  dprintf(STDERR_FILENO, "guest: %s\n", message);
  if (getpid() == 1) power_off();
  _exit(1);
}

static void reply(int to, uint8_t type) {
  static struct payload payload;
  struct utsname kernel;
  start_payload(&payload);
  uname(&kernel);
  put_text(&payload, kernel.release);
  if (!send_payload(to, type, &payload)) give_up("reply");
}

/* Does what a RENEW asks for. */
static void take_renewal(const struct frame *frame) {
  struct cursor from = cursor_of(frame);
  unsigned char seed[LONGEST_SEED];
  uint32_t length = take_u32(&from);
  if (length > sizeof seed) length = 0;
  for (uint32_t index = 0; index < length; index++) seed[index] = take_u8(&from);
  uint64_t seconds = take_u64(&from), nanoseconds = take_u64(&from);
  uint64_t memory = take_u64(&from), pids = take_u64(&from), disk = take_u64(&from);
  if (from.bad || length == 0) {
    errno = EINVAL;
    give_up("renewal");
  }
  if (!renew(seed, length, seconds, nanoseconds)) give_up("random numbers and clock");
  if (!set_limits(memory, pids, disk)) give_up("limits");
}

/* Towards the init, as long as the host is there. */
static void pass_in(int init) {
  struct frame frame;
  while (read_frame(channel, &frame)) {
    if (frame.type == GUEST_RENEW) {
      take_renewal(&frame);
      reply(replies[1], GUEST_RENEWED);
    } else if (frame.type == GUEST_QUIET) {
      await_quiet();
      reply(replies[1], GUEST_IS_QUIET);
    } else if (!write_frame(init, frame.type, frame.bytes, frame.length)) {
      /* The init is about to end, or has; what it said last is on its way. */
      free(frame.bytes);
      for (;;) pause();
    }
    free(frame.bytes);
  }
}

static bool send_figures(void) {
  static struct payload figures;
  start_payload(&figures);
  put_guest_figures(&figures);
  return send_payload(channel, GUEST_FIGURES, &figures);
}

static bool pass_one(int from) {
  struct frame frame;
  if (!read_frame(from, &frame)) return false;
  if ((frame.type == RUN_EXIT || frame.type == RUN_TURN) && !send_figures()) return false;
  bool passed = write_frame(channel, frame.type, frame.bytes, frame.length);
  free(frame.bytes);
  return passed;
}

/* Towards the host, until the init has ended. The kernel says when the group is refused something: that ends a run at once. */
static _Noreturn void pass_out(int init) {
  enum { INIT, REPLIES, MEMORY, PIDS };
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int events[2] = {open_events("memory"), open_events("pids")};
  for (;;) {
    struct pollfd at[] = {{init, POLLIN, 0}, {replies[0], POLLIN, 0}, {events[0], POLLPRI, 0}, {events[1], POLLPRI, 0}};
    if (poll(at, 4, -1) < 0 && errno != EINTR) _exit(1);
    for (int index = MEMORY; index <= PIDS; index++) {
      if (at[index].revents != 0 && is_refused(events[index - MEMORY]) && !send_figures()) _exit(1);
    }
    if (at[REPLIES].revents != 0 && !pass_one(replies[0])) _exit(1);
    if (at[INIT].revents == 0 || pass_one(init)) continue;
    /* Killed for want of memory it says nothing itself. */
    send_figures();
    _exit(0);
  }
}

/* The process towards the host; its end is that of the init. */
static pid_t outward;

static void heed_children(int number) {
  (void)number;
  for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;) {
    if (pid == outward) power_off();
  }
}

static void hold_children(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(how, &set, NULL);
}

int guest(const char *filter) {
  struct frame first;
  int ends[2];
  bool vsock;
  if (getpid() != 1) {
    fputs("guest: only the first process of a virtual machine\n", stderr);
    return 2;
  }
  prctl(PR_SET_DUMPABLE, 0);
  signal(SIGPIPE, SIG_IGN);
  int opened = open_system(&vsock);
  channel = vsock ? accept_channel(opened) : opened;
  if (!vsock && !await_host(channel)) give_up("the host");
  if (!read_frame(channel, &first) || first.type != GUEST_RENEW) give_up("the first frame");
  take_renewal(&first);
  free(first.bytes);
  reply(channel, GUEST_RENEWED);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) give_up("socketpair");
  if (pipe2(replies, O_CLOEXEC) != 0) give_up("pipe");
  if (start_sandbox(ends[1], filter) < 0) give_up("the sandbox");
  close(ends[1]);
  struct sigaction heed = {.sa_handler = heed_children, .sa_flags = SA_NOCLDSTOP | SA_RESTART};
  sigaction(SIGCHLD, &heed, NULL);
  for (;;) {
    hold_children(SIG_BLOCK);
    outward = fork();
    if (outward < 0) give_up("fork");
    if (outward == 0) pass_out(ends[0]);
    hold_children(SIG_UNBLOCK);
    pass_in(ends[0]);
    if (!vsock) power_off();
    /* A restored machine has lost its connection, and the host makes a new one. */
    hold_children(SIG_BLOCK);
    kill(outward, SIGKILL);
    waitpid(outward, NULL, 0);
    close(channel);
    channel = accept_channel(opened);
  }
}
