/* What the files of a virtual machine's guest share. */
#ifndef GANTRY_GUEST_H
#define GANTRY_GUEST_H

#include "wire.h"

/* Frames between the host and the guest itself; those of the init have smaller numbers. */
enum {
  GUEST_RENEW = 200,   /* host: seed, clock and limits; before anything else, and again after each restore */
  GUEST_RENEWED = 201, /* guest: done, and the kernel's release */
  GUEST_QUIET = 202,   /* host: say when nothing in the sandbox works any more */
  GUEST_IS_QUIET = 203,
  GUEST_FIGURES = 204, /* guest: what the sandbox used and which limits it hit; before the end of a run, and at each hit */
  GUEST_FAULT = 205    /* guest: why it gives up */
};

/* Where the guest keeps what the sandbox must not reach. */
#define SYSTEM_FOLDER "/system"
#define WORK_FOLDER "/work"
#define GROUPS_FOLDER "/groups"
#define SANDBOX_GROUP GROUPS_FOLDER "/sandbox"

/* Tells the host over the channel why, and ends the machine. */
_Noreturn void give_up(const char *what);

/* guest-system.c */
/* Mounts the kernel's file systems, loads the modules that the image lists, and opens the channel; gives up when it cannot. */
int open_system(bool *vsock);
/* Waits until the host has opened its end of the channel and sent something. */
bool await_host(int channel);
/* Waits for a client of the host's socket, where the channel is one. */
int accept_channel(int listener);
/* The sandbox's control group; from here on it has the limits. */
bool set_limits(uint64_t memory_bytes, uint64_t pids, uint64_t disk_bytes);
/* Gives the kernel's random numbers and its clock a new start. */
bool renew(const void *seed, size_t length, uint64_t seconds, uint64_t nanoseconds);
/* Waits until the processes of the sandbox use no processor. */
void await_quiet(void);
void put_guest_figures(struct payload *to);
/* The events of one of the group's controllers, to be polled for POLLPRI. */
int open_events(const char *controller);
/* Whether the group was refused something; to be asked after each event. */
bool is_refused(int events);
/* Starts the init in namespaces of its own; its channel is `fd`. */
pid_t start_sandbox(int fd, const char *filter);

#endif
