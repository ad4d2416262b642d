// SPDX-License-Identifier: Apache-2.0
//
// The safetensors container: 8 bytes little-endian header length, a JSON header, raw little-endian
// data. Reading treats every byte as hostile; writing is canonical (keys sorted, header padded to 8
// bytes with spaces), so the same content always gives the same bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

struct SafeTensors {
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// A tensor of dtype F64, which no problem holds. An element need not be aligned.
struct DoublesView {
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;

  int64_t size() const;
  double at(int64_t i) const;  // in row-major order
};

// Dense views of the bytes that were read. Data may begin anywhere in them, so an element need not be
// aligned.
struct SafeTensorsView {
  std::map<std::string, kernel::ConstTensor> tensors;
  std::map<std::string, DoublesView> doubles;  // where they are asked for
  std::map<std::string, std::string> metadata;
};

std::vector<std::byte> WriteSafeTensors(const SafeTensors& content);

// Refuses, naming what and where: a short file, a header over 16 MiB or beyond the file, JSON that is
// not an object of tensors, dtypes outside BF16, F16, F32, I32, I64, rank above 2, negative or
// overflowing shapes, offsets that overlap, leave holes, or do not match shape and dtype. F64 is taken
// as well if `take_doubles`.
std::optional<SafeTensorsView> ViewSafeTensors(std::span<const std::byte> bytes, std::string* error,
                                               bool take_doubles = false);
std::optional<SafeTensors> ReadSafeTensors(std::span<const std::byte> bytes, std::string* error);

}  // namespace plumbline::fuzz
