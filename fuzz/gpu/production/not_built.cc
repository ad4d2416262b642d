// SPDX-License-Identifier: Apache-2.0
//
// Replaces the examination on a device if there is no CUDA compiler.

#include <stdexcept>

#include "fuzz/gpu/production/examine_on_device.h"

namespace plumbline::fuzz {

std::string WhyNoProduction(const Target&) { return "this build has no CUDA"; }

CaseResult ExamineOnDevice(const Recipe&, std::span<const Target* const>, const ExamineOptions&) {
  throw std::runtime_error("this build has no CUDA");
}

}  // namespace plumbline::fuzz
