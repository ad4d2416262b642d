// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/vocabulary.h"

#include <charconv>
#include <cinttypes>
#include <cstddef>

#include "fuzz/base/text.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor;
using oracle::Output;

constexpr const char* kVocabularyKey = "vocabulary_size";

// The rows of a dense matrix from `first` on.
ConstTensor PaddingOf(const ConstTensor& matrix, int64_t first) {
  ConstTensor rest = matrix;
  const int64_t skipped = first * matrix.stride[0] * static_cast<int64_t>(kernel::SizeOf(matrix.dtype));
  rest.data = static_cast<const std::byte*>(matrix.data) + skipped;
  rest.shape[0] = matrix.shape[0] - first;
  return rest;
}

}  // namespace

std::string CutVocabulary(const std::map<std::string, std::string>& metadata,
                          std::optional<int64_t> asked, Dump* dump) {
  ConstTensor& weight = dump->problem.weight;
  if (weight.rank != 2) return {};  // refused elsewhere
  const int64_t rows = dump->weight_rows = weight.shape[0];
  const auto text = metadata.find(kVocabularyKey);
  if (!asked && text == metadata.end()) return {};
  int64_t size = asked.value_or(0);
  if (!asked) {
    const char* const end = text->second.data() + text->second.size();
    const auto [stop, code] = std::from_chars(text->second.data(), end, size);
    if (code != std::errc{} || stop != end) size = -1;
  }
  if (size < 1 || size > rows) {
    const std::string named = asked ? Text("--vocabulary is %" PRId64, size)
                                    : Text("metadata \"%s\" is \"", kVocabularyKey) +
                                          Printable(Abridged(text->second)) + "\"";
    return named + Text(", not an integer from 1 to %" PRId64 ", the rows of weight", rows);
  }
  weight.shape[0] = size;
  auto& gradient = dump->outputs[static_cast<size_t>(Output::kGradWeight)];
  if (size < rows && gradient && gradient->rank == 2 && gradient->shape[0] == rows) {
    dump->grad_padding = PaddingOf(*gradient, size);
    gradient->shape[0] = size;
  }
  return {};
}

PaddingVerdict JudgePadding(const Dump& dump) {
  PaddingVerdict verdict;
  if (!dump.grad_padding) return verdict;
  const ConstTensor& padding = *dump.grad_padding;
  verdict.judged = padding.size();
  for (int64_t i = 0; i < padding.shape[0]; ++i) {
    for (int64_t j = 0; j < padding.shape[1]; ++j) {
      const double value = oracle::ReadElement(padding, i, j);
      if (value == 0) continue;  // of either sign
      if (verdict.wrong++ > 0) continue;
      verdict.row = dump.problem.vocab() + i;
      verdict.column = j;
      verdict.got = value;
    }
  }
  return verdict;
}

void ReportPadding(const Dump& dump, bool ran, DumpReport* report) {
  const int64_t size = dump.problem.vocab();
  if (dump.weight_rows == size) return;
  Json& json = report->more_json["padding"];
  json["vocabulary_size"] = size;
  json["weight_rows"] = dump.weight_rows;
  report->notes.push_back(Text("padding: weight has %" PRId64 " rows; those from %" PRId64
                               " on (vocabulary_size) take no part in the softmax",
                               dump.weight_rows, size));
  if (ran || !dump.grad_padding) return;
  const PaddingVerdict verdict = JudgePadding(dump);
  json["judged"] = verdict.judged;
  json["wrong"] = verdict.wrong;
  if (verdict.wrong == 0) {
    report->notes.back() +=
        Text("; grad_weight is 0 in all %" PRId64 " elements there", verdict.judged);
    return;
  }
  json["worst"]["row"] = verdict.row;
  json["worst"]["column"] = verdict.column;
  json["worst"]["got"] = verdict.got;
  report->findings.push_back(
      {"grad_weight is not 0 in padding",
       "wrong: " + Place("grad_weight", verdict.row, verdict.column) + " = " + Number(verdict.got) +
           Text(" where 0 is required: row %" PRId64 " is padding (vocabulary_size %" PRId64
                "); %" PRId64 " of its %" PRId64 " elements are not 0",
                verdict.row, size, verdict.wrong, verdict.judged)});
}

}  // namespace plumbline::fuzz
