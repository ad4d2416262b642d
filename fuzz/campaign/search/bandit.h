// SPDX-License-Identifier: Apache-2.0
//
// Which regime the search turns to: each in proportion to what its recent cases brought for what they
// cost, and none below a floor. What a case brought is new cells, a rise of the largest tightness, and
// new signatures; what it cost is multiply-adds, not time, so that two runs choose alike.

#ifndef PLUMBLINE_FUZZ_CAMPAIGN_SEARCH_BANDIT_H_
#define PLUMBLINE_FUZZ_CAMPAIGN_SEARCH_BANDIT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::fuzz {

class Bandit {
 public:
  // Arms in this order; all start alike.
  explicit Bandit(const std::vector<std::string>& arms);

  // A case of an arm; an arm that there is not is passed over. reward, cost >= 0.
  void Add(std::string_view arm, double reward, double cost);
  // At the end of a generation: what lies far back counts less, by an eighth each time.
  void Age();
  // The arm for 32 random bits. Every arm has at least half an equal share.
  const std::string& Choose(uint32_t bits) const;
  // The arm's share of all choices. Shares add up to 1.
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

#endif  // PLUMBLINE_FUZZ_CAMPAIGN_SEARCH_BANDIT_H_
