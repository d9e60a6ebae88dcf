/* One job: from its frames to its end. init.c has the states. */
#include "init.h"
#include "tasks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long killed processes may take to be gone. */
#define DYING_MS 2000
/* Of what an interpreter says while it waits for its job, so much is kept; it says something only when it fails. */
#define WAITING_CAP 16384
/* A stream may run over its cap eightfold, and by this much in any case. */
#define LEAST_FLOOD (16u << 20)

static uint64_t flood_of(uint64_t cap) { return cap > LEAST_FLOOD / 8 ? cap * 8 : LEAST_FLOOD; }

static void open_streams(uint64_t out_cap, uint64_t err_cap, uint64_t line_cap) {
  self.out = (struct stream){self.channels.out, RUN_STDOUT, out_cap, flood_of(out_cap), 0};
  self.err = (struct stream){self.channels.err, RUN_STDERR, err_cap, flood_of(err_cap), 0};
  self.line = (struct stream){self.channels.line, RUN_MESSAGE, line_cap, line_cap, 0};
}

static void use_channels(void) {
  if (!open_channels(&self.channels)) {
    fault(errno, "channels");
    leave(1);
  }
  self.open = true;
}

static void check_started(void) {
  if (self.main >= 0) return;
  fault(errno, "fork");
  leave(1);
}

void start_ahead(struct frame *frame) {
  struct cursor from = cursor_of(frame);
  struct step step;
  self.kept = take_u8(&from) == 1;
  if (!take_step(&from, &step) || self.open) return fault(EINVAL, "start");
  use_channels();
  open_streams(WAITING_CAP, WAITING_CAP, WAITING_CAP);
  self.main = start_program(&step, !self.kept);
  check_started();
  close_program_ends(&self.channels);
  free(step.argv);
  free(step.env);
}

void start_step(void) {
  bool last = self.step + 1 == self.steps_count;
  self.main = start_program(&self.steps[self.step], last);
  check_started();
  if (last) close_program_ends(&self.channels);
}

/* Reads a job; the steps go on lying in its frame. */
static bool take_job(struct frame *frame) {
  struct cursor from = cursor_of(frame);
  self.job = frame->bytes;
  frame->bytes = NULL;
  self.steps_count = take_count(&from, 16);
  self.steps = calloc((size_t)self.steps_count + 1, sizeof *self.steps);
  if (self.steps == NULL) return false;
  for (uint32_t index = 0; index < self.steps_count; index++) {
    if (!take_step(&from, &self.steps[index])) return false;
  }
  uint64_t out_cap = take_u64(&from), err_cap = take_u64(&from), line_cap = take_u64(&from);
  self.collect_files = take_u32(&from);
  self.collect_bytes = take_u64(&from);
  self.watch.memory = take_u64(&from);
  self.watch.pids = take_u64(&from);
  self.watch.cpu_ms = take_u64(&from);
  if (from.bad || (self.steps_count > 0) == self.open) return false;
  if (!self.open) use_channels();
  open_streams(out_cap, err_cap, line_cap);
  return true;
}

static void drop_job(void) {
  for (uint32_t index = 0; self.steps != NULL && index < self.steps_count; index++) {
    free(self.steps[index].argv);
    free(self.steps[index].env);
  }
  free(self.steps);
  free(self.job);
  self.steps = NULL;
  self.job = NULL;
}

static uint64_t micros(struct timeval time) { return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec; }

static uint64_t cpu_ms_of(const struct task_sums *sums) {
  struct rusage ended;
  getrusage(RUSAGE_CHILDREN, &ended);
  return sums->cpu_ms + (micros(ended.ru_utime) + micros(ended.ru_stime)) / 1000;
}

void go(struct frame *frame) {
  int failure = finish_files();
  self.refused = failure != 0;
  if (self.refused) return fault(failure, self.intake.path);
  drop_job();
  if (self.running || !take_job(frame)) {
    fault(EINVAL, "job");
    leave(1);
  }
  if (self.watch.cpu_ms != 0) {
    struct task_sums sums = {0};
    self.watch.cpu_base_ms = sum_tasks(!self.host, &sums) ? cpu_ms_of(&sums) : 0;
  }
  self.watch.next = now_ms() + LOOK_MS;
  /* Most programs are over before the first look. */
  self.locks_next = now_ms() + LOCKS_MS / 2;
  self.hit = HIT_NOTHING;
  self.running = true;
  self.step = 0;
  if (self.steps_count > 0) start_step();
}

/* Listens before it lets the relay go, so that the first program finds the port open. */
void start_relay(struct frame *frame) {
  struct cursor from = cursor_of(frame);
  uint32_t port = take_u32(&from);
  const char *path = take_text(&from);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
  if (from.bad || listener < 0) return fault(from.bad ? EINVAL : errno, "relay");
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  /* What it accepts has it too: pieces go on as they come, and none waits for the one before to be acknowledged. */
  setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 128) != 0) {
    fault(errno, "relay");
    close(listener);
    return;
  }
  pid_t pid = fork();
  if (pid == 0) relay(listener, path);
  if (pid < 0) fault(errno, "fork");
  close(listener);
}

/* How it ended, what was counted and what is left; the same for the end of a turn. */
static void report(uint8_t type) {
  static struct payload payload;
  struct statvfs space = {0};
  struct rusage usage;
  bool signalled = type == RUN_EXIT && WIFSIGNALED(self.status);
  fstatvfs(self.workspace, &space);
  getrusage(RUSAGE_CHILDREN, &usage);
  start_payload(&payload);
  put_u8(&payload, signalled ? 1 : 0);
  put_u32(&payload, type == RUN_TURN ? 0 : (uint32_t)(signalled ? WTERMSIG(self.status) : WEXITSTATUS(self.status)));
  put_u32(&payload, self.step);
  put_u8(&payload, (uint8_t)self.hit);
  put_u64(&payload, self.out.total);
  put_u64(&payload, self.err.total);
  put_u64(&payload, (uint64_t)space.f_bavail * space.f_frsize);
  /* A file system that does not count files, as gVisor's, is never out of them. */
  put_u64(&payload, space.f_files == 0 ? 1 : space.f_favail);
  put_u64(&payload, micros(usage.ru_utime));
  put_u64(&payload, micros(usage.ru_stime));
  put_u64(&payload, (uint64_t)usage.ru_maxrss * 1024);
  to_node(type, payload.bytes, payload.length);
}

void finish_turn(struct frame *frame) {
  struct cursor from = cursor_of(frame);
  if (!self.running || self.steps_count > 0) return;
  if (!self.kept) {
    self.over = true;
    self.status = take_u8(&from) << 8;
    finish();
  }
  collect_files(self.collect_files, self.collect_bytes);
  self.running = false;
  report(RUN_TURN);
}

/* Kills whatever the program left running and waits until it is gone, so that the pipes hold all that will ever come. */
static void kill_others(void) {
  int status = self.status;
  uint64_t until = now_ms() + DYING_MS;
  struct pollfd source = {self.signals, POLLIN, 0};
  struct signalfd_siginfo info;
  if (self.host) return (void)kill_below(DYING_MS);
  /* The agent in a Proxmox container is a child of the init, so that the kernel never says that there is none. */
  while (!reap(self.main, &self.status, &self.ended) && !has_only_spared() && now_ms() < until) {
    end_tasks();
    poll(&source, 1, 10);
    while (read(self.signals, &info, sizeof info) > 0) continue;
  }
  if (self.over) self.status = status;
}

/* A process that ends with something unread resets its channel, and Node would lose our last words: Node hangs up first. */
static void hear_out(void) {
  struct frame frame;
  while (!self.heard_all && read_frame(self.from_node, &frame)) free(frame.bytes);
}

bool watching(void) { return self.running && (self.watch.memory | self.watch.pids | self.watch.cpu_ms) != 0; }

/*
 * A program that the kernel refuses one process more may end before the next look finds how many it has: they are
 * counted once more when it has ended, with itself.
 */
static void count_once_more(void) {
  struct task_sums sums;
  if (self.hit != HIT_NOTHING || !self.ended || self.over || !watching() || self.watch.pids == 0) return;
  if (sum_tasks(!self.host, &sums) && sums.tasks + 1 > self.watch.pids) self.hit = HIT_PIDS;
}

_Noreturn void finish(void) {
  count_once_more();
  enum hit hit = self.hit;
  if (hit != HIT_NOTHING) self.status = SIGKILL;
  /* One that is alone and over writes nothing more, and if it lied cannot; it need not be gone for that. */
  if (self.over && !self.host && only_task(self.main)) kill(self.main, SIGSTOP);
  else kill_others();
  if (hit == HIT_NOTHING) {
    pass_on_output();
    for (uint64_t before = ~self.line.total; before != self.line.total;) {
      before = self.line.total;
      pass_on_lines();
    }
  }
  collect_files(self.collect_files, self.collect_bytes);
  report(RUN_EXIT);
  hear_out();
  leave(0);
}

void look_at_tasks(void) {
  struct task_sums sums;
  struct statvfs space = {0};
  uint64_t now = now_ms();
  if (now < self.watch.next) return;
  self.watch.next = now + LOOK_MS;
  if (!sum_tasks(!self.host, &sums)) {
    fault(errno, "/proc");
    leave(1);
  }
  /* The workspace lies in memory, but for the host's. */
  if (!self.host && fstatvfs(self.workspace, &space) == 0) {
    sums.resident_bytes += (uint64_t)(space.f_blocks - space.f_bfree) * space.f_frsize;
  }
  if (self.watch.pids > 0 && sums.tasks > self.watch.pids) self.hit = HIT_PIDS;
  else if (self.watch.memory > 0 && sums.resident_bytes > self.watch.memory) self.hit = HIT_MEMORY;
  else if (self.watch.cpu_ms > 0 && cpu_ms_of(&sums) > self.watch.cpu_base_ms + self.watch.cpu_ms) self.hit = HIT_CPU;
}

#define MOST_LOCKS 4096

void look_at_locks(void) {
  char text[16384];
  unsigned lines = 0;
  ssize_t length;
  uint64_t now = now_ms();
  if (now < self.locks_next) return;
  self.locks_next = now + LOCKS_MS;
  int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  while (lines <= MOST_LOCKS && (length = read(fd, text, sizeof text)) > 0) {
    for (ssize_t index = 0; index < length; index++) lines += text[index] == '\n';
  }
  close(fd);
  if (lines > MOST_LOCKS) self.hit = HIT_MEMORY;
}
