// SPDX-License-Identifier: Apache-2.0

#include "fuzz/gpu/production/worker.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "fuzz/builtin/catalogue.h"
#include "fuzz/gpu/production/audit.h"
#include "fuzz/gpu/production/device_case.h"
#include "fuzz/gpu/production/recipe.h"
#include "fuzz/target/target.h"
#include "oracle/cuda/device_oracle.h"
#include "oracle/judge/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output, oracle::OutputVerdict;
using oracle::cuda::DeviceOracle, oracle::cuda::WatchedRow;
using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Thrown if the device does not answer any more, or answers every call with the same error.
struct Lost {
  std::string what;
};

// One target's run of a case.
struct TargetRun {
  const Target* target = nullptr;
  std::unique_ptr<DeviceOutputs> outputs;
  Json json;
  std::vector<std::string> findings;
  bool judged = false;
};

class Child {
 public:
  explicit Child(const ProductionWork& work) : work_(work) {}
  int Run();

 private:
  bool Open(std::string* why);
  bool RunCase(int64_t index, const Recipe& recipe);  // false: the device is lost
  bool Say(Json line);
  void Stage(int64_t index, const std::string& stage);
  void RunTarget(int64_t index, const DeviceCase& device_case, TargetRun* run);
  std::string CallTwice(const DeviceCase& device_case, TargetRun* run);
  RunOutcome Call(const DeviceCase& device_case, const TargetRun& run, DeviceScratch* workspace,
                  DeviceScratch* saved, unsigned char pattern, double* seconds);
  std::vector<std::pair<std::string, uint64_t>> Hashes(const kernel::Results& results);
  std::vector<uint64_t> InputHashes(const kernel::Problem& problem);
  void Judge(int64_t index, const DeviceCase& device_case, std::vector<TargetRun>* runs, Json* json);
  uint64_t Hash(const kernel::ConstTensor& tensor);

  const ProductionWork& work_;
  std::vector<std::unique_ptr<Target>> targets_;
  std::unique_ptr<DeviceOracle> oracle_;
  std::string fault_;  // why the harness itself failed
};

bool Child::Open(std::string* why) {
  oracle_ = DeviceOracle::Open(why);
  if (oracle_ == nullptr) return false;
  for (const std::string& name : work_.targets) {
    std::unique_ptr<Target> target = LoadTarget(name, why);
    if (target == nullptr) return false;
    if (target->device() == nullptr) {
      *why = "target " + name + ": runs on the CPU, and cases of production size are on a device";
      return false;
    }
    targets_.push_back(std::move(target));
  }
  return true;
}

bool Child::Say(Json line) {
  std::string error;
  if (AppendLine(work_.out, line, &error)) return true;
  fault_ = error;
  return false;
}

void Child::Stage(int64_t index, const std::string& stage) {
  Json line;
  line["event"] = "stage";
  line["case"] = index;
  line["stage"] = stage;
  Say(std::move(line));
}

uint64_t Child::Hash(const kernel::ConstTensor& tensor) {
  std::string error;
  const uint64_t hash = oracle_->Hash(tensor, &error);
  if (!error.empty()) throw Lost{error};
  return hash;
}

std::vector<uint64_t> Child::InputHashes(const kernel::Problem& p) {
  std::vector<uint64_t> hashes = {Hash(p.hidden), Hash(p.weight), Hash(p.labels)};
  for (const auto& tensor : {p.temperature, p.grad_logprob, p.grad_entropy}) {
    if (tensor) hashes.push_back(Hash(*tensor));
  }
  return hashes;
}

std::vector<std::pair<std::string, uint64_t>> Child::Hashes(const kernel::Results& results) {
  std::vector<std::pair<std::string, uint64_t>> hashes;
  for (const Output output : oracle::kOutputs) {
    if (const auto& tensor = Find(results, output)) {
      hashes.emplace_back(Name(output), Hash(kernel::AsConst(*tensor)));
    }
  }
  hashes.emplace_back("first_invalid_row", Hash(kernel::AsConst(*results.first_invalid_row)));
  return hashes;
}

// Calls the target. Outputs, workspace and saved state hold the pattern before the call.
RunOutcome Child::Call(const DeviceCase& device_case, const TargetRun& run, DeviceScratch* workspace,
                       DeviceScratch* saved, unsigned char pattern, double* seconds) {
  const Target& target = *run.target;
  const kernel::Results& results = run.outputs->results();
  run.outputs->Poison(pattern);
  if (workspace != nullptr) workspace->Poison(pattern);
  if (saved != nullptr) saved->Poison(pattern);
  const Clock::time_point start = Clock::now();
  RunOutcome outcome;
  if (target.split()) {
    void* const state = saved == nullptr ? nullptr : saved->data();
    void* const scratch = workspace == nullptr ? nullptr : workspace->data();
    outcome = target.Forward(device_case.problem(), results, scratch, state);
    if (outcome.status == RunStatus::kOk && (results.grad_hidden || results.grad_weight)) {
      outcome = target.Backward(device_case.problem(), results, scratch, state);
    }
  } else {
    outcome = target.Run(device_case.problem(), results);
  }
  try {
    const std::string left = target.device()->Wait();
    if (!left.empty() && outcome.status == RunStatus::kOk) outcome = {RunStatus::kFailed, left};
  } catch (const DeviceLost& e) {
    throw Lost{e.what()};
  }
  *seconds = Since(start);
  return outcome;
}

// Returns a finding, or an empty text.
std::string Child::CallTwice(const DeviceCase& device_case, TargetRun* run) {
  std::string error;
  std::unique_ptr<DeviceScratch> workspace, saved;
  if (run->target->split()) {
    size_t workspace_bytes = 0, saved_bytes = 0;
    const RunOutcome sized = run->target->Sizes(device_case.problem(), &workspace_bytes, &saved_bytes);
    if (sized.status != RunStatus::kOk) return "sizes: " + sized.message;
    run->json["workspace"] = static_cast<int64_t>(workspace_bytes);
    run->json["saved"] = static_cast<int64_t>(saved_bytes);
    if (workspace_bytes > 0) workspace = DeviceScratch::Of(workspace_bytes, &error);
    if (saved_bytes > 0) saved = DeviceScratch::Of(saved_bytes, &error);
    if (!error.empty()) throw std::runtime_error(error);
  }
  std::vector<std::pair<std::string, uint64_t>> hashes[2];
  for (const int time : {0, 1}) {
    double seconds = 0;
    const RunOutcome outcome =
        Call(device_case, *run, workspace.get(), saved.get(), time == 0 ? 0xff : 0x5a, &seconds);
    run->json["seconds"] = seconds;
    if (outcome.status == RunStatus::kUnsupported) {
      run->json["skipped"] = outcome.message;
      return {};
    }
    if (outcome.status != RunStatus::kOk) return "status: " + outcome.message;
    for (const auto& [name, what] : {std::pair<std::string, std::string>{"", run->outputs->Damage()},
                                     {"workspace: ", workspace ? workspace->Damage() : ""},
                                     {"saved state: ", saved ? saved->Damage() : ""}}) {
      if (!what.empty()) return name + what;
    }
    hashes[time] = Hashes(run->outputs->results());
  }
  run->judged = true;
  for (size_t k = 0; k < hashes[0].size(); ++k) {
    if (hashes[0][k] != hashes[1][k]) {
      return hashes[0][k].first + ": a second run gave other bits, or an element was not written";
    }
  }
  return {};
}

void Child::RunTarget(int64_t index, const DeviceCase& device_case, TargetRun* run) {
  Stage(index, run->target->name());
  std::string error;
  run->outputs = DeviceOutputs::For(device_case, &error);
  if (run->outputs == nullptr) throw std::runtime_error(error);
  const std::vector<uint64_t> before = InputHashes(device_case.problem());
  if (std::string what = CallTwice(device_case, run); !what.empty()) run->findings.push_back(what);
  if (InputHashes(device_case.problem()) != before) run->findings.push_back("inputs were written");
}

Json ToJson(const OutputVerdict& v) {
  Json json;
  json["pass"] = v.pass;
  json["fail"] = v.fail;
  json["vacuous"] = v.vacuous;
  json["unspecified"] = v.unspecified;
  json["tightness"] = v.tightness;
  json["row"] = v.row;
  json["column"] = v.column;
  json["got"] = v.got;
  json["expected"] = v.expected.value;
  json["bound"] = v.expected.bound;
  return json;
}

std::string Words(const OutputVerdict& v) {
  return std::string(Name(v.output)) + "[" + std::to_string(v.row) + ", " + std::to_string(v.column) +
         "]: " + std::string(Name(v.failure)) + ", got " + Json(v.got).Dump() + ", expected " +
         Json(v.expected.value).Dump() + " within " + Json(v.expected.bound).Dump() + " (" +
         Json(v.tightness).Dump() + " of the bound); " + std::to_string(v.fail) + " elements";
}

// Returns a target's contract in its own words, keys sorted.
std::string ClaimOf(const Target& target) {
  std::string error;
  const std::optional<Json> description = Json::Parse(target.description_text(), &error);
  const Json* contract = description ? description->Find("contract") : nullptr;
  return contract == nullptr ? "" : contract->Dump();
}

// Judges all targets of one contract by one evaluation of the oracle.
void Child::Judge(int64_t index, const DeviceCase& device_case, std::vector<TargetRun>* runs,
                  Json* json) {
  double seconds = 0;
  std::vector<char> done(runs->size(), 0);
  for (size_t first = 0; first < runs->size(); ++first) {
    if (done[first] != 0 || !(*runs)[first].judged) continue;
    const oracle::Contract& contract = (*runs)[first].target->description().contract;
    const std::string claim = ClaimOf(*(*runs)[first].target);
    std::vector<TargetRun*> together;
    std::vector<kernel::Results> results;
    for (size_t k = first; k < runs->size(); ++k) {
      TargetRun& run = (*runs)[k];
      if (!run.judged || ClaimOf(*run.target) != claim) continue;
      done[k] = 1;
      together.push_back(&run);
      results.push_back(run.outputs->results());
    }
    Stage(index, "oracle");
    std::vector<WatchedRow> watched = AuditedRows(device_case, results.front(), index);
    oracle::cuda::DeviceVerdicts verdicts =
        oracle_->Judge(device_case.problem(), results, contract, 0, &watched);
    if (verdicts.device_failed) throw Lost{verdicts.error};
    if (!verdicts.error.empty()) throw std::runtime_error(verdicts.error);
    seconds += verdicts.seconds;
    (*json)["row_blocks"] = verdicts.row_blocks;
    for (size_t k = 0; k < together.size(); ++k) {
      TargetRun& run = *together[k];
      const oracle::Judgement& judgement = verdicts.judged[k];
      if (!judgement.fault.empty()) fault_ = judgement.fault;
      for (const OutputVerdict& v : judgement.outputs) {
        run.json["outputs"][Name(v.output)] = ToJson(v);
        if (v.fail == 0) continue;
        run.findings.push_back(Words(v));
        Stage(index, "confirm");
        if (std::string what = Confirm(device_case, results[k], contract, v); !what.empty()) {
          fault_ = what;
        }
      }
      const int64_t said = run.outputs->FirstInvalidRow();
      if (said != judgement.first_invalid_row) {
        run.findings.push_back("first_invalid_row: says " + std::to_string(said) + ", is " +
                               std::to_string(judgement.first_invalid_row));
      }
    }
    if (watched.empty()) continue;
    Stage(index, "audit");
    if (std::string what = Audit(device_case, results.front(), contract, watched); !what.empty()) {
      fault_ = what;
    }
    (*json)["audited"] = static_cast<int64_t>(watched.size());
  }
  (*json)["oracle_seconds"] = seconds;
}

bool Child::RunCase(int64_t index, const Recipe& recipe) {
  Json line;
  line["event"] = "begin";
  line["case"] = index;
  line["recipe"] = Format(recipe);
  if (!Say(line)) return true;
  const Clock::time_point start = Clock::now();
  Json json = line;
  json["event"] = "case";
  json["dtype"] = kernel::Name(recipe.dtype);
  std::vector<TargetRun> runs;
  bool lost = false;
  try {
    std::string error;
    const std::unique_ptr<DeviceCase> device_case = DeviceCase::FromRecipe(recipe, &error);
    if (device_case == nullptr) throw std::runtime_error(error);
    json["expand_seconds"] = Since(start);
    for (const auto& target : targets_) {
      runs.emplace_back();
      runs.back().target = target.get();
      RunTarget(index, *device_case, &runs.back());
    }
    Judge(index, *device_case, &runs, &json);
  } catch (const Lost& e) {
    lost = true;
    if (runs.empty() || runs.back().judged) {
      fault_ = "the device was lost outside of a target: " + e.what;
    } else {
      runs.back().findings.push_back("device: " + e.what);
    }
  } catch (const std::exception& e) {
    fault_ = e.what();  // memory, or a recipe that has no form here
  }
  for (TargetRun& run : runs) {
    const std::string& name = run.target->name();
    json["targets"][name] = run.json.is_null() ? Json(Json::Object{}) : run.json;
    for (const std::string& what : run.findings) {
      Json finding;
      finding["target"] = name;
      finding["what"] = what;
      json["findings"].Append(std::move(finding));
    }
  }
  json["seconds"] = Since(start);
  if (!fault_.empty()) json["fault"] = fault_;
  const std::string fault = std::exchange(fault_, "");
  Say(std::move(json));
  fault_ = fault;
  return !lost;
}

int Child::Run() {
  std::string why;
  if (!Open(&why)) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return kProductionCannot;
  }
  const Clock::time_point start = Clock::now();
  for (int64_t index = work_.first; index < work_.last; ++index) {
    if (work_.time.count() > 0 && Clock::now() - start >= work_.time) return kProductionDeadline;
    Recipe recipe;
    if (work_.recipe.empty()) {
      recipe = DrawProduction(work_.seed, index);
    } else if (!Parse(work_.recipe, &recipe, &why, kMaxDeviceElements)) {
      std::fprintf(stderr, "%s\n", why.c_str());
      return kProductionCannot;
    }
    if (!RunCase(index, recipe)) return kProductionLost;
    if (!fault_.empty()) {
      std::fprintf(stderr, "%s\n", fault_.c_str());
      return static_cast<int>(3);
    }
  }
  return kProductionDone;
}

}  // namespace

int RunProduction(const ProductionWork& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != work.parent) return kProductionCannot;
  return Child(work).Run();
}

}  // namespace plumbline::fuzz
