// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "fuzz/commands.h"
#include "fuzz/report_text.h"

namespace plumbline::fuzz {

void Console::Say(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), human());
  std::fflush(human());
}

void Console::Complain(std::string_view text) const {
  const std::string line = "plumb: " + std::string(text) + "\n";
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

ExitStatus Console::Finish(ExitStatus status, int64_t cases, int64_t findings, Json result) const {
  std::string line = VerdictLine(status, cases, findings);
  if (json) {
    result["verdict"] = Name(status);
    result["status"] = static_cast<int>(status);
    if (result.Find("cases") == nullptr) result["cases"] = cases;
    if (result.Find("findings") == nullptr) result["findings"] = findings;
    line = result.Dump();
  }
  line += "\n";
  std::fflush(stderr);
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
  return status;
}

}  // namespace plumbline::fuzz
