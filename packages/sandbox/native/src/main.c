/* gantry-sandbox: starts, watches and clears away one sandbox for Node. See ../README.md. */
#include "sandbox.h"

#include <stdio.h>
#include <string.h>

static int usage(void) {
  fputs("usage: gantry-sandbox supervise | init [--host FOLDER | --stdio FILTER | --pipes FILTER] | bridge | guest FILTER | memory BYTES | selftest | --version\n", stderr);
  return 2;
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "--version") == 0) return puts("gantry-sandbox " LAUNCHER_VERSION) < 0;
  if (count == 2 && strcmp(words[1], "supervise") == 0) return supervise();
  if (count == 2 && strcmp(words[1], "init") == 0) return run_init(INIT_SANDBOX, "/work", NULL);
  if (count == 4 && strcmp(words[1], "init") == 0 && strcmp(words[2], "--host") == 0) return run_init(INIT_HOST, words[3], NULL);
  if (count == 4 && strcmp(words[1], "init") == 0 && strcmp(words[2], "--stdio") == 0) return run_init(INIT_STDIO, "/work", words[3]);
  if (count == 4 && strcmp(words[1], "init") == 0 && strcmp(words[2], "--pipes") == 0) return init_by_pipes("/work", words[3]);
  if (count == 2 && strcmp(words[1], "bridge") == 0) return bridge("/work");
  if (count == 3 && strcmp(words[1], "guest") == 0) return guest(words[2]);
  if (count == 3 && strcmp(words[1], "memory") == 0) return shared_memory(words[2]);
  if (count == 2 && strcmp(words[1], "selftest") == 0) return selftest();
  return usage();
}
