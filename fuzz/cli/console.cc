// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include <cerrno>
#include <string>
#include <utility>

#include "fuzz/cli/console.h"
#include "fuzz/cli/report_text.h"

namespace plumbline::fuzz {

void Counts::Add(const CaseResult& result) {
  ++cases;
  judged += IsJudged(result) ? 1 : 0;
  findings += result.findings.empty() ? 0 : 1;
}

void Console::Say(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), human());
  std::fflush(human());
}

void Console::Complain(std::string_view text) const {
  const std::string line = "plumb: " + std::string(text) + "\n";
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

ExitStatus Console::Finish(ExitStatus status, const Counts& counts, Json result) const {
  std::string line = VerdictLine(status, counts);
  if (json) {
    result["verdict"] = Name(status);
    result["status"] = ProcessStatus(status);
    if (result.Find("cases") == nullptr) result["cases"] = counts.cases;
    if (result.Find("judged") == nullptr) result["judged"] = counts.judged;
    if (result.Find("findings") == nullptr) result["findings"] = counts.findings;
    line = result.Dump();
  }
  line += "\n";
  std::fflush(stderr);
  std::fwrite(line.data(), 1, line.size(), stdout);
  // A full disk or a closed pipe must not lose the verdict silently.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    Complain(std::string("cannot write to standard output: ") + strerrordesc_np(errno));
    return ExitStatus::kFault;
  }
  return status;
}

}  // namespace plumbline::fuzz
