/* Bytes between a program and Node: capped and counted on their way out, no faster than the program takes them on their way in. */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Passes on what is under the cap and counts all of it. */
static void pass(struct stream *stream, const unsigned char *bytes, size_t length) {
  uint64_t room = stream->total < stream->cap ? stream->cap - stream->total : 0;
  stream->total += length;
  if (room > 0) to_node(stream->frame, bytes, room < length ? (size_t)room : length);
  if (stream->total >= stream->flood) self.hit = stream->frame == RUN_STDERR ? HIT_STDERR : HIT_STDOUT;
}

/* Passes on what a stream holds now, until there is none, `most` is reached or the stream floods. */
void pass_on(struct stream *stream, size_t most) {
  static unsigned char bytes[CHUNK];
  while (stream->fd >= 0 && most > 0 && stream->total < stream->flood) {
    ssize_t got = read(stream->fd, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      /* The descriptor stays ours until the end: another program may yet be handed the other side. */
      stream->fd = -1;
      return;
    }
    pass(stream, bytes, (size_t)got);
    most -= (size_t)got < most ? (size_t)got : most;
  }
}

static size_t room_of(int fd) {
  int room = fd < 0 ? 0 : fcntl(fd, F_GETPIPE_SZ);
  return room > 0 ? (size_t)room : 0;
}

/* What a pipe can hold is the most that a program can have written into it before whatever it did next. */
void pass_on_output(void) {
  pass_on(&self.out, room_of(self.out.fd));
  pass_on(&self.err, room_of(self.err.fd));
}

/* Reads the program's own channel first and its output then, so that output stands before what was said after it. */
void pass_on_lines(void) {
  static unsigned char lines[CHUNK];
  ssize_t got = self.line.fd < 0 ? 0 : read(self.line.fd, lines, sizeof lines);
  bool ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  pass_on_output();
  if (got > 0) pass(&self.line, lines, (size_t)got);
  if (ended) self.line.fd = -1;
}

void feed(struct feed *feed, struct frame *frame) {
  feed->bytes = frame->bytes;
  feed->at = 0;
  feed->length = frame->length;
  frame->bytes = NULL;
}

/* A program that has closed its end gets no more; that is no error. */
void give(struct feed *feed, int *fd, bool closing) {
  while (feed->at < feed->length) {
    ssize_t put = write(*fd, feed->bytes + feed->at, feed->length - feed->at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return;
    if (put < 0) {
      if (closing) close(*fd);
      if (closing) *fd = -1;
      break;
    }
    feed->at += (size_t)put;
  }
  free(feed->bytes);
  *feed = (struct feed){0};
}
