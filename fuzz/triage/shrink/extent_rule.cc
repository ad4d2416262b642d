// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/shrink/extent_rule.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <system_error>
#include <vector>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

constexpr int64_t kMostModulus = 256;
// Two for each residue that 4m tells apart.
constexpr int64_t kMembers = 8;
constexpr int64_t kNeighbours = 8;

struct Fitted {
  enum class Form : uint8_t { kAny, kAlone, kFrom, kUpTo, kBetween, kWhere, kUnless, kList };
  Form form = Form::kList;
  int64_t first = 0, last = 0;  // the least and the greatest extent that failed
  int64_t modulus = 1, residue = 0;
  bool limited = false;  // kWhere, kUnless: nothing below `first` fails

  bool Holds(int64_t x) const {
    switch (form) {
      case Form::kAny:
        return true;
      case Form::kAlone:
      case Form::kBetween:
        return x >= first && x <= last;
      case Form::kFrom:
        return x >= first;
      case Form::kUpTo:
        return x <= last;
      case Form::kWhere:
        return (!limited || x >= first) && x % modulus == residue;
      case Form::kUnless:
        return (!limited || x >= first) && x % modulus != residue;
      case Form::kList:
        break;
    }
    return false;
  }
  bool operator==(const Fitted&) const = default;
};

using Form = Fitted::Form;

bool HoldsForAll(const Fitted& fitted, const Tried& tried) {
  return std::all_of(tried.begin(), tried.end(),
                     [&](const auto& each) { return fitted.Holds(each.first) == each.second; });
}

// The residues are those of the first that failed and of the first that passed at or beyond it.
std::optional<Fitted> FitResidue(const Tried& tried, Fitted fitted) {
  const auto passed = std::find_if(tried.begin(), tried.end(), [&](const auto& each) {
    return each.first > fitted.first && !each.second;
  });
  const bool below = tried.begin()->first < fitted.first;
  for (fitted.modulus = 2; fitted.modulus <= kMostModulus; ++fitted.modulus) {
    const bool power = (fitted.modulus & (fitted.modulus - 1)) == 0;
    for (const bool limited : {false, true}) {
      fitted.limited = limited;
      if (limited && !below) continue;
      fitted.form = Form::kUnless;
      if (power && passed != tried.end()) {
        fitted.residue = passed->first % fitted.modulus;
        if (HoldsForAll(fitted, tried)) return fitted;
      }
      fitted.form = Form::kWhere;
      fitted.residue = fitted.first % fitted.modulus;
      if (HoldsForAll(fitted, tried)) return fitted;
    }
  }
  return std::nullopt;
}

Fitted Fit(const Tried& tried) {
  Fitted fitted;
  fitted.first = tried.rbegin()->first, fitted.last = tried.begin()->first;
  for (const auto& [extent, fails] : tried) {
    if (!fails) continue;
    fitted.first = std::min(fitted.first, extent);
    fitted.last = std::max(fitted.last, extent);
  }
  fitted.form = Form::kAny;
  if (HoldsForAll(fitted, tried)) return fitted;
  fitted.form = Form::kAlone;
  if (fitted.first == fitted.last) return fitted;
  for (const Form form : {Form::kFrom, Form::kUpTo, Form::kBetween}) {
    fitted.form = form;
    if (HoldsForAll(fitted, tried)) return fitted;
  }
  if (const auto residue = FitResidue(tried, fitted)) return *residue;
  fitted.form = Form::kList;
  return fitted;
}

class Refuter {
 public:
  Refuter(const ExtentAxis& axis, const Tried& tried, const Fitted& fitted)
      : axis_(axis), tried_(tried), fitted_(fitted) {}

  // Returns the extents that would show that the rule is wrong, and were not tried.
  std::vector<int64_t> Extents() {
    const int64_t first = fitted_.first, last = fitted_.last;
    switch (fitted_.form) {
      case Form::kAny:
      case Form::kList:
        break;
      case Form::kAlone:
        for (int64_t d = 1; d <= kNeighbours; ++d) Add(first - d), Add(first + d);
        for (int64_t d = 2 * kNeighbours; d <= kMostModulus; d *= 2) Add(first - d), Add(first + d);
        break;
      case Form::kFrom:
        Add(first + 1), Add(first + 2), Below();
        break;
      case Form::kUpTo:
        Add(last - 1), Add(last - 2), Above();
        break;
      case Form::kBetween:
        Add(first + 1), Add(last - 1), Add((first + last) / 2), Below(), Above();
        break;
      case Form::kWhere:
      case Form::kUnless:
        Residues();
    }
    return std::move(extents_);
  }

  // Returns whether all that would have to be tried for a residue could be.
  bool Sufficient() const {
    if (fitted_.form == Form::kAlone) {
      const auto [from, to] = Around();
      return to - from >= 2;
    }
    if (fitted_.form != Form::kWhere && fitted_.form != Form::kUnless) return true;
    int64_t members = 0;
    for (int64_t i = 0; i < kMembers; ++i) members += tried_.contains(Member(i)) ? 1 : 0;
    return members == kMembers;
  }

  // Returns the run of extents about the only one that failed, each of which was tried.
  std::pair<int64_t, int64_t> Around() const {
    int64_t from = fitted_.first, to = from;
    while (tried_.contains(from - 1)) --from;
    while (tried_.contains(to + 1)) ++to;
    return {from, to};
  }

 private:
  void Add(int64_t extent) {
    if (extent >= axis_.least && extent <= axis_.most && !tried_.contains(extent))
      extents_.push_back(extent);
  }
  // Halve the way to the next that passed, if it is not the neighbour.
  void Below() {
    auto at = tried_.find(fitted_.first);
    if (at == tried_.begin()) return;
    --at;
    Add((at->first + fitted_.first) / 2);
  }
  void Above() {
    const auto at = std::next(tried_.find(fitted_.last));
    if (at != tried_.end()) Add((at->first + fitted_.last + 1) / 2);
  }
  // The i-th extent of that residue, from the least that the rule speaks of.
  int64_t Member(int64_t i) const {
    const int64_t m = fitted_.modulus, from = fitted_.limited ? fitted_.first : axis_.least;
    return from + ((fitted_.residue - from) % m + m) % m + i * m;
  }
  void Residues() {
    if (Planted(HarnessDefect::kRuleNotRefuted)) return;
    const int64_t m = fitted_.modulus;
    for (int64_t i = 0; i < kMembers; ++i) Add(Member(i));
    if (fitted_.limited) {
      Add(fitted_.form == Form::kWhere ? Member(0) - m : fitted_.first - 1);
      Below();
    }
    int64_t rest = m;
    for (int64_t prime = 2; prime <= rest; ++prime) {
      if (rest % prime != 0) continue;
      while (rest % prime == 0) rest /= prime;
      for (const int64_t i : {0, 1, 2}) Add(Member(i) + m / prime);
    }
    for (const int64_t i : {0, 1}) Add(Member(i) + 1), Add(Member(i) + m - 1);
  }

  const ExtentAxis& axis_;
  const Tried& tried_;
  const Fitted& fitted_;
  std::vector<int64_t> extents_;
};

std::string Join(const Tried& tried, bool failed) {
  constexpr int64_t kMost = 8;
  std::string text;
  int64_t count = 0;
  for (const auto& [extent, fails] : tried) {
    if (fails != failed) continue;
    if (++count > kMost) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  return text;
}

Rule ListOf(const std::string& name, const Tried& tried) {
  const std::string passes = Join(tried, false);
  return {name + ": fails for " + Join(tried, true) + (passes.empty() ? "" : "; passes for " + passes),
          name + ":mixed"};
}

Rule State(const std::string& name, const Tried& tried, const Fitted& fitted, const Refuter& refuter) {
  const std::string range = Text(" (%zu tried, %" PRId64 " to %" PRId64 ")", tried.size(),
                                 tried.begin()->first, tried.rbegin()->first);
  const std::string from = std::to_string(fitted.first), to = std::to_string(fitted.last);
  const std::string modulus = std::to_string(fitted.modulus), left = std::to_string(fitted.residue);
  const std::string mod = name + " mod " + modulus + " is " + left;
  const std::string limit = fitted.limited ? "from " + from + " on, " : "";
  const std::string limited = fitted.limited ? name + ">=" + from : name;
  switch (fitted.form) {
    case Form::kAny:
      return {name + ": any" + range, name + ":any"};
    case Form::kAlone: {
      const auto [low, high] = refuter.Around();
      return {
          name + ": " + from + " alone" +
              Text(" (each of %" PRId64 " to %" PRId64 " tried, %zu in all)", low, high, tried.size()),
          name + "=" + from};
    }
    case Form::kFrom:
      return {name + ": fails from " + from + " on" + range, name + ">=" + from};
    case Form::kUpTo:
      return {name + ": fails up to " + to + range, name + "<=" + to};
    case Form::kBetween:
      return {name + ": fails from " + from + " to " + to + range, name + "=" + from + ".." + to};
    case Form::kWhere:
      return {name + ": fails " + limit + "where " + mod + range, limited + "=" + left + "%" + modulus};
    case Form::kUnless:
      return {name + ": fails " + limit + "unless " + mod + range,
              limited + "!" + (fitted.residue == 0 ? "" : left) + "%" + modulus};
    case Form::kList:
      break;
  }
  return ListOf(name, tried);
}

}  // namespace

std::optional<bool> FailsAt(std::string_view word, int64_t extent) {
  if (word.size() < 3) return std::nullopt;
  word.remove_prefix(1);  // the axis
  if (word == ":any") return true;
  bool read = true;  // every number that must be there was, so far
  const auto take = [&](std::string_view mark) {
    const bool there = word.starts_with(mark);
    if (there) word.remove_prefix(mark.size());
    return there;
  };
  const auto number = [&] {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    read = read && error == std::errc();
    word.remove_prefix(static_cast<size_t>(end - word.data()));
    return value;
  };
  bool fails = true;
  if (take("<=")) {
    fails = extent <= number();
  } else {
    if (take(">=")) fails = extent >= number();
    const bool unless = take("!"), has = unless || take("=");
    // "!%8" is short for "!0%8".
    const int64_t first = has && !word.starts_with("%") ? number() : 0;
    if (has && take("%")) {
      const int64_t modulus = number();
      if (modulus < 1) return std::nullopt;
      fails = fails && (extent % modulus == first) != unless;
    } else if (unless) {
      return std::nullopt;
    } else if (has) {
      const int64_t last = take("..") ? number() : first;
      fails = fails && extent >= first && extent <= last;
    }
  }
  return read && word.empty() ? std::optional(fails) : std::nullopt;
}

Rule FindExtentRule(const ExtentAxis& axis, Tried* tried) {
  int64_t asked = 0;
  std::map<int64_t, bool> refused;  // extents that could not be tried
  for (;;) {
    const Fitted fitted = Fit(*tried);
    Refuter refuter(axis, *tried, fitted);
    bool more = false;
    for (const int64_t extent : refuter.Extents()) {
      if (tried->contains(extent) || refused.contains(extent)) continue;
      if (asked++ == kMostRefutations) return ListOf(axis.name, *tried);
      const std::optional<bool> fails = axis.fails(extent);
      if (fails) {
        (*tried)[extent] = *fails;
      } else {
        refused[extent] = true;
      }
      more = true;
    }
    if (more) continue;
    const bool sufficient = refuter.Sufficient() || Planted(HarnessDefect::kRuleNotRefuted);
    return sufficient ? State(axis.name, *tried, fitted, refuter) : ListOf(axis.name, *tried);
  }
}

}  // namespace plumbline::fuzz
