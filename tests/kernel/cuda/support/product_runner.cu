// SPDX-License-Identifier: Apache-2.0
#include "tests/kernel/cuda/support/product_runner.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>

#include "fuzz/builtin/mutants/cuda_hooks.cuh"
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"
#include "kernel/cuda/support/device.h"
#include "tests/kernel/cuda/support/device_memory.h"
#include "tests/kernel/cuda/support/sums_epilogues.cuh"

namespace plumbline::kernel::cuda {
namespace {

constexpr uint32_t kMark = 0x7fc0dead;  // a NaN that no sum gives
constexpr uint16_t kNaNBits = 0x7fff;   // a NaN in bf16 and fp16

// An operand in memory: [planes][rows, ld]. Its first `used` rows and `columns` columns are read.
struct Matrix {
  uint16_t* data;
  int64_t rows, columns, ld, plane;  // planes lie `plane` elements apart
  int planes;
};

__host__ __device__ inline uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

__device__ inline int IntegerAt(uint64_t seed, int plane, int64_t row, int64_t column) {
  return int(Mix(seed + uint64_t(plane) * 0x9e3779b97f4a7c15ull +
                 Mix(uint64_t(row) * 0x100000001b3ull + uint64_t(column))) %
             17) -
         8;
}

// Writes integers to rows below `live`, zeros from there to `zeros`, and NaN elsewhere.
__global__ void Fill(Matrix a, int64_t live, int64_t zeros, bool half, uint64_t seed) {
  const int64_t count = a.plane * a.planes;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int plane = int(i / a.plane);
    const int64_t row = i % a.plane / a.ld, column = i % a.plane % a.ld;
    uint16_t bits = kNaNBits;
    if (row < zeros && column < a.columns) bits = 0;
    if (row < live && column < a.columns) {
      const float x = float(IntegerAt(seed, plane, row, column));
      bits = half ? __half_as_ushort(__float2half_rn(x)) : __bfloat16_as_ushort(__float2bfloat16_rn(x));
    }
    a.data[i] = bits;
  }
}

__global__ void FillWords(uint32_t* words, int64_t count, uint32_t value) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x)
    words[i] = value;
}

__device__ inline int ValueAt(const Matrix& a, bool half, bool depth_outer, int plane, int64_t mn,
                              int64_t k) {
  const int64_t row = depth_outer ? k : mn, column = depth_outer ? mn : k;
  const uint16_t bits = a.data[plane * a.plane + row * a.ld + column];
  return int(half ? __half2float(__ushort_as_half(bits))
                  : __bfloat162float(__ushort_as_bfloat16(bits)));
}

// The plain loop. It spells out the planes of a pass again, so that a mistake in PlanesOf shows.
__global__ void Reference(Matrix a, Matrix b, bool half, bool a_depth_outer, bool b_depth_outer,
                          int passes, int64_t m, int64_t n, int64_t k, const float* before, int64_t ld,
                          float* c) {
  constexpr int kPassesA[6] = {0, 1, 2, 1, 2, 3}, kPassesB[6] = {2, 1, 0, 2, 1, 3};
  const int64_t column = blockIdx.y * int64_t{blockDim.x} + threadIdx.x, row = blockIdx.x;
  if (row >= m || column >= n) return;
  int sum = before == nullptr ? 0 : int(before[row * ld + column]);
  for (int pass = 0; pass < passes; ++pass) {
    const int pa = passes == 1 ? 0 : kPassesA[pass], pb = passes == 1 ? 0 : kPassesB[pass];
#pragma unroll 1
    for (int64_t i = 0; i < k; ++i)
      sum +=
          ValueAt(a, half, a_depth_outer, pa, row, i) * ValueAt(b, half, b_depth_outer, pb, column, i);
  }
  c[row * ld + column] = float(sum);
}

struct Difference {
  unsigned long long wrong, first;  // first: the least index of a wrong element
};

__global__ void Compare(const uint32_t* got, const uint32_t* want, int64_t count, Difference* found) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    if (got[i] == want[i]) continue;
    // +0 and -0 are the same integer.
    if ((got[i] | want[i]) == 0x80000000u) continue;
    atomicAdd(&found->wrong, 1ull);
    atomicMin(&found->first, static_cast<unsigned long long>(i));
  }
}

bool ADepthOuter(Loop loop) { return loop == Loop::kGradWeight; }
bool BDepthOuter(Loop loop) { return loop != Loop::kLogits && loop != Loop::kFewRowsLogits; }
int64_t RoundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

// Allocates a matrix with a few rows, and gaps between planes, that no product may read.
Matrix NewMatrix(DeviceMemory* memory, int64_t rows, int64_t columns, int64_t pad, int planes) {
  const int64_t ld = RoundUp(columns + pad, 8);
  const int64_t plane = (rows + 3) * ld;
  return {memory->New<uint16_t>(size_t(plane * planes)), rows, columns, ld, plane, planes};
}

Operand ToOperand(const Matrix& a, int64_t rows, int64_t columns) {
  return {a.data, rows, columns, a.ld, a.plane, a.planes};
}

// Each combination is a kernel to compile, so the loops of grad_hidden, whose epilogue loads, have no
// mutants.
template <class Element, class Hooks>
Status LaunchLoop(Loop loop, const Product& product, bool accumulate, float* c, int64_t ld,
                  const Hooks& hooks, const hopper::Transposed& beside = {}) {
  switch (loop) {
    case Loop::kLogits:
      return hopper::LaunchProduct<Element, hopper::ForwardTile>(
          product, StoreSums<false>{c, ld, product.n}, nullptr, hooks);
    case Loop::kFewRowsLogits:
      if constexpr (std::is_same_v<Hooks, NoHooks>) {
        return hopper::LaunchProduct<Element, hopper::FewRowsTile>(
            product, StoreSums<false>{c, ld, product.n}, nullptr, hooks);
      }
      break;
    case Loop::kGradHidden:
      if constexpr (std::is_same_v<Hooks, NoHooks>) {
        if (!accumulate)
          cudaMemset2DAsync(c, size_t(ld) * 4, 0, size_t(product.n) * 4, size_t(product.m), nullptr);
        if (product.stretch > 0) {
          return hopper::LaunchProduct<Element, hopper::GradHiddenTile>(
              product, AddSums{c, ld, product.n, product.in_turn}, nullptr, hooks);
        }
        return hopper::LaunchProduct<Element, hopper::GradHiddenTile>(
            product, StoreSums<true>{c, ld, product.n}, nullptr, hooks);
      }
      break;
    case Loop::kGradWeight:
      return hopper::LaunchProduct<Element, hopper::GradWeightTile>(
          product, StoreSums<false>{c, ld, product.n}, nullptr, hooks, beside);
  }
  return Status::Error(Code::kFailed, "no such loop");
}

Status Launch(const ProductCase& c, const Product& product, float* sums, int64_t ld) {
  const hopper::Transposed beside = {c.unit_rows, c.unit_columns, int(c.m), 1};
  if (c.half) return LaunchLoop<__half>(c.loop, product, c.accumulate, sums, ld, NoHooks(), beside);
  if (c.mutant == fuzz::kNoMutant)
    return LaunchLoop<__nv_bfloat16>(c.loop, product, c.accumulate, sums, ld, NoHooks(), beside);
  return LaunchLoop<__nv_bfloat16>(c.loop, product, c.accumulate, sums, ld,
                                   fuzz::CudaMutantHooks{c.mutant});
}

// How far a case's operands reach: rows that the result has, and the depth.
struct Extent {
  explicit Extent(const ProductCase& c) {
    const int64_t bound = live_is_depth(c) ? c.k : c.m;
    const int64_t live = c.live < 0 ? bound : std::clamp<int64_t>(c.live - c.live_first, 0, bound);
    depth = live_is_depth(c) ? live : c.k;
    rows = live_is_depth(c) ? c.m : live;
  }
  static bool live_is_depth(const ProductCase& c) { return c.loop == Loop::kGradWeight; }
  int64_t depth, rows;
};

// Makes the operands of a case, and of them those that the product is to read: a and b.
Product MakeProduct(const ProductCase& c, DeviceMemory* memory, Matrix* a, Matrix* b) {
  const Extent extent(c);
  const bool a_outer = ADepthOuter(c.loop), b_outer = BDepthOuter(c.loop);
  // The rows of an operand in memory are those of the result, or the depth, which ends in zeros.
  const auto make = [&](bool outer, int64_t mn, int64_t mn_live, int64_t pad, uint64_t seed,
                        bool poison) {
    const Matrix x =
        NewMatrix(memory, outer ? c.k : mn, outer ? mn : c.k, pad, c.passes == 1 ? 1 : kPlanes);
    const int64_t filled = outer ? extent.depth : mn_live;
    const int64_t zeros = outer ? std::min(c.k, RoundUp(extent.depth, 64)) : filled;
    Fill<<<256, 256>>>(x, poison ? 0 : filled, poison ? 0 : zeros, c.half, seed);
    memory->NoteLaunch("fill");
    return x;
  };
  const auto operand = [&](const Matrix& x, bool outer, int64_t mn) {
    return ToOperand(x, outer ? c.k : mn, outer ? mn : c.k);
  };
  const auto word = [&](uint32_t value) {
    int32_t* const made = memory->New<int32_t>(1);
    FillWords<<<1, 1>>>(reinterpret_cast<uint32_t*>(made), 1, value);
    return made;
  };
  const bool used = c.alternative == ProductCase::kUsed;
  *a = make(a_outer, c.m, extent.rows, c.a_pad, c.seed * 2, used && c.a_has_alternative);
  *b = make(b_outer, c.n, c.n, c.b_pad, c.seed * 2 + 1, used && c.b_has_alternative);
  Product product;
  product.a = operand(*a, a_outer, c.m);
  product.b = operand(*b, b_outer, c.n);
  if (c.alternative != ProductCase::kNone) {
    // The alternative has other padding than the operand that it replaces, as compacted rows have.
    if (c.a_has_alternative) {
      const Matrix other = make(a_outer, c.m, extent.rows, c.a_pad + 8, c.seed * 2, !used);
      product.a_alternative = operand(other, a_outer, c.m);
      if (used) *a = other;
    }
    if (c.b_has_alternative) {
      const Matrix other = make(b_outer, c.n, c.n, c.b_pad + 16, c.seed * 2 + 1, !used);
      product.b_alternative = operand(other, b_outer, c.n);
      if (used) *b = other;
    }
    product.use_alternative = word(used ? 1 : 0);
  }
  product.m = c.m;
  product.n = c.n;
  product.k = c.k;
  product.passes = c.passes;
  product.stretch = c.stretch;
  product.in_turn = c.in_turn;
  product.live_is_depth = Extent::live_is_depth(c);
  product.live_first = c.live_first;
  if (c.live >= 0) product.live_rows = word(uint32_t(c.live));
  product.begun = word(uint32_t(c.begun));
  return product;
}

// The sums of a case, with rows and columns around them that must not be written: [m + 2, ld].
struct Sums {
  float *got, *want, *before;  // before: null, or what grad_hidden starts from
  int64_t ld, count;
};

Sums MakeSums(const ProductCase& c, DeviceMemory* memory) {
  const int64_t ld = c.n + 5, count = (c.m + 2) * ld;
  Sums sums = {memory->New<float>(size_t(count)), memory->New<float>(size_t(count)), nullptr, ld,
               count};
  for (float* to : {sums.want, sums.got})
    FillWords<<<256, 256>>>(reinterpret_cast<uint32_t*>(to), count, kMark);
  if (!IsGradHidden(c.loop)) return sums;
  sums.before = memory->New<float>(size_t(count));
  FillWords<<<256, 256>>>(reinterpret_cast<uint32_t*>(sums.before), count,
                          std::bit_cast<uint32_t>(c.accumulate ? 3.0f : 0.0f));
  for (float* to : {sums.want, sums.got}) {
    memory->Note(cudaMemcpy2DAsync(to, size_t(ld) * 4, sums.before, size_t(ld) * 4, size_t(c.n) * 4,
                                   size_t(c.m), cudaMemcpyDeviceToDevice, nullptr),
                 "sums before");
  }
  return sums;
}

Outcome CompareSums(const Sums& sums, DeviceMemory* memory) {
  Difference* const difference = memory->New<Difference>(1);
  Difference found = {0, ~0ull};
  memory->Note(cudaMemcpyAsync(difference, &found, sizeof found, cudaMemcpyHostToDevice, nullptr),
               "copy");
  Compare<<<256, 256>>>(reinterpret_cast<uint32_t*>(sums.got), reinterpret_cast<uint32_t*>(sums.want),
                        sums.count, difference);
  memory->NoteLaunch("compare");
  memory->Note(cudaMemcpy(&found, difference, sizeof found, cudaMemcpyDeviceToHost), "result");
  Outcome outcome;
  if (found.wrong != 0) {
    outcome.wrong = int64_t(found.wrong);
    outcome.row = int64_t(found.first) / sums.ld;
    outcome.column = int64_t(found.first) % sums.ld;
    memory->Note(cudaMemcpy(&outcome.got, sums.got + found.first, 4, cudaMemcpyDeviceToHost), "got");
    memory->Note(cudaMemcpy(&outcome.want, sums.want + found.first, 4, cudaMemcpyDeviceToHost), "want");
  }
  outcome.error = memory->error();
  return outcome;
}

}  // namespace

std::string WhyNoDevice() {
  int capability = 0;
  const Status status = GetComputeCapability(&capability);
  if (!status.ok()) return "no CUDA device: " + status.message;
  return capability == 90 ? "" : "the CUDA device is not of compute capability 9.0";
}

std::string Describe(const ProductCase& c) {
  static const char* const kLoops[] = {"logits", "grad_hidden", "grad_weight", "logits of few rows"};
  std::string text = std::string(kLoops[int(c.loop)]) + (c.half ? " fp16" : " bf16");
  const auto add = [&text](const char* name, int64_t value) {
    text += std::string(" ") + name + "=" + std::to_string(value);
  };
  add("m", c.m);
  add("n", c.n);
  add("k", c.k);
  add("a_pad", c.a_pad);
  add("b_pad", c.b_pad);
  add("passes", c.passes);
  add("accumulate", c.accumulate);
  add("stretch", c.stretch);
  add("in_turn", c.in_turn);
  add("live", c.live);
  add("live_first", c.live_first);
  add("unit_rows", c.unit_rows);
  add("unit_columns", c.unit_columns);
  add("begun", c.begun);
  add("alternative", c.alternative);
  add("of_a", c.a_has_alternative);
  add("of_b", c.b_has_alternative);
  add("mutant", c.mutant);
  add("seed", int64_t(c.seed));
  return text;
}

Outcome RunProduct(const ProductCase& c) {
  DeviceMemory memory;
  Matrix a, b;
  const Product product = MakeProduct(c, &memory, &a, &b);
  const Sums sums = MakeSums(c, &memory);
  if (const Extent extent(c); extent.rows > 0) {
    Reference<<<dim3(unsigned(extent.rows), unsigned((c.n + 127) / 128)), 128>>>(
        a, b, c.half, ADepthOuter(c.loop), BDepthOuter(c.loop), c.passes, extent.rows, c.n,
        extent.depth, sums.before, sums.ld, sums.want);
    memory.NoteLaunch("reference");
  }
  if (memory.error().empty()) memory.Note(Launch(c, product, sums.got, sums.ld));
  const int32_t begun = memory.Fetch(product.begun, 1)[0];
  Outcome outcome = CompareSums(sums, &memory);
  if (c.begun == 0 && begun != 0 && outcome.error.empty())
    outcome.error = "the counter of begun tiles is " + std::to_string(begun) + " afterwards";
  return outcome;
}

std::string Multiply(const ProductCase& c, const std::vector<uint16_t>& a,
                     const std::vector<uint16_t>& b, const std::vector<float>& before,
                     std::vector<float>* sums) {
  DeviceMemory memory;
  const int planes = c.passes == 1 ? 1 : kPlanes;
  const auto place = [&](bool outer, int64_t mn, const std::vector<uint16_t>& from) {
    const Matrix x = NewMatrix(&memory, outer ? c.k : mn, outer ? mn : c.k, 0, planes);
    std::vector<uint16_t> laid(size_t(x.plane * planes), kNaNBits);
    for (int plane = 0; plane < planes; ++plane) {
      for (int64_t i = 0; i < mn; ++i) {
        for (int64_t j = 0; j < c.k; ++j) {
          const int64_t at = plane * x.plane + (outer ? j * x.ld + i : i * x.ld + j);
          laid[size_t(at)] = from[size_t((plane * mn + i) * c.k + j)];
        }
      }
    }
    memory.Note(cudaMemcpy(x.data, laid.data(), laid.size() * 2, cudaMemcpyHostToDevice), "operand");
    return ToOperand(x, outer ? c.k : mn, outer ? mn : c.k);
  };
  Product product;
  product.a = place(ADepthOuter(c.loop), c.m, a);
  product.b = place(BDepthOuter(c.loop), c.n, b);
  product.m = c.m;
  product.n = c.n;
  product.k = c.k;
  product.passes = c.passes;
  product.live_is_depth = c.loop == Loop::kGradWeight;
  float* got = memory.New<float>(size_t(c.m * c.n));
  sums->assign(size_t(c.m * c.n), 0.0f);
  if (!before.empty()) {
    memory.Note(cudaMemcpy(got, before.data(), before.size() * 4, cudaMemcpyHostToDevice),
                "sums before");
  }
  ProductCase copy = c;
  copy.accumulate = !before.empty();
  if (memory.error().empty()) memory.Note(Launch(copy, product, got, c.n));
  memory.Note(cudaMemcpy(sums->data(), got, sums->size() * 4, cudaMemcpyDeviceToHost), "sums");
  return memory.error();
}

}  // namespace plumbline::kernel::cuda
