/*
 * Brings files out of the workspace. The tree is hostile: links, pipes, devices and sockets are named and left, a file is
 * looked at again after it was opened, and depth, entries, files and bytes have their ends. `.gantry` at the top is ours.
 */
#include "init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_DEPTH 32
#define MOST_ENTRIES 20000
#define MOST_SKIPPED 200
#define LONGEST_PATH 1024

struct collection {
  uint32_t files_left;
  uint64_t bytes_left;
  uint32_t entries_left;
  uint32_t skipped;
  char path[LONGEST_PATH + 256 + 2];
};

static struct payload note;
static unsigned char bytes[CHUNK];

static void skip(struct collection *all, const char *reason) {
  if (++all->skipped > MOST_SKIPPED) return;
  start_payload(&note);
  put_text(&note, all->path);
  put_text(&note, all->skipped == MOST_SKIPPED ? "further ones are not listed" : reason);
  to_node(RUN_SKIPPED, note.bytes, note.length);
}

static void bring_out(struct collection *all, int file, uint64_t size) {
  start_payload(&note);
  put_text(&note, all->path);
  to_node(RUN_FILE, note.bytes, note.length);
  all->files_left--;
  while (size > 0) {
    ssize_t got = read(file, bytes, size < CHUNK ? (size_t)size : CHUNK);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    size -= (uint64_t)got;
    all->bytes_left -= (uint64_t)got;
    to_node(RUN_BYTES, bytes, (size_t)got);
  }
}

static const char *kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

static void collect_file(struct collection *all, int folder, const char *name) {
  struct stat stats;
  int file = open_beneath(folder, name, O_RDONLY, 0);
  if (file < 0 || fstat(file, &stats) != 0) skip(all, "not readable");
  else if (!S_ISREG(stats.st_mode)) skip(all, kind_of(stats.st_mode));
  else if (all->files_left == 0) skip(all, "over the number of files");
  else if ((uint64_t)stats.st_size > all->bytes_left) skip(all, "over the number of bytes");
  else bring_out(all, file, (uint64_t)stats.st_size);
  if (file >= 0) close(file);
}

static int by_name(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

/* The names in a folder, sorted so that the same tree gives the same files; from malloc. */
static char **names_in(struct collection *all, DIR *entries, size_t *count) {
  char **names = NULL;
  size_t room = 0;
  *count = 0;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (all->entries_left == 0) {
      skip(all, "holds too many entries");
      break;
    }
    all->entries_left--;
    if (*count == room) {
      room = room == 0 ? 32 : room * 2;
      char **larger = realloc(names, room * sizeof *names);
      if (larger == NULL) break;
      names = larger;
    }
    names[*count] = strdup(entry->d_name);
    if (names[*count] == NULL) break;
    ++*count;
  }
  if (*count > 0) qsort(names, *count, sizeof *names, by_name);
  return names;
}

static void collect_folder(struct collection *all, int folder, size_t length, unsigned depth);

static void collect_entry(struct collection *all, int folder, const char *name, size_t length, unsigned depth) {
  struct stat stats;
  if (fstatat(folder, name, &stats, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISREG(stats.st_mode)) return collect_file(all, folder, name);
  if (!S_ISDIR(stats.st_mode)) return skip(all, kind_of(stats.st_mode));
  if (depth == 1 && strcmp(name, ".gantry") == 0) return;
  if (depth == MOST_DEPTH) return skip(all, "too deep");
  int inner = open_beneath(folder, name, O_RDONLY | O_DIRECTORY, 0);
  if (inner < 0) return skip(all, "not readable");
  all->path[length] = '/';
  all->path[length + 1] = 0;
  collect_folder(all, inner, length + 1, depth + 1);
}

/* Takes the folder's descriptor over; `length` is how much of the path names the folder, slash included. */
static void collect_folder(struct collection *all, int folder, size_t length, unsigned depth) {
  DIR *entries = fdopendir(folder);
  size_t count = 0;
  if (entries == NULL) {
    close(folder);
    return;
  }
  char **names = names_in(all, entries, &count);
  for (size_t index = 0; index < count; index++) {
    size_t size = strlen(names[index]);
    memcpy(all->path + length, names[index], size + 1);
    if (length + size > LONGEST_PATH) skip(all, "its path is too long");
    else collect_entry(all, folder, names[index], length + size, depth);
    free(names[index]);
  }
  all->path[length] = 0;
  free(names);
  closedir(entries);
}

void collect_files(uint32_t most_files, uint64_t most_bytes) {
  static struct collection all;
  all = (struct collection){.files_left = most_files, .bytes_left = most_bytes, .entries_left = MOST_ENTRIES};
  if (most_files == 0) return;
  int folder = openat(self.workspace, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) collect_folder(&all, folder, 0, 1);
}
