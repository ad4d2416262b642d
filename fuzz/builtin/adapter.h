// SPDX-License-Identifier: Apache-2.0
//
// An operator written in the kernel's own language, behind the C ABI. The ABI has no user pointer, so
// each operator is a type with static members, and its table a constant:
//
//   struct Operator {
//     static constexpr DLDeviceType kDevice;  // where tensors must lie
//     static kernel::Status Run(const kernel::Problem&, const kernel::Results&, void* stream);
//     static kernel::Status GetSizes(const kernel::Problem&, const kernel::Results&, kernel::Sizes*);
//     static kernel::Status Forward(const kernel::Problem&, const kernel::Results&,
//                                   void* workspace, void* saved, void* stream);
//     static kernel::Status Backward(const kernel::Problem&, const kernel::Results&,
//                                    void* workspace, const void* saved, void* stream);
//     static std::string Describe();  // asked once
//   };
//
// No exception passes through a table: what is thrown becomes PLUMBLINE_FAILED.

#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>

#include "fuzz/target/interface/views.h"
#include "fuzz/target_abi.h"
#include "kernel/linear_cross_entropy.h"

namespace plumbline::fuzz {

// Returns an enum plumbline_status; the message goes to error, cut to its capacity. kInvalidData is no
// refusal, since everything has been written. If first_invalid_row is asked for (`told`), it reports
// the invalid row and the outputs are judged; otherwise PLUMBLINE_INVALID must report it.
int Report(const kernel::Status& status, bool told, char* error, size_t error_capacity);

// Every result that the problem could ask for, with fp32 or input-dtype gradients, at addresses without
// memory. sizes() takes them: it is called before the results are known and must cover all of them.
kernel::Results EveryResult(const kernel::Problem& problem, bool fp32_grads);

template <class Operator>
class Entry {
 public:
  static const plumbline_target_v1* Table() { return &kTable; }

 private:
  // Translates the structs, calls the operator, reports its status.
  template <class Call>
  static int Guard(const plumbline_problem* problem, const plumbline_results* results, char* error,
                   size_t error_capacity, Call call) {
    using kernel::Code, kernel::Status;
    try {
      kernel::Problem p;
      kernel::Results r;
      if (auto why = FromAbi(problem, results, Operator::kDevice, &p, &r)) {
        return Report(Status::Error(Code::kInvalidArgument, *why), false, error, error_capacity);
      }
      return Report(call(p, r), r.first_invalid_row.has_value(), error, error_capacity);
    } catch (const std::exception& e) {
      return Report(Status::Error(Code::kFailed, e.what()), false, error, error_capacity);
    }
  }

  static const char* Describe() {
    static const std::string description = Operator::Describe();
    return description.c_str();
  }

  static int Run(const plumbline_problem* problem, plumbline_results* results, void* stream,
                 char* error, size_t error_capacity) {
    return Guard(problem, results, error, error_capacity,
                 [&](const auto& p, const auto& r) { return Operator::Run(p, r, stream); });
  }

  static int Sizes(const plumbline_problem* problem, size_t* workspace, size_t* saved) {
    return Guard(problem, nullptr, nullptr, 0, [&](const kernel::Problem& p, const kernel::Results&) {
      *workspace = *saved = 0;
      for (const bool fp32_grads : {false, true}) {
        kernel::Sizes sizes;
        if (kernel::Status s = Operator::GetSizes(p, EveryResult(p, fp32_grads), &sizes); !s.ok())
          return s;
        *workspace = std::max(*workspace, sizes.workspace);
        *saved = std::max(*saved, sizes.saved);
      }
      return kernel::Status::Ok();
    });
  }

  static int Forward(const plumbline_problem* problem, plumbline_results* results, void* workspace,
                     void* saved, void* stream, char* error, size_t error_capacity) {
    return Guard(problem, results, error, error_capacity, [&](const auto& p, const auto& r) {
      return Operator::Forward(p, r, workspace, saved, stream);
    });
  }

  static int Backward(const plumbline_problem* problem, plumbline_results* results, void* workspace,
                      const void* saved, void* stream, char* error, size_t error_capacity) {
    return Guard(problem, results, error, error_capacity, [&](const auto& p, const auto& r) {
      return Operator::Backward(p, r, workspace, saved, stream);
    });
  }

  static constexpr plumbline_target_v1 kTable = {PLUMBLINE_TARGET_ABI_VERSION,
                                                 sizeof(plumbline_target_v1),
                                                 &Describe,
                                                 &Run,
                                                 &Sizes,
                                                 &Forward,
                                                 &Backward};
};

}  // namespace plumbline::fuzz
