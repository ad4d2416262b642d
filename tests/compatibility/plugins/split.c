/* SPDX-License-Identifier: Apache-2.0
 *
 * The example plug-in with all seven members of its table, and the last row's lse off by 0.001.
 */
#define table example_table
#define plumbline_target example_target
#define Run ExampleRun
#include "fuzz/examples/plugin.c"
#undef table
#undef plumbline_target
#undef Run

static int Run(const plumbline_problem* p, plumbline_results* r, void* stream, char* why, size_t size) {
  const int status = ExampleRun(p, r, stream, why, size);
  const int64_t n = p->hidden->shape[0];
  float* lse = Data(r->lse);
  if (lse && n > 0) lse[n - 1] += 1e-3f;
  return status;
}

static int Sizes(const plumbline_problem* p, size_t* workspace, size_t* saved) {
  (void)p;
  *workspace = *saved = 0;
  return PLUMBLINE_OK;
}

static int Forward(const plumbline_problem* p, plumbline_results* r, void* workspace, void* saved,
                   void* stream, char* why, size_t size) {
  plumbline_results forward = *r;
  forward.grad_hidden = forward.grad_weight = NULL;
  (void)workspace, (void)saved;
  return Run(p, &forward, stream, why, size);
}

static int Backward(const plumbline_problem* p, plumbline_results* r, void* workspace,
                    const void* saved, void* stream, char* why, size_t size) {
  plumbline_results backward = {sizeof backward, NULL,           NULL, NULL, NULL,
                                r->grad_hidden,  r->grad_weight, NULL};
  (void)workspace, (void)saved;
  return Run(p, &backward, stream, why, size);
}

static const plumbline_target_v1 table = {1, sizeof(table), Describe, Run, Sizes, Forward, Backward};
const plumbline_target_v1* plumbline_target(void) { return &table; }
