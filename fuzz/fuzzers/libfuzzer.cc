// SPDX-License-Identifier: Apache-2.0
//
// The function that libFuzzer calls. It is compiled once for each fuzzer, PLUMBLINE_FUZZER.

#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/fuzzers/fuzzers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return plumbline::fuzz::PLUMBLINE_FUZZER(std::as_bytes(std::span(data, size)));
}
