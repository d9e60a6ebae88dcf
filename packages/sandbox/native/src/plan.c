/* Reads the plan that Node sends first. */
#include "plan.h"

#include <stdlib.h>

static struct figure *take_figures(struct cursor *from, uint32_t *count, bool watched) {
  *count = take_count(from, 15);
  struct figure *figures = calloc((size_t)*count + 1, sizeof *figures);
  if (figures == NULL) from->bad = true;
  for (uint32_t index = 0; index < *count && !from->bad; index++) {
    struct figure *figure = &figures[index];
    figure->name = take_text(from);
    figure->file = take_text(from);
    figure->key = take_text(from);
    figure->at_least = watched ? take_u64(from) : 0;
    figure->fd = -1;
  }
  return figures;
}

static struct pair *take_pairs(struct cursor *from, uint32_t *count) {
  *count = take_count(from, 10);
  struct pair *pairs = calloc((size_t)*count + 1, sizeof *pairs);
  if (pairs == NULL) from->bad = true;
  for (uint32_t index = 0; index < *count && !from->bad; index++) {
    pairs[index].name = take_text(from);
    pairs[index].text = take_text(from);
  }
  return pairs;
}

static struct rlimit_plan *take_rlimits(struct cursor *from, uint32_t *count) {
  *count = take_count(from, 13);
  struct rlimit_plan *limits = calloc((size_t)*count + 1, sizeof *limits);
  if (limits == NULL) from->bad = true;
  for (uint32_t index = 0; index < *count && !from->bad; index++) {
    limits[index].name = take_text(from);
    limits[index].value = take_u64(from);
  }
  return limits;
}

bool parse_plan(const struct frame *frame, struct plan *plan) {
  struct cursor from = cursor_of(frame);
  plan->argv = take_texts(&from);
  plan->seccomp_file = take_text(&from);
  plan->drop = take_u8(&from) == 1;
  plan->uid = take_u32(&from);
  plan->gid = take_u32(&from);
  plan->groups = take_texts(&from);
  plan->parents = take_texts(&from);
  plan->settings = take_pairs(&from, &plan->settings_count);
  plan->kill_file = take_text(&from);
  plan->figures = take_figures(&from, &plan->figures_count, false);
  plan->watches = take_figures(&from, &plan->watches_count, true);
  plan->rlimits = take_rlimits(&from, &plan->rlimits_count);
  plan->folders = take_texts(&from);
  plan->orphans = take_texts(&from);
  plan->epoll_watches = take_u64(&from);
  return !from.bad && from.at == from.end && plan->argv[0] != NULL;
}
