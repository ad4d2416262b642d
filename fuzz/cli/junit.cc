// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cli/junit.h"

#include <algorithm>
#include <map>

#include "fuzz/base/json.h"
#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

std::string Escaped(std::string_view text) {
  // A tab or a line end in an attribute would be read as a space.
  static const std::map<char, const char*> kEscapes = {{'<', "&lt;"},   {'>', "&gt;"},  {'&', "&amp;"},
                                                       {'"', "&quot;"}, {'\t', "&#9;"}, {'\n', "&#10;"},
                                                       {'\r', "&#13;"}};
  // The JSON writer replaces bytes that are not UTF-8 by U+FFFD.
  std::string error;
  const std::string sound = *Json::Parse(Json(text).Dump(), &error)->as_string();
  std::string xml;
  for (const char c : sound) {
    if (const auto escape = kEscapes.find(c); escape != kEscapes.end()) {
      xml += escape->second;
    } else {
      xml += static_cast<unsigned char>(c) < 0x20 ? "\xEF\xBF\xBD" : std::string(1, c);
    }
  }
  return xml;
}

}  // namespace

std::string JUnitXml(std::string_view suite, const std::vector<JUnitCase>& cases) {
  using Outcome = JUnitCase::Outcome;
  const auto count = [&](Outcome outcome) {
    return std::count_if(cases.begin(), cases.end(),
                         [&](const JUnitCase& c) { return c.outcome == outcome; });
  };
  double seconds = 0;
  for (const JUnitCase& c : cases) seconds += c.seconds;
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"" + Escaped(suite) +
                    Text(
                        "\" tests=\"%zu\" failures=\"%td\" errors=\"%td\" skipped=\"%td\""
                        " time=\"%.3f\">\n",
                        cases.size(), count(Outcome::kFailed), count(Outcome::kError),
                        count(Outcome::kSkipped), seconds);
  for (const JUnitCase& c : cases) {
    xml += "  <testcase classname=\"" + Escaped(c.group) + "\" name=\"" + Escaped(c.name) +
           Text("\" time=\"%.3f\"", c.seconds);
    if (c.outcome == Outcome::kPassed) {
      xml += "/>\n";
      continue;
    }
    const char* element = c.outcome == Outcome::kFailed  ? "failure"
                          : c.outcome == Outcome::kError ? "error"
                                                         : "skipped";
    xml += std::string(">\n    <") + element + " message=\"" + Escaped(c.message) +
           "\"/>\n  </testcase>\n";
  }
  return xml + "</testsuite>\n";
}

}  // namespace plumbline::fuzz
