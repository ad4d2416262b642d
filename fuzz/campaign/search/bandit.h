// SPDX-License-Identifier: Apache-2.0
//
// Chooses the search's next regime: each in proportion to the reward of its recent cases over their
// cost, and none below a floor. The reward is new cells, a rise of the largest tightness, and new
// signatures. The cost is in multiply-adds, not in time, so that two runs choose alike.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::fuzz {

class Bandit {
 public:
  // Makes arms in this order; all start alike.
  explicit Bandit(const std::vector<std::string>& arms);

  // Adds a case of an arm; an unknown arm is ignored. reward, cost >= 0.
  void Add(std::string_view arm, double reward, double cost);
  // Is called at the end of a generation: old rewards and costs count less, by an eighth each time.
  void Age();
  // Returns the arm for 32 random bits. Every arm has at least half an equal share.
  const std::string& Choose(uint32_t bits) const;
  // Returns the arm's share of all choices. Shares sum to 1.
  double Share(std::string_view arm) const;

 private:
  struct Arm {
    std::string name;
    double reward = 0, cost = 0;
    double Yield() const;
  };
  std::vector<double> Shares() const;

  std::vector<Arm> arms_;
};

}  // namespace plumbline::fuzz
