// SPDX-License-Identifier: Apache-2.0
//
// The version that the program prints and writes into journals and cases. A test holds it to that of
// project() in CMakeLists.txt.

#pragma once

#include <string_view>

namespace plumbline::fuzz {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace plumbline::fuzz
