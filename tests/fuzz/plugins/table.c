/* SPDX-License-Identifier: Apache-2.0
 *
 * A plug-in whose table is set by -D, for tests of the loader:
 *   ABI, SIZE, RUN, DESCRIBE, SIZES: the members of the table; TABLE: the result of plumbline_target()
 *   TEXT: the description; STATUS: the result of run; SAYS: the character that fills all of its error
 *   text, its terminator included; REASON: its text
 */
#include <string.h>

#include "fuzz/target_abi.h"

#ifndef ABI
#define ABI PLUMBLINE_TARGET_ABI_VERSION
#endif
#ifndef SIZE
#define SIZE sizeof(plumbline_target_v1)
#endif
#ifndef RUN
#define RUN Run
#endif
#ifndef DESCRIBE
#define DESCRIBE Describe
#endif
#ifndef SIZES
#define SIZES NULL
#endif
#ifndef TABLE
#define TABLE &table
#endif
#ifndef TEXT
#define TEXT "{\"name\":\"table\"}"
#endif
#ifndef STATUS
#define STATUS PLUMBLINE_OK
#endif

const char* Describe(void);
const char* Describe(void) { return TEXT; }

int Run(const plumbline_problem* problem, plumbline_results* results, void* stream, char* error,
        size_t capacity);
int Run(const plumbline_problem* problem, plumbline_results* results, void* stream, char* error,
        size_t capacity) {
  (void)problem, (void)results, (void)stream;
#ifdef SAYS
  memset(error, SAYS, capacity);
#elif defined REASON
  strncpy(error, REASON, capacity);
#else
  (void)error, (void)capacity;
#endif
  return STATUS;
}

int Sizes(const plumbline_problem* problem, size_t* workspace, size_t* saved);
int Sizes(const plumbline_problem* problem, size_t* workspace, size_t* saved) {
  (void)problem;
  *workspace = *saved = 0;
  return PLUMBLINE_OK;
}

const plumbline_target_v1 table = {ABI, SIZE, DESCRIBE, RUN, SIZES, NULL, NULL};
#ifndef NO_SYMBOL
const plumbline_target_v1* plumbline_target(void) { return TABLE; }
#endif
