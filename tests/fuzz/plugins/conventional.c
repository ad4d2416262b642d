/* SPDX-License-Identifier: Apache-2.0
 *
 * A foreign operator for fp32 that is on one side of each convention, chosen by -DSIDE=..., or breaks
 * one. It computes in fp64, so that its numbers are right. SIGNS: what its description promises.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/target_abi.h"

enum {
  DEFINITION,            /* NaN, 0, +0, NaN, 0, and the label's part as the formula has it */
  EMPTY_LSE,             /* -infinity for the lse of nothing */
  EMPTY_LSE_SOMETIMES,   /* where the label is even */
  EMPTY_LSE_ZERO,        /* 0, which is neither */
  EMPTY_LSE_LOGPROB,     /* -infinity also for the logprob, which follows from neither */
  EMPTY_MEAN,            /* NaN for the mean of nothing */
  EMPTY_MEAN_ONE,        /* 1, which is neither */
  EMPTY_MEAN_GRADIENTS,  /* NaN also in the gradients */
  MINUS_ZERO,            /* -0 for gradients that are exactly zero */
  NEARLY_ZERO,           /* 1e-30 for them */
  REFUSES,               /* PLUMBLINE_INVALID for an invalid row */
  REFUSES_WRONGLY,       /* PLUMBLINE_FAILED for one */
  INVALID_ZERO,          /* 0 for the outputs of one */
  IGNORED_COMPUTED,      /* an ignored row's outputs as if it were none */
  IGNORED_NAN,           /* NaN in them */
  IGNORED_UNWRITTEN,     /* nothing in them */
  IGNORED_IN_LOSS,       /* an ignored row has a part in the loss */
  IGNORED_IN_GRADIENTS,  /* and in grad_weight */
  LABEL_ZERO,            /* 0 for the label's part where its logit is -infinity */
  LABEL_ZERO_IN_HIDDEN,  /* in grad_hidden alone */
  WRONG_SIGN,            /* 1e-7 above each logprob and below each entropy that is nearly 0 */
  SIGN_FAR_OFF           /* 1 */
};

#ifndef SIGNS
#define SIGNS "false"
#endif

static const char* Describe(void) {
  return "{\"name\": \"conventional\", \"capabilities\": {\"dtypes\": [\"fp32\"], \"label_dtypes\": "
         "[\"int64\"], \"temperature\": \"none\", \"weight_layouts\": [\"vocab_major\"], "
         "\"strided_inputs\": false, \"zero_stride_grads\": false}, \"contract\": {\"signs\": " SIGNS
         "}}";
}

static void* Data(const DLTensor* t) { return t ? (char*)t->data + t->byte_offset : NULL; }

/* The softmax of one row, without the temperature. */
struct Row {
  double max, log_s, entropy;
  int empty; /* all logits are -infinity */
};

static struct Row Softmax(const double* z, int64_t v) {
  struct Row row = {-INFINITY, 0, 0, 1};
  double s = 0, q = 0;
  for (int64_t j = 0; j < v; ++j) row.max = isnan(z[j]) || z[j] > row.max ? z[j] : row.max;
  for (int64_t j = 0; j < v; ++j) {
    const double t = row.max - z[j], e = exp(-t);
    s += e, q += isinf(t) ? 0 : e * t;
    if (z[j] != -INFINITY) row.empty = 0;
  }
  row.log_s = log(s);
  row.entropy = row.log_s + q / s;
  return row;
}

static void PutForward(const plumbline_results* r, int64_t i, const struct Row* row, double t_label,
                       int even) {
  float *logprob = Data(r->logprob), *entropy = Data(r->entropy), *lse = Data(r->lse);
  const int sometimes = SIDE == EMPTY_LSE_SOMETIMES && even;
  double p = -(t_label + row->log_s), h = row->entropy, l = row->max + row->log_s;
  if (row->empty) {
    if (SIDE == EMPTY_LSE || SIDE == EMPTY_LSE_LOGPROB || sometimes) l = -INFINITY;
    if (SIDE == EMPTY_LSE_ZERO) l = 0;
    if (SIDE == EMPTY_LSE_LOGPROB) p = -INFINITY;
  }
  if (SIDE == WRONG_SIGN || SIDE == SIGN_FAR_OFF) {
    const double off = SIDE == WRONG_SIGN ? 1e-7 : 1;
    if (p > -1e-9) p = off;
    if (h < 1e-9) h = -off;
  }
  if (logprob) logprob[i] = (float)p;
  if (entropy) entropy[i] = (float)h;
  if (lse) lse[i] = (float)l;
}

static void PutAll(const plumbline_results* r, int64_t i, float value) {
  float *logprob = Data(r->logprob), *entropy = Data(r->entropy), *lse = Data(r->lse);
  if (logprob) logprob[i] = value;
  if (entropy) entropy[i] = value;
  if (lse) lse[i] = value;
}

/* Adds row i to the sums of both gradients. */
static void AddGradients(const plumbline_problem* p, int64_t i, const double* z, const struct Row* row,
                         double g, double k, double* grad_hidden, double* grad_weight) {
  const int64_t h = p->hidden->shape[1], v = p->weight->shape[0];
  const float *hidden = Data(p->hidden), *weight = Data(p->weight);
  const int64_t label = ((int64_t*)Data(p->labels))[i];
  for (int64_t j = 0; j < v; ++j) {
    const double log_p = z[j] - row->max - row->log_s, prob = exp(log_p);
    double dz = g * ((j == label) - prob) - (prob > 0 ? k * prob * (log_p + row->entropy) : 0);
    double of_hidden = dz;
    if (z[j] == -INFINITY) {
      if (SIDE == LABEL_ZERO || SIDE == LABEL_ZERO_IN_HIDDEN || j != label) of_hidden = 0;
      if (SIDE == LABEL_ZERO || j != label) dz = 0;
    }
    for (int64_t d = 0; d < h; ++d) {
      grad_hidden[i * h + d] += of_hidden * weight[j * h + d];
      grad_weight[j * h + d] += dz * hidden[i * h + d];
    }
  }
}

static void Narrow(const double* from, int64_t count, const DLTensor* to) {
  for (int64_t e = 0; to && e < count; ++e) ((float*)Data(to))[e] = (float)from[e];
}

/* Sets a row of a gradient that takes no part: it is exactly zero. */
static void Nothing(double* row, int64_t count) {
  const double zero = SIDE == MINUS_ZERO ? -0.0 : SIDE == NEARLY_ZERO ? 1e-30 : 0.0;
  for (int64_t d = 0; d < count; ++d) row[d] = zero;
}

/* All of it, with memory for sums in fp64. Returns the loss, summed. */
static double Compute(const plumbline_problem* p, const plumbline_results* r, int64_t counted, double* z,
                      double* grad_hidden, double* grad_weight) {
  const int64_t n = p->hidden->shape[0], h = p->hidden->shape[1], v = p->weight->shape[0];
  const float *hidden = Data(p->hidden), *weight = Data(p->weight);
  const float *grad_logprob = Data(p->grad_logprob), *grad_entropy = Data(p->grad_entropy);
  const double divisor = p->reduction == PLUMBLINE_MEAN ? (double)counted : 1;
  double loss = 0;
  int part = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label = ((int64_t*)Data(p->labels))[i];
    const int ignored = label == p->ignore_index, inside = label >= 0 && label < v;
    double g = !grad_logprob ? 0 : p->reduction ? -*grad_logprob / divisor : grad_logprob[i];
    const double k = grad_entropy ? grad_entropy[i] : 0;
    if (!ignored && !inside) {
      PutAll(r, i, SIDE == INVALID_ZERO ? 0 : NAN);
      for (int64_t d = 0; d < h; ++d) grad_hidden[i * h + d] = NAN;
      for (int64_t e = 0; e < v * h; ++e) grad_weight[e] = NAN;
      loss = NAN, part = 1;
      continue;
    }
    for (int64_t j = 0; j < v; ++j) {
      z[j] = 0;
      for (int64_t d = 0; d < h; ++d) z[j] += (double)hidden[i * h + d] * weight[j * h + d];
    }
    const struct Row row = Softmax(z, v);
    const double t_label = row.max - z[ignored ? 0 : label];
    if (ignored) {
      if (SIDE == IGNORED_COMPUTED) PutForward(r, i, &row, t_label, 0);
      if (SIDE != IGNORED_COMPUTED && SIDE != IGNORED_UNWRITTEN)
        PutAll(r, i, SIDE == IGNORED_NAN ? NAN : 0);
      if (SIDE == IGNORED_IN_LOSS) loss += 1;
      if (SIDE == IGNORED_IN_GRADIENTS) grad_weight[0] += 1;
    } else {
      PutForward(r, i, &row, t_label, label % 2 == 0);
      loss += t_label + row.log_s;
    }
    if (ignored || (g == 0 && k == 0)) {
      Nothing(grad_hidden + i * h, h);
    } else {
      part = 1;
      AddGradients(p, i, z, &row, g, k, grad_hidden, grad_weight);
    }
  }
  if (!part && SIDE != IGNORED_IN_GRADIENTS) Nothing(grad_weight, v * h);
  return loss;
}

static int Run(const plumbline_problem* p, plumbline_results* r, void* stream, char* why, size_t size) {
  const int64_t n = p->hidden->shape[0], h = p->hidden->shape[1], v = p->weight->shape[0];
  int64_t counted = 0, invalid = -1;
  (void)stream;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label = ((int64_t*)Data(p->labels))[i];
    counted += label != p->ignore_index;
    if (label != p->ignore_index && (label < 0 || label >= v) && invalid < 0) invalid = i;
  }
  snprintf(why, size, "row %d is invalid", (int)invalid);
  if (invalid >= 0 && SIDE == REFUSES) return PLUMBLINE_INVALID;
  if (invalid >= 0 && SIDE == REFUSES_WRONGLY) return PLUMBLINE_FAILED;
  double* const z = calloc((size_t)(v + 1 + n * h + v * h), sizeof(double));
  double *const grad_hidden = z + v + 1, *const grad_weight = grad_hidden + n * h;
  const double sum = Compute(p, r, counted, z, grad_hidden, grad_weight);
  if (r->loss) {
    float* const loss = Data(r->loss);
    *loss = (float)(p->reduction == PLUMBLINE_MEAN && counted > 0 ? sum / (double)counted : sum);
    if (p->reduction == PLUMBLINE_MEAN && counted == 0) {
      if (SIDE == EMPTY_MEAN || SIDE == EMPTY_MEAN_GRADIENTS) *loss = NAN;
      if (SIDE == EMPTY_MEAN_ONE) *loss = 1;
      if (SIDE == EMPTY_MEAN_GRADIENTS) grad_weight[0] = NAN;
    }
  }
  Narrow(grad_hidden, n * h, r->grad_hidden);
  Narrow(grad_weight, v * h, r->grad_weight);
  if (r->first_invalid_row) *(int64_t*)Data(r->first_invalid_row) = invalid;
  free(z);
  return PLUMBLINE_OK;
}

static const plumbline_target_v1 table = {1, sizeof(table), Describe, Run, NULL, NULL, NULL};
const plumbline_target_v1* plumbline_target(void) { return &table; }
