// SPDX-License-Identifier: Apache-2.0
//
// Errors as values. A message names the argument and the value that was refused.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace plumbline::kernel {

enum class Code : uint8_t {
  kOk,
  kInvalidArgument,  // a shape, stride, dtype, pointer or host scalar: refused before anything is
                     // written
  kInvalidData,      // a label or per-row temperature: outputs are written, the row named is NaN
  kUnsupported,      // valid, but not by this implementation
  kFailed,           // the machine's fault: memory, device, threads
};

struct [[nodiscard]] Status {
  Code code = Code::kOk;
  std::string message;

  bool ok() const { return code == Code::kOk; }
  static Status Ok() { return {}; }
  static Status Error(Code code, std::string message) { return {code, std::move(message)}; }
};

}  // namespace plumbline::kernel
