// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/honest/reach.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "fuzz/examine/placement.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"
#include "oracle/judge/judge.h"
#include "oracle/verdict/verdict.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/simulated_kernel.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using oracle::Element;
using oracle::Expect;
using oracle::Output;

HostTensor Tensor(DType dtype, std::vector<int64_t> shape, const std::vector<float>& values) {
  HostTensor t = HostTensor::Zeros(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) t.SetFloat(static_cast<int64_t>(i), values[i]);
  return t;
}

// Takes one element into account.
void Take(Output output, double got, const Element& with, const Element& without, Reach* reach) {
  if (with.expect != Expect::kFinite || without.expect != Expect::kFinite) return;
  const double error = std::fabs(got - with.value) - with.radius;
  if (!(error <= with.bound)) ++reach->exceeded;
  if (!(std::fabs(got - without.value) - without.radius > without.bound)) return;
  ++reach->without;
  const double share = std::min(1.0, error / (with.bound - without.bound));
  if (share <= reach->share) return;
  reach->share = share;
  reach->output = oracle::Name(output);
}

void MeasureTarget(const Key& key, const OwnedProblem& problem, const Target& target, Reach* reach) {
  const oracle::Contract& contract = target.description().contract;
  oracle::Contract narrow = contract;
  key.narrow(&narrow);
  Placement placement(problem);
  placement.Poison(0);
  const RunOutcome outcome = target.Run(placement.problem(), placement.results());
  if (outcome.status != RunStatus::kOk) throw std::runtime_error(key.name + ": " + outcome.message);
  const oracle::Expectation with = Expected(placement.problem(), placement.results(), contract);
  const oracle::Expectation without = Expected(placement.problem(), placement.results(), narrow);
  for (const Output output : oracle::kOutputs) {
    const auto& found = oracle::Find(placement.results(), output);
    if (!found) continue;
    for (int64_t i = 0; i < with[output].rows; ++i) {
      for (int64_t j = 0; j < with[output].columns; ++j) {
        Take(output, oracle::ReadElement(kernel::AsConst(*found), i, j), with[output].at(i, j),
             without[output].at(i, j), reach);
      }
    }
  }
}

// A kernel that commits every error of a careful contract with this key at 64 in full.
void MeasureSimulated(const Key& key, const OwnedProblem& owned, Reach* reach) {
  oracle::Contract contract = oracle::CarefulContract();
  contract.plain_logprob = true;
  contract.scale_roundings = 64;
  oracle::Contract narrow = contract;
  key.narrow(&narrow);
  const kernel::Problem problem = DenseView(owned);
  const kernel::Results all = oracle::Everything(problem, DType::kF32);
  const oracle::Expectation with = Expected(problem, all, contract);
  const oracle::Expectation without = Expected(problem, all, narrow);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const oracle::Simulated got = oracle::Simulate(problem, contract, seed);
    for (size_t i = 0; i < got.logprob.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      Take(Output::kLogprob, got.logprob[i], with[Output::kLogprob].at(row, 0),
           without[Output::kLogprob].at(row, 0), reach);
    }
  }
}

}  // namespace

OwnedProblem ProblemOf(const Rows& rows) {
  OwnedProblem p;
  const auto n = static_cast<int64_t>(rows.hidden.size()) / rows.h;
  const auto v = static_cast<int64_t>(rows.weight.size()) / rows.h;
  p.hidden = Tensor(rows.dtype, {n, rows.h}, rows.hidden);
  p.weight = Tensor(rows.dtype, {v, rows.h}, rows.weight);
  p.labels = HostTensor::Zeros(DType::kI64, {n});
  for (int64_t i = 0; i < n; ++i) {
    p.labels.SetInt(i, rows.labels[static_cast<size_t>(i) % rows.labels.size()]);
  }
  const auto of_rows = [n](float x) {
    return Tensor(DType::kF32, {n}, std::vector<float>(static_cast<size_t>(n), x));
  };
  if (rows.temperature != 1) p.temperature = Tensor(DType::kF32, {}, {rows.temperature});
  p.grad_logprob = of_rows(rows.g);
  if (rows.k != 0) p.grad_entropy = of_rows(rows.k);
  p.wanted.fp32_grads = true;
  return p;
}

Reach Measure(const Key& key) {
  std::string error;
  std::unique_ptr<Target> target;
  if (key.kernel != "simulated") {
    target = LoadTarget("plugin:" HONEST_PLUGINS "/honest-" + key.kernel + ".so", &error);
    if (!target) throw std::runtime_error(error);
  }
  Reach reach;
  for (const Rows& rows : key.problems()) {
    const OwnedProblem problem = ProblemOf(rows);
    if (target) {
      MeasureTarget(key, problem, *target, &reach);
    } else {
      MeasureSimulated(key, problem, &reach);
    }
  }
  return reach;
}

}  // namespace plumbline::fuzz
