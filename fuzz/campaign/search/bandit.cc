// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/bandit.h"

#include <algorithm>

namespace plumbline::fuzz {
namespace {

// This share of all choices is spread evenly. It finds a regime that shows something only from its
// thousandth case on, and the bandit then learns of it.
constexpr double kFloor = 0.5;
// The harness's own cost of a case, in multiply-adds: a case of one element has a cost too.
constexpr double kCostOfAnyCase = 20'000;

}  // namespace

Bandit::Bandit(const std::vector<std::string>& arms) {
  for (const std::string& name : arms) arms_.push_back({name});
}

double Bandit::Arm::Yield() const { return cost > 0 ? reward / cost : 0; }

void Bandit::Add(std::string_view arm, double reward, double cost) {
  for (Arm& candidate : arms_) {
    if (candidate.name != arm) continue;
    candidate.reward += reward;
    candidate.cost += cost + kCostOfAnyCase;
    return;
  }
}

void Bandit::Age() {
  for (Arm& arm : arms_) {
    arm.reward *= 0.875;
    arm.cost *= 0.875;
  }
}

std::vector<double> Bandit::Shares() const {
  double sum = 0;
  for (const Arm& arm : arms_) sum += arm.Yield();
  const double even = 1 / static_cast<double>(arms_.size());
  std::vector<double> shares;
  for (const Arm& arm : arms_) {
    const double earned = sum > 0 ? arm.Yield() / sum : even;
    shares.push_back(kFloor * even + (1 - kFloor) * earned);
  }
  return shares;
}

const std::string& Bandit::Choose(uint32_t bits) const {
  const std::vector<double> shares = Shares();
  double left = static_cast<double>(bits) * 0x1p-32;
  for (size_t i = 0; i + 1 < arms_.size(); ++i) {
    if (left < shares[i]) return arms_[i].name;
    left -= shares[i];
  }
  return arms_.back().name;
}

double Bandit::Share(std::string_view arm) const {
  const std::vector<double> shares = Shares();
  for (size_t i = 0; i < arms_.size(); ++i) {
    if (arms_[i].name == arm) return shares[i];
  }
  return 0;
}

}  // namespace plumbline::fuzz
