// SPDX-License-Identifier: Apache-2.0
//
// Relations of memory: results do not depend on where tensors lie or how a problem is written down,
// inputs stay as they are, and outputs are written in full.

#include <cstdint>
#include <cstring>

#include "tests/fuzz/properties/relation.h"

namespace plumbline::fuzz::testing {
namespace {

using kernel::DType, kernel::Problem, kernel::Results;

constexpr std::string_view kStrided[] = {"strides", "upstream-gradients", "ragged-tail"};

// Fails for a stride that is not followed, an alignment that is assumed.
Checked LayoutChangesNothing(const OwnedProblem& p, const Subject& s) {
  OwnedProblem other = p;
  other.layout.weight_hidden_major = !p.layout.weight_hidden_major;
  other.layout.hidden_padding = p.layout.hidden_padding == 0 ? 5 : 0;
  other.layout.weight_padding = p.layout.weight_padding == 0 ? 3 : 0;
  other.layout.label_offset = p.layout.label_offset == 0 ? 1 : 0;
  if (p.layout.grad_stride != 0) other.layout.grad_stride = 3 - p.layout.grad_stride;
  Comparison comparison("in another memory layout");
  const Measured a(p, s), b(other, s);
  if (!a.ok() || !b.ok()) return {};
  for (const Output o : kAll) comparison.AllSame(o, a, b);
  return std::move(comparison).Result();
}

void TheLayoutIsSeen(const Problem& p, const Results& r) {
  if (p.weight.stride[1] == 1) Nudge(r.lse, 0);
}

// The same problem with a label in 32 or 64 bits, a temperature for all rows or for each, a gradient of
// stride 0 or written out. Fails for a broadcast that reads one element further on, a label read at
// half its width.
Checked TheSameProblemWrittenDifferently(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = given;
  const bool per_row = p.temperature && p.temperature->shape.size() == 1;
  OwnedProblem other = Plain(p);
  other.labels =
      HostTensor::Zeros(p.labels.dtype == DType::kI32 ? DType::kI64 : DType::kI32, p.labels.shape);
  for (int64_t i = 0; i < p.rows(); ++i) {
    const int64_t label = Ignored(p, i) ? -100 : p.labels.GetInt(i);
    if (label != static_cast<int32_t>(label)) return {};
    other.labels.SetInt(i, label);
  }
  if (!per_row) {
    const double t = TemperatureOf(p, 0);
    other.temperature = HostTensor::Zeros(DType::kF32, {p.rows()});
    for (int64_t i = 0; i < p.rows(); ++i) other.temperature->SetFloat(i, static_cast<float>(t));
  }
  Comparison comparison("with the same problem written differently");
  const Measured a(p, s), b(other, s);
  if (!a.ok() || !b.ok()) return {};
  for (const Output o : kAll) comparison.AllSame(o, a, b);
  return std::move(comparison).Result();
}

void LabelsOfHalfTheWidth(const Problem& p, const Results& r) {
  if (p.labels.dtype == DType::kI32) Nudge(r.logprob, 0);
}

// Fails for a write past an end, into padding or into an input.
Checked MemoryIsLeftAlone(const OwnedProblem& p, const Subject& s) {
  Comparison comparison("beside the outputs");
  const Measured a(p, s);
  if (!a.ok()) return {};
  const auto& damage = a.damage();
  comparison.Hold(Output::kLogprob, 0, damage.empty(), damage.empty() ? "" : damage.front().what);
  return std::move(comparison).Result();
}

void PastTheEnd(const Problem& p, const Results& r) {
  if (float* lse = Floats(r.lse)) lse[p.rows()] = 1;
}

// Fails for a row, a tail or an early return that leaves an output as it was.
Checked EveryOutputIsWritten(const OwnedProblem& p, const Subject& s) {
  Comparison comparison("an element kept what was there before the call");
  const Measured a(p, s, 0), b(p, s, 1);
  if (!a.ok() || !b.ok()) return {};
  for (const Output o : kAll) {
    const size_t width = a.bits(o).width();
    for (size_t e = 0; e < a.size(o); ++e) {
      const bool kept = a.bits(o)[e] == PoisonBits(0, width) && b.bits(o)[e] == PoisonBits(1, width);
      comparison.Hold(o, e, !kept, "was never written");
    }
  }
  return std::move(comparison).Result();
}

// Leaves what a kernel that returns early leaves: the one poison, then the other
// (fuzz/examine/placement.cc).
void TheLastRowIsNotWritten(const Problem& p, const Results& r) {
  static int runs = 0;
  const uint32_t poison = runs++ % 2 == 0 ? 0xfff5fff5u : 0x7ffa7ffau;
  if (float* lse = Floats(r.lse)) std::memcpy(lse + p.rows() - 1, &poison, sizeof poison);
}

constexpr Relation kRelations[] = {
    {"LayoutChangesNothing", kStrided, LayoutChangesNothing, "", TheLayoutIsSeen},
    {"TheSameProblemWrittenDifferently", kStrided, TheSameProblemWrittenDifferently, "",
     LabelsOfHalfTheWidth},
    {"MemoryIsLeftAlone", {}, MemoryIsLeftAlone, "", PastTheEnd},
    {"EveryOutputIsWritten", {}, EveryOutputIsWritten, "", TheLastRowIsNotWritten},
};

}  // namespace

std::span<const Relation> MemoryRelations() { return kRelations; }

}  // namespace plumbline::fuzz::testing
