// SPDX-License-Identifier: Apache-2.0
//
// Another revision's targets beside this one's, on the same problems: tests/same_bits/run builds both
// and calls this. README.md in this folder says what is compared.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/fp_environment.h"
#include "fuzz/base/json.h"
#include "fuzz/base/text.h"
#include "fuzz/builtin/mutants/table.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/catalogue.h"
#include "tests/same_bits/cases.h"
#include "tests/same_bits/compare.h"
#include "tests/same_bits/loaded_targets.h"

namespace plumbline::same_bits {
namespace {

constexpr const char* kUsage =
    "usage: same_bits LIBRARY --self-check [--except-infinite-labels]\n"
    "       same_bits LIBRARY CORPUS HOST_RECIPES HOPPER_RECIPES MUTANT_RECIPES SEED JOBS\n"
    "                 [--except-infinite-labels]\n"
    "Exit status: 0 the same, 1 different (or nothing was told apart), 2 usage, 3 neither could be "
    "told\n";

constexpr int kMaxJobs = 64;
constexpr int kMaxLines = 20;        // that a job prints of differences, and of what was not run
constexpr unsigned kDeadline = 900;  // seconds for a case; the largest takes some ten

// Tables of both revisions, by a target's name.
class Pairs {
 public:
  explicit Pairs(const std::filesystem::path& library) : loaded_(library) {
    if (const std::string fault = fuzz::FpEnvironmentFault(); !fault.empty()) {
      throw std::runtime_error("after loading the library: " + fault);
    }
  }

  const plumbline_target_v1& Old(const std::string& name) const { return loaded_.Find(name); }
  bool HasOld(const std::string& name) const { return loaded_.Has(name); }
  const plumbline_target_v1& New(const std::string& name) {
    auto& target = own_[name];
    std::string error;
    if (target == nullptr) target = fuzz::LoadTarget(name, &error);
    if (target == nullptr) throw std::runtime_error(error);
    RequireOwn(target->table(), name);
    return target->table();
  }

 private:
  LoadedTargets loaded_;
  std::map<std::string, std::unique_ptr<fuzz::Target>> own_;
};

// The old operator beside each new mutant, on the case that shows the mutant's defect: what has to be
// told apart. A mutant whose defect is a race may have the operator's bits for a while.
int SelfCheck(const std::filesystem::path& library, Except except) {
  Pairs pairs(library);
  std::map<std::string, bool> deterministic;
  for (const fuzz::BuiltIn& target : fuzz::BuiltInTargets()) {
    deterministic[target.name] = target.deterministic;
  }
  int wrong = 0;
  for (const auto& [host, prefix] :
       {std::pair{"host", "mutant:"}, std::pair{"host-hopper", "hopper-mutant:"}}) {
    int apart = 0;
    for (const fuzz::MutantRow& row : fuzz::kHostMutants) {
      const std::string mutant = prefix + std::string(row.name);
      const std::string line(row.recipe);
      fuzz::Recipe recipe;
      std::string error;
      if (!fuzz::Parse(line, &recipe, &error)) throw std::runtime_error(error);
      const fuzz::OwnedProblem problem = fuzz::Expand(recipe);
      Counts counts;
      if (const std::string same = Compare(problem, pairs.Old(host), pairs.New(host), except, &counts);
          !same.empty()) {
        std::printf("%s differs on %s: %s\n", host, line.c_str(), same.c_str());
        ++wrong;
      }
      if (!Compare(problem, pairs.Old(host), pairs.New(mutant), Except::kNothing, &counts).empty()) {
        ++apart;
      } else if (deterministic[mutant]) {
        std::printf("not told apart: old %s, new %s on %s\n", host, mutant.c_str(), line.c_str());
        ++wrong;
      }
    }
    std::printf("self-check: %d of %zu mutants told apart from %s\n", apart, fuzz::kHostMutants.size(),
                host);
  }
  return wrong == 0 ? 0 : 1;
}

// What processes share.
struct Shared {
  std::atomic<int64_t> next{0};
  struct Job {
    std::atomic<int64_t> current{-1};
    std::array<Counts, kGroups> groups;
  };
  std::array<Job, kMaxJobs> jobs;
};

class Comparison {
 public:
  Comparison(const std::filesystem::path& library, const std::filesystem::path& corpus,
             const Sizes& sizes, int jobs, Except except)
      : except_(except),
        pairs_(library),
        segments_(
            ListSegments(corpus, sizes, [this](std::string_view name) { return Compares(name); })),
        jobs_(jobs) {
    for (const Segment& segment : segments_) {
      const std::string_view was = pairs_.Old(segment.target).describe();
      const std::string_view is = pairs_.New(segment.target).describe();
      if (was != is) descriptions_[segment.target] = std::string(was) + "\n  new " + std::string(is);
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + segment.count);
    }
    void* const memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error(std::strerror(errno));
    shared_ = new (memory) Shared;
  }

  // The exit status.
  int Run() {
    std::fflush(stdout);
    std::map<pid_t, int> children;
    for (int job = 0; job < jobs_; ++job) {
      const pid_t child = ::fork();
      if (child < 0) throw std::runtime_error(std::strerror(errno));
      if (child == 0) {
        Work(job);
        std::fflush(stdout);
        ::_exit(0);
      }
      children[child] = job;
    }
    bool died = false;
    auto said = std::chrono::steady_clock::now();
    while (!children.empty()) {
      int status = 0;
      const pid_t ended = ::waitpid(-1, &status, WNOHANG);
      if (ended > 0) {
        if (status != 0) {
          std::printf("DIED (%s) on %s\n",
                      WIFSIGNALED(status) ? ::strsignal(WTERMSIG(status)) : "exit status",
                      NameOf(shared_->jobs[static_cast<size_t>(children[ended])].current).c_str());
          died = true;
        }
        children.erase(ended);
        continue;
      }
      ::usleep(100'000);
      if (std::chrono::steady_clock::now() - said < std::chrono::seconds(30)) continue;
      said = std::chrono::steady_clock::now();
      std::fprintf(stderr, "%lld of %lld cases\n",
                   static_cast<long long>(std::min(shared_->next.load(), ends_.back())),
                   static_cast<long long>(ends_.back()));
    }
    return Report() && !died ? 0 : 1;
  }

 private:
  // A mutant may have a label at -inf where the operator has none.
  bool Compares(std::string_view mutant) const {
    if (except_ != Except::kNothing) return false;
    if (pairs_.HasOld("mutant:" + std::string(mutant))) return true;
    std::printf("not compared: %s, which the other revision does not have\n",
                std::string(mutant).c_str());
    return false;
  }

  struct Place {
    const Segment* segment;
    int64_t number;
  };
  Place At(int64_t index) const {
    const auto end = std::ranges::upper_bound(ends_, index);
    const Segment& segment = segments_[static_cast<size_t>(end - ends_.begin())];
    return {&segment, index - (*end - segment.count)};
  }
  std::string NameOf(int64_t index) const {
    if (index < 0) return "no case";
    const Place place = At(index);
    return place.segment->target + ": " + place.segment->name(place.number);
  }

  void Work(int number) {
    Shared::Job& job = shared_->jobs[static_cast<size_t>(number)];
    int lines = 0;
    const auto say = [&](const char* what, int64_t index, const std::string& why) {
      if (lines++ >= kMaxLines) return;
      std::printf("%s %s: %s\n", what, NameOf(index).c_str(), why.c_str());
      std::fflush(stdout);
    };
    for (int64_t index = shared_->next++; index < ends_.back(); index = shared_->next++) {
      job.current = index;
      ::alarm(kDeadline);
      const Place place = At(index);
      Counts& counts = job.groups[static_cast<size_t>(place.segment->group)];
      ++counts.cases;
      try {
        const fuzz::OwnedProblem problem = place.segment->problem(place.number);
        const std::string difference = Compare(problem, pairs_.Old(place.segment->target),
                                               pairs_.New(place.segment->target), except_, &counts);
        if (difference.empty()) continue;
        ++counts.different;
        say("DIFFERENT", index, difference);
      } catch (const std::exception& e) {
        ++counts.not_run;
        say("not run:", index, e.what());
      }
    }
  }

  bool Report() const {
    auto different = static_cast<int64_t>(descriptions_.size());
    for (const auto& [target, texts] : descriptions_) {
      std::printf("DIFFERENT %s: description:\n  old %s\n", target.c_str(), texts.c_str());
    }
    int64_t changed = 0;
    fuzz::Json groups;
    for (size_t g = 0; g < kGroups; ++g) {
      Counts sum;
      for (const Shared::Job& job : shared_->jobs) sum.Add(job.groups[g]);
      different += sum.different;
      fuzz::Json& json = groups[kGroupNames[g]];
      json["cases"] = sum.cases;
      json["computed"] = sum.computed;
      json["different"] = sum.different;
      json["not run"] = sum.not_run;
      json["calls"] = sum.calls;
      json["outputs"] = sum.outputs;
      json["elements"] = sum.elements;
      json["output bytes"] = sum.output_bytes;
      json["memory bytes"] = sum.memory_bytes;
      if (except_ == Except::kNothing) continue;
      json["rows excepted"] = sum.rows_excepted;
      json["rows changed"] = sum.rows_changed;
      changed += sum.rows_changed;
    }
    std::printf("%s\n", groups.Dump().c_str());
    return different == 0 && (except_ == Except::kNothing || changed > 0);
  }

  Except except_;
  Pairs pairs_;
  std::vector<Segment> segments_;
  std::map<std::string, std::string> descriptions_;  // that differ: both texts, by target
  std::vector<int64_t> ends_;                        // of the segments, in the list of all cases
  int jobs_;
  Shared* shared_ = nullptr;
};

int64_t Number(std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  throw std::invalid_argument(std::string(text) + ": not a whole number from " + std::to_string(least) +
                              " to " + std::to_string(most));
}

int Main(std::vector<std::string> words) {
  Except except = Except::kNothing;
  if (!words.empty() && words.back() == "--except-infinite-labels") {
    except = Except::kInfiniteLabels;
    words.pop_back();
  }
  if (words.size() == 2 && words[1] == "--self-check") return SelfCheck(words[0], except);
  if (words.size() != 7) throw std::invalid_argument(kUsage);
  constexpr int64_t kMost = 1'000'000'000;
  const Sizes sizes = {.host = Number(words[2], 0, kMost),
                       .hopper = Number(words[3], 0, kMost),
                       .mutant = Number(words[4], 0, kMost),
                       .seed = static_cast<uint64_t>(Number(words[5], 0, INT64_MAX))};
  return Comparison(words[0], words[1], sizes, static_cast<int>(Number(words[6], 1, kMaxJobs)), except)
      .Run();
}

}  // namespace
}  // namespace plumbline::same_bits

int main(int argc, char** argv) {
  try {
    return plumbline::same_bits::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "same_bits: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "same_bits: %s\n", e.what());
    return 3;
  }
}
