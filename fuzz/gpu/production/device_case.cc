// SPDX-License-Identifier: Apache-2.0

#include "fuzz/gpu/production/device_case.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>

#include "fuzz/recipe/expand/device_values.h"
#include "fuzz/recipe/expand/values.h"
#include "oracle/cuda/device.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor, kernel::DType, kernel::Tensor;
using oracle::cuda::Check, oracle::cuda::DeviceBlock, oracle::cuda::DeviceError;

constexpr int64_t kGuard = 4096;  // bytes before and after the used ones

// The places of a matrix's elements: `lines` runs of `length` elements, `pitch` apart.
struct Lines {
  int64_t lines = 0, length = 0, pitch = 0;
  int64_t first = 0;  // elements past an aligned address

  int64_t elements() const { return lines > 0 ? first + (lines - 1) * pitch + length : first; }
};

void CopyIn(const void* from, void* to, size_t bytes) {
  if (bytes > 0) Check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copying to the device");
}

// A tensor's memory: a guard band, elements as `lines` says, and a guard band.
class Region {
 public:
  void Make(const Lines& lines, DType dtype, unsigned char pattern, const char* what) {
    Make(lines, static_cast<int64_t>(kernel::SizeOf(dtype)), pattern, what);
  }
  // `width`: the bytes of an element.
  void Make(const Lines& lines, int64_t width, unsigned char pattern, const char* what) {
    lines_ = lines;
    width_ = width;
    bytes_ = 2 * kGuard + lines.elements() * width_;
    base_ = static_cast<unsigned char*>(memory_.Get(static_cast<size_t>(bytes_), what));
    Fill(pattern);
  }
  void Fill(unsigned char pattern) {
    pattern_ = pattern;
    Check(cudaMemset(base_, pattern, static_cast<size_t>(bytes_)), "filling memory");
  }
  void* data() const { return base_ + kGuard + lines_.first * width_; }
  // Returns the offset from the first element of the first byte that is not the pattern, and the number
  // of such bytes.
  std::string Damage() {
    auto* const found = found_.Of<unsigned long long>(2, "what is damaged");
    const unsigned long long start[2] = {0, ~0ULL};
    CopyIn(start, found, sizeof start);
    const int64_t first = kGuard + lines_.first * width_;
    CountDamage(base_, bytes_, pattern_, first, lines_.lines, lines_.length * width_,
                std::max<int64_t>(lines_.pitch, 1) * width_, found, found + 1);
    const std::vector<unsigned long long> result =
        oracle::cuda::Download(found, 2, "looking at guard bands");
    if (result[0] == 0) return {};
    return std::to_string(result[0]) + " bytes that are no element's were written, the first " +
           std::to_string(static_cast<int64_t>(result[1]) - first) + " bytes from element 0";
  }

 private:
  DeviceBlock memory_, found_;
  Lines lines_;
  int64_t width_ = 1, bytes_ = 0;
  unsigned char* base_ = nullptr;
  unsigned char pattern_ = 0;
};

Lines MatrixLines(int64_t rows, int64_t columns, bool column_major, int64_t pad, int64_t offset) {
  const int64_t lines = column_major ? columns : rows, length = column_major ? rows : columns;
  return {lines, length, length + pad, offset};
}

template <class View>
void SetMatrix(View* view, DType dtype, int64_t rows, int64_t columns, bool column_major,
               const Lines& lines, const Region& region) {
  view->data = region.data();
  view->dtype = dtype;
  view->rank = 2;
  view->shape[0] = rows;
  view->shape[1] = columns;
  view->stride[column_major ? 1 : 0] = lines.pitch;
  view->stride[column_major ? 0 : 1] = 1;
}

class Made final : public DeviceCase {
 public:
  explicit Made(OwnedProblem rows) : rows_(std::move(rows)) {}

  const kernel::Problem& problem() const override { return problem_; }
  const OwnedProblem& rows() const override { return rows_; }

  HostTensor ReadRows(const ConstTensor& t, int64_t first, int64_t count) const override {
    HostTensor rows = HostTensor::Zeros(t.dtype, {count, t.shape[1]});
    const size_t width = kernel::SizeOf(t.dtype);
    const bool column_major = t.stride[1] != 1;  // each row is strided in memory
    const auto* const from =
        static_cast<const std::byte*>(t.data) + static_cast<size_t>(first * t.stride[0]) * width;
    if (rows.bytes.empty()) return rows;
    if (!column_major) {
      const size_t line = static_cast<size_t>(t.shape[1]) * width;
      const size_t pitch = std::max(static_cast<size_t>(t.stride[0]) * width, line);
      Check(cudaMemcpy2D(rows.bytes.data(), line, from, pitch, line, static_cast<size_t>(count),
                         cudaMemcpyDeviceToHost),
            "reading rows");
      return rows;
    }
    std::vector<std::byte> columns(rows.bytes.size());
    const size_t line = static_cast<size_t>(count) * width;
    Check(cudaMemcpy2D(columns.data(), line, from, static_cast<size_t>(t.stride[1]) * width, line,
                       static_cast<size_t>(t.shape[1]), cudaMemcpyDeviceToHost),
          "reading rows");
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < t.shape[1]; ++j) {
        std::memcpy(rows.bytes.data() + static_cast<size_t>(i * t.shape[1] + j) * width,
                    columns.data() + static_cast<size_t>(j * count + i) * width, width);
      }
    }
    return rows;
  }

  void PlaceMatrices() {
    const Layout& layout = rows_.layout;
    const DType dtype = rows_.hidden.dtype;
    const int64_t n = rows_.rows(), v = rows_.vocab(), h = rows_.hidden_size();
    const Lines hidden = MatrixLines(n, h, false, layout.hidden_padding, layout.offset);
    const Lines weight =
        MatrixLines(v, h, layout.weight_hidden_major, layout.weight_padding, layout.offset);
    // The bytes between rows are NaN in every float dtype: the output of a kernel that reads them shows
    // it.
    hidden_.Make(hidden, dtype, 0xff, "hidden");
    weight_.Make(weight, dtype, 0xff, "weight");
    SetMatrix(&problem_.hidden, dtype, n, h, false, hidden, hidden_);
    SetMatrix(&problem_.weight, dtype, v, h, layout.weight_hidden_major, weight, weight_);
  }

  void PlaceVectors() {
    const Layout& layout = rows_.layout;
    problem_.ignore_index = rows_.ignore_index;
    problem_.reduction = rows_.reduction;
    problem_.labels = Vector(rows_.labels, layout.label_offset, layout.label_stride, &labels_);
    if (rows_.temperature) problem_.temperature = Vector(*rows_.temperature, layout.offset, 1, &t_);
    if (rows_.grad_logprob) {
      problem_.grad_logprob = Vector(*rows_.grad_logprob, layout.offset, layout.grad_stride, &g_);
    }
    if (rows_.grad_entropy) {
      problem_.grad_entropy = Vector(*rows_.grad_entropy, layout.offset, layout.grad_stride, &k_);
    }
  }

  void Fill(const Recipe& r, const std::vector<bool>& poisoned) {
    std::vector<int64_t> leading;
    FillPlan plan = PlanFill(r, &leading);
    DeviceBlock of_leading;
    if (!leading.empty()) {
      plan.leading = of_leading.Of<int64_t>(static_cast<int64_t>(leading.size()), "leading columns");
      CopyIn(leading.data(), const_cast<int64_t*>(plan.leading), leading.size() * sizeof(int64_t));
    }
    const auto& [hidden, weight] = std::pair(problem_.hidden, problem_.weight);
    FillHidden(plan, hidden_.data(), hidden.stride[0], hidden.stride[1]);
    FillWeight(plan, weight_.data(), weight.stride[0], weight.stride[1]);
    for (int64_t i = 0; i < r.n; ++i) {
      if (!poisoned[static_cast<size_t>(i)]) continue;
      HostTensor row = ReadRows(hidden, i, 1);
      PoisonRow(r, i, &row, 0);
      auto* const to = static_cast<std::byte*>(hidden_.data()) +
                       static_cast<size_t>(i * hidden.stride[0]) * kernel::SizeOf(r.dtype);
      CopyIn(row.bytes.data(), to, row.bytes.size());
    }
    Check(cudaDeviceSynchronize(), "making the inputs");
  }

  void Copy(const OwnedProblem& from) {
    CopyMatrix(from.hidden, problem_.hidden, hidden_.data());
    CopyMatrix(from.weight, problem_.weight, weight_.data());
  }

 private:
  // Uses its own memory: element i is at `stride` * i; with stride 0, element 0 stands alone.
  static ConstTensor Vector(const HostTensor& from, int64_t offset, int64_t stride, Region* region) {
    const int64_t size = from.size(), count = stride == 0 ? std::min<int64_t>(size, 1) : size;
    const size_t width = kernel::SizeOf(from.dtype);
    const int64_t step = from.shape.empty() ? 1 : std::max<int64_t>(stride, 1);
    region->Make({count, 1, step, offset}, from.dtype, 0xff, "a vector");
    if (count > 0) {
      Check(cudaMemcpy2D(region->data(), static_cast<size_t>(step) * width, from.bytes.data(), width,
                         width, static_cast<size_t>(count), cudaMemcpyHostToDevice),
            "copying a vector to the device");
    }
    ConstTensor view = from.View();
    view.data = region->data();
    view.stride[0] = stride;
    return view;
  }

  static void CopyMatrix(const HostTensor& from, const ConstTensor& to, void* data) {
    const size_t width = kernel::SizeOf(from.dtype);
    const int64_t rows = to.shape[0], columns = to.shape[1];
    if (from.bytes.empty()) return;
    std::vector<std::byte> turned;
    const bool column_major = to.stride[1] != 1 && to.stride[0] == 1;
    const std::byte* source = from.bytes.data();
    if (column_major) {
      turned.resize(from.bytes.size());
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          std::memcpy(turned.data() + static_cast<size_t>(j * rows + i) * width,
                      source + static_cast<size_t>(i * columns + j) * width, width);
        }
      }
      source = turned.data();
    }
    const size_t line = static_cast<size_t>(column_major ? rows : columns) * width;
    const size_t pitch = std::max(static_cast<size_t>(to.stride[column_major ? 1 : 0]) * width, line);
    Check(cudaMemcpy2D(data, pitch, source, line, line,
                       static_cast<size_t>(column_major ? columns : rows), cudaMemcpyHostToDevice),
          "copying a matrix to the device");
  }

  OwnedProblem rows_;
  kernel::Problem problem_;
  Region hidden_, weight_, labels_, t_, g_, k_;
};

class MadeOutputs final : public DeviceOutputs {
 public:
  explicit MadeOutputs(const DeviceCase& of) {
    const OwnedProblem& rows = of.rows();
    const Wanted& wanted = rows.wanted;
    const Layout& layout = rows.layout;
    const int64_t n = rows.rows(), v = rows.vocab(), h = rows.hidden_size();
    const bool reduced = rows.reduction != kernel::Reduction::kNone;
    const auto vector = [&](std::optional<Tensor>* to, const char* name, int64_t count, int rank,
                            DType dtype) {
      Region& region = Add(name, {1, count, count, dtype == DType::kF32 ? layout.offset : 0}, dtype);
      *to = Tensor{region.data(), dtype, rank, {count, 1}, {1, 1}};
    };
    if (reduced) {
      vector(&results_.loss, "loss", 1, 0, DType::kF32);
    } else {
      vector(&results_.logprob, "logprob", n, 1, DType::kF32);
    }
    if (wanted.entropy) vector(&results_.entropy, "entropy", n, 1, DType::kF32);
    if (wanted.lse) vector(&results_.lse, "lse", n, 1, DType::kF32);
    vector(&results_.first_invalid_row, "first_invalid_row", 1, 0, DType::kI64);
    const DType dtype = wanted.fp32_grads ? DType::kF32 : rows.hidden.dtype;
    const auto matrix = [&](std::optional<Tensor>* to, const char* name, int64_t count, int64_t pad,
                            bool column_major) {
      const Lines lines = MatrixLines(count, h, column_major, pad, layout.offset);
      SetMatrix(&to->emplace(), dtype, count, h, column_major, lines, Add(name, lines, dtype));
    };
    if (wanted.grad_hidden) {
      matrix(&results_.grad_hidden, "grad_hidden", n, layout.hidden_padding, false);
    }
    if (wanted.grad_weight) {
      matrix(&results_.grad_weight, "grad_weight", v, layout.weight_padding,
             layout.weight_hidden_major);
    }
  }

  const kernel::Results& results() const override { return results_; }
  void Poison(unsigned char pattern) override {
    for (const auto& [name, region] : regions_) region->Fill(pattern);
    Check(cudaDeviceSynchronize(), "poisoning outputs");
  }
  std::string Damage() override {
    for (const auto& [name, region] : regions_) {
      if (std::string what = region->Damage(); !what.empty()) return std::string(name) + ": " + what;
    }
    return {};
  }
  int64_t FirstInvalidRow() override {
    return oracle::cuda::Download(static_cast<const int64_t*>(results_.first_invalid_row->data), 1,
                                  "reading first_invalid_row")[0];
  }

 private:
  Region& Add(const char* name, const Lines& lines, DType dtype) {
    regions_.emplace_back(name, std::make_unique<Region>());
    regions_.back().second->Make(lines, dtype, 0xff, name);
    return *regions_.back().second;
  }

  std::vector<std::pair<const char*, std::unique_ptr<Region>>> regions_;
  kernel::Results results_;
};

class MadeScratch final : public DeviceScratch {
 public:
  explicit MadeScratch(size_t bytes) {
    const auto count = static_cast<int64_t>(bytes);
    region_.Make({1, count, count, 0}, int64_t{1}, 0xff, "workspace");
  }
  void* data() const override { return region_.data(); }
  void Poison(unsigned char pattern) override {
    region_.Fill(pattern);
    Check(cudaDeviceSynchronize(), "poisoning workspace");
  }
  std::string Damage() override { return region_.Damage(); }

 private:
  Region region_;
};

std::string BadLayout(const Layout& layout) {
  if (layout.reversed) return "rows=reversed: has no form on a device";
  if (layout.hidden_broadcast) return "rows=broadcast: has no form on a device";
  return {};
}

}  // namespace

std::unique_ptr<DeviceCase> DeviceCase::FromRecipe(const Recipe& r, std::string* error) {
  if (*error = WhyNotOnDevice(r); !error->empty()) return nullptr;
  try {
    OwnedProblem rows;
    rows.hidden = {r.dtype, {r.n, r.h}, {}};
    rows.weight = {r.dtype, {r.v, r.h}, {}};
    std::vector<bool> poisoned;
    ExpandRows(
        r, [&] { return LeadingLabels(r); }, &rows, &poisoned);
    auto made = std::make_unique<Made>(std::move(rows));
    made->PlaceMatrices();
    made->PlaceVectors();
    made->Fill(r, poisoned);
    return made;
  } catch (const std::exception& e) {
    *error = e.what();
    return nullptr;
  }
}

std::unique_ptr<DeviceCase> DeviceCase::FromProblem(const OwnedProblem& problem, std::string* error) {
  if (*error = BadLayout(problem.layout); !error->empty()) return nullptr;
  try {
    OwnedProblem rows = problem;
    rows.hidden.bytes.clear();
    rows.weight.bytes.clear();
    auto made = std::make_unique<Made>(std::move(rows));
    made->PlaceMatrices();
    made->PlaceVectors();
    made->Copy(problem);
    return made;
  } catch (const std::exception& e) {
    *error = e.what();
    return nullptr;
  }
}

std::unique_ptr<DeviceScratch> DeviceScratch::Of(size_t bytes, std::string* error) {
  try {
    return std::make_unique<MadeScratch>(bytes);
  } catch (const std::exception& e) {
    *error = e.what();
    return nullptr;
  }
}

std::unique_ptr<DeviceOutputs> DeviceOutputs::For(const DeviceCase& device_case, std::string* error) {
  try {
    return std::make_unique<MadeOutputs>(device_case);
  } catch (const std::exception& e) {
    *error = e.what();
    return nullptr;
  }
}

}  // namespace plumbline::fuzz
