// SPDX-License-Identifier: Apache-2.0

#include "fuzz/worker/brief_result.h"

#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>

#include "oracle/judge/verdict.h"
#include "oracle/output.h"

namespace plumbline::fuzz {
namespace {

using oracle::Verdict;

template <class Number>
void Append(std::string* line, Number number) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, number);
  *line += ' ';
  line->append(text, end);
}

// Splits a line into words, each after exactly one space except the first.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  bool Ended() const { return rest_.empty(); }
  std::string_view Next() {
    const size_t space = rest_.find(' ');
    const std::string_view word = rest_.substr(0, space);
    rest_ = space == std::string_view::npos ? std::string_view() : rest_.substr(space + 1);
    return word;
  }
  template <class Number>
  bool Read(Number* number) {
    const std::string_view word = Next();
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *number);
    return !word.empty() && error == std::errc() && end == word.data() + word.size();
  }

 private:
  std::string_view rest_;
};

bool IsOutput(std::string_view name) {
  for (const oracle::Output output : oracle::kOutputs) {
    if (oracle::Name(output) == name) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> Brief(const CaseResult& r) {
  if (!r.findings.empty() || !r.skip_reason.empty() || !r.harness_fault.empty()) return std::nullopt;
  if (r.verdict != Verdict::kPass && r.verdict != Verdict::kVacuous) return std::nullopt;
  std::string line(oracle::Name(r.verdict));
  Append(&line, r.arbitrated);
  for (const double seconds : {r.expand_seconds, r.target_seconds, r.oracle_seconds}) {
    Append(&line, seconds);
  }
  for (const OutputSummary& o : r.outputs) {
    line += ' ';
    line += o.output;
    for (const int64_t count : {o.pass, o.fail, o.vacuous, o.unspecified}) Append(&line, count);
    Append(&line, o.tightness);
  }
  return line;
}

std::optional<CaseResult> CaseResultFromBrief(std::string_view line) {
  CaseResult r;
  Words words(line);
  const std::string_view verdict = words.Next();
  if (verdict == oracle::Name(Verdict::kVacuous)) {
    r.verdict = Verdict::kVacuous;
  } else if (verdict != oracle::Name(Verdict::kPass)) {
    return std::nullopt;
  }
  if (!words.Read(&r.arbitrated) || !words.Read(&r.expand_seconds) || !words.Read(&r.target_seconds) ||
      !words.Read(&r.oracle_seconds)) {
    return std::nullopt;
  }
  while (!words.Ended()) {
    OutputSummary o;
    o.output = words.Next();
    if (!IsOutput(o.output) || !words.Read(&o.pass) || !words.Read(&o.fail) ||
        !words.Read(&o.vacuous) || !words.Read(&o.unspecified) || !words.Read(&o.tightness)) {
      return std::nullopt;
    }
    r.outputs.push_back(std::move(o));
  }
  return r;
}

}  // namespace plumbline::fuzz
