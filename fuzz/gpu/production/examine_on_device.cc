// SPDX-License-Identifier: Apache-2.0

#include "fuzz/gpu/production/examine_on_device.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fuzz/examine/examination.h"
#include "fuzz/examine/magnitude.h"
#include "fuzz/gpu/production/audit.h"
#include "fuzz/gpu/production/device_case.h"
#include "fuzz/gpu/production/honest_rows.h"
#include "oracle/cuda/device_oracle.h"

namespace plumbline::fuzz {
namespace {

using oracle::cuda::DeviceOracle;
using Clock = std::chrono::steady_clock;

// What outputs, workspace and saved state hold before a run, by its poison.
constexpr unsigned char kPoison[] = {0xff, 0x5a};

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class DeviceRuns final : public Runs {
 public:
  DeviceRuns(const DeviceCase& device_case, const Target& target, DeviceOracle* oracle)
      : case_(device_case), target_(target), oracle_(*oracle), outputs_(device_case) {
    size_t workspace = 0, saved = 0;
    // If sizes() refuses the problem, run() is asked instead, since it has a message.
    split_ =
        target_.split() && target_.Sizes(case_.problem(), &workspace, &saved).status == RunStatus::kOk;
    if (workspace > 0) workspace_.emplace(workspace, "workspace");
    if (saved > 0) saved_.emplace(saved, "saved state");
    inputs_ = HashInputs();
  }

  RunOutcome Run(int poison, bool /*held_up*/) override {
    outputs_.Poison(kPoison[poison]);
    for (std::optional<DeviceRegion>* scratch : {&workspace_, &saved_}) {
      if (*scratch) (*scratch)->Poison(kPoison[poison]);
    }
    const Clock::time_point start = Clock::now();
    RunOutcome outcome = Enqueue();
    const std::string left = target_.device()->Wait();
    if (!left.empty() && outcome.status == RunStatus::kOk) {
      outcome = {RunStatus::kFailed, "an error was left behind: " + left};
    }
    seconds_ += Since(start);
    return outcome;
  }

  std::vector<Placement::Damage> Inspect() override {
    std::vector<Placement::Damage> damage;
    const auto add = [&](const char* name, const std::string& what) {
      if (!what.empty()) damage.push_back({Placement::Damage::Kind::kGuardBand, name + what});
    };
    add("", outputs_.Damage());
    if (workspace_) add("workspace: ", workspace_->Damage());
    if (saved_) add("saved state: ", saved_->Damage());
    if (HashInputs() != inputs_) {
      damage.push_back({Placement::Damage::Kind::kInputWritten, "inputs were written"});
    }
    damaged_ = damaged_ || !damage.empty();
    return damage;
  }

  void KeepBits() override { bits_ = HashOutputs(); }
  void CompareBits(std::vector<Finding>* findings) override {
    if (!damaged_) AddDamage(Inspect(), findings);
    if (!target_.description().capabilities.deterministic) return;
    const Hashes second = HashOutputs();
    for (size_t k = 0; k < second.size(); ++k) {
      if (second[k] == bits_[k]) continue;
      Finding finding;
      finding.kind = FindingKind::kNondeterministic;
      finding.output = second[k].first;
      finding.what = finding.output + ": a second run gave other bits, or an element was not written";
      findings->push_back(std::move(finding));
    }
  }
  double seconds() const override { return seconds_; }
  const kernel::Results& results() const { return outputs_.results(); }
  std::optional<int64_t> FirstInvalidRow() const { return outputs_.FirstInvalidRow(); }

 private:
  using Hashes = std::vector<std::pair<std::string, uint64_t>>;

  RunOutcome Enqueue() {
    if (!split_) return target_.Run(case_.problem(), results());
    void* const workspace = workspace_ ? workspace_->data() : nullptr;
    void* const saved = saved_ ? saved_->data() : nullptr;
    RunOutcome outcome = target_.Forward(case_.problem(), results(), workspace, saved);
    if (outcome.status == RunStatus::kOk && (results().grad_hidden || results().grad_weight)) {
      outcome = target_.Backward(case_.problem(), results(), workspace, saved);
    }
    return outcome;
  }

  uint64_t Hash(const kernel::ConstTensor& tensor) {
    std::string error;
    const uint64_t hash = oracle_.Hash(tensor, &error);
    if (!error.empty()) throw DeviceLost(error);
    return hash;
  }
  std::vector<uint64_t> HashInputs() {
    const kernel::Problem& p = case_.problem();
    std::vector<uint64_t> hashes = {Hash(p.hidden), Hash(p.weight), Hash(p.labels)};
    for (const auto& tensor : {p.temperature, p.grad_logprob, p.grad_entropy}) {
      if (tensor) hashes.push_back(Hash(*tensor));
    }
    return hashes;
  }
  Hashes HashOutputs() {
    Hashes hashes;
    for (const oracle::Output output : oracle::kOutputs) {
      const auto& tensor = Find(results(), output);
      if (tensor) hashes.emplace_back(Name(output), Hash(kernel::AsConst(*tensor)));
    }
    if (const auto& row = results().first_invalid_row) {
      hashes.emplace_back("first_invalid_row", Hash(kernel::AsConst(*row)));
    }
    return hashes;
  }

  const DeviceCase& case_;
  const Target& target_;
  DeviceOracle& oracle_;
  DeviceOutputs outputs_;
  std::optional<DeviceRegion> workspace_, saved_;
  bool split_ = false, damaged_ = false;
  std::vector<uint64_t> inputs_;
  Hashes bits_;  // of the first run's outputs
  double seconds_ = 0;
};

// A target's runs, where there is something to judge, and its result.
struct Examined {
  DeviceRuns* runs;
  CaseResult* result;
};

// Judges all by one evaluation of the oracle. Its seconds, and the rows that are computed again, are
// put into the first target's result.
void Judge(const DeviceCase& device_case, const std::vector<Examined>& all,
           const Description& description, const ExamineOptions& options, DeviceOracle* oracle) {
  std::vector<kernel::Results> results;
  for (const Examined& each : all) results.push_back(each.runs->results());
  CaseResult& first = *all.front().result;
  std::vector<oracle::cuda::WatchedRow> watched =
      AuditedRows(device_case, results.front(), options.seed);
  const size_t audited = watched.size();
  if (options.honest_errors && all.size() == 1) {
    std::vector<oracle::cuda::WatchedRow> rows = HonestRows(device_case, results.front());
    std::move(rows.begin(), rows.end(), std::back_inserter(watched));
  }
  // The contract of the last judgement, which what is watched was judged by.
  oracle::Contract contract;
  std::string error;
  const auto judge = [&](const std::vector<kernel::Results>& sets, const oracle::Contract& by,
                         std::vector<oracle::cuda::WatchedRow>* rows) {
    oracle::cuda::DeviceVerdicts verdicts = oracle->Judge(device_case.problem(), sets, by, 0, rows);
    if (error.empty()) error = verdicts.error;
    verdicts.judged.resize(sets.size());
    first.oracle_seconds += verdicts.seconds;
    return std::move(verdicts.judged);
  };
  const std::vector<TieredJudgement> judged =
      JudgeInTiers(description, [&](const oracle::Contract& by) {
        contract = by;
        return judge(results, by, &watched);
      });
  if (!error.empty()) {
    first.harness_fault = "the oracle on the device: " + error;
    return;
  }
  for (size_t k = 0; k < all.size(); ++k) {
    CaseResult& result = *all[k].result;
    TakeJudgement(judged[k], all[k].runs->FirstInvalidRow(), &result);
    for (size_t o = 0; o < judged[k].judgement.outputs.size(); ++o) {
      const oracle::OutputVerdict& v = judged[k].judgement.outputs[o];
      if (v.fail == 0 || !options.arbiter || !result.harness_fault.empty()) continue;
      result.harness_fault =
          Confirm(device_case, results[k],
                  judged[k].IsSuspect(o) ? description.Assumed() : description.contract, v);
      ++result.arbitrated;
    }
    if (options.arbiter) {
      AddReadings(
          description,
          [&](const oracle::Contract& by, oracle::Output output) {
            kernel::Results only;
            Find(&only, output) = Find(results[k], output);
            const auto again = judge({only}, by, nullptr);
            return error.empty() && again.front().outputs.front().fail == 0;
          },
          &result.findings);
    }
    for (Finding& finding : result.findings) {
      if (finding.kind <= FindingKind::kNotZero) {  // of a value
        finding.arbiter_silent = "it is asked about no case of production size";
      }
    }
  }
  const std::vector<oracle::cuda::WatchedRow> of_tier(
      watched.begin() + static_cast<std::ptrdiff_t>(audited), watched.end());
  watched.resize(audited);
  if (!of_tier.empty() && first.harness_fault.empty()) {
    const Clock::time_point start = Clock::now();
    const HonestErrors errors = CompareHonestRows(device_case, results.front(), description.Assumed(),
                                                  of_tier, options.seed);
    AddMagnitudes(errors, &first.findings);
    first.honest = RatiosOf(errors, options.unit_ratios);
    first.oracle_seconds += Since(start);
  }
  if (watched.empty() || !first.harness_fault.empty()) return;
  first.harness_fault = Audit(device_case, results.front(), contract, watched);
  first.arbitrated += static_cast<int64_t>(watched.size());
}

}  // namespace

std::string WhyNoProduction(const Target& target) {
  if (target.device() == nullptr) {
    return "target " + target.name() +
           ": runs on the CPU, and cases of production size are on a device";
  }
  std::string error;
  return DeviceOracle::Open(&error) != nullptr ? "" : error;
}

CaseResult ExamineOnDevice(const Recipe& recipe, std::span<const Target* const> targets,
                           const ExamineOptions& options) {
  const Clock::time_point start = Clock::now();
  std::string error;
  const std::unique_ptr<DeviceOracle> oracle = DeviceOracle::Open(&error);
  if (oracle == nullptr) throw std::runtime_error(error);
  DeviceCase device_case(recipe);
  device_case.LeaveOut(targets.front()->description().capabilities);
  std::vector<CaseResult> results(targets.size());
  const double expanding = Since(start);
  std::deque<DeviceRuns> runs;
  std::vector<Examined> to_judge;
  for (size_t t = 0; t < targets.size(); ++t) {
    runs.emplace_back(device_case, *targets[t], oracle.get());
    if (RunTwice(device_case.rows(), false, &runs.back(), &results[t])) {
      to_judge.push_back({&runs.back(), &results[t]});
    }
  }
  if (!to_judge.empty()) {
    Judge(device_case, to_judge, targets.front()->description(), options, oracle.get());
  }
  CaseResult result = Conclude(targets, std::move(results));
  result.expand_seconds = expanding;
  return result;
}

}  // namespace plumbline::fuzz
