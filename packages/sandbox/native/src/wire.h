/*
 * The two channels to Node. A frame is a type (1 byte), the length of its payload (4 bytes, big-endian) and the payload.
 * Numbers are big-endian; a text is its length (4 bytes), its bytes and a NUL, so that it can be used where it lies;
 * a list is its count (4 bytes) and its members. The other end is packages/sandbox/src/launcher/protocol.ts.
 */
#ifndef GANTRY_WIRE_H
#define GANTRY_WIRE_H

#include "sandbox.h"

/* No frame from Node is longer: the arguments and environment of a program, or a chunk. */
#define LONGEST_FRAME (1u << 20)

/* Node to supervisor. */
enum { TO_PLAN = 1, TO_BEGIN = 2, TO_MEASURE = 3, TO_KILL = 4, TO_LOOK = 5 };
/* Supervisor to Node. */
enum { FROM_FIGURES = 1, FROM_END = 2, FROM_GONE = 3 };

/* Node to init. */
enum { JOB_START = 1, JOB_FILE = 2, JOB_BYTES = 3, JOB_GO = 4, JOB_LINE = 5, JOB_STDIN = 6, JOB_RELAY = 7, JOB_FINISH = 8 };
/* Init to Node. */
enum {
  RUN_READY = 1,
  RUN_STDOUT = 2,
  RUN_STDERR = 3,
  RUN_MESSAGE = 4,
  RUN_FILE = 5,
  RUN_BYTES = 6,
  RUN_SKIPPED = 7,
  RUN_EXIT = 8,
  RUN_TURN = 9,
  RUN_FAULT = 10
};

struct frame {
  uint8_t type;
  uint32_t length;
  unsigned char *bytes; /* from malloc, a NUL behind them */
};

/* Reads one frame, waiting for it; false when the other end is gone or talks nonsense. The caller frees the bytes. */
bool read_frame(int fd, struct frame *frame);

/* Writes one frame, waiting for room; false when the other end is gone. */
bool write_frame(int fd, uint8_t type, const void *bytes, size_t length);

/* Takes values out of a payload. Once something does not fit, `bad` is set and everything further is 0 or empty. */
struct cursor {
  const unsigned char *at, *end;
  bool bad;
};

struct cursor cursor_of(const struct frame *frame);
uint8_t take_u8(struct cursor *from);
uint32_t take_u32(struct cursor *from);
uint64_t take_u64(struct cursor *from);
const char *take_text(struct cursor *from);
/* A list of texts as execve wants it, ended by NULL; from malloc. */
char **take_texts(struct cursor *from);
/* A count of members that each take at least `least` bytes, so that a lie cannot make us reserve memory for it. */
uint32_t take_count(struct cursor *from, size_t least);

/* Collects a payload of bounded size; what does not fit is left out and `full` is set. */
struct payload {
  unsigned char bytes[CHUNK];
  size_t length;
  bool full;
};

void start_payload(struct payload *to);
void put_u8(struct payload *to, uint8_t value);
void put_u32(struct payload *to, uint32_t value);
void put_u64(struct payload *to, uint64_t value);
void put_text(struct payload *to, const char *text);
void put_bytes(struct payload *to, const void *bytes, size_t length);
bool send_payload(int fd, uint8_t type, const struct payload *payload);

#endif
