/* SPDX-License-Identifier: Apache-2.0
 *
 * The example plug-in, which computes as it should, with one misdeed: PLUMB_HOSTILE is "WHERE:DEED",
 * and WHERE is one of load, describe and run. If PLUMB_DESCRIPTION names a file, the plug-in describes
 * itself by that file's text.
 */
#define _GNU_SOURCE
#define table example_table
#define plumbline_target example_target
#include "fuzz/examples/plugin.c"
#undef table
#undef plumbline_target

#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void* Spin(void* unused) {
  (void)unused;
  for (;;) usleep(1000);
}

static void Do(const char* deed) {
  static char* volatile nowhere = NULL;
  if (strcmp(deed, "segfault") == 0) *nowhere = 1;
  if (strcmp(deed, "far-write") == 0) ((char*)&nowhere)[1L << 46] = 1;
  if (strcmp(deed, "abort") == 0) abort();
  if (strcmp(deed, "exit") == 0) exit(0);
  if (strcmp(deed, "_exit") == 0) _exit(0);
  if (strcmp(deed, "kill") == 0) raise(SIGKILL);
  if (strcmp(deed, "stop") == 0) raise(SIGSTOP);
  if (strcmp(deed, "hang") == 0) Spin(NULL);
  if (strcmp(deed, "close") == 0) {
    for (int fd = 3; fd < 64; ++fd) close(fd);
  }
  if (strcmp(deed, "garbage") == 0) {
    /* Writes to every descriptor that it was not given, the connection to the program among them. */
    char noise[4096];
    memset(noise, 0x7f, sizeof noise);
    for (int fd = 3; fd < 64; ++fd) {
      if (write(fd, noise, sizeof noise) < 0) continue;
    }
  }
  if (strcmp(deed, "chdir") == 0 && chdir("/") != 0) abort();
  if (strcmp(deed, "umask") == 0) umask(0777);
  if (strcmp(deed, "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, Spin, NULL);
  }
  if (strcmp(deed, "fork") == 0 && fork() == 0) Spin(NULL);
  if (strcmp(deed, "round") == 0) fesetround(FE_TOWARDZERO);
#if defined(__x86_64__)
  if (strcmp(deed, "flush") == 0) __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u);
#endif
  if (strcmp(deed, "print") == 0) {
    static char block[1 << 16];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < (1 << 28) / (int)sizeof block; ++i) {
      if (write(1, block, sizeof block) < 0) break;
    }
  }
  if (strcmp(deed, "memory") == 0) {
    /* Allocates all memory, in pieces that get smaller. It is never touched, so no page is used. */
    for (size_t size = (size_t)1 << 30; size > 16; size /= 2) {
      while (malloc(size)) {
      }
    }
  }
}

static void At(const char* where) {
  const char* plan = getenv("PLUMB_HOSTILE");
  const size_t length = strlen(where);
  if (plan && strncmp(plan, where, length) == 0 && plan[length] == ':') Do(plan + length + 1);
}

__attribute__((constructor)) static void Loaded(void) { At("load"); }

static const char* HostileDescribe(void) {
  At("describe");
  const char* file = getenv("PLUMB_DESCRIPTION");
  if (!file) return Describe();
  static char text[1 << 25];
  const int fd = open(file, O_RDONLY);
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  return got < 0 ? NULL : text;
}

static int HostileRun(const plumbline_problem* p, plumbline_results* r, void* stream, char* why,
                      size_t size) {
  At("run");
  return Run(p, r, stream, why, size);
}

static const plumbline_target_v1 table = {1,    sizeof(table), HostileDescribe, HostileRun, NULL,
                                          NULL, NULL};
const plumbline_target_v1* plumbline_target(void) { return &table; }
