/* SPDX-License-Identifier: Apache-2.0
 *
 * The example plug-in as a target on a device, for tests in which that device's memory is the host's.
 * Labels may have any stride. -DSPLIT=1 adds forward and backward apart, -DFAULT=… one fault.
 */
#define table example_table
#define plumbline_target example_target
#define Describe ExampleDescription
#define Run ExampleRun
#include "fuzz/examples/plugin.c"
#undef table
#undef plumbline_target
#undef Describe
#undef Run

enum {
  NO_FAULT,
  PAST_THE_END,
  INTO_THE_INPUT,
  NOT_WRITTEN,
  WORKSPACE_PAST_ITS_END,
  WORKSPACE_BEFORE_ITS_START,
  SAVED_PAST_ITS_END,
  SAVED_BEFORE_ITS_START,
  PARTIAL_NOT_WRITTEN,
  BACKWARD_NEEDS_WORKSPACE,
  SAVED_NOT_WRITTEN,
  SIZES_WITHOUT_END
};
#ifndef FAULT
#define FAULT NO_FAULT
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
/* Sizes that are no multiple of any alignment, so that no gap follows the last byte. */
enum { WORKSPACE = 1003, SAVED = 77 };

static const char* Describe(void) {
  static char text[2048];
  snprintf(text, sizeof text, "{\"device\": \"cuda\", %s", ExampleDescription() + 1);
  const char strided[] = "\"strided_inputs\": ";
  memcpy(strstr(text, strided) + sizeof strided - 1, "true ", 5); /* was false */
  return text;
}

static int Run(const plumbline_problem* p, plumbline_results* r, void* stream, char* why, size_t size) {
  const DLTensor* tensors[] = {p->hidden,       p->weight,       p->labels,      p->temperature,
                               p->grad_logprob, p->grad_entropy, r->logprob,     r->entropy,
                               r->lse,          r->grad_hidden,  r->grad_weight, r->first_invalid_row};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) {
    if (tensors[i] && tensors[i]->device.device_type != kDLCUDA)
      return snprintf(why, size, "tensor %d is not on the device", (int)i), PLUMBLINE_FAILED;
  }
  const int64_t n = p->hidden->shape[0], stride = p->labels->strides[0];
  int64_t* labels = malloc((size_t)(n + 1) * sizeof(int64_t));
  for (int64_t i = 0; i < n; ++i) labels[i] = ((int64_t*)Data(p->labels))[i * stride];
  DLTensor dense = *p->labels;
  dense.data = labels;
  plumbline_problem here = *p;
  here.labels = &dense;
  float *logprob = Data(r->logprob), *lse = Data(r->lse);
  const float poison = logprob ? logprob[0] : 0;
  const int status = ExampleRun(&here, r, stream, why, size);
  free(labels);
  if (FAULT == PAST_THE_END) lse[n] = 0;
  if (FAULT == INTO_THE_INPUT) ((float*)Data(p->weight))[0] += 1;
  if (FAULT == NOT_WRITTEN && logprob) memcpy(&logprob[0], &poison, sizeof poison);
  return status;
}

static int Sizes(const plumbline_problem* p, size_t* workspace, size_t* saved) {
  (void)p;
  *workspace = FAULT == SIZES_WITHOUT_END ? (size_t)-4096 : WORKSPACE;
  *saved = SAVED;
  return PLUMBLINE_OK;
}

static int Forward(const plumbline_problem* p, plumbline_results* r, void* workspace, void* saved,
                   void* stream, char* why, size_t size) {
  plumbline_results forward = *r;
  forward.grad_hidden = forward.grad_weight = NULL;
  char *w = workspace, *s = saved;
  const float partial = *(float*)workspace;
  memset(w, 1, WORKSPACE);
  if (FAULT != SAVED_NOT_WRITTEN) memset(s, 2, SAVED);
  if (FAULT == WORKSPACE_PAST_ITS_END) w[WORKSPACE] = 3;
  if (FAULT == WORKSPACE_BEFORE_ITS_START) w[-2] = 3;
  if (FAULT == SAVED_PAST_ITS_END) s[SAVED + 1] = 3;
  const int status = Run(p, &forward, stream, why, size);
  if (FAULT == PARTIAL_NOT_WRITTEN) *(float*)Data(r->lse) += partial;
  return status;
}

static int Backward(const plumbline_problem* p, plumbline_results* r, void* workspace,
                    const void* saved, void* stream, char* why, size_t size) {
  plumbline_results backward = {sizeof backward, NULL,           NULL, NULL, NULL,
                                r->grad_hidden,  r->grad_weight, NULL};
  char* s = (char*)saved;
  if (FAULT == SAVED_BEFORE_ITS_START) s[-1] = 3;
  const int status = Run(p, &backward, stream, why, size);
  const float* read = FAULT == BACKWARD_NEEDS_WORKSPACE ? workspace : saved;
  /* Memory that forward wrote holds a tiny number, and other memory NaN. */
  float kept;
  memcpy(&kept, read, sizeof kept);
  if (r->grad_weight) *(float*)Data(r->grad_weight) += 0 * kept;
  return status;
}

static const plumbline_target_v1 table = {1,
                                          sizeof(table),
                                          Describe,
                                          Run,
                                          SPLIT ? Sizes : NULL,
                                          SPLIT ? Forward : NULL,
                                          SPLIT ? Backward : NULL};
const plumbline_target_v1* plumbline_target(void) { return &table; }
