// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/units.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <thread>

namespace plumbline::fuzz {
namespace {

struct TimeUnit {
  std::string_view name;
  int64_t milliseconds;
  std::string_view also = "";  // read, never written
};
constexpr int64_t kMostShards = 1'000'000;
constexpr TimeUnit kUnits[] = {{"ms", 1}, {"s", 1'000, "sec"}, {"m", 60'000, "min"}, {"h", 3'600'000}};

// Cuts a number off the beginning of the text. Returns nullopt if there is none, or none that fits.
template <class Number>
std::optional<Number> CutNumber(std::string_view* text, int base = 10) {
  Number number = 0;
  const auto [rest, code] = std::from_chars(text->data(), text->data() + text->size(), number, base);
  text->remove_prefix(static_cast<size_t>(rest - text->data()));
  return code == std::errc() ? std::optional(number) : std::nullopt;
}

// A time, or where `cases` is true also a number of cases.
std::optional<Budget> ParseAmount(std::string_view text, bool cases, std::string* error) {
  std::string_view unit = text;
  const int64_t number = CutNumber<int64_t>(&unit).value_or(0);
  const auto refuse = [&](const std::string& why) {
    *error = "'" + std::string(text) + "': " + why;
    return std::nullopt;
  };
  if (number <= 0) {
    return refuse(std::string("expected a positive whole number and a unit: 90s, 10m") +
                  (cases ? ", 5000cases" : ""));
  }
  if (cases && (unit == "cases" || unit == "case")) {
    return Budget{.time = std::chrono::milliseconds(0), .cases = number};
  }
  for (const TimeUnit& u : kUnits) {
    if (unit != u.name && (u.also.empty() || unit != u.also)) continue;
    if (number > std::numeric_limits<int64_t>::max() / 1'000'000 / u.milliseconds) {
      return refuse("longer than this clock can count");
    }
    return Budget{.time = std::chrono::milliseconds(number * u.milliseconds), .cases = 0};
  }
  if (unit.empty()) {
    const std::string n(text);
    return refuse("of what? " + n + "s is a time" +
                  (cases ? ", " + n + "cases a number of cases" : ""));
  }
  return refuse(std::string("the unit is one of ms, s, m (or min), h") + (cases ? ", cases" : ""));
}

}  // namespace

std::optional<Budget> ParseBudget(std::string_view text, std::string* error) {
  return ParseAmount(text, true, error);
}

std::optional<std::chrono::milliseconds> ParseTime(std::string_view text, std::string* error) {
  const std::optional<Budget> amount = ParseAmount(text, false, error);
  return amount ? std::optional(amount->time) : std::nullopt;
}

std::string Format(const Budget& budget) {
  if (budget.cases > 0) return std::to_string(budget.cases) + "cases";
  const int64_t ms = budget.time.count();
  std::string text = std::to_string(ms) + "ms";
  for (const TimeUnit& u : kUnits) {
    if (ms % u.milliseconds == 0) text = std::to_string(ms / u.milliseconds) + std::string(u.name);
  }
  return text;
}

std::optional<uint64_t> ParseSeed(std::string_view text, std::string* error) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  std::string_view digits = hex ? text.substr(2) : text;
  const std::optional<uint64_t> seed = CutNumber<uint64_t>(&digits, hex ? 16 : 10);
  if (seed && digits.empty()) return seed;
  *error = "'" + std::string(text) + "': expected a number below 2^64, decimal or 0x hexadecimal";
  return std::nullopt;
}

std::optional<Shard> ParseShard(std::string_view text, std::string* error) {
  std::string_view rest = text;
  const std::optional<int64_t> number = CutNumber<int64_t>(&rest);
  const bool more = rest.starts_with('/');
  if (more) rest.remove_prefix(1);
  const std::optional<int64_t> of = CutNumber<int64_t>(&rest);
  if (number && more && of && rest.empty() && *number >= 0 && *number < *of && *of <= kMostShards) {
    return Shard{.number = *number, .of = *of};
  }
  *error =
      "'" + std::string(text) + "': expected I/N with 0 <= I < N <= " + std::to_string(kMostShards);
  return std::nullopt;
}

std::string Format(const Shard& shard) {
  return std::to_string(shard.number) + "/" + std::to_string(shard.of);
}

std::optional<int64_t> ParseBytes(std::string_view text, std::string* error) {
  std::string_view unit = text;
  const int64_t number = CutNumber<int64_t>(&unit).value_or(-1);
  const int shift = unit == "MiB" ? 20 : unit == "GiB" ? 30 : -1;
  if (number == 0 && unit.empty()) return 0;
  if (number < 0 || shift < 0 || number > std::numeric_limits<int64_t>::max() >> shift) {
    *error = "'" + std::string(text) + "': expected a number and MiB or GiB, or 0 for no limit";
    return std::nullopt;
  }
  return number << shift;
}

std::string UtcStamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const size_t length = std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return {text, length};
}

int DefaultJobs(bool on_device) {
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const bool shared = std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr;
  return on_device && !shared ? std::min(threads, 4) : threads;
}

}  // namespace plumbline::fuzz
