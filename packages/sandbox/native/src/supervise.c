/*
 * The life outside. Reads a plan, starts the sandbox, watches it and clears everything away, also when Node dies: the end
 * of its channel is noticed here. It is idle until the order to begin a run, so that a waiting sandbox costs no time.
 *
 *   plan → groups made → child started → [ idle ⇄ running ] → everything killed → all removed → END, GONE → exit
 *
 * What leads out of the brackets: the child ended; the time of the run is over; a watched figure has come too far; Node said
 * so; Node is gone; we were asked to terminate.
 */
#include "plan.h"
#include "quota.h"
#include "tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often the watched figures are read during a run. */
#define TICK_MS 25
/* How long killed processes may take to be gone. */
#define DYING_MS 5000

/* In the order of EndReason in frames.ts. */
enum reason { EXITED, WALL, WATCH, KILLED, OWNER_GONE, START_FAILED };

struct state {
  struct plan plan;
  size_t groups_made;
  pid_t child;
  int signals;
  int status; /* of the child, when it has ended */
  bool ended;
  bool running;
  bool ran;
  uint64_t deadline;
  uint64_t next_look;
  enum reason reason;
  const char *limit;
  char message[1024];
  int watches; /* where registrations with epoll ask; -1 without any */
  int words; /* what bubblewrap writes to its stderr; -1 when it has ended */
  char said[2048]; /* the end of that */
  size_t said_length;
};

static struct payload payload, last;

static int take_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  signal(SIGPIPE, SIG_IGN);
  sigprocmask(SIG_BLOCK, &set, NULL);
  return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/*
 * Forks a child into a group of v2, which costs nothing; to move it there afterwards would wait for every processor. Where
 * that cannot be, it is an ordinary fork, and the child joins by itself.
 */
static pid_t fork_into(const char **group) {
  struct clone_args args = {.exit_signal = SIGCHLD, .flags = CLONE_INTO_CGROUP};
  int folder = *group == NULL ? -1 : open(*group, O_PATH | O_DIRECTORY | O_CLOEXEC);
  pid_t pid = -1;
  if (folder >= 0) {
    args.cgroup = (uint64_t)folder;
    pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid != 0) close(folder);
  }
  if (pid >= 0) return pid;
  *group = NULL;
  return fork();
}

static bool failed(struct state *state, const char *what) {
  snprintf(state->message, sizeof state->message, "%s: %s", what, strerror(errno));
  return false;
}

/* Starts the child, and waits until it has executed or said why it could not. */
static bool start_child(struct state *state) {
  int errors[2], words[2];
  ssize_t length;
  if (!make_groups(&state->plan, &state->groups_made, state->message, sizeof state->message)) return false;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, errors) != 0) return failed(state, "socketpair");
  if (pipe2(words, O_CLOEXEC | O_NONBLOCK) != 0) return failed(state, "pipe");
  const char *group = group_to_fork_into(&state->plan);
  state->child = fork_into(&group);
  if (state->child == 0) {
    dup2(words[1], STDERR_FILENO);
    enter(&state->plan, group, errors[1]);
  }
  close(errors[1]);
  close(words[1]);
  state->words = words[0];
  if (state->child < 0) return failed(state, "fork");
  length = receive_text(errors[0], state->message, sizeof state->message - 1, &state->watches);
  close(errors[0]);
  if (length <= 0) return true;
  state->message[length] = 0;
  return false;
}

static bool leave(struct state *state, enum reason reason) {
  state->reason = reason;
  return false;
}

/* Keeps the end of what bubblewrap says, which it does when it cannot start. */
static void listen_to_words(struct state *state) {
  char more[1024];
  for (int reads = 0; reads < 16; reads++) {
    ssize_t got = state->words < 0 ? -1 : read(state->words, more, sizeof more);
    if (got < 0 && state->words >= 0 && errno == EINTR) continue;
    if (got < 0) return;
    if (got == 0) {
      close(state->words);
      state->words = -1;
      return;
    }
    size_t room = sizeof state->said - 1, kept = state->said_length;
    if (kept + (size_t)got > room) {
      kept = room - (size_t)got;
      memmove(state->said, state->said + state->said_length - kept, kept);
    }
    memcpy(state->said + kept, more, (size_t)got);
    state->said_length = kept + (size_t)got;
  }
}

static void begin(struct state *state, uint64_t wall_ms) {
  /* What the first run finds used is its own: an interpreter that was started ahead for it. */
  if (state->ran) rebase_watches(&state->plan);
  state->running = state->ran = true;
  state->deadline = now_ms() + wall_ms;
  state->next_look = now_ms() + TICK_MS;
}

static void tell_figures(struct state *state) {
  start_payload(&payload);
  put_figures(&payload, &state->plan);
  put_hits(&payload, &state->plan);
  send_payload(SUPERVISOR_CHANNEL, FROM_FIGURES, &payload);
}

/* Does what Node says; false when the sandbox has to end. */
static bool obey(struct state *state) {
  struct frame frame;
  if (!read_frame(SUPERVISOR_CHANNEL, &frame)) return leave(state, OWNER_GONE);
  struct cursor from = cursor_of(&frame);
  bool going = true;
  if (frame.type == TO_BEGIN) begin(state, take_u64(&from));
  else if (frame.type == TO_LOOK) tell_figures(state);
  else if (frame.type == TO_MEASURE) {
    /* The end of a run: its clock stands. */
    state->running = false;
    tell_figures(state);
  } else going = leave(state, KILLED);
  free(frame.bytes);
  return going;
}

static bool heed_signals(struct state *state) {
  struct signalfd_siginfo info;
  bool asked = false;
  while (read(state->signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGCHLD) asked = true;
  }
  reap(state->child, &state->status, &state->ended);
  if (state->ended) return leave(state, EXITED);
  return asked ? leave(state, KILLED) : true;
}

/* Looks at the clock and the figures of a run; false when one of them has come to its end. */
static bool look(struct state *state) {
  uint64_t now = now_ms();
  if (now >= state->next_look) {
    struct figure *watch = watch_hit(&state->plan);
    if (watch != NULL) {
      state->limit = watch->name;
      return leave(state, WATCH);
    }
    state->next_look = now + TICK_MS;
  }
  return now < state->deadline ? true : leave(state, WALL);
}

static int time_left(const struct state *state) {
  if (!state->running) return -1;
  uint64_t now = now_ms(), next = state->deadline;
  if (state->plan.watches_count > 0 && state->next_look < next) next = state->next_look;
  if (next <= now) return 0;
  return next - now > 60000 ? 60000 : (int)(next - now);
}

static void watch_over(struct state *state) {
  for (;;) {
    struct pollfd sources[] = {
        {SUPERVISOR_CHANNEL, POLLIN, 0}, {state->signals, POLLIN, 0}, {state->words, POLLIN, 0}, {state->watches, POLLIN, 0}};
    if (poll(sources, 4, time_left(state)) < 0 && errno != EINTR) return (void)leave(state, KILLED);
    if (sources[3].revents != 0 && !answer_watches(state->watches, &state->plan.epoll_watches)) {
      close(state->watches);
      state->watches = -1;
    }
    if (sources[2].revents != 0) listen_to_words(state);
    if (sources[1].revents != 0 && !heed_signals(state)) return;
    if (sources[0].revents != 0 && !obey(state)) return;
    if (state->running && !look(state)) return;
  }
}

/*
 * Kills everything and waits until it is gone. All that descends from us comes to us when its parents die, so when there is
 * no child left there is no process left.
 */
static void kill_all(struct state *state) {
  uint64_t until = now_ms() + DYING_MS;
  struct pollfd source = {state->signals, POLLIN, 0};
  struct signalfd_siginfo info;
  while (!reap(state->child, &state->status, &state->ended) && now_ms() < until) {
    if (state->groups_made > 0) kill_groups(&state->plan);
    if (!state->ended) kill(state->child, SIGKILL);
    else kill_below(1);
    poll(&source, 1, 10);
    while (read(state->signals, &info, sizeof info) > 0) continue;
  }
}

static uint64_t micros(struct timeval time) { return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec; }

/* How it ended, as it is before anything is removed. */
static void sum_up(struct state *state) {
  struct rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  listen_to_words(state);
  state->said[state->said_length] = 0;
  start_payload(&last);
  put_u8(&last, (uint8_t)state->reason);
  put_text(&last, state->limit == NULL ? "" : state->limit);
  put_text(&last, state->message);
  put_text(&last, state->said);
  put_u32(&last, (uint32_t)state->status);
  put_figures(&last, &state->plan);
  put_hits(&last, &state->plan);
  put_u64(&last, micros(usage.ru_utime));
  put_u64(&last, micros(usage.ru_stime));
  put_u64(&last, (uint64_t)usage.ru_maxrss * 1024);
}

/* Whether Node has died, be it after the end began. */
static bool orphaned(const struct state *state) {
  struct pollfd source = {SUPERVISOR_CHANNEL, 0, 0};
  return state->reason == OWNER_GONE || (poll(&source, 1, 0) > 0 && (source.revents & POLLHUP) != 0);
}

/* Removes groups and folders, and notes what would not go. */
static void clear_away(struct state *state) {
  static struct payload left;
  uint32_t count = remove_groups(&state->plan, state->groups_made, orphaned(state), &left);
  for (char **folder = state->plan.folders; *folder != NULL; folder++) {
    if (remove_tree(*folder)) continue;
    put_text(&left, *folder);
    count++;
  }
  /* The owner is gone, so a failed removal cannot be reported; the next janitor run removes the rest. */
  for (char **path = state->plan.orphans; state->reason == OWNER_GONE && *path != NULL; path++) remove_tree(*path);
  start_payload(&payload);
  put_u32(&payload, left.full ? 0 : count);
  put_bytes(&payload, left.bytes, left.full ? 0 : left.length);
}

/* A process that ends with something unread resets its channel, and Node would lose our last words: Node hangs up first. */
static void hear_out(void) {
  struct frame frame;
  while (read_frame(SUPERVISOR_CHANNEL, &frame)) free(frame.bytes);
}

int supervise(void) {
  static struct state state = {.words = -1, .watches = -1};
  struct frame frame;
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  fcntl(SUPERVISOR_CHANNEL, F_SETFD, FD_CLOEXEC);
  state.signals = take_signals();
  if (!read_frame(SUPERVISOR_CHANNEL, &frame)) return 1;
  if (frame.type != TO_PLAN || !parse_plan(&frame, &state.plan)) return 1;
  if (start_child(&state)) {
    close(INIT_CHANNEL);
    open_figures(&state.plan);
    watch_over(&state);
  } else {
    state.reason = START_FAILED;
  }
  kill_all(&state);
  sum_up(&state);
  /* Who waits for the end of a run that was cut short shall not wait for the rest; else both come at once. */
  bool awaited = state.reason != EXITED;
  if (awaited) send_payload(SUPERVISOR_CHANNEL, FROM_END, &last);
  clear_away(&state);
  if (!awaited) send_payload(SUPERVISOR_CHANNEL, FROM_END, &last);
  send_payload(SUPERVISOR_CHANNEL, FROM_GONE, &payload);
  hear_out();
  return 0;
}
