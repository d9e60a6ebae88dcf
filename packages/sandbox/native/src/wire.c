/* Frames to and from Node; wire.h describes them. */
#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static bool read_all(int fd, unsigned char *to, size_t length) {
  while (length > 0) {
    ssize_t got = read(fd, to, length);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    length -= (size_t)got;
  }
  return true;
}

static uint32_t u32_of(const unsigned char *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

bool read_frame(int fd, struct frame *frame) {
  unsigned char head[5];
  frame->bytes = NULL;
  if (!read_all(fd, head, sizeof head)) return false;
  frame->type = head[0];
  frame->length = u32_of(head + 1);
  if (frame->length > LONGEST_FRAME) return false;
  frame->bytes = malloc((size_t)frame->length + 1);
  if (frame->bytes == NULL) return false;
  frame->bytes[frame->length] = 0;
  if (read_all(fd, frame->bytes, frame->length)) return true;
  free(frame->bytes);
  frame->bytes = NULL;
  return false;
}

bool write_frame(int fd, uint8_t type, const void *bytes, size_t length) {
  unsigned char head[5] = {type, (unsigned char)(length >> 24), (unsigned char)(length >> 16),
                           (unsigned char)(length >> 8), (unsigned char)length};
  size_t written = 0, total = sizeof head + length;
  while (written < total) {
    size_t of_head = written < sizeof head ? sizeof head - written : 0;
    size_t past = written < sizeof head ? 0 : written - sizeof head;
    struct iovec parts[2] = {{head + (sizeof head - of_head), of_head},
                             {(unsigned char *)(uintptr_t)bytes + past, length - past}};
    ssize_t put = writev(fd, parts, 2);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    written += (size_t)put;
  }
  return true;
}

struct cursor cursor_of(const struct frame *frame) {
  return (struct cursor){frame->bytes, frame->bytes + frame->length, false};
}

static const unsigned char *take(struct cursor *from, size_t length) {
  static const unsigned char nothing[8];
  if (from->bad || (size_t)(from->end - from->at) < length) {
    from->bad = true;
    return nothing;
  }
  const unsigned char *at = from->at;
  from->at += length;
  return at;
}

uint8_t take_u8(struct cursor *from) { return *take(from, 1); }

uint32_t take_u32(struct cursor *from) { return u32_of(take(from, 4)); }

uint64_t take_u64(struct cursor *from) {
  const unsigned char *at = take(from, 8);
  return (uint64_t)u32_of(at) << 32 | u32_of(at + 4);
}

const char *take_text(struct cursor *from) {
  uint32_t length = take_u32(from);
  if (from->bad || (size_t)(from->end - from->at) <= length || memchr(from->at, 0, length) || from->at[length] != 0) {
    from->bad = true;
    return "";
  }
  return (const char *)take(from, (size_t)length + 1);
}

uint32_t take_count(struct cursor *from, size_t least) {
  uint32_t count = take_u32(from);
  if (!from->bad && count <= (size_t)(from->end - from->at) / least) return count;
  from->bad = true;
  return 0;
}

char **take_texts(struct cursor *from) {
  uint32_t count = take_count(from, 5);
  char **texts = calloc((size_t)count + 1, sizeof *texts);
  if (texts == NULL) {
    from->bad = true;
    return NULL;
  }
  for (uint32_t index = 0; index < count; index++) texts[index] = (char *)(uintptr_t)take_text(from);
  return texts;
}

void put_bytes(struct payload *to, const void *bytes, size_t length) {
  if (to->full || sizeof to->bytes - to->length < length) {
    to->full = true;
    return;
  }
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
}

void start_payload(struct payload *to) {
  to->length = 0;
  to->full = false;
}

void put_u8(struct payload *to, uint8_t value) { put_bytes(to, &value, 1); }

void put_u32(struct payload *to, uint32_t value) {
  unsigned char bytes[4] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16), (unsigned char)(value >> 8),
                            (unsigned char)value};
  put_bytes(to, bytes, sizeof bytes);
}

void put_u64(struct payload *to, uint64_t value) {
  put_u32(to, (uint32_t)(value >> 32));
  put_u32(to, (uint32_t)value);
}

void put_text(struct payload *to, const char *text) {
  size_t length = strlen(text);
  if (to->full || sizeof to->bytes - to->length < length + 5) {
    to->full = true;
    return;
  }
  put_u32(to, (uint32_t)length);
  put_bytes(to, text, length + 1);
}

bool send_payload(int fd, uint8_t type, const struct payload *payload) {
  return write_frame(fd, type, payload->bytes, payload->length);
}
