// SPDX-License-Identifier: Apache-2.0
//
// Values with a unit, as a command line takes them: budgets, seeds, shards, sizes; the time of day; how
// many jobs.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline::fuzz {

// A budget is time on the clock, or cases for each target.
struct Budget {
  std::chrono::milliseconds time{60'000};  // used where cases is 0
  int64_t cases = 0;
  bool operator==(const Budget&) const = default;
};

// Parses "90s", "10m" (or "10min"), "2h", "250ms", "5000cases". Refuses, naming the text: a missing
// unit, 0, overflow.
std::optional<Budget> ParseBudget(std::string_view text, std::string* error);
std::string Format(const Budget& budget);
// The same of a time alone.
std::optional<std::chrono::milliseconds> ParseTime(std::string_view text, std::string* error);

// Parses a decimal number, or a hexadecimal one after 0x.
std::optional<uint64_t> ParseSeed(std::string_view text, std::string* error);

// Part `number` of a campaign that is split into `of` parts, 0 <= number < of.
struct Shard {
  int64_t number = 0, of = 1;
  bool operator==(const Shard&) const = default;
};

// Parses "0/4". Refuses, naming the text, a number that is not below the count.
std::optional<Shard> ParseShard(std::string_view text, std::string* error);
std::string Format(const Shard& shard);

// Parses "4GiB", "512MiB", or "0" for no limit; the result is in bytes.
std::optional<int64_t> ParseBytes(std::string_view text, std::string* error);

// The present time as "20250131T235959Z".
std::string UtcStamp();

// The number of workers that run at the same time if none is given: one a hardware thread. It is four
// if a target is on a device, as its description says, and CUDA_MPS_PIPE_DIRECTORY is not set.
// fuzz/campaign/HARNESS.md, "Targets on a device", has the measurement.
int DefaultJobs(bool on_device);

}  // namespace plumbline::fuzz
