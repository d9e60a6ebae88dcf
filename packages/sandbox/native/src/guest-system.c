/* What the guest of a virtual machine does with its kernel. */
#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <linux/random.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <grp.h>
#include <time.h>
#include <unistd.h>

/* Programs have one uid in every machine, because no other sandbox is in it. */
#define SANDBOX_UID 65532
/* The port of the host's socket, and the name of the port of a console device. */
#define VSOCK_PORT 1024
#define PORT_NAME "dev.gantry"
/* How long a device may take to appear. */
#define DEVICE_MS 10000
/* The init and the relay, which are counted with the programs. */
#define OWN_PROCESSES 2
/* A sandbox that used no processor over so many looks waits. */
#define QUIET_LOOKS 3
#define QUIET_LOOK_MS 20
#define QUIET_MS 20000

static bool write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t written = write(fd, text, strlen(text));
  close(fd);
  return written == (ssize_t)strlen(text);
}

static bool write_number(const char *path, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  return write_text(path, text);
}

/* Reads a small file of the kernel; an empty text when there is none. */
static void read_text(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
  if (fd >= 0) close(fd);
  text[length > 0 ? length : 0] = 0;
}

/* The number behind a key, or the first of the file without one. */
static uint64_t read_number(const char *path, const char *key) {
  char text[4096];
  read_text(path, text, sizeof text);
  size_t length = strlen(key);
  for (char *line = text; line != NULL && *line != 0; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, key, length) != 0 || (length > 0 && line[length] != ' ')) continue;
    return strtoull(line + length, NULL, 10);
  }
  return 0;
}

static void mount_kernel(const char *type, const char *at) {
  if (mkdir(at, 0755) != 0 && errno != EEXIST) give_up(at);
  if (mount(type, at, type, MS_NOSUID | MS_NOEXEC, NULL) != 0 && errno != EBUSY) give_up(at);
}

/* In the order of the image's list, in which each stands behind those that it needs. */
static void load_modules(void) {
  static char list[4096];
  read_text("/modules/list", list, sizeof list);
  for (char *rest = list, *name; (name = strsep(&rest, "\n")) != NULL;) {
    char path[256];
    if (*name == 0) continue;
    snprintf(path, sizeof path, "/modules/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) give_up(path);
    /* A module whose device this machine does not have is none that it needs. */
    if (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST && errno != ENODEV) give_up(path);
    close(fd);
  }
}

static void nap(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static int open_device(const char *path, int flags) {
  for (uint64_t until = now_ms() + DEVICE_MS; now_ms() < until; nap(1)) {
    int fd = open(path, flags | O_CLOEXEC);
    if (fd >= 0) return fd;
  }
  return -1;
}

/* The port that has our name, among those that there are now; -1 when there is none yet. */
static int find_port(void) {
  DIR *ports = opendir("/sys/class/virtio-ports");
  int found = -1;
  if (ports == NULL) return -1;
  for (struct dirent *entry; found < 0 && (entry = readdir(ports)) != NULL;) {
    char path[128], name[64];
    snprintf(path, sizeof path, "/sys/class/virtio-ports/%.64s/name", entry->d_name);
    read_text(path, name, sizeof name);
    if (strcmp(name, PORT_NAME "\n") != 0) continue;
    snprintf(path, sizeof path, "/dev/%.64s", entry->d_name);
    found = open(path, O_RDWR | O_CLOEXEC);
  }
  closedir(ports);
  return found;
}

static int open_port(void) {
  for (uint64_t until = now_ms() + DEVICE_MS; now_ms() < until; nap(1)) {
    int fd = find_port();
    if (fd >= 0) return fd;
  }
  return -1;
}

bool await_host(int channel) {
  for (uint64_t until = now_ms() + DEVICE_MS; now_ms() < until; nap(1)) {
    struct pollfd at = {channel, POLLIN, 0};
    /* A port whose host has not yet said that it is there can be read, and is at its end. */
    if (poll(&at, 1, 100) > 0 && (at.revents & POLLHUP) == 0) return true;
  }
  return false;
}

static int listen_to_host(void) {
  struct sockaddr_vm address = {.svm_family = AF_VSOCK, .svm_port = VSOCK_PORT, .svm_cid = VMADDR_CID_ANY};
  int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1) != 0) give_up("vsock");
  return fd;
}

int accept_channel(int listener) {
  for (;;) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) return fd;
    if (errno != EINTR && errno != ECONNABORTED) give_up("accept");
  }
}

int open_system(bool *vsock) {
  char command[4096];
  mount_kernel("proc", "/proc");
  mount_kernel("sysfs", "/sys");
  mkdir("/dev", 0755);
  if (mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, NULL) != 0 && errno != EBUSY) give_up("/dev");
  mount_kernel("cgroup2", GROUPS_FOLDER);
  load_modules();
  read_text("/proc/cmdline", command, sizeof command);
  *vsock = strstr(command, "gantry.channel=vsock") != NULL;
  int channel = *vsock ? listen_to_host() : open_port();
  if (channel < 0) give_up("the channel");
  return channel;
}

/* The system of the image, read-only, and the workspace, whose size follows each renewal. */
static void mount_system(void) {
  int disk = open_device("/dev/vda", O_RDONLY);
  if (disk < 0) give_up("/dev/vda");
  close(disk);
  mkdir(SYSTEM_FOLDER, 0755);
  mkdir(WORK_FOLDER, 0755);
  if (mount("/dev/vda", SYSTEM_FOLDER, "ext4", MS_RDONLY | MS_NOSUID | MS_NODEV, "noload") != 0) give_up("the system");
  if (mount("work", WORK_FOLDER, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,uid=65532,gid=65532,size=1m") != 0) give_up(WORK_FOLDER);
  if (!write_text(GROUPS_FOLDER "/cgroup.subtree_control", "+memory +pids +cpu")) give_up("control groups");
  if (mkdir(SANDBOX_GROUP, 0755) != 0 && errno != EEXIST) give_up(SANDBOX_GROUP);
}

bool set_limits(uint64_t memory_bytes, uint64_t pids, uint64_t disk_bytes) {
  static bool mounted;
  char size[64];
  if (!mounted) mount_system();
  mounted = true;
  snprintf(size, sizeof size, "size=%llu", (unsigned long long)disk_bytes);
  if (mount("work", WORK_FOLDER, "tmpfs", MS_REMOUNT | MS_NOSUID | MS_NODEV, size) != 0) return false;
  return write_number(SANDBOX_GROUP "/memory.max", memory_bytes) && write_number(SANDBOX_GROUP "/pids.max", pids + OWN_PROCESSES);
}

bool renew(const void *seed, size_t length, uint64_t seconds, uint64_t nanoseconds) {
  struct {
    int bits, bytes;
    unsigned char seed[256];
  } pool = {(int)length * 8, (int)length, {0}};
  struct timespec now = {(time_t)seconds, (long)nanoseconds};
  if (length > sizeof pool.seed) return false;
  memcpy(pool.seed, seed, length);
  int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  bool done = ioctl(fd, RNDADDENTROPY, &pool) == 0 && ioctl(fd, RNDRESEEDCRNG) == 0;
  close(fd);
  return done && clock_settime(CLOCK_REALTIME, &now) == 0;
}

void await_quiet(void) {
  uint64_t last = ~0ull;
  int looks = 0;
  for (uint64_t until = now_ms() + QUIET_MS; looks < QUIET_LOOKS && now_ms() < until; nap(QUIET_LOOK_MS)) {
    uint64_t used = read_number(SANDBOX_GROUP "/cpu.stat", "usage_usec");
    looks = used == last ? looks + 1 : 0;
    last = used;
  }
}

void put_guest_figures(struct payload *to) {
  put_u64(to, read_number(SANDBOX_GROUP "/cpu.stat", "usage_usec"));
  put_u64(to, read_number(SANDBOX_GROUP "/memory.peak", ""));
  put_u64(to, read_number(SANDBOX_GROUP "/memory.events", "oom_kill"));
  put_u64(to, read_number(SANDBOX_GROUP "/pids.events", "max"));
}

int open_events(const char *controller) {
  char path[128];
  snprintf(path, sizeof path, SANDBOX_GROUP "/%s.events", controller);
  return open(path, O_RDONLY | O_CLOEXEC);
}

bool is_refused(int events) {
  char text[1024];
  /* Reading from the start is what makes the kernel tell the next event. */
  ssize_t length = pread(events, text, sizeof text - 1, 0);
  text[length > 0 ? length : 0] = 0;
  const char *kill = strstr(text, "oom_kill ");
  if (kill != NULL) return strtoull(kill + strlen("oom_kill "), NULL, 10) > 0;
  return strncmp(text, "max ", 4) == 0 && strtoull(text + 4, NULL, 10) > 0;
}

static void make_device(const char *name, unsigned major_number, unsigned minor_number) {
  char path[64];
  snprintf(path, sizeof path, SYSTEM_FOLDER "/dev/%s", name);
  if (mknod(path, S_IFCHR | 0666, makedev(major_number, minor_number)) != 0 || chmod(path, 0666) != 0) give_up(path);
}

/* What a program finds in addition to the image's files; the same as in a container. */
static void mount_inside(void) {
  static const char *const covered[] = {"kcore", "keys", "key-users", "timer_list", "kallsyms", "config.gz", "modules", "cmdline"};
  if (mount("tmpfs", SYSTEM_FOLDER "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755,size=64k") != 0) give_up("/dev");
  make_device("null", 1, 3);
  make_device("zero", 1, 5);
  make_device("full", 1, 7);
  make_device("random", 1, 8);
  make_device("urandom", 1, 9);
  if (symlink("/proc/self/fd", SYSTEM_FOLDER "/dev/fd") != 0 || symlink("/proc/self/fd/0", SYSTEM_FOLDER "/dev/stdin") != 0 ||
      symlink("/proc/self/fd/1", SYSTEM_FOLDER "/dev/stdout") != 0 || symlink("/proc/self/fd/2", SYSTEM_FOLDER "/dev/stderr") != 0 ||
      symlink("/work/.gantry/shm", SYSTEM_FOLDER "/dev/shm") != 0)
    give_up("/dev");
  mount(NULL, SYSTEM_FOLDER "/dev", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL);
  if (mount(WORK_FOLDER, SYSTEM_FOLDER "/work", NULL, MS_BIND, NULL) != 0) give_up("/work");
  if (mount("proc", SYSTEM_FOLDER "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0) give_up("/proc");
  for (size_t index = 0; index < sizeof covered / sizeof *covered; index++) {
    char path[64];
    snprintf(path, sizeof path, SYSTEM_FOLDER "/proc/%s", covered[index]);
    if (mount(SYSTEM_FOLDER "/dev/null", path, NULL, MS_BIND, NULL) != 0 && errno != ENOENT) give_up(path);
  }
  /* Settings of the kernel can be read as in a container, and not written. */
  if (mount(SYSTEM_FOLDER "/proc/sys", SYSTEM_FOLDER "/proc/sys", NULL, MS_BIND | MS_REC, NULL) != 0 ||
      mount(NULL, SYSTEM_FOLDER "/proc/sys", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
    give_up("/proc/sys");
  if (mount("tmpfs", SYSTEM_FOLDER "/sys", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "mode=0755,size=4k") != 0) give_up("/sys");
  if (chdir(SYSTEM_FOLDER) != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 || chdir("/") != 0) give_up("root");
}

static void drop_rights(void) {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  if (setgroups(0, NULL) != 0 || setresgid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) != 0 || setresuid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) != 0)
    give_up("uid");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up("no-new-privs");
}

pid_t start_sandbox(int fd, const char *filter) {
  char *argv[] = {"/gantry/init", "init", "--stdio", (char *)(uintptr_t)filter, NULL}, *env[] = {NULL};
  unsigned long flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP | SIGCHLD;
  pid_t pid = (pid_t)syscall(SYS_clone, flags, 0, 0, 0, 0);
  if (pid != 0) return pid;
  signal(SIGPIPE, SIG_DFL);
  if (!write_text(SANDBOX_GROUP "/cgroup.procs", "0")) _exit(1);
  if (mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) != 0) _exit(1);
  if (sethostname("sandbox", 7) != 0) _exit(1);
  mount_inside();
  if (!set_rlimit("core", 1) || !set_rlimit("nofile", 1024) || !set_rlimit("memlock", 65536)) _exit(1);
  drop_rights();
  umask(022);
  if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0) _exit(1);
  int nothing = open("/dev/null", O_WRONLY);
  if (nothing < 0 || dup2(nothing, STDERR_FILENO) < 0) _exit(1);
  execve(argv[0], argv, env);
  _exit(1);
}
