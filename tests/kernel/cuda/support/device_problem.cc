// SPDX-License-Identifier: Apache-2.0

#include "tests/kernel/cuda/support/device_problem.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernel/cuda/operator.h"

namespace plumbline::kernel::device {
namespace {

constexpr std::byte kPoison{0xff};

// The number of elements by which the first of a view lies before its data (negative strides), and the
// number in all.
struct Extent {
  int64_t before = 0, elements = 0;
};

Extent ExtentOf(const ConstTensor& tensor) {
  if (tensor.size() == 0) return {};
  Extent extent{0, 1};
  for (int d = 0; d < tensor.rank; ++d) {
    const int64_t span = (tensor.shape[d] - 1) * tensor.stride[d];
    extent.before += std::max<int64_t>(0, -span);
    extent.elements += std::abs(span);
  }
  return extent;
}

template <class Visit>
void ForEachElement(const ConstTensor& tensor, const Visit& visit) {
  if (tensor.size() == 0) return;
  const int64_t rows = tensor.rank > 0 ? tensor.shape[0] : 1;
  const int64_t columns = tensor.rank > 1 ? tensor.shape[1] : 1;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) visit(i * tensor.stride[0] + j * tensor.stride[1]);
  }
}

// A fill or a copy to the device may return before it is done, and other streams do not wait for the
// default one.
void AwaitDefaultStream() { Check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"); }

}  // namespace

std::string WhyNoDevice() {
  if (!cuda::Built()) return "this build has no CUDA implementation";
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(error);
  return count > 0 ? "" : "no CUDA device";
}

void Check(cudaError_t error, const char* call) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

DeviceBuffer::DeviceBuffer(size_t bytes, bool filled) : bytes_(bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes + 2 * kGuard), "cudaMalloc");
  base_ = static_cast<std::byte*>(memory);
  Check(cudaMemset(base_, 0xff, filled ? bytes + 2 * kGuard : kGuard), "cudaMemset");
  if (!filled) Check(cudaMemset(data() + bytes, 0xff, kGuard), "cudaMemset");
  AwaitDefaultStream();
}
DeviceBuffer::~DeviceBuffer() { (void)cudaFree(base_); }
void DeviceBuffer::Fill(int byte) {
  Check(cudaMemset(data(), byte, bytes_), "cudaMemset");
  AwaitDefaultStream();
}
void DeviceBuffer::Put(const void* from, size_t bytes) {
  Check(cudaMemcpy(data(), from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
  AwaitDefaultStream();
}
std::vector<std::byte> DeviceBuffer::Get() const {
  std::vector<std::byte> out(bytes_);
  Check(cudaMemcpy(out.data(), data(), bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
  return out;
}
bool DeviceBuffer::GuardsIntact() const {
  std::vector<std::byte> guards(2 * kGuard);
  Check(cudaMemcpy(guards.data(), base_, kGuard, cudaMemcpyDeviceToHost), "cudaMemcpy of a guard band");
  Check(cudaMemcpy(guards.data() + kGuard, data() + bytes_, kGuard, cudaMemcpyDeviceToHost),
        "cudaMemcpy of a guard band");
  return std::ranges::all_of(guards, [](std::byte b) { return b == kPoison; });
}

size_t ExtentBytes(const ConstTensor& tensor) {
  return static_cast<size_t>(ExtentOf(tensor).elements) * SizeOf(tensor.dtype);
}

// `image` is what the buffer must hold, except for an output's elements.
struct DeviceProblem::Mirror {
  Mirror(std::string name_, const ConstTensor& host_, void* output_)
      : name(std::move(name_)),
        host(host_),
        output(static_cast<std::byte*>(output_)),
        extent(ExtentOf(host)),
        width(SizeOf(host.dtype)),
        buffer(ExtentBytes(host)) {
    image.assign(buffer.size(), kPoison);
    if (output == nullptr) {
      ForEachElement(host, [&](int64_t at) { std::memcpy(Here(at), There(at), width); });
    }
    buffer.Put(image.data(), image.size());
  }
  std::byte* Here(int64_t at) { return image.data() + static_cast<size_t>(at + extent.before) * width; }
  const std::byte* There(int64_t at) const {
    return static_cast<const std::byte*>(host.data) + at * static_cast<int64_t>(width);
  }
  void* DeviceData() const {
    return host.data == nullptr ? nullptr : buffer.data() + static_cast<size_t>(extent.before) * width;
  }
  void Fetch(std::vector<std::string>* damage) {
    std::vector<std::byte> now = buffer.Get();
    if (output != nullptr) {
      ForEachElement(host, [&](int64_t at) {
        const size_t offset = static_cast<size_t>(at + extent.before) * width;
        std::memcpy(output + at * static_cast<int64_t>(width), now.data() + offset, width);
        std::memcpy(now.data() + offset, image.data() + offset, width);
      });
    }
    if (now != image)
      damage->push_back(name +
                        (output != nullptr ? ": its padding was written" : ": an input was written"));
    if (!buffer.GuardsIntact()) damage->push_back(name + ": a guard band was written");
  }

  std::string name;
  ConstTensor host;
  std::byte* output;
  Extent extent;
  size_t width;
  DeviceBuffer buffer;
  std::vector<std::byte> image;
};

DeviceProblem::DeviceProblem(const Problem& problem, const Results& results)
    : problem_(problem), results_(results) {
  const auto input = [&](const char* name, ConstTensor* tensor) {
    mirrors_.push_back(std::make_unique<Mirror>(name, *tensor, nullptr));
    tensor->data = mirrors_.back()->DeviceData();
  };
  const auto output = [&](const char* name, std::optional<Tensor>* tensor) {
    if (!*tensor) return;
    mirrors_.push_back(std::make_unique<Mirror>(name, AsConst(**tensor), (*tensor)->data));
    (*tensor)->data = mirrors_.back()->DeviceData();
  };
  input("hidden", &problem_.hidden);
  input("weight", &problem_.weight);
  input("labels", &problem_.labels);
  if (problem_.temperature) input("temperature", &*problem_.temperature);
  if (problem_.grad_logprob) input("grad_logprob", &*problem_.grad_logprob);
  if (problem_.grad_entropy) input("grad_entropy", &*problem_.grad_entropy);
  output("logprob", &results_.logprob);
  output("loss", &results_.loss);
  output("entropy", &results_.entropy);
  output("lse", &results_.lse);
  output("grad_hidden", &results_.grad_hidden);
  output("grad_weight", &results_.grad_weight);
  output("first_invalid_row", &results_.first_invalid_row);
}

DeviceProblem::~DeviceProblem() = default;

size_t DeviceProblem::bytes() const {
  size_t sum = 0;
  for (const auto& mirror : mirrors_) sum += mirror->buffer.size();
  return sum;
}

void DeviceProblem::PoisonOutputs(int byte) {
  for (const auto& mirror : mirrors_) {
    if (mirror->output == nullptr) continue;
    mirror->buffer.Fill(byte);
    std::ranges::fill(mirror->image, static_cast<std::byte>(byte));
  }
}

std::vector<std::string> DeviceProblem::Fetch() {
  std::vector<std::string> damage;
  for (const auto& mirror : mirrors_) mirror->Fetch(&damage);
  return damage;
}

DeviceCall::DeviceCall(const DeviceProblem& on, const Execution& execution, int poison,
                       int64_t chunk_columns)
    : on_(on), execution_(execution), chunk_columns_(chunk_columns) {
  refused_ = chunk_columns == 0
                 ? GetSizes(on.problem(), on.results(), execution, &sizes_)
                 : cuda::GetSizes(on.problem(), on.results(), execution, &sizes_, chunk_columns);
  workspace_ = std::make_unique<DeviceBuffer>(sizes_.workspace, poison != kUnfilled);
  saved_ = std::make_unique<DeviceBuffer>(sizes_.saved, poison != kUnfilled);
  if (poison == kUnfilled) return;
  workspace_->Fill(poison);
  saved_->Fill(poison);
}

Status DeviceCall::Forward() {
  if (!refused_.ok()) return refused_;
  if (chunk_columns_ > 0) {
    return cuda::Forward(on_.problem(), on_.results(), execution_, workspace_->data(), saved_->data(),
                         /*path=*/nullptr, chunk_columns_);
  }
  return kernel::Forward(on_.problem(), on_.results(), execution_, workspace_->data(), saved_->data());
}

Status DeviceCall::Backward() {
  if (!refused_.ok()) return refused_;
  if (chunk_columns_ > 0) {
    return cuda::Backward(on_.problem(), on_.results(), execution_, workspace_->data(), saved_->data(),
                          /*path=*/nullptr, chunk_columns_);
  }
  return kernel::Backward(on_.problem(), on_.results(), execution_, workspace_->data(), saved_->data());
}

Status DeviceCall::Run() {
  Status status = Forward();
  if (status.ok() && (on_.results().grad_hidden || on_.results().grad_weight)) status = Backward();
  Check(cudaStreamSynchronize(static_cast<cudaStream_t>(execution_.stream)), "cudaStreamSynchronize");
  return status;
}

}  // namespace plumbline::kernel::device
