/* SPDX-License-Identifier: Apache-2.0
 *
 * The example plug-in with one fault, chosen by -DFAULT=…, for tests of the checks that a case goes
 * through.
 */
#define table example_table
#define plumbline_target example_target
#include "fuzz/examples/plugin.c"
#undef table
#undef plumbline_target

enum {
  NO_FAULT,
  PAST_THE_END,
  INTO_THE_INPUT,
  NOT_WRITTEN,
  OTHER_BITS_EACH_RUN,
  OTHER_BITS_IN_A_BATCH,
  OTHER_BITS_BESIDE_MANY,
  FAILS,
  REFUSES,
  DECLINES,
  POSITIVE_LOGPROB,
  NAN_ENTROPY,
  LSE_OFF,
  MINUS_ZERO,
  INVALID_ROW,
  ZERO_SIGN_EACH_RUN,
  SLIPPERY,
  BITS_BY_COLUMN
};

static int FaultyRun(const plumbline_problem* p, plumbline_results* r, void* stream, char* why,
                     size_t size) {
  static int runs = 0;
  float *logprob = Data(r->logprob), *lse = Data(r->lse), *grad_hidden = Data(r->grad_hidden);
  const float poison = logprob ? logprob[0] : 0;
  ++runs;
  snprintf(why, size, "because");
  if (FAULT == FAILS) return PLUMBLINE_FAILED;
  if (FAULT == REFUSES) return PLUMBLINE_INVALID;
  if (FAULT == DECLINES) return PLUMBLINE_UNSUPPORTED;
  const int status = Run(p, r, stream, why, size);
  const int64_t n = p->hidden->shape[0];
  if (FAULT == PAST_THE_END) lse[n] = 0;
  if (FAULT == INTO_THE_INPUT) ((float*)Data(p->weight))[0] += 1;
  if (FAULT == NOT_WRITTEN) memcpy(&logprob[0], &poison, sizeof poison);
  if (FAULT == OTHER_BITS_EACH_RUN && runs % 2 == 0) lse[n - 1] = nextafterf(lse[n - 1], 100);
  if (FAULT == ZERO_SIGN_EACH_RUN && runs % 2 == 1) grad_hidden[0] = -0.0f;
  /* Two different errors: one on large vocabularies, another on small ones. */
  if (FAULT == SLIPPERY && p->weight->shape[0] > 3) lse[n - 1] += 1e-2f;
  if (FAULT == SLIPPERY && p->weight->shape[0] <= 3) logprob[0] = 1;
  if (FAULT == OTHER_BITS_IN_A_BATCH && n > 1)
    lse[0] = nextafterf(lse[0], 100), lse[1] = nextafterf(lse[1], 100);
  if (FAULT == OTHER_BITS_BESIDE_MANY && n >= 400) lse[n / 2] = nextafterf(lse[n / 2], 100);
  for (int64_t i = 0; FAULT == BITS_BY_COLUMN && lse && i < n; ++i)
    if (((int64_t*)Data(p->labels))[i] < p->weight->shape[0] / 2) lse[i] = nextafterf(lse[i], 100);
  if (FAULT == POSITIVE_LOGPROB) logprob[0] = 1e-30f;
  if (FAULT == NAN_ENTROPY) ((float*)Data(r->entropy))[0] = NAN;
  if (FAULT == LSE_OFF) lse[1] += 1e-3f;
  if (FAULT == MINUS_ZERO) grad_hidden[0] = -0.0f;
  if (FAULT == INVALID_ROW) *(int64_t*)Data(r->first_invalid_row) = 1;
  return status;
}

static const plumbline_target_v1 table = {1, sizeof(table), Describe, FaultyRun, NULL, NULL, NULL};
const plumbline_target_v1* plumbline_target(void) { return &table; }
