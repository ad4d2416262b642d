/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets that treat their process badly, one for each BEHAVIOUR. They do so if V % 4 is 1 and decline
 * every other problem, so that a campaign goes on and a shrinker has something to keep. With -DALWAYS=1
 * they do so on every problem.
 */
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/target_abi.h"

enum {
  CRASH,
  CRASH_ONCE,
  HANG,
  EXIT,
  CLOSE,
  CHATTY,
  ROUND_UP,
  GRANDCHILD,
  KILLED_ONCE,
  FAIL_ONCE,
  LEAK
};

#ifndef ALWAYS
#define ALWAYS 0
#endif

#ifdef ROUND_UP_WHEN_LOADED
__attribute__((constructor)) static void Loaded(void) { fesetround(FE_UPWARD); }
#endif

static const char* Describe(void) { return "{\"name\": \"misbehaving\", \"version\": \"1\"}"; }

static int Misbehave(void) {
  static int calls = 0;
  ++calls;
  if (BEHAVIOUR == CRASH) {
    fputs("about to\tabort\n", stderr);
    abort();
  }
  if (BEHAVIOUR == CRASH_ONCE && calls == 2) abort();
  if (BEHAVIOUR == KILLED_ONCE && calls == 2) kill(getpid(), SIGKILL);
  if (BEHAVIOUR == HANG) {
    for (;;) pause();
  }
  if (BEHAVIOUR == EXIT) exit(0);
  if (BEHAVIOUR == CLOSE) {
    for (int fd = 3; fd < 64; ++fd) close(fd);
    for (;;) pause();
  }
  if (BEHAVIOUR == CHATTY) {
    static char line[1000];
    memset(line, 'x', sizeof line - 1);
    for (int i = 0; i < 4000; ++i) fputs(line, stdout);
    fflush(stdout);
    while (getchar() != EOF) {
    }
  }
  if (BEHAVIOUR == ROUND_UP) fesetround(FE_UPWARD);
  if (BEHAVIOUR == GRANDCHILD) {
    if (fork() == 0) {
      for (;;) pause();
    }
    abort();
  }
  if (BEHAVIOUR == LEAK) {
    static char* volatile kept;  // volatile: no compiler may remove the allocation
    const size_t bytes = (size_t)32 << 20;
    kept = malloc(bytes);
    memset(kept, 'x', bytes);
  }
  if (BEHAVIOUR == FAIL_ONCE && calls == 1) return PLUMBLINE_FAILED;
  return PLUMBLINE_UNSUPPORTED;
}

static int Run(const plumbline_problem* problem, plumbline_results* results, void* stream, char* error,
               size_t error_capacity) {
  (void)results;
  (void)stream;
  snprintf(error, error_capacity, "declined");
  return ALWAYS || problem->weight->shape[0] % 4 == 1 ? Misbehave() : PLUMBLINE_UNSUPPORTED;
}

const plumbline_target_v1* plumbline_target(void) {
  static plumbline_target_v1 table;
  table.abi_version = PLUMBLINE_TARGET_ABI_VERSION;
  table.struct_size = sizeof table;
  table.describe = Describe;
  table.run = Run;
  return &table;
}
