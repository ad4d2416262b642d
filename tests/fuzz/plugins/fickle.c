/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets whose finding a shrinker can lose. With -DSOMETIMES it fails 7 times in 10 if V % 4 is 1, in
 * a fixed order, and declines everything else. Otherwise it fails if V is above 8, and aborts if V is 4
 * or 8, which is another finding; with -DTWO_WORDS it fails with another word there.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/target_abi.h"

static const char* Describe(void) { return "{\"name\": \"fickle\", \"version\": \"1\"}"; }

static int Run(const plumbline_problem* problem, plumbline_results* results, void* stream, char* error,
               size_t capacity) {
  const int64_t v = problem->weight->shape[0];
  (void)results;
  (void)stream;
  snprintf(error, capacity, "as told");
#ifdef SOMETIMES
  /* Three or four of any five calls in a row fail. */
  static const char order[] = "FF.FF.FF.F";
  static int calls = 0;
  if (v % 4 != 1) return PLUMBLINE_UNSUPPORTED;
  return order[calls++ % 10] == 'F' ? PLUMBLINE_FAILED : PLUMBLINE_UNSUPPORTED;
#else
#ifdef TWO_WORDS
  snprintf(error, capacity, v > 8 ? "as told\x1fLarge@here" : "as told\x1fSmall@there");
  if (v == 4 || v == 8) return PLUMBLINE_FAILED;
#endif
  if (v == 4 || v == 8) abort();
  return v > 8 ? PLUMBLINE_FAILED : PLUMBLINE_UNSUPPORTED;
#endif
}

const plumbline_target_v1* plumbline_target(void) {
  static plumbline_target_v1 table;
  table.abi_version = PLUMBLINE_TARGET_ABI_VERSION;
  table.struct_size = sizeof table;
  table.describe = Describe;
  table.run = Run;
  return &table;
}
