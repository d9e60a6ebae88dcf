/* gantry-sandbox: starts, watches and clears away one sandbox for Node. See ../README.md. */
#include "sandbox.h"

#include <stdio.h>
#include <string.h>

static int usage(void) {
  fputs("usage: gantry-sandbox supervise | init [--host FOLDER] | selftest | --version\n", stderr);
  return 2;
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "--version") == 0) return puts("gantry-sandbox " LAUNCHER_VERSION) < 0;
  if (count == 2 && strcmp(words[1], "supervise") == 0) return supervise();
  if (count == 2 && strcmp(words[1], "init") == 0) return run_init(false, "/work");
  if (count == 4 && strcmp(words[1], "init") == 0 && strcmp(words[2], "--host") == 0) return run_init(true, words[3]);
  if (count == 2 && strcmp(words[1], "selftest") == 0) return selftest();
  return usage();
}
