/*
 * Registrations with epoll are counted by uid (fs.epoll.max_user_watches), and no limit of a process bounds them: one that
 * has a hundred descriptors can register each of them under every number in each of its epolls. Where a sandbox has no uid
 * of its own, every registration asks the supervisor, which counts. What was closed is not given back: the supervisor
 * could not look without a race, and a program that registers tens of thousands of descriptors is not usual.
 */
#include "quota.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* Since Linux 5.19: a signal that does not end the process leaves its question alone, so that none is counted twice. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* At a time, so that a flood of them does not keep the supervisor from its clock. */
#define MOST_ANSWERS 64
/* The rest after some were refused. */
#define REFUSED_MS 5

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

int ask_for_watches(void) {
  /* Calls by another convention are the other filter's, which kills for them. */
  struct sock_filter code[] = {
      LOAD(arch),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 0, 5),
      LOAD(nr),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_ctl, 0, 3),
      LOAD(args[1]),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EPOLL_CTL_ADD, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
  long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
  if (listener < 0) listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  return (int)listener;
}

bool answer_watches(int listener, uint64_t *left) {
  bool refused = false;
  for (int answers = 0; answers < MOST_ANSWERS; answers++) {
    struct pollfd source = {listener, POLLIN, 0};
    if (poll(&source, 1, 0) <= 0) break;
    if ((source.revents & POLLIN) == 0) return false;
    struct seccomp_notif asked;
    struct seccomp_notif_resp answer = {0};
    memset(&asked, 0, sizeof asked);
    /* Who asked may have been killed meanwhile. */
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) return errno == ENOENT || errno == EINTR;
    answer.id = asked.id;
    if (*left > 0) {
      --*left;
      /* The checked arguments are in registers, which no thread can change while the call waits. */
      answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    } else {
      answer.error = -ENOSPC;
      refused = true;
    }
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
  /* Without a pause a program that repeats a refused call would consume CPU time of ours, which no quota counts. */
  if (refused) poll(NULL, 0, REFUSED_MS);
  return true;
}

union control {
  char bytes[CMSG_SPACE(sizeof(int))];
  struct cmsghdr header;
};

bool send_descriptor(int socket, int descriptor) {
  union control control = {0};
  char nothing = 0;
  struct iovec part = {&nothing, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

ssize_t receive_text(int socket, char *text, size_t size, int *descriptor) {
  for (;;) {
    union control control = {0};
    struct iovec part = {text, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (length < 0 && errno == EINTR) continue;
    struct cmsghdr *header = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header == NULL || header->cmsg_type != SCM_RIGHTS) return length;
    memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
  }
}
