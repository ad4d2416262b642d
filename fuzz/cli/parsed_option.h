// SPDX-License-Identifier: Apache-2.0
//
// Options of the command line whose values this project parses itself (fuzz/base/units.h).

#ifndef PLUMBLINE_FUZZ_CLI_PARSED_OPTION_H_
#define PLUMBLINE_FUZZ_CLI_PARSED_OPTION_H_

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "fuzz/base/units.h"

namespace plumbline::fuzz {

// Adds an option parsed by `parse`. A parse error is reported as a command-line error.
template <class Value>
CLI::Option* AddParsed(CLI::App* app, const std::string& name, Value* value,
                       std::optional<std::remove_reference_t<Value>> (*parse)(std::string_view,
                                                                              std::string*),
                       const std::string& what) {
  return app->add_option_function<std::string>(
      name,
      [value, parse, name](const std::string& text) {
        std::string error;
        const auto parsed = parse(text, &error);
        if (!parsed) throw CLI::ValidationError(name, error);
        *value = *parsed;
      },
      what);
}

// A time with its unit: ms, s, m or h.
inline std::optional<std::chrono::milliseconds> ParseTime(std::string_view text, std::string* error) {
  const std::optional<Budget> budget = ParseBudget(text, error);
  if (!budget) return std::nullopt;
  if (budget->cases == 0) return budget->time;
  *error = "'" + std::string(text) + "': the unit is one of ms, s, m, h";
  return std::nullopt;
}

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CLI_PARSED_OPTION_H_
