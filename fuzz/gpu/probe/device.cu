// SPDX-License-Identifier: Apache-2.0

#include "fuzz/gpu/probe/device.h"

#include <cuda_runtime.h>

#include <cstring>

#include "fuzz/gpu/probe/cuda.cuh"

namespace plumbline::fuzz {
namespace {

constexpr double kU = 0x1p-24;
constexpr float kLeastNormal = 0x1p-126f;

// The larger of error and pattern as one integer: a float that is not negative has the order of its
// bits.
struct Tally {
  unsigned long long worst;  // error's bits << 32 | pattern
  unsigned long long rising;
  unsigned long long wrong;
  unsigned int wrong_at;
};

struct Judged {
  double error;  // in u
  bool wrong;
};

struct Exponential {
  double claim;
  __device__ float operator()(float x) const {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  __device__ bool InOrder(float y, float next) const { return next <= y; }  // patterns grow downwards
  __device__ Judged Judge(float x, float y) const {
    if (isnan(x)) return {0, !isnan(y)};
    const double exact = exp2(static_cast<double>(x));
    const double error = exact > 0 ? fabs(y - exact) / (exact * kU) : 0;
    if (exact >= kLeastNormal) return {error, y > 1 || (x == 0 && y != 1) || !(y > 0)};
    return {0, __float_as_uint(y) != 0 && !(y >= kLeastNormal && error <= claim)};
  }
};

struct Logarithm {
  __device__ float operator()(float x) const { return logf(x); }
  __device__ bool InOrder(float y, float next) const { return next >= y; }
  __device__ Judged Judge(float x, float y) const {
    if (x == 1) return {0, __float_as_uint(y) != 0};
    const double exact = log(static_cast<double>(x));
    return {fabs(y - exact) / (exact * kU), !(y >= 0)};
  }
};

struct FastLogarithm {
  __device__ float operator()(float x) const {
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  __device__ bool InOrder(float y, float next) const { return next >= y; }
  __device__ Judged Judge(float x, float y) const {
    if (x == 1) return {0, __float_as_uint(y) != 0};
    const double exact = log2(static_cast<double>(x));
    return {fabs(y - exact) / (exact * kU), !(y >= 0)};
  }
};

// fp64 divides two fp32 numbers so closely that rounding its quotient once more gives the rounded exact
// one: the exact quotient lies at least 2^-49 of itself away from every midpoint of fp32 that it does
// not hit.
__device__ Judged JudgeQuotient(float a, float b, float y) {
  const double exact = static_cast<double>(a) / static_cast<double>(b);
  const float want = static_cast<float>(exact);
  const bool same = __float_as_uint(want) == __float_as_uint(y) || (isnan(want) && isnan(y));
  const bool normal = fabs(exact) >= kLeastNormal && fabsf(want) < INFINITY;
  return {normal ? fabs(y - exact) / (fabs(exact) * kU) : 0, !same};
}

struct Reciprocal {
  __device__ float operator()(float x) const { return 1.0f / x; }
  __device__ bool InOrder(float y, float next) const { return next <= y; }
  __device__ Judged Judge(float x, float y) const { return JudgeQuotient(1, x, y); }
};

__device__ unsigned long long Hash(unsigned long long x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

__device__ void Note(float x, const Judged& judged, Tally* own) {
  const float error = static_cast<float>(judged.error);
  const unsigned long long packed =
      static_cast<unsigned long long>(__float_as_uint(error)) << 32 | __float_as_uint(x);
  if (packed > own->worst) own->worst = packed;
  if (judged.wrong) {
    ++own->wrong;
    own->wrong_at = __float_as_uint(x);
  }
}

__device__ void Merge(const Tally& own, Tally* all) {
  atomicMax(&all->worst, own.worst);
  if (own.rising > 0) atomicAdd(&all->rising, own.rising);
  if (own.wrong > 0) {
    atomicAdd(&all->wrong, own.wrong);
    all->wrong_at = own.wrong_at;  // any of them
  }
}

template <class Function>
__global__ void SweepKernel(Function f, unsigned int first, unsigned long long count, Tally* all) {
  Tally own = {};
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const unsigned int pattern = first + static_cast<unsigned int>(i);
    const float x = __uint_as_float(pattern);
    const float y = f(x);
    Note(x, f.Judge(x, y), &own);
    const float next = __uint_as_float(pattern + 1);
    if (i + 1 < count && !isnan(x) && !isnan(next) && !f.InOrder(y, f(next))) ++own.rising;
  }
  Merge(own, all);
}

__global__ void DivisionKernel(unsigned long long count, Tally* all) {
  Tally own = {};
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const unsigned long long bits = Hash(i + 1);
    const float a = __uint_as_float(static_cast<unsigned int>(bits));
    const float b = __uint_as_float(static_cast<unsigned int>(bits >> 32));
    if (!isfinite(a) || !isfinite(b)) continue;
    Note(b, JudgeQuotient(a, b, a / b), &own);
  }
  Merge(own, all);
}

template <class Launch>
FunctionSweep Swept(int64_t arguments, const char* name, Launch launch) {
  DeviceBytes memory(sizeof(Tally));
  memory.Fill(0);
  auto* const all = static_cast<Tally*>(memory.data());
  launch(all);
  CheckKernel(name);
  Tally tally;
  memory.Get(&tally, sizeof tally);
  const auto as_float = [](unsigned long long bits) {
    const auto low = static_cast<unsigned int>(bits);
    float x;
    memcpy(&x, &low, sizeof x);
    return x;
  };
  FunctionSweep sweep;
  sweep.arguments = arguments;
  sweep.worst = as_float(tally.worst >> 32);
  sweep.worst_at = as_float(tally.worst & 0xffffffffu);
  sweep.rising = static_cast<int64_t>(tally.rising);
  sweep.wrong = static_cast<int64_t>(tally.wrong);
  sweep.wrong_at = as_float(tally.wrong_at);
  return sweep;
}

constexpr int kBlocks = 2048, kThreads = 256;

template <class Function>
FunctionSweep Sweep(Function f, unsigned int first, unsigned long long count, const char* name) {
  return Swept(static_cast<int64_t>(count), name,
               [&](Tally* all) { SweepKernel<<<kBlocks, kThreads>>>(f, first, count, all); });
}

constexpr unsigned int kOne = 0x3f800000;               // 1
constexpr unsigned long long k32Binades = 32ull << 23;  // [1, 2^32)

// The fragments of mma.m16n8k16: rows lane / 4 and lane / 4 + 8, columns (lane % 4) * 2 and the next.
template <bool kFp16>
__global__ void MmaKernel(long long tiles, int depth, const uint16_t* a, const uint16_t* b,
                          float* out) {
#if __CUDA_ARCH__ >= 800  // older devices lack this mma, and ProbeDevice skips them
  const long long tile = static_cast<long long>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (tile >= tiles) return;
  const int lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4 * 2;
  const uint16_t* const left = a + tile * 16 * depth;
  const uint16_t* const right = b + tile * 16 * depth;
  const auto word = [](const uint16_t* at) { return *reinterpret_cast<const unsigned int*>(at); };
  float c[2][4] = {};
  for (int k = 0; k < depth; k += 16) {
    const unsigned int a0 = word(left + row * depth + k + pair);
    const unsigned int a1 = word(left + (row + 8) * depth + k + pair);
    const unsigned int a2 = word(left + row * depth + k + pair + 8);
    const unsigned int a3 = word(left + (row + 8) * depth + k + pair + 8);
    for (int half = 0; half < 2; ++half) {
      const unsigned int b0 = word(right + (half * 8 + row) * depth + k + pair);
      const unsigned int b1 = word(right + (half * 8 + row) * depth + k + pair + 8);
      float* const d = c[half];
      if constexpr (kFp16) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
      } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
      }
    }
  }
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 4; ++i) {
      out[tile * 256 + (row + i / 2 * 8) * 16 + half * 8 + pair + i % 2] = c[half][i];
    }
  }
#endif
}

}  // namespace

bool DescribeDevice(ProbedDevice* device, std::string* reason) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  int current = 0;
  cudaDeviceProp properties{};
  if (error == cudaSuccess) error = cudaGetDevice(&current);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, current);
  if (error == cudaSuccess) error = cudaDriverGetVersion(&device->driver);
  if (error == cudaSuccess) error = cudaRuntimeGetVersion(&device->runtime);
  if (error != cudaSuccess) {
    *reason = std::string("no CUDA device: ") + cudaGetErrorString(error);
    return false;
  }
  device->name = properties.name;
  device->major = properties.major;
  device->minor = properties.minor;
  if (10 * properties.major + properties.minor >= 75) return true;
  *reason = device->name + " has compute capability " + std::to_string(properties.major) + "." +
            std::to_string(properties.minor) + "; 7.5 is the least that the operator runs on";
  return false;
}

DeviceBytes::DeviceBytes(size_t bytes) : bytes_(bytes) {
  CheckCuda(cudaMalloc(&data_, bytes), ("cudaMalloc of " + std::to_string(bytes) + " bytes").c_str());
}
DeviceBytes::~DeviceBytes() { (void)cudaFree(data_); }
void DeviceBytes::Fill(int byte) { CheckCuda(cudaMemset(data_, byte, bytes_), "cudaMemset"); }
void DeviceBytes::Put(const void* from, size_t bytes) {
  CheckCuda(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
}
void DeviceBytes::Get(void* to, size_t bytes) const {
  CheckCuda(cudaMemcpy(to, data_, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
}

FunctionSweep SweepExponential(double claim) {
  return Sweep(Exponential{claim}, 0x80000000u, 1ull << 31, "ex2.approx.ftz.f32");
}
FunctionSweep SweepLogarithm() { return Sweep(Logarithm{}, kOne, k32Binades, "logf"); }
FunctionSweep SweepFastLogarithm() {
  return Sweep(FastLogarithm{}, kOne, k32Binades, "lg2.approx.f32");
}
FunctionSweep SweepReciprocal() { return Sweep(Reciprocal{}, kOne, k32Binades, "reciprocal"); }
FunctionSweep SampleDivision() {
  constexpr unsigned long long kPairs = 1ull << 28;
  return Swept(static_cast<int64_t>(kPairs), "division",
               [&](Tally* all) { DivisionKernel<<<kBlocks, kThreads>>>(kPairs, all); });
}

void MmaTiles(bool fp16, int64_t tiles, int depth, const uint16_t* a, const uint16_t* b, float* out) {
  const auto blocks = static_cast<unsigned int>((tiles + 3) / 4);
  TilesOnDevice("mma.sync", tiles, depth, a, b, out,
                [&](const uint16_t* left, const uint16_t* right, float* products) {
                  (fp16 ? MmaKernel<true> : MmaKernel<false>)<<<blocks, 128>>>(tiles, depth, left,
                                                                               right, products);
                });
}

}  // namespace plumbline::fuzz
