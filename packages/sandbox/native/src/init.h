/* What the files of the life inside share. */
#ifndef GANTRY_INIT_H
#define GANTRY_INIT_H

#include "wire.h"

/* One program with everything it starts from. */
struct step {
  char **argv;
  char **env;
  const char *folder; /* "" for the workspace */
  struct {
    const char *name;
    uint64_t value;
  } rlimits[16];
  uint32_t rlimits_count;
};

/* Our ends of a program's channels, and the program's while there may be one to hand them to; -1 when closed. */
struct channels {
  int in, out, err, line;
  int program_in, program_out, program_err, program_line;
};

/* One stream out of a program. */
struct stream {
  int fd; /* -1 when it has ended */
  uint8_t frame;
  uint64_t cap;   /* passed on; what comes then is counted */
  uint64_t flood; /* ends the run */
  uint64_t total;
};

/* Bytes on their way into a program, at most one frame; no further frame is read before they are gone. */
struct feed {
  unsigned char *bytes; /* NULL when there are none */
  size_t at, length;
};

/* Files on their way in. An error is kept until the job begins: nothing may run on half of its files. */
struct intake {
  int file; /* that further bytes belong to; -1 for none */
  int error;
  char path[4096]; /* of the first that could not be written */
};

/* In the order of `initHits` in run-intake.ts. */
enum hit { HIT_NOTHING, HIT_STDOUT, HIT_STDERR, HIT_MEMORY, HIT_PIDS, HIT_CPU };

/* Everything the init knows; there is one. */
extern struct init {
  bool host; /* no namespace of our own: others run here too */
  int from_node, to_node; /* one socket, or the two pipes of a container's stdin and stdout */
  int workspace;
  int signals;
  bool heard_all; /* Node will send no more */
  struct intake intake;

  struct channels channels;
  bool open; /* the channels are */
  pid_t main;
  int status; /* of the main program, when it has ended */
  bool ended;
  bool kept; /* it is an interpreter for several turns */
  bool over; /* it has said that it ends, and how */

  bool running;
  bool refused; /* what follows belongs to a job that cannot be run */
  struct step *steps;
  uint32_t steps_count, step;
  unsigned char *job; /* the frame that the steps lie in */
  struct stream out, err, line;
  struct feed in_feed, line_feed;
  uint32_t collect_files;
  uint64_t collect_bytes;
  struct {
    uint64_t memory, pids, cpu_ms, cpu_base_ms, next;
  } watch;
  uint64_t locks_next;
  enum hit hit;
} self;

/* Ends the init and with it the sandbox. */
_Noreturn void leave(int code);
/* Writes to Node; when Node is gone, so are we. */
void to_node(uint8_t type, const void *bytes, size_t length);
/* Tells Node why something cannot be done. */
void fault(int failure, const char *what);

/* program.c */
bool take_step(struct cursor *from, struct step *step);
bool open_channels(struct channels *channels);
void close_program_ends(struct channels *channels);
/* Starts a program; it reads nothing unless it `reads`. -1 when the kernel gives no process. */
pid_t start_program(const struct step *step, bool reads);

/* streams.c */
void pass_on(struct stream *stream, size_t most);
void pass_on_output(void);
void pass_on_lines(void);
void feed(struct feed *feed, struct frame *frame);
/* Gives the program what it takes now; when it takes no more, `fd` is closed if `closing`. */
void give(struct feed *feed, int *fd, bool closing);

/* intake.c */
void take_file(struct cursor *from);
void take_bytes(const struct frame *frame);
/* Closes the last file; 0 when all were written whole. */
int finish_files(void);

/* job.c */
void start_ahead(struct frame *frame);
void go(struct frame *frame);
void start_step(void);
void start_relay(struct frame *frame);
void finish_turn(struct frame *frame);
_Noreturn void finish(void);
bool watching(void);
void look_at_tasks(void);

/* Locks on ranges of files are memory of the kernel that no group counts: more than any program needs end the run. */
void look_at_locks(void);

/* collect.c */
/* Brings files out of the workspace as RUN_FILE, RUN_BYTES and RUN_SKIPPED. */
void collect_files(uint32_t most_files, uint64_t most_bytes);

#endif
