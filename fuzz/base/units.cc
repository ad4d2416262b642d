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

struct Unit {
  std::string_view name;
  int64_t milliseconds;
};
constexpr int64_t kMostShards = 1'000'000;
constexpr Unit kUnits[] = {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}};

}  // namespace

std::optional<Budget> ParseBudget(std::string_view text, std::string* error) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const auto refuse = [&](std::string_view why) {
    *error = "budget '" + std::string(text) + "': " + std::string(why);
    return std::nullopt;
  };
  if (code != std::errc() || number <= 0) return refuse("expected a positive number and a unit");
  if (unit == "cases" || unit == "case")
    return Budget{.time = std::chrono::milliseconds(0), .cases = number};
  for (const Unit& u : kUnits) {
    if (unit != u.name) continue;
    if (number > std::numeric_limits<int64_t>::max() / 1'000'000 / u.milliseconds) {
      return refuse("longer than this clock can count");
    }
    return Budget{.time = std::chrono::milliseconds(number * u.milliseconds), .cases = 0};
  }
  return refuse("the unit is one of ms, s, m, h, cases");
}

std::string Format(const Budget& budget) {
  if (budget.cases > 0) return std::to_string(budget.cases) + "cases";
  const int64_t ms = budget.time.count();
  std::string text = std::to_string(ms) + "ms";
  for (const Unit& u : kUnits) {
    if (ms % u.milliseconds == 0) text = std::to_string(ms / u.milliseconds) + std::string(u.name);
  }
  return text;
}

std::optional<uint64_t> ParseSeed(std::string_view text, std::string* error) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hex ? text.substr(2) : text;
  uint64_t seed = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, code] = std::from_chars(digits.data(), end, seed, hex ? 16 : 10);
  if (code != std::errc() || rest != end) {
    *error =
        "seed '" + std::string(text) + "': expected a number below 2^64, decimal or 0x hexadecimal";
    return std::nullopt;
  }
  return seed;
}

std::optional<Shard> ParseShard(std::string_view text, std::string* error) {
  const char* const end = text.data() + text.size();
  Shard shard;
  const auto [slash, code] = std::from_chars(text.data(), end, shard.number);
  const bool more = code == std::errc() && slash != end && *slash == '/';
  const auto [rest, second] = std::from_chars(more ? slash + 1 : end, end, shard.of);
  if (!more || second != std::errc() || rest != end || shard.number < 0 || shard.number >= shard.of ||
      shard.of > kMostShards) {
    *error = "shard '" + std::string(text) +
             "': expected I/N with 0 <= I < N <= " + std::to_string(kMostShards);
    return std::nullopt;
  }
  return shard;
}

std::string Format(const Shard& shard) {
  return std::to_string(shard.number) + "/" + std::to_string(shard.of);
}

std::optional<int64_t> ParseBytes(std::string_view text, std::string* error) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const int shift = unit == "MiB" ? 20 : unit == "GiB" ? 30 : -1;
  if (code == std::errc() && number == 0 && (unit.empty() || shift > 0)) return 0;
  if (code != std::errc() || number < 0 || shift < 0 ||
      number > std::numeric_limits<int64_t>::max() >> shift) {
    *error = "size '" + std::string(text) + "': expected a number and MiB or GiB, or 0 for no limit";
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
