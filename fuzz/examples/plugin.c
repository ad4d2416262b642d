/* SPDX-License-Identifier: Apache-2.0
 *
 * A target in plain C: the operator as its definition reads, in fp32, held to the part it declares.
 *
 *   cc -O2 -shared -fPIC $(plumb plugin-flags) fuzz/examples/plugin.c -o plugin.so -lm
 *   plumb fuzz --target plugin:plugin.so --budget 10s
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/target_abi.h"

#define TEXT(...) #__VA_ARGS__
// clang-format off
static const char* Describe(void) { return TEXT({
  "name": "example", "capabilities": {"dtypes": ["fp32"], "label_dtypes": ["int64"], "temperature": "none",
  "weight_layouts": ["vocab_major"], "reductions": ["none"], "ignore_index": false, "invalid_labels": false,
  "special_values": false, "strided_inputs": false, "zero_stride_grads": false}, "contract": {
  "accumulate": "fp32", "shift": "exact_max", "probability": "ratio", "d_logits": "fp32", "tile": 1,
  "conventions": "definition", "signs": true}}); }
// clang-format on
static void* Data(const DLTensor* t) { return t ? (char*)t->data + t->byte_offset : NULL; }

static int Run(const plumbline_problem* p, plumbline_results* r, void* stream, char* why, size_t size) {
  const int64_t n = p->hidden->shape[0], h = p->hidden->shape[1], v = p->weight->shape[0];
  const float *hidden = Data(p->hidden), *weight = Data(p->weight);
  const float *grad_logprob = Data(p->grad_logprob), *grad_entropy = Data(p->grad_entropy);
  float *logprob = Data(r->logprob), *entropy = Data(r->entropy), *lse = Data(r->lse);
  float *grad_hidden = Data(r->grad_hidden), *grad_weight = Data(r->grad_weight);
  float* z = malloc((size_t)(v + 1) * sizeof(float));
  if (stream || !z) return snprintf(why, size, "a stream, or no memory"), free(z), PLUMBLINE_FAILED;
  if (grad_hidden) memset(grad_hidden, 0, (size_t)(n * h) * sizeof(float));
  if (grad_weight) memset(grad_weight, 0, (size_t)(v * h) * sizeof(float));
  if (r->first_invalid_row) *(int64_t*)Data(r->first_invalid_row) = -1;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label = ((int64_t*)Data(p->labels))[i];
    const float g = grad_logprob ? grad_logprob[i] : 0, k = grad_entropy ? grad_entropy[i] : 0;
    float m = -INFINITY, s = 0, q = 0;
    memset(z, 0, (size_t)v * sizeof(float));
    for (int64_t j = 0; j < v; m = fmaxf(m, z[j++]))
      for (int64_t d = 0; d < h; ++d) z[j] += hidden[i * h + d] * weight[j * h + d];
    for (int64_t j = 0; j < v; ++j) s += expf(z[j] - m), q += expf(z[j] - m) * (m - z[j]);
    const float l = logf(s);
    if (logprob) logprob[i] = (z[label] - m) - l;
    if (entropy) entropy[i] = l + q / s;
    if (lse) lse[i] = m + l;
    for (int64_t j = 0; j < v && (g != 0 || k != 0); ++j) {
      const float prob = expf(z[j] - m) / s, log_prob = (z[j] - m) - l;
      const float dz = g * ((float)(j == label) - prob) - k * prob * (log_prob + (l + q / s));
      for (int64_t d = 0; d < h && grad_hidden; ++d) grad_hidden[i * h + d] += dz * weight[j * h + d];
      for (int64_t d = 0; d < h && grad_weight; ++d) grad_weight[j * h + d] += dz * hidden[i * h + d];
    }
  }
  return free(z), PLUMBLINE_OK;
}

static const plumbline_target_v1 table = {1, sizeof(table), Describe, Run, NULL, NULL, NULL};
const plumbline_target_v1* plumbline_target(void) { return &table; }
