/*
 * Forwards connections on the sandbox's loopback to a Unix socket, behind which our proxy listens outside: the only way out.
 * One loop, a bounded number of connections; when one side stops sending, the other sees the end of the stream and may go on sending.
 */
#include "sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_CONNECTIONS 256
#define ROOM 16384

/* One direction: what was read from one side and not yet written to the other. */
struct way {
  unsigned char bytes[ROOM];
  size_t at, length;
  bool ended;  /* nothing more comes */
  bool closed; /* and the other side knows */
};

/* Side 0 is the program's, side 1 ours; way N carries what side N sends. */
struct connection {
  int side[2]; /* -1 when unused */
  struct way way[2];
};

static struct connection connections[MOST_CONNECTIONS];

static void drop(struct connection *connection) {
  close(connection->side[0]);
  close(connection->side[1]);
  connection->side[0] = connection->side[1] = -1;
}

static struct connection *unused(void) {
  for (int index = 0; index < MOST_CONNECTIONS; index++) {
    if (connections[index].side[0] < 0) return &connections[index];
  }
  return NULL;
}

static void accept_one(int listener, const struct sockaddr_un *address) {
  int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (client < 0) return;
  int upstream = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct connection *connection = unused();
  if (upstream < 0 || connection == NULL || connect(upstream, (const struct sockaddr *)address, sizeof *address) != 0) {
    if (upstream >= 0) close(upstream);
    close(client);
    return;
  }
  connection->side[0] = client;
  connection->side[1] = upstream;
  for (int side = 0; side < 2; side++) {
    connection->way[side].at = connection->way[side].length = 0;
    connection->way[side].ended = connection->way[side].closed = false;
  }
}

/* Moves what can be moved in one direction; false when the connection is broken. */
static bool move(struct connection *connection, int from, short readable) {
  struct way *way = &connection->way[from];
  int to = connection->side[1 - from];
  if (readable && !way->ended && way->length == 0) {
    ssize_t got = recv(connection->side[from], way->bytes, ROOM, 0);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (got == 0) way->ended = true;
    way->at = 0;
    way->length = got > 0 ? (size_t)got : 0;
  }
  while (way->length > 0) {
    ssize_t put = send(to, way->bytes + way->at, way->length, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno == EAGAIN;
    way->at += (size_t)put;
    way->length -= (size_t)put;
  }
  if (way->ended && !way->closed) {
    shutdown(to, SHUT_WR);
    way->closed = true;
  }
  return true;
}

/* What to wait for at a side: its bytes when there is room for them, room when there are bytes for it. */
static short events_of(const struct connection *connection, int side) {
  const struct way *out = &connection->way[side], *in = &connection->way[1 - side];
  return (short)((!out->ended && out->length == 0 ? POLLIN : 0) | (in->length > 0 ? POLLOUT : 0));
}

static bool serve_one(struct connection *connection, short first, short second) {
  if (((first | second) & (POLLERR | POLLNVAL)) != 0) return false;
  if (!move(connection, 0, first & (POLLIN | POLLHUP))) return false;
  if (!move(connection, 1, second & (POLLIN | POLLHUP))) return false;
  return !(connection->way[0].closed && connection->way[1].closed);
}

_Noreturn void relay(int listener, const char *socket_path) {
  static struct pollfd sources[1 + 2 * MOST_CONNECTIONS];
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();
  if (dup2(listener, 3) < 0) _exit(1);
  syscall(SYS_close_range, 4, ~0u, 0);
  listener = 3;
  if (strlen(socket_path) >= sizeof address.sun_path) _exit(1);
  strcpy(address.sun_path, socket_path);
  for (int index = 0; index < MOST_CONNECTIONS; index++) connections[index].side[0] = connections[index].side[1] = -1;
  for (;;) {
    sources[0] = (struct pollfd){unused() == NULL ? -1 : listener, POLLIN, 0};
    for (int index = 0; index < MOST_CONNECTIONS; index++) {
      struct connection *connection = &connections[index];
      for (int side = 0; side < 2; side++) {
        short events = connection->side[0] < 0 ? 0 : events_of(connection, side);
        sources[1 + 2 * index + side] = (struct pollfd){events == 0 ? -1 : connection->side[side], events, 0};
      }
    }
    if (poll(sources, 1 + 2 * MOST_CONNECTIONS, -1) < 0 && errno != EINTR) _exit(1);
    for (int index = 0; index < MOST_CONNECTIONS; index++) {
      short first = sources[1 + 2 * index].revents, second = sources[2 + 2 * index].revents;
      if (connections[index].side[0] < 0 || (first | second) == 0) continue;
      if (!serve_one(&connections[index], first, second)) drop(&connections[index]);
    }
    if (sources[0].revents != 0) accept_one(listener, &address);
  }
}
