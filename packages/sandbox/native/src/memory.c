/*
 * Memory that virtual machines start from: an anonymous file that one machine fills and that is sealed then, so that later
 * machines map it privately and none can change it for the others. Node opens it through /proc while this process lives.
 *
 *   made → the number of its descriptor and a newline → end of stdin → sealed → a newline → exit
 */
#include "sandbox.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int shared_memory(const char *bytes) {
  char text[16];
  int fd = memfd_create("gantry-machine", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, (off_t)strtoull(bytes, NULL, 10)) != 0) {
    perror("memory");
    return 1;
  }
  int length = snprintf(text, sizeof text, "%d\n", fd);
  if (write(STDOUT_FILENO, text, (size_t)length) != length) return 1;
  while (read(STDIN_FILENO, text, sizeof text) > 0) continue;
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    perror("seal");
    return 1;
  }
  return write(STDOUT_FILENO, "\n", 1) == 1 ? 0 : 1;
}
