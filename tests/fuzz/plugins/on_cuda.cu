// SPDX-License-Identifier: Apache-2.0
//
// A target in plain CUDA, one thread a row, that can misbehave on a device or be wrong. Within the part
// that it declares it is right, unless PLUMB_DEED names a deed or PLUMB_DEFECT a defect. It does the
// deed if V % 4 is 1, so that a campaign goes on and a shrinker has something to keep. A defect is the
// change of one line.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fuzz/target_abi.h"

namespace {

#define TEXT(...) #__VA_ARGS__
// clang-format off
const char* Describe() { return TEXT({
  "name": "on-cuda", "device": "cuda", "capabilities": {"dtypes": ["fp32"], "label_dtypes": ["int64"],
  "temperature": "none", "weight_layouts": ["vocab_major"], "reductions": ["none"], "ignore_index": false,
  "invalid_labels": false, "special_values": false, "strided_inputs": false, "zero_stride_grads": false},
  "contract": {"accumulate": "fp32", "shift": "exact_max", "probability": "ratio", "d_logits": "fp32", "tile": 1}}); }
// clang-format on

enum Deed {
  kNothing,
  kIllegalAddress,
  kMisaligned,
  kTrap,
  kEndless,
  kKeepEverything,
  kWriteOutside,
  kWriteInput,
  kWrongStream,
  kBadLaunch
};
constexpr const char* kDeeds[] = {"nothing",      "illegal-address", "misaligned",    "trap",
                                  "endless",      "keep-everything", "write-outside", "write-input",
                                  "wrong-stream", "bad-launch"};

enum Defect {
  kRight,
  kDroppedTail,
  kMaxFromZero,
  kLabelOffByOne,
  kEntropyNotDivided,
  kLabelMissing,
  kNotAccumulated,
  kEntropyGradientSign,
  kFirstGradientForAll,
  kDepthTail,
  kNotZeroed,
  kLastBlockMissing,
  kWriteBeyond
};
constexpr const char* kDefects[] = {"right",
                                    "dropped-tail",
                                    "max-from-zero",
                                    "label-off-by-one",
                                    "entropy-not-divided",
                                    "label-missing",
                                    "not-accumulated",
                                    "entropy-gradient-sign",
                                    "first-gradient-for-all",
                                    "depth-tail",
                                    "not-zeroed",
                                    "last-block-missing",
                                    "write-beyond"};

struct Arguments {
  int64_t n, h, v;
  const float *hidden, *weight, *grad_logprob, *grad_entropy;
  const int64_t* labels;
  float *logprob, *entropy, *lse, *grad_hidden, *grad_weight;
  int64_t* first_invalid_row;
  Defect defect;
};

__device__ float Logit(const Arguments& a, int64_t i, int64_t j) {
  const int64_t depth = a.defect == kDepthTail && a.h > 8 ? a.h / 8 * 8 : a.h;
  float z = 0;
  for (int64_t d = 0; d < depth; ++d) z = fmaf(a.hidden[i * a.h + d], a.weight[j * a.h + d], z);
  return z;
}

struct Row {
  float m, s, l, entropy;
};

__device__ Row SumRow(const Arguments& a, int64_t i) {
  Row r = {a.defect == kMaxFromZero ? 0 : -INFINITY, 0, 0, 0};
  const int64_t columns = a.v - (a.defect == kDroppedTail && a.v % 8 == 1 ? 1 : 0);
  float q = 0;
  for (int64_t j = 0; j < columns; ++j) r.m = fmaxf(r.m, Logit(a, i, j));
  for (int64_t j = 0; j < columns; ++j) {
    const float t = r.m - Logit(a, i, j);
    r.s += expf(-t);
    q += expf(-t) * t;
  }
  r.l = logf(r.s);
  r.entropy = r.l + (a.defect == kEntropyNotDivided ? q : q / r.s);
  return r;
}

__device__ int64_t Label(const Arguments& a, int64_t i) {
  return a.defect == kLabelOffByOne ? (a.labels[i] + 1) % a.v : a.labels[i];
}

__device__ float DLogit(const Arguments& a, const Row& r, int64_t i, int64_t j) {
  const int64_t row = a.defect == kFirstGradientForAll ? 0 : i;
  const float g = a.grad_logprob ? a.grad_logprob[row] : 0, k = a.grad_entropy ? a.grad_entropy[i] : 0;
  if (g == 0 && k == 0) return 0;
  const float z = Logit(a, i, j), p = expf(z - r.m) / r.s;
  const bool hot = j == Label(a, i) && a.defect != kLabelMissing;
  const float of_entropy = k * p * ((z - r.m) - r.l + r.entropy);
  return g * (static_cast<float>(hot) - p) +
         (a.defect == kEntropyGradientSign ? of_entropy : -of_entropy);
}

__global__ void Rows(Arguments a) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i == 0 && a.first_invalid_row) *a.first_invalid_row = -1;
  if (i >= a.n) return;
  const Row r = SumRow(a, i);
  if (a.logprob) a.logprob[i] = (Logit(a, i, Label(a, i)) - r.m) - r.l;
  if (a.entropy) a.entropy[i] = r.entropy;
  if (a.lse) a.lse[i + (a.defect == kWriteBeyond && a.n % 16 == 3)] = r.m + r.l;
  for (int64_t d = 0; a.grad_hidden && d < a.h; ++d) a.grad_hidden[i * a.h + d] = 0;
  for (int64_t j = 0; a.grad_hidden && j < a.v; ++j) {
    const float dz = DLogit(a, r, i, j);
    for (int64_t d = 0; dz != 0 && d < a.h; ++d) {
      const float term = dz * a.weight[j * a.h + d];
      a.grad_hidden[i * a.h + d] =
          a.defect == kNotAccumulated ? term : a.grad_hidden[i * a.h + d] + term;
    }
  }
}

// Runs one thread a column of the vocabulary, over the rows in order.
__global__ void Columns(Arguments a) {
  const int64_t j = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (j >= a.v) return;
  for (int64_t d = 0; a.defect != kNotZeroed && d < a.h; ++d) a.grad_weight[j * a.h + d] = 0;
  for (int64_t i = 0; i < a.n; ++i) {
    const float dz = DLogit(a, SumRow(a, i), i, j);
    for (int64_t d = 0; dz != 0 && d < a.h; ++d)
      a.grad_weight[j * a.h + d] += dz * a.hidden[i * a.h + d];
  }
}

__global__ void Do(Deed deed, float* output, float* input, int64_t n) {
  if (deed == kIllegalAddress) *reinterpret_cast<volatile float*>(int64_t{1} << 20) = 1;
  if (deed == kMisaligned) *reinterpret_cast<volatile double*>(reinterpret_cast<char*>(output) + 1) = 1;
  if (deed == kTrap) __trap();
  if (deed == kWriteOutside) output[n] = 0;
  if (deed == kWriteInput) input[0] += 1;
  while (deed == kEndless) __nanosleep(1000);
}

template <class T>
T* Data(const DLTensor* t) {
  return t == nullptr ? nullptr : reinterpret_cast<T*>(static_cast<char*>(t->data) + t->byte_offset);
}

// Returns the index of the word that the environment's variable holds, 0 if it is none of them.
template <int kCount>
int Asked(const char* variable, const char* const (&words)[kCount]) {
  const char* const asked = std::getenv(variable);
  for (int i = 0; asked != nullptr && i < kCount; ++i) {
    if (std::strcmp(asked, words[i]) == 0) return i;
  }
  return 0;
}

int Run(const plumbline_problem* p, plumbline_results* r, void* given, char* why, size_t size) {
  Arguments a = {p->hidden->shape[0],
                 p->hidden->shape[1],
                 p->weight->shape[0],
                 Data<float>(p->hidden),
                 Data<float>(p->weight),
                 Data<float>(p->grad_logprob),
                 Data<float>(p->grad_entropy),
                 Data<int64_t>(p->labels),
                 Data<float>(r->logprob),
                 Data<float>(r->entropy),
                 Data<float>(r->lse),
                 Data<float>(r->grad_hidden),
                 Data<float>(r->grad_weight),
                 Data<int64_t>(r->first_invalid_row),
                 static_cast<Defect>(Asked("PLUMB_DEFECT", kDefects))};
  if (a.n * a.v * a.v * a.h * 2 > int64_t{1} << 32) {
    return std::snprintf(why, size, "too large for one thread a row"), PLUMBLINE_UNSUPPORTED;
  }
  if (p->labels->strides[0] != 1 && a.n > 1) {
    return std::snprintf(why, size, "labels with a stride"), PLUMBLINE_UNSUPPORTED;
  }
  const Deed deed = a.v % 4 == 1 ? static_cast<Deed>(Asked("PLUMB_DEED", kDeeds)) : kNothing;
  const auto stream = deed == kWrongStream ? nullptr : static_cast<cudaStream_t>(given);
  constexpr int kThreads = 64;
  const auto blocks = [](int64_t count) {
    return static_cast<unsigned>((count + kThreads - 1) / kThreads);
  };
  const unsigned for_rows = a.defect == kLastBlockMissing
                                ? blocks(std::max<int64_t>(a.n - kThreads + 1, 1))
                                : blocks(a.n + 1);
  Rows<<<for_rows, deed == kBadLaunch ? 4096 : kThreads, 0, stream>>>(a);
  if (a.grad_weight && a.v > 0) Columns<<<blocks(a.v), kThreads, 0, stream>>>(a);
  if (deed == kKeepEverything) {
    for (size_t bytes = size_t{1} << 40; bytes >= size_t{1} << 20;) {
      void* kept = nullptr;
      if (cudaMalloc(&kept, bytes) != cudaSuccess) bytes /= 2;
    }
  } else if (deed != kNothing && deed != kWrongStream && deed != kBadLaunch) {
    Do<<<1, 1, 0, stream>>>(deed, a.lse ? a.lse : a.logprob, const_cast<float*>(a.weight), a.n);
  }
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess || deed == kBadLaunch || deed == kKeepEverything) return PLUMBLINE_OK;
  return std::snprintf(why, size, "%s", cudaGetErrorString(error)), PLUMBLINE_FAILED;
}

constexpr plumbline_target_v1 kTable = {PLUMBLINE_TARGET_ABI_VERSION,
                                        sizeof(plumbline_target_v1),
                                        Describe,
                                        Run,
                                        nullptr,
                                        nullptr,
                                        nullptr};

}  // namespace

extern "C" const plumbline_target_v1* plumbline_target() { return &kTable; }
