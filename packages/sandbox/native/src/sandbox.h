/* What the files of the launcher share. One program, seven lives: supervise and memory (outside), init, bridge, relay and selftest (inside), guest (around an init in a virtual machine). */
#ifndef GANTRY_SANDBOX_H
#define GANTRY_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LAUNCHER_VERSION "1"

/* Descriptors that Node hands over, and the one on which bubblewrap reads its filter. */
enum { INIT_CHANNEL = 3, SUPERVISOR_CHANNEL = 4, SECCOMP_FD = 9 };

/* Bytes that one frame of output, of a file or of a message holds. */
#define CHUNK 65536

int supervise(void);
int selftest(void);
/* How the init was started: by bubblewrap with a socket as descriptor 3, by the supervisor on the host, or by a container engine. */
enum init_mode { INIT_SANDBOX, INIT_HOST, INIT_STDIO };
/* `filter` is the file of the system call filter, with INIT_STDIO. */
int run_init(enum init_mode mode, const char *workspace, const char *filter);
/* A container that a client reaches only by the streams of another process in it: the init, and that process. */
int init_by_pipes(const char *folder, const char *filter);
int bridge(const char *folder);
/* The first process of a virtual machine. */
int guest(const char *filter);
/* Memory for virtual machines to start from. */
int shared_memory(const char *bytes);
_Noreturn void relay(int listener, const char *socket_path);

/* Milliseconds of the monotonic clock. */
uint64_t now_ms(void);

/* Opens relative to a folder by a name that may be hostile: never through a link, never blocking, never inherited. */
int open_beneath(int folder, const char *name, int flags, mode_t mode);

/* Sets a limit, soft and hard, by the kernel's name in small letters; false with errno when there is none of that name. */
bool set_rlimit(const char *name, uint64_t value);

#endif
