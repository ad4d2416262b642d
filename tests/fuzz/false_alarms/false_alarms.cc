// SPDX-License-Identifier: Apache-2.0
//
// Judges honest kernels by the second tier on random problems and writes what it counted, a JSON line a
// block of problems, to a file that it goes on with when it is called again. README.md says more.

#include <gnu/libc-version.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "fuzz/base/json.h"
#include "tests/fuzz/false_alarms/draw.h"
#include "tests/fuzz/false_alarms/members.h"
#include "tests/fuzz/false_alarms/tally.h"

namespace plumbline::false_alarms {
namespace {

using fuzz::Json;

struct Options {
  Set set = Set::kSmall;
  int64_t vocab = 32003, first = 1, count = 1000, line = 1, threads = 1, places = 0;
  std::optional<bool> target_gradients;
  std::vector<std::string> only;
  std::string about;
  std::filesystem::path out;
};

void AddOptions(CLI::App* app, Options* options) {
  app->add_option("--set", options->set, "the problems (draw.h)")
      ->required()
      ->transform(
          CLI::Transformer(std::map<std::string, Set>{{"small", Set::kSmall}, {"large", Set::kLarge}}))
      ->option_text("small|large REQUIRED");
  const auto number = [&](const char* name, int64_t* value, int64_t least, const char* what) {
    app->add_option(name, *value, what)
        ->check(CLI::Range(least, std::numeric_limits<int64_t>::max()))
        ->option_text("N");
  };
  number("--vocab", &options->vocab, 64, "of large problems, 64 or more [32003]");
  number("--seed-first", &options->first, 1, "the first seed, 1 or more [1]");
  number("--count", &options->count, 1, "problems, one a seed [1000]");
  number("--line", &options->line, 1, "problems of a line, and of a resumption [1]");
  number("--threads", &options->threads, 1,
         "problems at a time [1]; a large one takes about 11 kB a column of the vocabulary");
  app->add_option("--only", options->only,
                  "only members whose names have this part; may be given again")
      ->take_all()
      ->option_text("PART");
  app->add_option("--target-gradients", options->target_gradients,
                  "whether this project's operators compute gradients, which they do as a whole "
                  "[0 for large problems, else 1]")
      ->option_text("0|1");
  number("--places", &options->places, 16,
         "the most columns of grad_hidden, and rows of grad_weight, that are compared [256, as in the "
         "tier; 64 of large problems]");
  app->add_option("--about", options->about,
                  "stands in every line: the keys of the sources (bench/store trees)")
      ->option_text("TEXT");
  app->add_option("--out", options->out,
                  "lines are appended; blocks that it has are not computed again")
      ->required()
      ->option_text("FILE REQUIRED");
}

double SecondsOfThread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string Processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string Versions() {
  return std::string("g++ ") + __VERSION__ + ", glibc " + gnu_get_libc_version();
}

// A key of a line: what is computed of these seeds.
std::string KeyOf(const Json& line) {
  std::string key;
  for (const char* name : {"set", "vocab", "places", "seed", "problems", "only", "about"}) {
    const Json* value = line.Find(name);
    key += (value != nullptr ? value->Dump() : "") + " ";
  }
  return key;
}

// Cuts off a last line that was not finished, and returns the keys of the others.
std::set<std::string> Finished(const std::filesystem::path& path) {
  std::set<std::string> keys;
  std::ifstream file(path);
  uintmax_t whole = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    whole += line.size() + 1;
    std::string error;
    const auto json = Json::Parse(line, &error);
    if (!json) throw std::runtime_error(path.string() + ": " + error);
    keys.insert(KeyOf(*json));
  }
  file.close();
  if (std::filesystem::exists(path)) std::filesystem::resize_file(path, whole);
  return keys;
}

Json HeadOf(const Options& options, int64_t seed) {
  Json line{Json::Object{}};
  line["set"] = options.set == Set::kSmall ? "small" : "large";
  line["vocab"] = options.set == Set::kSmall ? Json() : Json(options.vocab);
  line["places"] = options.places;
  line["seed"] = seed;
  line["problems"] = std::min(options.line, options.first + options.count - seed);
  line["only"] = Json::Array{};
  for (const std::string& part : options.only) line["only"].Append(part);
  line["about"] = options.about;
  return line;
}

Json Block(const Members& members, const Options& options, Json line) {
  const double begun = SecondsOfThread();
  const bool large = options.set == Set::kLarge;
  const MeasureOptions measure{options.target_gradients.value_or(!large), options.only};
  const int64_t seed = *line.Find("seed")->as_int(), count = *line.Find("problems")->as_int();
  std::map<Data, Tally> tallies;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<uint64_t>(seed + i);
    const Drawn drawn = Draw(options.set, large ? options.vocab : 0, options.places, at);
    tallies.try_emplace(drawn.data, members).first->second.Add(at, Measure(members, drawn, measure));
  }
  for (const auto& [data, tally] : tallies) line["data"][Name(data)] = tally.ToJson();
  line["seconds"] = SecondsOfThread() - begun;
  line["processor"] = Processor();
  line["versions"] = Versions();
  return line;
}

void Run(const Options& options) {
  const Members members;
  const std::set<std::string> finished = Finished(options.out);
  std::ofstream out(options.out, std::ios::app);
  if (!out) throw std::runtime_error(options.out.string() + ": cannot be written");
  std::atomic<int64_t> next = options.first;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  std::string why;
  const auto work = [&] {
    for (;;) {
      const int64_t seed = next.fetch_add(options.line);
      if (failed || seed >= options.first + options.count) return;
      try {
        Json line = HeadOf(options, seed);
        if (finished.contains(KeyOf(line))) continue;
        const std::string text = Block(members, options, std::move(line)).Dump();
        const std::scoped_lock lock(mutex);
        out << text << std::endl;
        if (!out) throw std::runtime_error(options.out.string() + ": cannot be written");
      } catch (const std::exception& error) {
        const std::scoped_lock lock(mutex);
        failed = true;
        why = "seed " + std::to_string(seed) + ": " + error.what();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < options.threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failed) throw std::runtime_error(why);
}

}  // namespace
}  // namespace plumbline::false_alarms

int main(int argc, char** argv) {
  using namespace plumbline::false_alarms;
  Options options;
  CLI::App app(
      "Judges honest kernels by the second tier on random problems and counts what it suspects.",
      "false_alarms");
  app.footer("Exit status: 0 all blocks are in FILE, 2 usage, 3 a failure.");
  AddOptions(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.places == 0) options.places = options.set == Set::kSmall ? 256 : 64;
  try {
    Run(options);
  } catch (const std::exception& error) {
    std::cerr << "false_alarms: " << error.what() << "\n";
    return 3;
  }
  return 0;
}
