// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/bucket.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "fuzz/problem/values.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

// At most this many rows of a case that could not be shrunk are read: the key stays cheap, and one row
// says as much as a hundred.
constexpr int64_t kRowsRead = 8;
// The thresholds below are those of defects in published kernels: exp(-88) is where fp32 goes
// subnormal, and 65504 is the largest fp16. 8 is far from every logit that shrinking leaves without
// need.
constexpr double kFar = 8, kUnderflow = 80, kBeyondHalf = 65504, kHuge = 0x1p60;

class Key {
 public:
  explicit Key(std::string signature) : text_(std::move(signature)) {}
  void Add(std::string_view word) { (text_ += ' ') += word; }
  void AddIf(bool holds, std::string_view word) {
    if (holds) Add(word);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

// The class of an extent: up to 2 by itself, then by the largest tile size that it passes.
std::string ExtentClass(int64_t extent) {
  if (extent <= 2) return "=" + std::to_string(extent);
  constexpr std::array<int64_t, 6> kTiles = {256, 128, 64, 32, 16, 2};
  return ">" + std::to_string(*std::find_if(kTiles.begin(), kTiles.end(),
                                            [&](int64_t tile) { return extent > tile; }));
}

// The rows that the finding is about: its own if it names one, else the first few that count.
std::vector<int64_t> RowsOf(const OwnedProblem& p, const Finding& f) {
  if (f.output != "grad_weight" && f.output != "loss" && f.row >= 0 && f.row < p.rows()) return {f.row};
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < std::min(p.rows(), kRowsRead); ++i) {
    if (p.IsClass(p.labels.GetInt(i))) rows.push_back(i);
  }
  return rows;
}

void AddValues(const std::string& name, const HostTensor& tensor, Key* key) {
  std::set<int> classes;
  for (int64_t i = 0; i < tensor.size(); ++i) classes.insert(std::fpclassify(tensor.GetFloat(i)));
  key->AddIf(classes.contains(FP_NAN), name + "=nan");
  key->AddIf(classes.contains(FP_INFINITE), name + "=inf");
  key->AddIf(classes.contains(FP_SUBNORMAL), name + "=subnormal");
}

// Sorted by decades: a sentinel such as -1e4 needs more than exp's own underflow.
std::string BelowUnderflow(double top) {
  const double decade = std::pow(10, std::floor(std::log10(-top)));
  return Text("top<%g", -std::min(decade < kUnderflow ? kUnderflow : decade, 1e6));
}

// Adds the properties that the logits of all the finding's rows share.
void AddLogits(const OwnedProblem& p, const Finding& f, Key* key) {
  double top = -std::numeric_limits<double>::infinity(), bottom = -top, nearest = -top, gap = 0;
  bool ties = false, confident = false, fine = false, any = false;
  for (const int64_t row : RowsOf(p, f)) {
    std::vector<double> logits = Logits(p, row);
    double t = 1;
    if (p.temperature && p.temperature->size() > 0) {
      t = static_cast<double>(p.temperature->GetFloat(p.temperature->shape.empty() ? 0 : row));
    }
    const int64_t label = p.labels.GetInt(row);
    const bool finite =
        std::all_of(logits.begin(), logits.end(), [](double z) { return std::isfinite(z); });
    if (!finite || !(t > 0) || logits.empty()) continue;
    any = true;
    for (double& z : logits) {
      z /= t;
      fine |= SignificantBits(static_cast<float>(z)) > 8;
      nearest = std::min(nearest, std::abs(z));
    }
    const double of_label = p.IsClass(label) ? logits[static_cast<size_t>(label)] : 0;
    std::sort(logits.begin(), logits.end());
    top = std::max(top, logits.back());
    bottom = std::min(bottom, logits.front());
    gap = std::max(gap, logits.back() - logits.front());
    ties |= logits.size() > 1 && logits[logits.size() - 2] == logits.back();
    const double second = logits.size() > 1 ? logits[logits.size() - 2] : of_label;
    confident |= p.IsClass(label) && of_label - second > 1.5;
  }
  if (!any) return;
  const double size = std::max(std::abs(top), std::abs(bottom));
  if (top < -kUnderflow) key->Add(BelowUnderflow(top));
  key->AddIf(top < 0 && top >= -kUnderflow, "all-negative");
  key->AddIf(top >= 0 && nearest > kFar, "offset");
  key->AddIf(size > kHuge, "huge");
  key->AddIf(size > kBeyondHalf && size <= kHuge, "beyond-fp16");
  key->AddIf(gap > kUnderflow, "wide");
  key->AddIf(ties, "ties");
  key->AddIf(confident, "confident");
  key->AddIf(fine, "fine-logits");
}

void AddGradients(const OwnedProblem& p, Key* key) {
  using Gradient = std::pair<std::string, const std::optional<HostTensor>&>;
  for (const auto& [name, tensor] : {Gradient{"g", p.grad_logprob}, Gradient{"k", p.grad_entropy}}) {
    if (!tensor || tensor->size() == 0) continue;
    bool uniform = true, zero_first = tensor->GetFloat(0) == 0;
    for (int64_t i = 1; i < tensor->size(); ++i) uniform &= tensor->GetBits(i) == tensor->GetBits(0);
    key->Add(name + (uniform ? "" : zero_first ? "=varies-from-0" : "=varies"));
    AddValues(name, *tensor, key);
  }
}

void AddOptions(const OwnedProblem& p, Key* key) {
  key->AddIf(p.hidden.dtype == DType::kF16, "fp16");
  key->AddIf(p.hidden.dtype == DType::kF32, "fp32");
  key->AddIf(p.wanted.fp32_grads, "fp32-grads");
  if (p.temperature) key->Add(p.temperature->shape.empty() ? "T" : "T-by-row");
  if (p.temperature) AddValues("T", *p.temperature, key);
  // Reduction by a sum adds nothing beyond the loss output, which the signature names.
  key->AddIf(p.reduction == Reduction::kMean, "mean");
  key->AddIf(p.labels.dtype == DType::kI32, "int32-labels");
  key->AddIf(p.ignore_index != -100, "other-ignore-index");
  key->AddIf(p.layout.weight_hidden_major, "hidden-major");
  key->AddIf(p.layout.hidden_padding != 0, "padded-hidden");
  key->AddIf(p.layout.weight_padding != 0, "padded-weight");
  key->AddIf(p.layout.label_offset != 0, "offset-labels");
  key->AddIf(p.layout.grad_stride == 0, "broadcast-gradient");
  key->AddIf(p.layout.grad_stride > 1, "strided-gradient");
  key->AddIf(p.layout.temperature_stride > 1, "strided-T");
  key->AddIf(p.layout.output_stride > 1, "strided-outputs");
  key->AddIf(p.layout.gradient_step > 1, "sparse-gradients");
  key->AddIf(p.layout.single_stride != 1, "single-stride");
}

void AddSpecialLabels(const OwnedProblem& p, Key* key) {
  bool ignored = false, negative = false, beyond = false;
  for (int64_t i = 0; i < p.rows(); ++i) {
    const int64_t label = p.labels.GetInt(i);
    ignored |= label == p.ignore_index;
    negative |= label != p.ignore_index && label < 0;
    beyond |= label != p.ignore_index && label >= p.vocab();
  }
  key->AddIf(ignored, "ignored-row");
  key->AddIf(negative, "label<0");
  key->AddIf(beyond, "label>=V");
}

void AddLabels(const OwnedProblem& p, const Finding& f, Key* key) {
  AddSpecialLabels(p, key);
  const std::vector<int64_t> rows = RowsOf(p, f);
  if (rows.empty() || p.vocab() < 2) return;
  const int64_t label = p.labels.GetInt(rows.front());
  if (!p.IsClass(label) || label == 0) return;
  key->Add(label == p.vocab() - 1 ? "label=last" : "label=inner");
}

void AddPlace(const OwnedProblem& p, const Finding& f, Key* key) {
  const bool by_vocab = f.output == "grad_weight";
  const int64_t extent = by_vocab ? p.vocab() : p.rows();
  if (f.row < 0 || f.row >= extent) return;
  if (by_vocab) {
    bool labelled = false;
    for (int64_t i = 0; i < p.rows(); ++i) labelled |= p.labels.GetInt(i) == f.row;
    key->Add(labelled ? "at=label" : "at=other");
  } else if (p.labels.GetInt(f.row) == p.ignore_index) {
    key->Add("at=ignored");
  } else if (!p.IsClass(p.labels.GetInt(f.row))) {
    key->Add("at=invalid");
  } else if (f.row > 0) {
    key->Add("at=later-row");
  }
}

// Says by which factor a gradient is off if that is plain: a factor that was forgotten, or counted
// twice.
std::string GradientError(const Finding& f) {
  if (f.kind != FindingKind::kBound || !f.output.starts_with("grad")) return "";
  if (f.got == 0) return "got=0";
  if (f.expected == 0) return "got!=0";
  constexpr double kNear = 0.01;
  for (const double factor : {-1.0, 0.5, 2.0}) {
    if (std::abs(f.got / f.expected - factor) < kNear) return Text("got=%gx", factor);
  }
  constexpr double kSlight = 64;  // times the bound: an error of rounding, not of a term
  return f.tightness < kSlight ? "slight" : "gross";
}

// The rule without the parts in which findings of one cause differ. Which extents fail beyond the first
// may depend on the values, and for rows on which of them is run alone.
std::string Coarse(std::string_view rule, const OwnedProblem& p) {
  if (rule.starts_with("N")) {
    return rule == "N=1" ? "N=1" : p.rows() > 1 ? "N>=2" : "N:any";
  }
  if (rule.starts_with("V=") && rule != "V=1" && rule != "V=2") return "V:mixed";
  if (rule.starts_with("label") && rule != "label:any" && rule != "label:first" &&
      rule != "label:last" && rule != "label:own") {
    return "label:mixed";
  }
  return std::string(rule);
}

std::string KeyOf(const OwnedProblem& p, const Finding& f) {
  Key key(f.Signature());
  key.Add("N" + ExtentClass(p.rows()));
  key.Add("V" + ExtentClass(p.vocab()));
  key.Add("H" + ExtentClass(p.hidden_size()));
  AddOptions(p, &key);
  AddGradients(p, &key);
  AddValues("hidden", p.hidden, &key);
  AddValues("weight", p.weight, &key);
  AddLogits(p, f, &key);
  AddLabels(p, f, &key);
  AddPlace(p, f, &key);
  return key.Take();
}

void AddNeeds(const OwnedProblem& p, Key* key) {
  AddOptions(p, key);
  key->AddIf(p.grad_entropy.has_value(), "k");
  if (p.grad_logprob) AddValues("g", *p.grad_logprob, key);
  if (p.grad_entropy) AddValues("k", *p.grad_entropy, key);
  AddValues("hidden", p.hidden, key);
  AddValues("weight", p.weight, key);
  AddSpecialLabels(p, key);
}

std::string KeyOf(const OwnedProblem& p, const Finding& f, const Behaviour& seen) {
  std::set<std::string> signatures(seen.also.begin(), seen.also.end());
  signatures.insert(f.Signature());
  std::string first;
  for (const std::string& signature : signatures) first += (first.empty() ? "" : "+") + signature;
  Key key(first);
  // Rules about scale and values are left out. They depend on the problem as much as on the cause and
  // would separate findings of one cause.
  constexpr std::array<std::string_view, 5> kStarts = {"V", "N", "H", "label", "offset"};
  for (const std::string& rule : seen.rules) {
    const auto about = [&](std::string_view axis) { return rule.starts_with(axis); };
    if (std::any_of(kStarts.begin(), kStarts.end(), about)) key.Add(Coarse(rule, p));
  }
  AddNeeds(p, &key);
  if (const std::string error = GradientError(f); !error.empty()) key.Add(error);
  double top = -std::numeric_limits<double>::infinity();
  for (const int64_t row : RowsOf(p, f)) {
    for (const double z : Logits(p, row)) top = std::max(top, z);
  }
  if (std::isfinite(top) && top < -kUnderflow) key.Add(BelowUnderflow(top));
  return key.Take();
}

}  // namespace

void Fields(FieldVisitor& io, Bucket& bucket) {
  io("key", bucket.key);
  io("id", bucket.id);
  // The id becomes part of a file's name.
  if (bucket.id.size() != 8 || bucket.id.find_first_not_of("0123456789abcdef") != std::string::npos) {
    io.Wrong("id", "8 hexadecimal digits");
  }
}

std::vector<std::string> NeedsOf(const OwnedProblem& minimised) {
  Key key("");
  AddNeeds(minimised, &key);
  std::istringstream words(key.Take());
  return {std::istream_iterator<std::string>(words), {}};
}

Bucket BucketOf(const OwnedProblem& minimised, const Finding& finding, const Behaviour& seen) {
  const bool known = !seen.also.empty() || !seen.rules.empty();
  Bucket bucket;
  bucket.key = known ? KeyOf(minimised, finding, seen) : KeyOf(minimised, finding);
  bucket.id = Text("%08" PRIx64, Mix(0, bucket.key) >> 32);
  return bucket;
}

}  // namespace plumbline::fuzz
