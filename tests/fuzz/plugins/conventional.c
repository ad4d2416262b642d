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
  DEFINITION,           /* NaN, 0, +0, NaN, 0, and the label's part as the formula has it */
  EMPTY_LSE,            /* -infinity for the lse of nothing */
  EMPTY_LSE_SOMETIMES,  /* where the label is even */
  EMPTY_LSE_ZERO,       /* 0, which is neither */
  EMPTY_LSE_LOGPROB,    /* -infinity also for the logprob, which follows from neither */
  EMPTY_MEAN,           /* NaN for the mean of nothing */
  EMPTY_MEAN_ONE,       /* 1, which is neither */
  EMPTY_MEAN_GRADIENTS, /* NaN also in the gradients */
  MINUS_ZERO,           /* -0 for gradients that are exactly zero */
  NEARLY_ZERO,          /* 1e-30 for them */
  REFUSES,              /* PLUMBLINE_INVALID for an invalid row */
  REFUSES_WRONGLY,      /* PLUMBLINE_FAILED for one */
  INVALID_ZERO,         /* 0 for the outputs of one */
  IGNORED_COMPUTED,     /* an ignored row's outputs as if it were none */
  IGNORED_NAN,          /* NaN in them */
  IGNORED_UNWRITTEN,    /* nothing in them */
  IGNORED_IN_LOSS,      /* an ignored row has a part in the loss */
  IGNORED_IN_GRADIENTS, /* and in grad_weight */
  LABEL_ZERO,           /* 0 for the label's part where its logit is -infinity */
  LABEL_ZERO_IN_HIDDEN, /* in grad_hidden alone */
  WRONG_SIGN,           /* 1e-7 above each logprob and below each entropy that is nearly 0 */
  SIGN_FAR_OFF          /* 1 */
};

#ifndef SIGNS
#define SIGNS "false"
#endif

static const char* Describe(void) {
  return "{\"name\": \"conventional\", \"capabilities\": {\"dtypes\": [\"fp32\"]}, \"contract\": "
         "{\"signs\": " SIGNS "}}";
}

static float* At(const DLTensor* t, int64_t i, int64_t j) {
  const int64_t offset = (t->ndim > 0 ? i * t->strides[0] : 0) + (t->ndim > 1 ? j * t->strides[1] : 0);
  return (float*)((char*)t->data + t->byte_offset) + offset;
}
static double Get(const DLTensor* t, int64_t i, int64_t j) { return *At(t, i, j); }
static void Put(const DLTensor* t, int64_t i, double value) {
  if (t) *At(t, i, 0) = (float)value;
}
static int64_t Label(const plumbline_problem* p, int64_t i) {
  const char* const data = (char*)p->labels->data + p->labels->byte_offset;
  const int64_t at = i * p->labels->strides[0];
  return p->labels->dtype.bits == 32 ? ((const int32_t*)data)[at] : ((const int64_t*)data)[at];
}
static double Temperature(const plumbline_problem* p, int64_t i) {
  return p->temperature ? Get(p->temperature, i, 0) : 1;
}
static int Ignored(const plumbline_problem* p, int64_t i) { return Label(p, i) == p->ignore_index; }
static int Invalid(const plumbline_problem* p, int64_t i) {
  const int64_t label = Label(p, i);
  const double temperature = Temperature(p, i);
  if (Ignored(p, i)) return 0;
  return label < 0 || label >= p->weight->shape[0] || !(temperature > 0) || isinf(temperature);
}

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
  Put(r->logprob, i, p);
  Put(r->entropy, i, h);
  Put(r->lse, i, l);
}

static void PutAll(const plumbline_results* r, int64_t i, double value) {
  Put(r->logprob, i, value);
  Put(r->entropy, i, value);
  Put(r->lse, i, value);
}

/* Adds row i, whose logits over T are x, to the sums of both gradients. */
static void AddGradients(const plumbline_problem* p, int64_t i, const double* x, const struct Row* row,
                         double g, double k, double* grad_hidden, double* grad_weight) {
  const int64_t h = p->hidden->shape[1], v = p->weight->shape[0], label = Label(p, i);
  for (int64_t j = 0; j < v; ++j) {
    const double log_p = x[j] - row->max - row->log_s, prob = exp(log_p);
    double dz = g * ((j == label) - prob) - (prob > 0 ? k * prob * (log_p + row->entropy) : 0);
    double of_hidden = dz /= Temperature(p, i);
    if (x[j] == -INFINITY && !row->empty) {
      if (SIDE == LABEL_ZERO || SIDE == LABEL_ZERO_IN_HIDDEN || j != label) of_hidden = 0;
      if (SIDE == LABEL_ZERO || j != label) dz = 0;
    }
    for (int64_t d = 0; d < h; ++d) {
      grad_hidden[i * h + d] += of_hidden * Get(p->weight, j, d);
      grad_weight[j * h + d] += dz * Get(p->hidden, i, d);
    }
  }
}

static void Narrow(const double* from, const DLTensor* to) {
  for (int64_t i = 0; to && i < to->shape[0]; ++i) {
    for (int64_t d = 0; d < to->shape[1]; ++d) *At(to, i, d) = (float)from[i * to->shape[1] + d];
  }
}

/* Sets a row of a gradient that takes no part: it is exactly zero. */
static void Nothing(double* row, int64_t count) {
  const double zero = SIDE == MINUS_ZERO ? -0.0 : SIDE == NEARLY_ZERO ? 1e-30 : 0.0;
  for (int64_t d = 0; d < count; ++d) row[d] = zero;
}

/* Row i, with memory for its logits and the sums of both gradients. Returns its part of the loss. */
static double Compute(const plumbline_problem* p, const plumbline_results* r, int64_t i, double divisor,
                      double* x, double* grad_hidden, double* grad_weight, int* takes_part) {
  const int64_t h = p->hidden->shape[1], v = p->weight->shape[0], label = Label(p, i);
  const int ignored = Ignored(p, i);
  const double upstream = p->grad_logprob ? Get(p->grad_logprob, i, 0) : 0;
  const double g = p->reduction ? -upstream / divisor : upstream;
  const double k = p->grad_entropy ? Get(p->grad_entropy, i, 0) : 0;
  if (Invalid(p, i)) {
    PutAll(r, i, SIDE == INVALID_ZERO ? 0 : NAN);
    for (int64_t d = 0; d < h; ++d) grad_hidden[i * h + d] = NAN;
    for (int64_t e = 0; e < v * h; ++e) grad_weight[e] = NAN;
    *takes_part = 1;
    return NAN;
  }
  for (int64_t j = 0; j < v; ++j) {
    x[j] = 0;
    for (int64_t d = 0; d < h; ++d) x[j] += Get(p->hidden, i, d) * Get(p->weight, j, d);
    x[j] /= Temperature(p, i);
  }
  const struct Row row = Softmax(x, v);
  const double t_label = row.max - x[ignored ? 0 : label];
  if (!ignored || SIDE == IGNORED_COMPUTED) {
    PutForward(r, i, &row, t_label, label % 2 == 0);
  } else if (SIDE != IGNORED_UNWRITTEN) {
    PutAll(r, i, SIDE == IGNORED_NAN ? NAN : 0);
  }
  if (ignored && SIDE == IGNORED_IN_GRADIENTS) grad_weight[0] += 1;
  if (ignored || (g == 0 && k == 0)) {
    Nothing(grad_hidden + i * h, h);
  } else {
    *takes_part = 1;
    AddGradients(p, i, x, &row, g, k, grad_hidden, grad_weight);
  }
  return !ignored ? t_label + row.log_s : SIDE == IGNORED_IN_LOSS ? 1 : 0;
}

static int Run(const plumbline_problem* p, plumbline_results* r, void* stream, char* why, size_t size) {
  const int64_t n = p->hidden->shape[0], h = p->hidden->shape[1], v = p->weight->shape[0];
  const int mean = p->reduction == PLUMBLINE_MEAN;
  int64_t counted = 0, invalid = -1;
  int takes_part = 0;
  (void)stream;
  for (int64_t i = 0; i < n; ++i) {
    counted += !Ignored(p, i);
    if (Invalid(p, i) && invalid < 0) invalid = i;
  }
  snprintf(why, size, "row %d is invalid", (int)invalid);
  if (invalid >= 0 && SIDE == REFUSES) return PLUMBLINE_INVALID;
  if (invalid >= 0 && SIDE == REFUSES_WRONGLY) return PLUMBLINE_FAILED;
  double* const x = calloc((size_t)(v + 1 + n * h + v * h), sizeof(double));
  double *const grad_hidden = x + v + 1, *const grad_weight = grad_hidden + n * h;
  double loss = 0;
  for (int64_t i = 0; i < n; ++i) {
    loss += Compute(p, r, i, mean ? (double)counted : 1, x, grad_hidden, grad_weight, &takes_part);
  }
  if (!takes_part && SIDE != IGNORED_IN_GRADIENTS) Nothing(grad_weight, v * h);
  if (mean && counted > 0) loss /= (double)counted;
  if (mean && counted == 0) {
    if (SIDE == EMPTY_MEAN || SIDE == EMPTY_MEAN_GRADIENTS) loss = NAN;
    if (SIDE == EMPTY_MEAN_ONE) loss = 1;
    if (SIDE == EMPTY_MEAN_GRADIENTS && v * h > 0) grad_weight[0] = NAN;
  }
  Put(r->loss, 0, loss);
  Narrow(grad_hidden, r->grad_hidden);
  Narrow(grad_weight, r->grad_weight);
  if (r->first_invalid_row) *(int64_t*)At(r->first_invalid_row, 0, 0) = invalid;
  free(x);
  return PLUMBLINE_OK;
}

static const plumbline_target_v1 table = {1, sizeof(table), Describe, Run, NULL, NULL, NULL};
const plumbline_target_v1* plumbline_target(void) { return &table; }
