// SPDX-License-Identifier: Apache-2.0
//
// The floating-point environment that the results are promised in: round to nearest, subnormals kept.
// A caller may have set another one (frameworks offer flush-to-zero as a switch), and threads started
// here inherit it, so every entry point holds one of these.

#pragma once

#include <cfenv>

namespace plumbline::kernel::host {

class DefaultFloatEnvironment {
 public:
  // glibc's FE_DFL_ENV also clears x86's flush-to-zero and denormals-are-zero bits.
  DefaultFloatEnvironment() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&before_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace plumbline::kernel::host
