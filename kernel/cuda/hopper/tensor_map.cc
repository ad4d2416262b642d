// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/tensor_map.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace plumbline::kernel::cuda::hopper {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

using Encode = decltype(&cuTensorMapEncodeTiled);

// Finds the function through the runtime, so that nothing links against the driver: a machine without
// one runs the rest.
Encode FindEncode() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                             cudaEnableDefault, &found);
#else
  const cudaError_t error =
      cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found);
#endif
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<Encode>(entry);
}

Status Refuse(const char* name, const char* what, int64_t value) {
  return Status::Error(Code::kUnsupported, std::string(name) + ": " + what + " is " +
                                               std::to_string(value) +
                                               ", which the tensor memory accelerator cannot address");
}

// Coordinates are 32-bit and signed; a pair of tiles may reach 1023 beyond the extent.
constexpr int64_t kLongest = (int64_t{1} << 31) - 1024;

// Makes one map. rows and columns bound what is read, as the operand's own extent does.
Status MakeMap(const char* name, const Operand& operand, int64_t rows, int64_t columns, int box_rows,
               TensorMap* map) {
  constexpr int64_t kLargestStride = int64_t{1} << 40;
  rows = std::min(rows, operand.rows);
  columns = std::min(columns, operand.columns);
  const int64_t row_bytes = operand.ld * 2;
  const int64_t plane_bytes = operand.planes > 1 ? operand.plane_stride * 2 : row_bytes;
  if (rows < 1 || columns < 1) return Status::Ok();  // nothing to read
  if (reinterpret_cast<uintptr_t>(operand.data) % 16 != 0)
    return Refuse(name, "address modulo 16", int64_t(reinterpret_cast<uintptr_t>(operand.data) % 16));
  for (const int64_t stride : {row_bytes, plane_bytes}) {
    if (stride <= 0 || stride >= kLargestStride || stride % 16 != 0)
      return Refuse(name, "stride in bytes", stride);
  }
  static const Encode encode = FindEncode();
  if (encode == nullptr)
    return Status::Error(Code::kFailed, "the CUDA driver has no cuTensorMapEncodeTiled");
  const cuuint64_t extent[3] = {cuuint64_t(columns), cuuint64_t(rows), cuuint64_t(operand.planes)};
  const cuuint64_t stride[2] = {cuuint64_t(row_bytes), cuuint64_t(plane_bytes)};
  const cuuint32_t box[3] = {kBoxInner, cuuint32_t(box_rows), 1};
  const cuuint32_t step[3] = {1, 1, 1};
  // The element's kind matters only to reductions and to fills with NaN, of which there are none here.
  CUtensorMap encoded;
  const CUresult result =
      encode(&encoded, CU_TENSOR_MAP_DATA_TYPE_UINT16, 3, const_cast<void*>(operand.data), extent,
             stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return Status::Error(Code::kFailed, std::string(name) + ": cuTensorMapEncodeTiled gave error " +
                                            std::to_string(int(result)) + " for " +
                                            std::to_string(rows) + " x " + std::to_string(columns) +
                                            ", " + std::to_string(row_bytes) + " bytes a row");
  }
  std::memcpy(map, &encoded, sizeof encoded);
  return Status::Ok();
}

}  // namespace

Status MakeMaps(const Product& product, Major a, Major b, int a_box_rows, int b_box_rows, Maps* maps) {
  struct Bound {
    const char* name;
    int64_t value;
  };
  for (const Bound& bound : {Bound{"m", product.m}, Bound{"n", product.n}, Bound{"k", product.k}}) {
    if (bound.value < 0 || bound.value > kLongest)
      return Refuse("matrix product", bound.name, bound.value);
  }
  struct Side {
    const char* name;
    const Operand& operand;
    int64_t extent;  // m or n
    Major major;
    int box_rows;
    TensorMap* map;
  };
  const Side sides[] = {
      {"a", product.a, product.m, a, a_box_rows, &maps->a},
      {"b", product.b, product.n, b, b_box_rows, &maps->b},
      {"a_alternative", product.a_alternative, product.m, a, a_box_rows, &maps->a_alternative},
      {"b_alternative", product.b_alternative, product.n, b, b_box_rows, &maps->b_alternative},
  };
  for (const Side& side : sides) {
    if (side.operand.data == nullptr) continue;
    const bool along_depth = side.major == Major::kK;
    Status made = MakeMap(side.name, side.operand, along_depth ? side.extent : product.k,
                          along_depth ? product.k : side.extent, side.box_rows, side.map);
    if (!made.ok()) return made;
  }
  // A product may have an alternative for one of its operands alone.
  if (product.a_alternative.data == nullptr) maps->a_alternative = maps->a;
  if (product.b_alternative.data == nullptr) maps->b_alternative = maps->b;
  return Status::Ok();
}

}  // namespace plumbline::kernel::cuda::hopper
