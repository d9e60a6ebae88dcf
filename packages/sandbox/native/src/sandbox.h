/* What the files of the launcher share. One program, four lives: supervise (outside), init, relay and selftest (inside). */
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
int run_init(bool host, const char *workspace);
_Noreturn void relay(int listener, const char *socket_path);

/* Milliseconds of a clock that nobody sets. */
uint64_t now_ms(void);

/* Opens relative to a folder by a name that may be hostile: never through a link, never blocking, never inherited. */
int open_beneath(int folder, const char *name, int flags, mode_t mode);

/* Sets a limit, soft and hard, by the kernel's name in small letters; false with errno when there is none of that name. */
bool set_rlimit(const char *name, uint64_t value);

#endif
