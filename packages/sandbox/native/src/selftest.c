/*
 * Attacks the sandbox from the inside, at start: a runtime in which one of these works is refused.
 * Each attack prints its number in our list and whether it was refused; what counts is the effect.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox.h"

typedef int (*attack)(void);

/* Whether a file can be opened at all. */
static int opens(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC);
  if (fd < 0) return 0;
  close(fd);
  return 1;
}

/* 1: what only root may read on the host. The file of the sandbox's own, if it has one, holds no secret. */
static int reads_host_secrets(void) {
  return opens("/etc/shadow", O_RDONLY) || opens("/root", O_RDONLY | O_DIRECTORY) || opens("/home", O_RDONLY | O_DIRECTORY);
}

/* 2: a file outside the workspace. */
static int writes_outside(void) {
  return opens("/usr/gantry-was-here", O_WRONLY | O_CREAT) || opens("/etc/gantry-was-here", O_WRONLY | O_CREAT) ||
         opens("/gantry-was-here", O_WRONLY | O_CREAT) || opens("/dev/gantry-was-here", O_WRONLY | O_CREAT);
}

/* 14: settings of the kernel that run a program as root on the host. */
static int writes_kernel_settings(void) {
  return opens("/proc/sys/kernel/core_pattern", O_WRONLY) || opens("/proc/sysrq-trigger", O_WRONLY) ||
         opens("/proc/sys/kernel/modprobe", O_WRONLY) || opens("/sys/kernel/uevent_helper", O_WRONLY);
}

/* 17: descriptors that were left open; 0 to 3 are the program's own. */
static int inherits_descriptors(void) {
  for (int fd = 4; fd < 1024; fd++) {
    if (fcntl(fd, F_GETFD) >= 0) return 1;
  }
  return 0;
}

/* 19: control groups that a program could give itself more room in; gVisor has the folder, and nothing in it. */
static int sees_control_groups(void) {
  DIR *folder = opendir("/sys/fs/cgroup");
  int entries = 0;
  if (folder == NULL) return 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) entries += entry->d_name[0] != '.';
  closedir(folder);
  return entries > 0;
}

/* 23: the first process of the sandbox, which could be left stopped. */
static int traces_init(void) { return ptrace(PTRACE_SEIZE, 1, 0, 0) == 0; }

/* 24: a user namespace of its own, in which a program would be root. */
static int makes_namespaces(void) { return unshare(CLONE_NEWUSER) == 0; }

/* 26: set-user-ID programs, which give rights to the process that runs them. */
static int may_gain_rights(void) { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1; }

#if defined(__x86_64__)
/* 32: the 32-bit system calls, past a filter that knows 64-bit numbers only. 20 is getpid there. */
static int uses_32_bit_calls(void) {
  long answer;
  __asm__ volatile("int $0x80" : "=a"(answer) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
  return answer > 0;
}

/* 33: the x32 system calls. 39 is getpid. */
static int uses_x32_calls(void) { return syscall(0x40000000 + 39) > 0; }
#endif

/* 35: rings, whose work no filter sees; refused with EPERM, because libuv asks for them at start. */
static int uses_rings(void) { return syscall(425, 1, NULL) >= 0 || errno != EPERM; }

/* 37: keys, of which the host's session may hold secrets. */
static int reads_keys(void) {
#ifdef SYS_keyctl
  return syscall(SYS_keyctl, 0, -3, 0, 0, 0) >= 0 || syscall(SYS_add_key, "user", "gantry", "x", 1, -3) >= 0;
#else
  return 0;
#endif
}

static int connects(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  int reached = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  close(fd);
  return reached;
}

/* 47: services of the host that listen on a path. */
static int reaches_host_sockets(void) {
  return connects("/run/docker.sock") || connects("/var/run/docker.sock") || connects("/run/containerd/containerd.sock") ||
         connects("/run/dbus/system_bus_socket") || connects("/var/run/postgresql/.s.PGSQL.5432");
}

static int makes_socket(int family) {
  int fd = socket(family, SOCK_DGRAM, 0);
  if (fd < 0) return 0;
  close(fd);
  return 1;
}

/* 49: any network interface but the sandbox's own loopback, unless no socket can be made that would reach it, as in a pod. */
static int has_network(void) {
  if (!makes_socket(AF_INET) && !makes_socket(AF_INET6) && !makes_socket(AF_PACKET)) return 0;
  FILE *file = fopen("/proc/net/dev", "re");
  if (file == NULL) return 0;
  char line[512];
  int others = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strchr(line, ':') != NULL && strstr(line, "lo:") == NULL) others = 1;
  }
  fclose(file);
  return others;
}

static const struct {
  int number;
  attack succeeds;
} attacks[] = {
    {1, reads_host_secrets},      {2, writes_outside},        {14, writes_kernel_settings}, {17, inherits_descriptors},
    {19, sees_control_groups},    {23, traces_init},          {24, makes_namespaces},       {26, may_gain_rights},
#if defined(__x86_64__)
    {32, uses_32_bit_calls},      {33, uses_x32_calls},
#endif
    {35, uses_rings},             {37, reads_keys},           {47, reaches_host_sockets},   {49, has_network},
};

/* Each in a process of its own: being killed is one way to be refused. */
static int succeeded(attack succeeds) {
  pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) _exit(succeeds() ? 1 : 0);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

int selftest(void) {
  int any = 0;
  for (size_t index = 0; index < sizeof attacks / sizeof attacks[0]; index++) {
    int open = succeeded(attacks[index].succeeds);
    printf("%d %s\n", attacks[index].number, open ? "open" : "refused");
    any |= open;
  }
  return any;
}
