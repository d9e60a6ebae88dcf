/* What the kernel counts by uid and no limit of a process bounds: registrations with epoll. */
#ifndef GANTRY_QUOTA_H
#define GANTRY_QUOTA_H

#include "sandbox.h"

/* Makes every later registration with epoll, of this process and its children, wait for an answer; -1 with errno when the
 * kernel cannot. Gives the descriptor on which the questions come. Needs no-new-privs. */
int ask_for_watches(void);

/* Answers the registrations that wait: those within `left`, which counts down, go on, others fail with ENOSPC. False when
 * no process is left that could ask. */
bool answer_watches(int listener, uint64_t *left);

/* Passes a descriptor over a socket of packets, and takes what comes there: a descriptor, or text of at most `size`. */
bool send_descriptor(int socket, int descriptor);
ssize_t receive_text(int socket, char *text, size_t size, int *descriptor);

#endif
