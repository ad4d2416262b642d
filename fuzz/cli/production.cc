// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "fuzz/base/child_process.h"
#include "fuzz/base/regular_file.h"
#include "fuzz/base/version.h"
#include "fuzz/cli/commands.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/gpu/probe/device.h"
#include "fuzz/gpu/production/worker.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kCaseTimeout{120'000};

std::string Text(const Json& json, std::string_view key) {
  const Json* value = json.Find(key);
  const std::string* text = value == nullptr ? nullptr : value->as_string();
  return text == nullptr ? "" : *text;
}
double Number(const Json& json, std::string_view key) {
  const Json* value = json.Find(key);
  return value == nullptr ? 0 : value->as_number().value_or(0);
}
const Json::Array& List(const Json& json, std::string_view key) {
  static const Json::Array kNone;
  const Json* value = json.Find(key);
  const Json::Array* list = value == nullptr ? nullptr : value->as_array();
  return list == nullptr ? kNone : *list;
}

// A child and its outcome.
struct Ended {
  int status = 0;  // waitpid's
  bool hung = false, interrupted = false;
  std::string words;  // the last ones on stderr
};

class Hunt {
 public:
  Hunt(const CampaignOptions& options, const Console& console) : o_(options), console_(console) {}
  ExitStatus Run();

 private:
  bool Begin(std::string* error);
  ExitStatus Cases();
  Ended RunChild(int64_t first, int64_t last, milliseconds time);
  void Report(const ProductionJournal& journal);
  Json Summary(const ProductionJournal& journal) const;
  ExitStatus Fail(ExitStatus status, const std::string& why) {
    console_.Complain(why);
    return status;
  }
  milliseconds CaseTimeout() const { return o_.case_timeout.value_or(kCaseTimeout); }

  CampaignOptions o_;
  const Console& console_;
  Budget budget_;
  ProbedDevice device_;
  size_t reported_ = 0;  // cases of the journal
};

Json HeaderOf(const CampaignOptions& o, const Budget& budget, const ProbedDevice& device) {
  Json header;
  header["journal"] = kProductionFormat;
  header["version"] = kVersion;
  header["started"] = UtcStamp();
  header["seed"] = std::to_string(o.seed);
  header["budget"] = Format(budget);
  header["recipe"] = o.recipe;
  for (const std::string& target : o.targets) header["targets"].Append(target);
  header["device"] = device.name;
  header["compute_capability"] = std::to_string(device.major) + "." + std::to_string(device.minor);
  header["cuda_driver"] = device.driver;
  header["cuda_runtime"] = device.runtime;
  return header;
}

// Begins a new campaign, or resumes the existing one.
bool Hunt::Begin(std::string* error) {
  if (!IsProductionCampaign(o_.out)) {
    std::error_code code;
    if (o_.resume || std::filesystem::exists(o_.out / "journal.jsonl", code)) {
      *error = o_.out.string() + " holds no campaign of cases of production size";
      return false;
    }
    budget_ = o_.recipe.empty() ? o_.GetBudget() : Budget{.time = milliseconds(0), .cases = 1};
    std::filesystem::create_directories(o_.out, code);
    return AppendLine(o_.out, HeaderOf(o_, budget_, device_), error);
  }
  const std::optional<ProductionJournal> journal = ReadProductionJournal(o_.out, error);
  if (!journal) return false;
  const Json& header = journal->header;
  const std::optional<uint64_t> seed = ParseSeed(Text(header, "seed"), error);
  const std::optional<Budget> budget = ParseBudget(Text(header, "budget"), error);
  if (!seed || !budget) return false;
  std::vector<std::string> targets;
  for (const Json& target : List(header, "targets")) {
    if (target.as_string() != nullptr) targets.push_back(*target.as_string());
  }
  const bool same = o_.resume || (targets == o_.targets && *seed == o_.seed);
  if (!same) {
    *error = o_.out.string() + " holds a campaign of another seed or of other targets";
    return false;
  }
  o_.targets = std::move(targets);
  o_.seed = *seed;
  o_.recipe = Text(header, "recipe");
  budget_ = o_.budget && o_.recipe.empty() ? *o_.budget : *budget;
  reported_ = journal->cases.size();
  return true;
}

Ended Hunt::RunChild(int64_t first, int64_t last, milliseconds time) {
  Ended ended;
  const int log = memfd_create("plumb-production-log", MFD_CLOEXEC);
  if (log >= 0) fcntl(log, F_SETFL, O_RDWR | O_APPEND);
  std::vector<std::string> words = {
      "plumb",          "production-worker",          "--seed", std::to_string(o_.seed),
      "--first",        std::to_string(first),        "--last", std::to_string(last),
      "--milliseconds", std::to_string(time.count()), "--out",  o_.out.string(),
      "--parent",       std::to_string(getpid())};
  for (const std::string& target : o_.targets) words.insert(words.end(), {"--target", target});
  if (!o_.recipe.empty()) words.insert(words.end(), {"--recipe", o_.recipe});
  const pid_t pid = SpawnApart(console_.worker_program, words, log, log, 2, &ended.words);
  if (pid < 0) {
    ended.status = kProductionCannot << 8;
    return ended;
  }
  Clock::time_point moved = Clock::now();
  std::error_code code;
  uintmax_t size = 0;
  while (waitpid(pid, &ended.status, WNOHANG) == 0) {
    std::this_thread::sleep_for(milliseconds(50));
    // The journal grows with every stage, so a child whose journal does not grow hangs.
    const uintmax_t now = std::filesystem::file_size(o_.out / "journal.jsonl", code);
    if (now != size) {
      size = now;
      moved = Clock::now();
      std::string error;
      if (const auto journal = ReadProductionJournal(o_.out, &error)) Report(*journal);
    }
    ended.interrupted = console_.interrupt->load();
    ended.hung = Clock::now() - moved > CaseTimeout();
    if (!ended.hung && !ended.interrupted) continue;
    kill(-pid, SIGKILL);
    while (waitpid(pid, &ended.status, 0) < 0 && errno == EINTR) {
    }
    break;
  }
  char text[2048];
  const ssize_t got = pread(log, text, sizeof text, 0);
  if (got > 0) ended.words.assign(text, static_cast<size_t>(got));
  while (!ended.words.empty() && ended.words.back() == '\n') ended.words.pop_back();
  close(log);
  return ended;
}

std::string How(const Ended& ended, milliseconds timeout) {
  if (ended.hung) return "hangs: no end within " + std::to_string(timeout.count() / 1000) + " s";
  if (WIFSIGNALED(ended.status)) {
    const char* name = sigdescr_np(WTERMSIG(ended.status));
    return "ended the process by signal " + std::to_string(WTERMSIG(ended.status)) + " (" +
           (name != nullptr ? name : "unknown") + ")";
  }
  return "ended the process with status " + std::to_string(WEXITSTATUS(ended.status));
}

// Prints one line for each new case, and its findings with a line that reproduces them.
void Hunt::Report(const ProductionJournal& journal) {
  for (; reported_ < journal.cases.size(); ++reported_) {
    const Json& one = journal.cases[reported_];
    std::string line = "case " + std::to_string(static_cast<int64_t>(Number(one, "case"))) + ": " +
                       Text(one, "recipe");
    char times[96];
    std::snprintf(times, sizeof times, "\n  %.2f s, oracle %.2f s", Number(one, "seconds"),
                  Number(one, "oracle_seconds"));
    line += times;
    if (const Json* targets = one.Find("targets");
        targets != nullptr && targets->as_object() != nullptr) {
      for (const auto& [name, run] : *targets->as_object()) {
        std::snprintf(times, sizeof times, ", %s %.3f s", name.c_str(), Number(run, "seconds"));
        line +=
            run.Find("skipped") != nullptr ? ", " + name + " skipped: " + Text(run, "skipped") : times;
      }
    }
    line += "\n";
    for (const Json& finding : List(one, "findings")) {
      line += "  FINDING " + Text(finding, "target") + ": " + Text(finding, "what") + "\n    " +
              ShellQuote(console_.program) + " fuzz --production --target " +
              ShellQuote(Text(finding, "target")) + " --recipe " + ShellQuote(Text(one, "recipe")) +
              " --out " + ShellQuote(o_.out.string() + "-again") + "\n";
    }
    if (const std::string fault = Text(one, "fault"); !fault.empty()) {
      line += "  FAULT OF THE HARNESS: " + fault + "\n";
    }
    console_.Say(line);
  }
}

Json Hunt::Summary(const ProductionJournal& journal) const {
  Json summary = journal.header;
  summary["finished"] = UtcStamp();
  std::set<int64_t> cases;
  double oracle = 0, all = 0;
  int64_t findings = 0, audited = 0, faults = 0;
  std::map<std::string, double> seconds;
  std::map<std::string, double> tightest;  // "cuda grad_hidden bf16"
  std::map<std::string, std::map<std::string, int64_t>> counts;
  for (const Json& one : journal.cases) {
    cases.insert(static_cast<int64_t>(Number(one, "case")));
    oracle += Number(one, "oracle_seconds");
    all += Number(one, "seconds");
    audited += static_cast<int64_t>(Number(one, "audited"));
    findings += static_cast<int64_t>(List(one, "findings").size());
    faults += one.Find("fault") != nullptr ? 1 : 0;
    const Json* targets = one.Find("targets");
    if (targets == nullptr || targets->as_object() == nullptr) continue;
    for (const auto& [name, run] : *targets->as_object()) {
      seconds[name] += Number(run, "seconds");
      counts[name]["cases"] += 1;
      counts[name]["skipped"] += run.Find("skipped") != nullptr ? 1 : 0;
      const Json* outputs = run.Find("outputs");
      if (outputs == nullptr || outputs->as_object() == nullptr) continue;
      for (const auto& [output, verdict] : *outputs->as_object()) {
        double& most = tightest[name + " " + output + " " + Text(one, "dtype")];
        most = std::max(most, Number(verdict, "tightness"));
        for (const char* kind : {"pass", "fail", "vacuous", "unspecified"}) {
          counts[name][kind] += static_cast<int64_t>(Number(verdict, kind));
        }
      }
    }
  }
  summary["cases"] = static_cast<int64_t>(cases.size());
  summary["findings"] = findings;
  summary["faults"] = faults;
  summary["oracle_seconds"] = oracle;
  summary["seconds"] = all;
  summary["audited_rows"] = audited;
  for (const auto& [name, total] : seconds) summary["target_seconds"][name] = total;
  for (const auto& [name, most] : tightest) summary["tightness"][name] = most;
  for (const auto& [name, kinds] : counts) {
    for (const auto& [kind, count] : kinds) summary["elements"][name][kind] = count;
  }
  return summary;
}

ExitStatus Hunt::Cases() {
  const Clock::time_point start = Clock::now();
  const int64_t last = budget_.cases > 0 ? budget_.cases : INT64_MAX;
  std::string error;
  for (;;) {
    std::optional<ProductionJournal> journal = ReadProductionJournal(o_.out, &error);
    if (!journal) return Fail(ExitStatus::kFault, error);
    // A case that an interrupt cut off is run again; one that ended its process is not.
    const int64_t first = journal->open_case.value_or(journal->next);
    if (first >= last) return ExitStatus::kClean;
    milliseconds time{0};
    if (budget_.cases == 0) {
      time = budget_.time - std::chrono::duration_cast<milliseconds>(Clock::now() - start);
      if (time.count() <= 0) return ExitStatus::kClean;
    }
    const Ended ended = RunChild(first, last, time);
    journal = ReadProductionJournal(o_.out, &error);
    if (!journal) return Fail(ExitStatus::kFault, error);
    Report(*journal);
    if (ended.interrupted) return ExitStatus::kInterrupted;
    if (!ended.hung && WIFEXITED(ended.status)) {
      switch (WEXITSTATUS(ended.status)) {
        case kProductionDone:
        case kProductionDeadline:
          return ExitStatus::kClean;
        case kProductionLost:
          continue;  // the journal says it
        case kProductionCannot:
          return Fail(ExitStatus::kUnavailable, ended.words);
        case 3:
          return Fail(ExitStatus::kFault, ended.words);
        default:
          break;
      }
    }
    if (!journal->open_case) {
      return Fail(ExitStatus::kFault,
                  "the worker " + How(ended, CaseTimeout()) + " between two cases: " + ended.words);
    }
    Json line;
    line["event"] = "lost";
    line["case"] = *journal->open_case;
    line["recipe"] = journal->open_recipe;
    const bool of_target =
        std::find(o_.targets.begin(), o_.targets.end(), journal->open_stage) != o_.targets.end();
    const std::string what =
        How(ended, CaseTimeout()) + (ended.words.empty() ? "" : ": " + ended.words);
    if (of_target) {
      Json finding;
      finding["target"] = journal->open_stage;
      finding["what"] = what;
      line["findings"].Append(std::move(finding));
    } else {
      line["fault"] = "stage " + journal->open_stage + " " + what;
    }
    if (!AppendLine(o_.out, line, &error)) return Fail(ExitStatus::kFault, error);
    if (!of_target) return Fail(ExitStatus::kFault, Text(line, "fault"));
  }
}

ExitStatus Hunt::Run() {
  std::string error;
  if (!o_.recipe.empty()) {
    Recipe recipe;
    if (!Parse(o_.recipe, &recipe, &error, kMaxDeviceElements)) {
      return console_.Finish(Fail(ExitStatus::kUsage, error), 0, 0);
    }
  }
  if (!DescribeDevice(&device_, &error)) {
    return console_.Finish(Fail(ExitStatus::kUnavailable, error), 0, 0);
  }
  if (!Begin(&error)) return console_.Finish(Fail(ExitStatus::kUsage, error), 0, 0);
  console_.Say("plumb: cases of production size for " + Format(budget_) + ", seed " +
               std::to_string(o_.seed) + ", into " + o_.out.string() + "\n");
  ExitStatus status = Cases();
  const std::optional<ProductionJournal> journal = ReadProductionJournal(o_.out, &error);
  if (!journal) return console_.Finish(Fail(ExitStatus::kFault, error), 0, 0);
  Report(*journal);
  Json summary = Summary(*journal);
  const auto cases = static_cast<int64_t>(Number(summary, "cases"));
  const auto findings = static_cast<int64_t>(Number(summary, "findings"));
  if (status == ExitStatus::kClean && findings > 0) status = ExitStatus::kFindings;
  // Faults of earlier runs of this campaign count too: their cases were not judged.
  const bool ended = status == ExitStatus::kClean || status == ExitStatus::kFindings;
  if (ended && Number(summary, "faults") > 0) {
    status = Fail(ExitStatus::kFault, "a fault of the harness left a case unjudged; see " +
                                          (o_.out / "journal.jsonl").string());
  }
  if (cases > 0) {
    const std::string text = summary.Dump(1) + "\n";
    if (!WriteWhole(o_.out / "summary.json", std::as_bytes(std::span(text)), &error)) {
      status = Fail(ExitStatus::kFault, error);
    }
    std::vector<std::vector<std::string>> rows = {{"target, output, dtype", "tightness"}};
    if (const Json* all = summary.Find("tightness"); all != nullptr && all->as_object() != nullptr) {
      for (const auto& [name, most] : *all->as_object()) {
        char number[32];
        std::snprintf(number, sizeof number, "%.3f", most.as_number().value_or(0));
        rows.push_back({name, number});
      }
    }
    console_.Say(Table(rows));
  }
  return console_.Finish(status, cases, findings, std::move(summary));
}

}  // namespace

ExitStatus CommandProduction(CampaignOptions options, const Console& console) {
  if (options.out.empty()) options.out = "plumb-production-" + UtcStamp();
  return Hunt(options, console).Run();
}

}  // namespace plumbline::fuzz
