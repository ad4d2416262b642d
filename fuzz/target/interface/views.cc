// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/interface/views.h"

#include <algorithm>
#include <utility>

namespace plumbline::fuzz {
namespace {

using kernel::DType;

struct TypePair {
  DType dtype;
  DLDataType dl;
};
constexpr std::array kTypes = {
    TypePair{DType::kBf16, {kDLBfloat, 16, 1}}, TypePair{DType::kF16, {kDLFloat, 16, 1}},
    TypePair{DType::kF32, {kDLFloat, 32, 1}}, TypePair{DType::kI32, {kDLInt, 32, 1}},
    TypePair{DType::kI64, {kDLInt, 64, 1}}};

// The reductions of the interface, in the order of kernel::Reduction.
constexpr std::array<int32_t, 3> kReductions = {PLUMBLINE_NONE, PLUMBLINE_SUM, PLUMBLINE_MEAN};
static_assert(kReductions[static_cast<size_t>(kernel::Reduction::kMean)] == PLUMBLINE_MEAN);

DLDataType ToDl(DType dtype) {
  return std::find_if(kTypes.begin(), kTypes.end(), [&](const TypePair& t) { return t.dtype == dtype; })
      ->dl;
}

const TypePair* FromDl(DLDataType dl) {
  const auto it = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypePair& t) {
    return t.dl.code == dl.code && t.dl.bits == dl.bits && t.dl.lanes == dl.lanes;
  });
  return it == kTypes.end() ? nullptr : &*it;
}

std::string NameOf(DLDeviceType type) {
  const std::string number = std::to_string(static_cast<int>(type));
  return type == kDLCPU ? number + " (cpu)" : type == kDLCUDA ? number + " (cuda)" : number;
}

// Returns an empty text, or what is wrong with the tensor.
template <class Void>
std::string FromDl(const DLTensor& dl, kernel::BasicTensor<Void>* view) {
  const auto is = [](auto value) { return " is " + std::to_string(value); };
  if (dl.ndim < 0 || dl.ndim > 2) return "rank" + is(dl.ndim) + ", not 0, 1 or 2";
  if (dl.ndim > 0 && dl.shape == nullptr) return "shape is null";
  const TypePair* type = FromDl(dl.dtype);
  if (type == nullptr) {
    return "dtype has code " + std::to_string(dl.dtype.code) + ", bits " +
           std::to_string(dl.dtype.bits) + ", lanes " + std::to_string(dl.dtype.lanes) +
           ": none of bf16, fp16, fp32, int32, int64";
  }
  // A null tensor of size 0 must stay null.
  view->data = dl.data == nullptr ? nullptr : static_cast<char*>(dl.data) + dl.byte_offset;
  view->dtype = type->dtype;
  view->rank = dl.ndim;
  int64_t compact = 1;
  for (int i = dl.ndim; i-- > 0;) {
    view->shape[i] = dl.shape[i];
    view->stride[i] = dl.strides != nullptr ? dl.strides[i] : compact;
    // The operator refuses an extent that is negative or too large; here it must not overflow.
    if (__builtin_mul_overflow(compact, std::max<int64_t>(dl.shape[i], 1), &compact)) {
      return "shape overflows 64 bits";
    }
  }
  return {};
}

class Reader {
 public:
  explicit Reader(DLDeviceType device) : device_(device) {}

  template <class Void>
  void Required(const char* name, const DLTensor* dl, kernel::BasicTensor<Void>* view) {
    if (dl == nullptr) return Refuse(name, "is null");
    if (dl->device.device_type != device_) {
      return Refuse(name, "device type is " + NameOf(dl->device.device_type) + ", not this target's " +
                              NameOf(device_));
    }
    if (!number_) number_ = dl->device.device_id;
    if (*number_ != dl->device.device_id) {
      return Refuse(name, "device is number " + std::to_string(dl->device.device_id) +
                              ", hidden's is " + std::to_string(*number_));
    }
    if (std::string why = FromDl(*dl, view); !why.empty()) Refuse(name, std::move(why));
  }
  template <class Void>
  void Optional(const char* name, const DLTensor* dl, std::optional<kernel::BasicTensor<Void>>* view) {
    if (dl != nullptr) Required(name, dl, &view->emplace());
  }
  void Refuse(const char* name, std::string why) {
    if (!error_) error_ = std::string(name) + ": " + std::move(why);
  }
  std::optional<std::string> error() const { return error_; }

 private:
  const DLDeviceType device_;
  std::optional<int> number_;  // the first tensor's device number
  std::optional<std::string> error_;
};

}  // namespace

template <class View>
DLTensor* AbiCall::Place(const View& view) {
  Slot& slot = slots_[used_++];
  slot = {};
  for (int i = 0; i < view.rank; ++i) {
    slot.shape[i] = view.shape[i];
    slot.stride[i] = view.stride[i];
  }
  slot.tensor.data = const_cast<void*>(static_cast<const void*>(view.data));
  slot.tensor.device = device_;
  slot.tensor.ndim = view.rank;
  slot.tensor.dtype = ToDl(view.dtype);
  slot.tensor.shape = slot.shape;
  slot.tensor.strides = slot.stride;
  return &slot.tensor;
}

template <class View>
DLTensor* AbiCall::Place(const std::optional<View>& view) {
  return view ? Place(*view) : nullptr;
}

AbiCall::AbiCall(const kernel::Problem& problem, const kernel::Results& results, DLDevice device)
    : device_(device) {
  problem_.struct_size = sizeof problem_;
  problem_.reduction = kReductions[static_cast<size_t>(problem.reduction)];
  problem_.hidden = Place(problem.hidden);
  problem_.weight = Place(problem.weight);
  problem_.labels = Place(problem.labels);
  problem_.temperature = Place(problem.temperature);
  problem_.ignore_index = problem.ignore_index;
  problem_.grad_logprob = Place(problem.grad_logprob);
  problem_.grad_entropy = Place(problem.grad_entropy);

  results_.struct_size = sizeof results_;
  results_.logprob = Place(results.logprob);
  results_.loss = Place(results.loss);
  results_.entropy = Place(results.entropy);
  results_.lse = Place(results.lse);
  results_.grad_hidden = Place(results.grad_hidden);
  results_.grad_weight = Place(results.grad_weight);
  results_.first_invalid_row = Place(results.first_invalid_row);
}

std::optional<std::string> FromAbi(const plumbline_problem* problem, const plumbline_results* results,
                                   DLDeviceType device, kernel::Problem* kernel_problem,
                                   kernel::Results* kernel_results) {
  *kernel_problem = {};
  *kernel_results = {};
  Reader reader(device);
  if (problem == nullptr) return "problem: is null";
  if (problem->struct_size < sizeof *problem) {
    return "problem.struct_size: is " + std::to_string(problem->struct_size) + ", below version 1's " +
           std::to_string(sizeof *problem);
  }
  const auto* const reduction = std::ranges::find(kReductions, problem->reduction);
  if (reduction == kReductions.end()) {
    return "problem.reduction: is " + std::to_string(problem->reduction) + ", not 0, 1 or 2";
  }
  kernel_problem->reduction = static_cast<kernel::Reduction>(reduction - kReductions.begin());
  kernel_problem->ignore_index = problem->ignore_index;
  reader.Required("hidden", problem->hidden, &kernel_problem->hidden);
  reader.Required("weight", problem->weight, &kernel_problem->weight);
  reader.Required("labels", problem->labels, &kernel_problem->labels);
  reader.Optional("temperature", problem->temperature, &kernel_problem->temperature);
  reader.Optional("grad_logprob", problem->grad_logprob, &kernel_problem->grad_logprob);
  reader.Optional("grad_entropy", problem->grad_entropy, &kernel_problem->grad_entropy);
  if (results == nullptr) return reader.error();

  if (results->struct_size < sizeof *results) {
    return "results.struct_size: is " + std::to_string(results->struct_size) + ", below version 1's " +
           std::to_string(sizeof *results);
  }
  reader.Optional("logprob", results->logprob, &kernel_results->logprob);
  reader.Optional("loss", results->loss, &kernel_results->loss);
  reader.Optional("entropy", results->entropy, &kernel_results->entropy);
  reader.Optional("lse", results->lse, &kernel_results->lse);
  reader.Optional("grad_hidden", results->grad_hidden, &kernel_results->grad_hidden);
  reader.Optional("grad_weight", results->grad_weight, &kernel_results->grad_weight);
  reader.Optional("first_invalid_row", results->first_invalid_row, &kernel_results->first_invalid_row);
  return reader.error();
}

}  // namespace plumbline::fuzz
