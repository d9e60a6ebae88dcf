/* Writes files into the workspace, folder by folder and never through a link: an earlier run may have put one there. */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens the folder of a path, making what is missing, and points `name` at the last part. */
static int open_parent(int workspace, char *path, char **name) {
  int folder = fcntl(workspace, F_DUPFD_CLOEXEC, 4);
  for (char *slash; folder >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
    *slash = 0;
    mkdirat(folder, path, 0755);
    int inner = openat(folder, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int failure = errno;
    close(folder);
    errno = failure;
    folder = inner;
    *slash = '/';
  }
  *name = path;
  return folder;
}

/* A fresh file under the name: what was there, be it a link or a pipe, is taken away and not opened. */
static int create(int workspace, char *path, mode_t mode) {
  char *name;
  int folder = open_parent(workspace, path, &name);
  if (folder < 0) return -1;
  int file = open_beneath(folder, name, O_WRONLY | O_CREAT | O_EXCL, mode);
  if (file < 0 && errno == EEXIST && unlinkat(folder, name, 0) == 0) {
    file = open_beneath(folder, name, O_WRONLY | O_CREAT | O_EXCL, mode);
  }
  int failure = errno;
  close(folder);
  errno = failure;
  return file;
}

static void close_file(void) {
  if (self.intake.file >= 0) close(self.intake.file);
  self.intake.file = -1;
}

/* Node checks paths; one that climbs out is refused here all the same. */
static bool is_inside(const char *path) {
  if (path[0] == 0 || strlen(path) >= sizeof self.intake.path) return false;
  for (const char *part = path;; part++) {
    size_t length = strcspn(part, "/");
    if (length == 0 || (length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.')) return false;
    part += length;
    if (*part == 0) return true;
  }
}

void take_file(struct cursor *from) {
  mode_t mode = take_u32(from) & 0777;
  const char *path = take_text(from);
  close_file();
  if (self.intake.error != 0) return;
  snprintf(self.intake.path, sizeof self.intake.path, "%s", path);
  if (from->bad || !is_inside(path)) {
    self.intake.error = EINVAL;
    return;
  }
  self.intake.file = create(self.workspace, self.intake.path, mode);
  if (self.intake.file < 0) self.intake.error = errno;
}

void take_bytes(const struct frame *frame) {
  if (self.intake.error != 0 || self.intake.file < 0) return;
  for (size_t at = 0; at < frame->length;) {
    ssize_t put = write(self.intake.file, frame->bytes + at, frame->length - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      self.intake.error = errno;
      return;
    }
    at += (size_t)put;
  }
}

int finish_files(void) {
  int error = self.intake.error;
  close_file();
  self.intake.error = 0;
  return error;
}
