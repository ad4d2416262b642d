// SPDX-License-Identifier: Apache-2.0

#include "bench/cuda/cublas_products.h"

#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bench/cuda/events.h"
#include "bench/timing/fastest.h"

namespace plumbline::bench {
namespace {

constexpr int kHeuristics = 8;
constexpr int64_t kWorkspace = int64_t{64} << 20;

void Check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + ": " + cublasGetStatusString(status));
}

// cuBLAS is column-major, so it computes outᵀ [columns, rows] = Bᵀ · Aᵀ, whose first operand is b.
struct ColumnMajor {
  cublasOperation_t first, second;
  int first_ld, second_ld, out_ld;
};
ColumnMajor AsColumnMajor(const Product& p) {
  return {p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
          static_cast<int>(p.b_transposed ? p.depth : p.columns),
          static_cast<int>(p.a_transposed ? p.rows : p.depth), static_cast<int>(p.columns)};
}

struct Destroy {
  void operator()(cublasLtMatmulDesc_t d) const { cublasLtMatmulDescDestroy(d); }
  void operator()(cublasLtMatrixLayout_t d) const { cublasLtMatrixLayoutDestroy(d); }
  void operator()(cublasLtMatmulPreference_t d) const { cublasLtMatmulPreferenceDestroy(d); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

// cublasLt's description of a product.
struct Description {
  explicit Description(const Product& p) {
    const ColumnMajor c = AsColumnMajor(p);
    cublasLtMatmulDesc_t made = nullptr;
    Check(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    product.reset(made);
    Check(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSA, &c.first, sizeof c.first),
          "CUBLASLT_MATMUL_DESC_TRANSA");
    Check(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSB, &c.second, sizeof c.second),
          "CUBLASLT_MATMUL_DESC_TRANSB");
    first = Layout(c.first == CUBLAS_OP_T, p.columns, p.depth, c.first_ld);
    second = Layout(c.second == CUBLAS_OP_T, p.depth, p.rows, c.second_ld);
    out = Layout(false, p.columns, p.rows, c.out_ld);
  }
  static Owned<cublasLtMatrixLayout_t> Layout(bool transposed, int64_t rows, int64_t columns, int ld) {
    cublasLtMatrixLayout_t made = nullptr;
    Check(cublasLtMatrixLayoutCreate(&made, CUDA_R_16BF,
                                     static_cast<uint64_t>(transposed ? columns : rows),
                                     static_cast<uint64_t>(transposed ? rows : columns), ld),
          "cublasLtMatrixLayoutCreate");
    return Owned<cublasLtMatrixLayout_t>(made);
  }

  Owned<cublasLtMatmulDesc_t> product;
  Owned<cublasLtMatrixLayout_t> first, second, out;
};

}  // namespace

CublasProducts::CublasProducts(cudaStream_t stream) : stream_(stream), workspace_(kWorkspace) {
  Check(cublasCreate(&common_), "cublasCreate");
  Check(cublasLtCreate(&light_), "cublasLtCreate");
  Check(cublasSetStream(common_, stream_), "cublasSetStream");
  Check(cublasSetWorkspace(common_, workspace_.data(), static_cast<size_t>(workspace_.size())),
        "cublasSetWorkspace");
}

CublasProducts::~CublasProducts() {
  cublasLtDestroy(light_);
  cublasDestroy(common_);
}

void CublasProducts::Common(const Product& p) {
  const ColumnMajor c = AsColumnMajor(p);
  const float one = 1, zero = 0;
  Check(cublasGemmEx(common_, c.first, c.second, static_cast<int>(p.columns), static_cast<int>(p.rows),
                     static_cast<int>(p.depth), &one, p.b, CUDA_R_16BF, c.first_ld, p.a, CUDA_R_16BF,
                     c.second_ld, &zero, p.out, CUDA_R_16BF, c.out_ld, CUBLAS_COMPUTE_32F,
                     CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

void CublasProducts::Light(const Product& p, const cublasLtMatmulAlgo_t& algorithm) {
  const Description d(p);
  const float one = 1, zero = 0;
  Check(cublasLtMatmul(light_, d.product.get(), &one, p.b, d.first.get(), p.a, d.second.get(), &zero,
                       p.out, d.out.get(), p.out, d.out.get(), &algorithm, workspace_.data(),
                       static_cast<size_t>(workspace_.size()), stream_),
        "cublasLtMatmul");
}

CublasProducts::Choice CublasProducts::Choose(const Product& product) {
  std::vector<Choice> candidates = {{product, false, {}, "cublasGemmEx"}};

  const Description d(product);
  cublasLtMatmulPreference_t made = nullptr;
  Check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> preference(made);
  const auto bytes = static_cast<uint64_t>(workspace_.size());
  Check(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                             sizeof bytes),
        "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES");
  std::array<cublasLtMatmulHeuristicResult_t, kHeuristics> found = {};
  int count = 0;
  Check(
      cublasLtMatmulAlgoGetHeuristic(light_, d.product.get(), d.first.get(), d.second.get(),
                                     d.out.get(), d.out.get(), made, kHeuristics, found.data(), &count),
      "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& heuristic = found[static_cast<size_t>(i)];
    if (heuristic.state != CUBLAS_STATUS_SUCCESS) continue;
    candidates.push_back({product, true, heuristic.algo, "cublasLt heuristic " + std::to_string(i)});
  }

  Events events(candidates.size() + 1);
  return candidates[Fastest(candidates.size(), [&](const std::vector<size_t>& order) {
    // This one is not timed: while it runs the others are enqueued, so that the first does not wait for
    // the host.
    Enqueue(candidates[order.back()]);
    events.Record(0, stream_);
    for (size_t k = 0; k < order.size(); ++k) {
      Enqueue(candidates[order[k]]);
      events.Record(k + 1, stream_);
    }
    bench::Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    std::vector<double> times;
    for (size_t k = 0; k < order.size(); ++k) times.push_back(events.Between(k, k + 1));
    return times;
  })];
}

void CublasProducts::Enqueue(const Choice& choice) {
  choice.light ? Light(choice.product, choice.algorithm) : Common(choice.product);
}

std::string CublasVersion() {
  int parts[3] = {0, 0, 0};
  const libraryPropertyType_t of[3] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
  std::string text;
  for (int i = 0; i < 3; ++i) {
    Check(cublasGetProperty(of[i], &parts[i]), "cublasGetProperty");
    text += (i == 0 ? "" : ".") + std::to_string(parts[i]);
  }
  return text;
}

}  // namespace plumbline::bench
