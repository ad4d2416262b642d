// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/convert.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernel/host/simd.h"
#include "kernel/host/tiling.h"

namespace plumbline::kernel::host {
namespace {

// Widens without branches, so that compilers vectorise the loops around it.
// tests/kernel/convert_test.cc compares it with ToFloat on all patterns.
inline float Widen(float value) { return value; }
inline float Widen(BFloat16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }
inline float Widen(Float16 value) {
  const uint32_t magnitude = value.bits & 0x7fffu;
  // The shifted fields have an exponent that is 112 too small; the product corrects it, for subnormals
  // too.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t special = magnitude >= 0x7c00 ? 0x7f80'0000u : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special |
                              ((value.bits & 0x8000u) << 16));
}

inline void Narrow(float value, float* out) {
  *out = value != value ? std::numeric_limits<float>::quiet_NaN() : value;
}
inline void Narrow(float value, BFloat16* out) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  out->bits = static_cast<uint16_t>(value != value ? 0x7fc0u : rounded);
}
inline void Narrow(float value, Float16* out) {
  *out = ToFloat16(value);
  if (value != value) out->bits = 0x7e00;
}

// Calls function with a null pointer of the element type that dtype names.
template <class Function>
void WithType(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kBf16:
      return function(static_cast<BFloat16*>(nullptr));
    case DType::kF16:
      return function(static_cast<Float16*>(nullptr));
    default:
      return function(static_cast<float*>(nullptr));
  }
}

template <class T>
void WidenRun(const T* source, int64_t stride, int64_t count, float* out) {
  if (stride == 1) {
    for (int64_t j = 0; j < count; ++j) out[j] = Widen(source[j]);
  } else {
    for (int64_t j = 0; j < count; ++j) out[j] = Widen(source[j * stride]);
  }
}

// Packs a source that is contiguous along the depth: widens it in runs and transposes squares of it in
// registers and L1.
template <class T>
void PackAlongDepth(const T* source, int64_t column_stride, int64_t depth, int64_t columns,
                    float* panel) {
  alignas(64) float square[kPanel][kPanel];
  for (int64_t k = 0; k < depth; k += kPanel) {
    const int64_t run = std::min(kPanel, depth - k);
    for (int64_t j = 0; j < columns; ++j) {
      const T* const from = source + k + j * column_stride;
      if (run == kPanel) {
        for (int64_t i = 0; i < kPanel; ++i) square[j][i] = Widen(from[i]);
      } else {
        for (int64_t i = 0; i < run; ++i) square[j][i] = Widen(from[i]);
      }
    }
    for (int64_t j = columns; j < kPanel; ++j) std::fill_n(square[j], kPanel, 0.0f);
    for (int64_t i = 0; i < run; ++i) {
      for (int64_t j = 0; j < kPanel; ++j) panel[(k + i) * kPanel + j] = square[j][i];
    }
  }
}

template <class T>
void StoreRun(T* out, int64_t stride, int64_t count, const float* values) {
  if (stride == 1) {
    for (int64_t j = 0; j < count; ++j) Narrow(values[j], out + j);
  } else {
    for (int64_t j = 0; j < count; ++j) Narrow(values[j], out + j * stride);
  }
}

}  // namespace

void WidenRows(const Matrix& source, const int64_t* rows, int64_t count, int64_t columns, float* out) {
  if (columns == 0) return;
  WithType(source.dtype, [&]<class T>(T*) {
    const T* const data = static_cast<const T*>(source.data);
    for (int64_t r = 0; r < count; ++r) {
      WidenRun(data + rows[r] * source.stride[0], source.stride[1], columns, out + r * columns);
    }
  });
}

void PackPanels(const Matrix& source, const int64_t* rows, int64_t depth_begin, int64_t depth,
                int64_t column_begin, int64_t columns, float* out) {
  WithType(source.dtype, [&]<class T>(T*) {
    const T* const data = static_cast<const T*>(source.data);
    for (int64_t first = 0; first < columns; first += kPanel) {
      float* const panel = out + first * depth;
      const int64_t width = std::min(kPanel, columns - first);
      const T* const corner = data + (column_begin + first) * source.stride[1];
      if (rows == nullptr && source.stride[0] == 1) {
        PackAlongDepth(corner + depth_begin, source.stride[1], depth, width, panel);
        continue;
      }
      for (int64_t k = 0; k < depth; ++k) {
        const int64_t row = rows != nullptr ? rows[depth_begin + k] : depth_begin + k;
        float* const line = panel + k * kPanel;
        if (width == kPanel && source.stride[1] == 1) {
          const T* const from = corner + row * source.stride[0];
          for (int64_t j = 0; j < kPanel; ++j) line[j] = Widen(from[j]);
        } else {
          WidenRun(corner + row * source.stride[0], source.stride[1], width, line);
          std::fill(line + width, line + kPanel, 0.0f);
        }
      }
    }
  });
}

void Transpose(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride) {
  // The squares fit in registers and L1; a loop along either side alone would touch a new cache line
  // for each element.
  constexpr int64_t kSide = 16;
  for (int64_t r = 0; r < rows; r += kSide) {
    const int64_t height = std::min(kSide, rows - r);
    for (int64_t c = 0; c < columns; c += kSide) {
      const int64_t width = std::min(kSide, columns - c);
      alignas(64) float square[kSide][kSide] = {};
      for (int64_t i = 0; i < height; ++i)
        std::copy_n(from + (r + i) * from_stride + c, width, square[i]);
      for (int64_t j = 0; j < width; ++j) {
        float* const out = to + (c + j) * to_stride + r;
        for (int64_t i = 0; i < height; ++i) out[i] = square[i][j];
      }
    }
  }
}

void StoreBlock(const Tensor& output, int64_t row_begin, int64_t rows, int64_t column_begin,
                int64_t columns, const float* values, int64_t stride) {
  WithType(output.dtype, [&]<class T>(T*) {
    T* const corner =
        static_cast<T*>(output.data) + row_begin * output.stride[0] + column_begin * output.stride[1];
    if (output.stride[0] != 1 || columns == 1) {
      for (int64_t r = 0; r < rows; ++r) {
        StoreRun(corner + r * output.stride[0], output.stride[1], columns, values + r * stride);
      }
      return;
    }
    // The output is hidden-major: transposed first, so that stores go along contiguous memory.
    alignas(64) float turned[kTile * kRowBlock];
    for (int64_t r = 0; r < rows; r += kRowBlock) {
      const int64_t height = std::min(kRowBlock, rows - r);
      for (int64_t c = 0; c < columns; c += kTile) {
        const int64_t width = std::min(kTile, columns - c);
        Transpose(values + r * stride + c, stride, height, width, turned, kRowBlock);
        for (int64_t j = 0; j < width; ++j) {
          StoreRun(corner + r + (c + j) * output.stride[1], 1, height, turned + j * kRowBlock);
        }
      }
    }
  });
}

void FillRow(const Tensor& output, int64_t row, float value) {
  float values[kTile];
  std::fill_n(values, kTile, value);
  for (int64_t j = 0; j < output.shape[1]; j += kTile) {
    StoreBlock(output, row, 1, j, std::min(kTile, output.shape[1] - j), values, kTile);
  }
}

void StoreElement(const Tensor& output, int64_t i, float value) {
  const int64_t at = output.rank == 0 ? 0 : i * output.stride[0];
  Narrow(value, static_cast<float*>(output.data) + at);
}

}  // namespace plumbline::kernel::host
