// SPDX-License-Identifier: Apache-2.0
//
// Tensors in a device's memory and their copies on the host, for tests.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/problem.h"
#include "oracle/cuda/device.h"

namespace plumbline::fuzz {

// A vector as it lies in device memory, with its stride.
struct ReadBack {
  std::vector<std::byte> bytes;
  kernel::ConstTensor view;
};

inline ReadBack ReadVector(const kernel::ConstTensor& tensor, int64_t count) {
  ReadBack back;
  const int64_t elements = count == 0 ? 0 : (count - 1) * tensor.stride[0] + 1;
  back.bytes =
      oracle::cuda::Download(static_cast<const std::byte*>(tensor.data),
                             elements * static_cast<int64_t>(kernel::SizeOf(tensor.dtype)), "a vector");
  back.view = tensor;
  back.view.data = back.bytes.data();
  return back;
}

// Results in host memory of the same shapes, dense, grad_weight vocab-major.
class HostResults {
 public:
  explicit HostResults(const kernel::Results& like) {
    std::optional<kernel::Tensor> kernel::Results::*const members[] = {
        &kernel::Results::logprob,          &kernel::Results::loss,
        &kernel::Results::entropy,          &kernel::Results::lse,
        &kernel::Results::grad_hidden,      &kernel::Results::grad_weight,
        &kernel::Results::first_invalid_row};
    for (const auto member : members) {
      if (!(like.*member)) continue;
      std::optional<kernel::Tensor>& mine = results_.*member;
      mine = *(like.*member);
      memory_.emplace_back(static_cast<size_t>(mine->size()) * kernel::SizeOf(mine->dtype));
      mine->data = memory_.back().data();
      mine->stride[0] = mine->rank > 1 ? mine->shape[1] : 1;
      mine->stride[1] = 1;
      copies_.push_back({member, memory_.size() - 1});
    }
  }

  const kernel::Results& results() const { return results_; }

  // Sets bits of some elements that follow from the seed.
  void Damage(uint64_t seed) {
    for (size_t k = 0; k < memory_.size(); ++k) {
      if (memory_[k].empty()) continue;
      const uint64_t hash = (seed + 1) * 0x9e3779b97f4a7c15u + k * 0xbf58476d1ce4e5b9u;
      memory_[k][(hash >> 20) % memory_[k].size()] ^= std::byte{0x41};
    }
  }

  void CopyTo(const kernel::Results& device) const {
    for (const auto& [member, at] : copies_) {
      const kernel::Tensor& to = *(device.*member);
      const size_t width = kernel::SizeOf(to.dtype);
      const int64_t rows = to.rank > 0 ? to.shape[0] : 1, columns = to.rank > 1 ? to.shape[1] : 1;
      for (int64_t i = 0; i < rows; ++i) {
        const std::byte* from = memory_[at].data() + static_cast<size_t>(i * columns) * width;
        auto* const data =
            static_cast<std::byte*>(to.data) + static_cast<size_t>(i * to.stride[0]) * width;
        if (columns == 0) continue;
        const size_t pitch = static_cast<size_t>(to.rank > 1 ? to.stride[1] : 1) * width;
        oracle::cuda::Check(cudaMemcpy2D(data, pitch, from, width, width, static_cast<size_t>(columns),
                                         cudaMemcpyHostToDevice),
                            "copying results");
      }
    }
  }

 private:
  struct Copy {
    std::optional<kernel::Tensor> kernel::Results::*member;
    size_t at;
  };
  kernel::Results results_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Copy> copies_;
};

}  // namespace plumbline::fuzz
