/*
 * Removes a folder with all it holds. A folder inside is emptied by moving its folders up to the top, so that a tree of any
 * depth needs two descriptors and no recursion. Nothing runs in the sandbox any more, so there is no race.
 */
#include "plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Never through a link and never into another mount, whose files are not the sandbox's. */
static int open_same_mount(int parent, const char *name) {
  struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                         .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH};
  int fd = (int)syscall(SYS_openat2, parent, name, &how, sizeof how);
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;
  struct stat outer, inner;
  fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || (fstat(parent, &outer) == 0 && fstat(fd, &inner) == 0 && outer.st_dev == inner.st_dev)) return fd;
  close(fd);
  errno = EXDEV;
  return -1;
}

static int open_folder(int parent, const char *name) {
  int fd = open_same_mount(parent, name);
  if (fd >= 0 || errno != EACCES) return fd;
  /* A folder with mode 000; for a link it would have been ELOOP or ENOTDIR, so this changes the mode of no other file. */
  if (fchmodat(parent, name, 0700, 0) != 0) return -1;
  return open_same_mount(parent, name);
}

/* Moves a folder to the top under a number that is free. */
static bool move_up(int top, int folder, const char *name, unsigned long *number) {
  for (;;) {
    char place[48];
    snprintf(place, sizeof place, ".gantry-%lu", (*number)++);
    if (syscall(SYS_renameat2, folder, name, top, place, RENAME_NOREPLACE) == 0) return true;
    if (errno == EEXIST) continue;
    /* Its own entry for what is above it changes too, which its mode may forbid. */
    if (errno != EACCES || fchmodat(folder, name, 0700, 0) != 0) return false;
  }
}

static bool drain(int top, int folder, unsigned long *number);

/* Removes one entry; a folder that holds something is emptied at the top, and moved there first from anywhere else. */
static bool take_out(int top, int folder, const char *name, unsigned long *number) {
  if (unlinkat(folder, name, 0) == 0) return true;
  if (errno != EISDIR && errno != EPERM && errno != EACCES) return false;
  if (unlinkat(folder, name, AT_REMOVEDIR) == 0) return true;
  if (errno != ENOTEMPTY && errno != EEXIST) return false;
  if (folder != top) return move_up(top, folder, name, number);
  int inner = open_folder(top, name);
  bool all = inner >= 0 && drain(top, inner, number);
  if (inner >= 0) close(inner);
  return all && unlinkat(top, name, AT_REMOVEDIR) == 0;
}

/* Takes everything out of a folder; reads it anew until there is nothing, because entries come while it is read. */
static bool drain(int top, int folder, unsigned long *number) {
  fchmod(folder, 0700);
  int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = copy < 0 ? NULL : fdopendir(copy);
  if (entries == NULL) {
    if (copy >= 0) close(copy);
    return false;
  }
  bool all = true, some = true;
  while (all && some) {
    some = false;
    rewinddir(entries);
    for (struct dirent *entry; all && (entry = readdir(entries)) != NULL;) {
      if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
      some = true;
      all = take_out(top, folder, entry->d_name, number);
    }
  }
  closedir(entries);
  return all;
}

static int open_top(const char *path) { return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

bool remove_tree(const char *path) {
  unsigned long number = 0;
  if (unlink(path) == 0 || errno == ENOENT) return true;
  int top = open_top(path);
  if (top < 0 && errno == EACCES && fchmodat(AT_FDCWD, path, 0700, 0) == 0) top = open_top(path);
  if (top < 0) return false;
  bool all = drain(top, top, &number);
  close(top);
  return all && rmdir(path) == 0;
}
