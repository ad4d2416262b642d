// SPDX-License-Identifier: Apache-2.0

#include "fuzz/problem/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/json.h"
#include "fuzz/base/names.h"
#include "fuzz/base/text.h"
#include "fuzz/problem/values.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

static_assert(std::endian::native == std::endian::little, "the data of a file is copied as it is");

constexpr uint64_t kMaxHeader = uint64_t{16} << 20;
constexpr size_t kPrefix = 8;
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::array<std::string_view, 5> kDTypes = {"BF16", "F16", "F32", "I32", "I64"};

struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  bool doubles = false;  // of dtype F64, which is no DType
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

// A refusal travels as text up to ViewSafeTensors; empty means none.
using Refusal = std::string;

// Refuses a shape of more than two dimensions, which of a model are batch, sequence and one more.
Refusal TooDeep(const std::vector<int64_t>& shape) {
  Refusal why = "its shape " + Abridged(ShapeText(shape)) + " has " + std::to_string(shape.size()) +
                " dimensions, at most 2 are read";
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) {
    if (__builtin_mul_overflow(rows, shape[i], &rows)) return why;
  }
  return why + "; flatten batch and sequence: " + ShapeText(std::vector{rows, shape.back()}) +
         ", and labels and outputs likewise";
}

// What else a file may be that is no safetensors, by its first bytes, and how to make one of it.
std::string OtherFormat(std::span<const std::byte> bytes) {
  constexpr std::string_view kSave =
      "; save the tensors by safetensors.torch.save_file, or let python -m plumbline.dump FILE make a "
      "dump "
      "of it";
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kPrefix));
  std::string_view is;
  if (head.starts_with("PK\3\4")) {
    is = "a zip archive, as torch.save (.pt) and numpy.savez write";
  } else if (head.starts_with("\x80") && head.size() > 1 && head[1] >= 2 && head[1] <= 5) {
    is = "a Python pickle";
  } else if (head.starts_with("\x93NUMPY")) {
    is = "a .npy file";
  } else if (head.starts_with("\x89HDF")) {
    is = "an HDF5 file";
  } else if (std::ranges::all_of(head, [](char c) { return (c >= ' ' && c <= '~') || c == '\n'; })) {
    is = "text";
  } else {
    return {};
  }
  return "this is no safetensors file but looks like " + std::string(is) + std::string(kSave);
}

Refusal ReadShape(const Json* json, std::vector<int64_t>* shape) {
  const Json::Array* dimensions = json == nullptr ? nullptr : json->as_array();
  if (dimensions == nullptr) return "shape is not an array";
  for (const Json& dimension : *dimensions) {
    const int64_t* extent = dimension.as_int();
    if (extent == nullptr || *extent < 0)
      return "extent " + Abridged(dimension.Dump()) + " in its shape";
    shape->push_back(*extent);
  }
  return shape->size() <= 2 ? Refusal() : TooDeep(*shape);
}

Refusal ReadEntry(const Json& json, uint64_t data_size, bool take_doubles, Entry* entry) {
  const Json::Object* object = json.as_object();
  if (object == nullptr) return "is " + Abridged(json.Dump()) + ", not an object";
  for (const auto& [key, value] : *object) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      return "unknown key " + Abridged(Json(key).Dump());
    }
  }

  const Json* dtype = json.Find("dtype");
  const std::string* dtype_name = dtype == nullptr ? nullptr : dtype->as_string();
  if (dtype_name == nullptr) return "dtype is not a string";
  const auto named = ValueOf<DType>(*dtype_name, kDTypes);
  entry->doubles = take_doubles && *dtype_name == "F64";
  if (!named && !entry->doubles && !Planted(HarnessDefect::kDTypeUnchecked)) {
    const bool floating = dtype_name->starts_with('F');
    return "dtype " + Abridged(dtype->Dump()) + " is none of " + Choices(kDTypes) +
           (*dtype_name == "F64" ? "; cast it: x.float()"
            : floating           ? ""
                                 : "; cast it: x.long()");
  }
  entry->dtype = named.value_or(DType::kF32);

  if (Refusal why = ReadShape(json.Find("shape"), &entry->shape); !why.empty()) return why;
  uint64_t size = entry->doubles ? sizeof(double) : kernel::SizeOf(entry->dtype);
  for (const int64_t extent : entry->shape) {
    if (__builtin_mul_overflow(size, static_cast<uint64_t>(extent), &size)) {
      return "shape " + Abridged(json.Find("shape")->Dump()) + " overflows 64 bits";
    }
  }

  const Json* offsets = json.Find("data_offsets");
  const Json::Array* pair = offsets == nullptr ? nullptr : offsets->as_array();
  if (pair == nullptr || pair->size() != 2 || (*pair)[0].as_int() == nullptr ||
      (*pair)[1].as_int() == nullptr) {
    return "data_offsets are not two integers";
  }
  const int64_t begin = *(*pair)[0].as_int(), end = *(*pair)[1].as_int();
  const bool beyond =
      static_cast<uint64_t>(end) > data_size && !Planted(HarnessDefect::kLengthUnchecked);
  if (begin < 0 || end < begin || beyond) {
    return "data_offsets " + offsets->Dump() + " are outside the " + std::to_string(data_size) +
           " bytes of data";
  }
  entry->begin = static_cast<uint64_t>(begin);
  entry->end = static_cast<uint64_t>(end);
  if (entry->end - entry->begin != size) {
    return "data_offsets " + offsets->Dump() + " span " + std::to_string(entry->end - entry->begin) +
           " bytes, its shape and dtype " + std::to_string(size);
  }
  return {};
}

Refusal ReadMetadata(const Json& json, std::map<std::string, std::string>* metadata) {
  const Json::Object* object = json.as_object();
  if (object == nullptr) return "__metadata__ is not an object";
  for (const auto& [key, value] : *object) {
    if (value.as_string() == nullptr) {
      return "__metadata__ " + Abridged(Json(key).Dump()) + " is not a string";
    }
    metadata->emplace(key, *value.as_string());
  }
  return {};
}

// The tensors must tile the data: no hole, no overlap, nothing left over.
Refusal CheckTiling(std::vector<Entry>* entries, uint64_t data_size) {
  std::sort(entries->begin(), entries->end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t position = 0;
  for (const Entry& entry : *entries) {
    if (entry.begin != position && !Planted(HarnessDefect::kOverlapAccepted)) {
      return "tensor " + Abridged(Json(entry.name).Dump()) + " begins at byte " +
             std::to_string(entry.begin) + " of the data, where " + std::to_string(position) +
             " follows the tensor before it (" + (entry.begin < position ? "overlap" : "hole") + ")";
    }
    position = entry.end;
  }
  if (position != data_size) {
    return std::to_string(data_size - position) + " bytes of data belong to no tensor";
  }
  return {};
}

Refusal Read(std::span<const std::byte> bytes, bool take_doubles, SafeTensorsView* content) {
  if (bytes.size() < kPrefix) {
    return "file has " + std::to_string(bytes.size()) + " bytes, fewer than the 8 of its header length";
  }
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), kPrefix);
  if (header_size > kMaxHeader) {
    if (std::string other = OtherFormat(bytes); !other.empty()) return other;
    return "header length " + std::to_string(header_size) + " is above " + std::to_string(kMaxHeader);
  }
  if (header_size > bytes.size() - kPrefix) {
    return "header length " + std::to_string(header_size) + " is beyond the file's " +
           std::to_string(bytes.size()) + " bytes";
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kPrefix, header_size);
  const std::span<const std::byte> data = bytes.subspan(kPrefix + header_size);

  std::string error;
  const std::optional<Json> header = Json::Parse(text, &error);
  if (!header) return "header: " + error;
  if (header->as_object() == nullptr) return "header is not a JSON object";

  std::vector<Entry> entries;
  for (const auto& [name, value] : *header->as_object()) {
    if (name == kMetadata) {
      if (Refusal why = ReadMetadata(value, &content->metadata); !why.empty()) return why;
      continue;
    }
    Entry& entry = entries.emplace_back();
    entry.name = name;
    if (Refusal why = ReadEntry(value, data.size(), take_doubles, &entry); !why.empty()) {
      return "tensor " + Abridged(Json(name).Dump()) + ": " + why;
    }
  }
  if (Refusal why = CheckTiling(&entries, data.size()); !why.empty()) return why;

  for (Entry& entry : entries) {
    if (entry.doubles) {
      content->doubles.emplace(std::move(entry.name),
                               DoublesView{std::move(entry.shape), data.data() + entry.begin});
      continue;
    }
    content->tensors.emplace(std::move(entry.name),
                             DenseTensor(entry.dtype, entry.shape, data.data() + entry.begin));
  }
  return {};
}

}  // namespace

int64_t DoublesView::size() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

double DoublesView::at(int64_t i) const {
  double value = 0;
  std::memcpy(&value, data + static_cast<size_t>(i) * sizeof value, sizeof value);
  return value;
}

std::vector<std::byte> WriteSafeTensors(const SafeTensors& content) {
  // Wide elements come first: then every tensor is naturally aligned in the file without holes, which
  // other readers refuse. Elements of one width are ordered by name.
  std::vector<std::pair<std::string_view, const HostTensor*>> order;
  for (const auto& [name, tensor] : content.tensors) order.emplace_back(name, &tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return kernel::SizeOf(a.second->dtype) > kernel::SizeOf(b.second->dtype);
  });

  Json header = Json::Object();
  if (!content.metadata.empty()) {
    Json& metadata = header[kMetadata];
    for (const auto& [key, value] : content.metadata) metadata[key] = Json(value);
  }
  size_t offset = 0;
  for (const auto& [name, tensor] : order) {
    Json& entry = header[name];
    entry["dtype"] = NameOf(tensor->dtype, kDTypes);
    Json& shape = entry["shape"] = Json::Array();
    for (const int64_t extent : tensor->shape) shape.Append(Json(extent));
    const size_t end = offset + tensor->bytes.size();
    entry["data_offsets"] =
        Json(Json::Array{Json(static_cast<int64_t>(offset)), Json(static_cast<int64_t>(end))});
    offset = end;
  }
  std::string text = header.Dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');

  std::vector<std::byte> bytes(kPrefix + text.size() + offset);
  const uint64_t header_size = text.size();
  std::memcpy(bytes.data(), &header_size, kPrefix);
  std::memcpy(bytes.data() + kPrefix, text.data(), text.size());
  auto out = bytes.begin() + static_cast<std::ptrdiff_t>(kPrefix + text.size());
  for (const auto& [name, tensor] : order)
    out = std::copy(tensor->bytes.begin(), tensor->bytes.end(), out);
  return bytes;
}

std::optional<SafeTensorsView> ViewSafeTensors(std::span<const std::byte> bytes, std::string* error,
                                               bool take_doubles) {
  SafeTensorsView view;
  if (Refusal why = Read(bytes, take_doubles, &view); !why.empty()) {
    *error = std::move(why);
    return std::nullopt;
  }
  return view;
}

std::optional<SafeTensors> ReadSafeTensors(std::span<const std::byte> bytes, std::string* error) {
  std::optional<SafeTensorsView> view = ViewSafeTensors(bytes, error);
  if (!view) return std::nullopt;
  SafeTensors content;
  content.metadata = std::move(view->metadata);
  for (auto& [name, tensor] : view->tensors) {
    HostTensor& copy = content.tensors[name];
    copy = HostTensor::Zeros(tensor.dtype, {tensor.shape, tensor.shape + tensor.rank});
    std::copy_n(static_cast<const std::byte*>(tensor.data), copy.bytes.size(), copy.bytes.begin());
  }
  return content;
}

}  // namespace plumbline::fuzz
