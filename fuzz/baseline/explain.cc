// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/explain.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/baseline/candidates.h"
#include "fuzz/baseline/exact_shortcuts.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

bool IsPowerOfTwo(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5;
}

constexpr size_t kMostShortcuts = 3;
// Exponentials of all candidates together; with the logits of these rows 30 s on two cores at 151936 x
// 4096.
constexpr double kMostExponentials = 1.5e8;
constexpr int64_t kFewestRows = 8;

// How far what is left is from clean: the outputs that are suspect, then how much all of them err.
struct Rest {
  int64_t suspect = 0;
  double size = 0;
  bool operator<(const Rest& other) const {
    return suspect != other.suspect ? suspect < other.suspect : size < other.size;
  }
};

// By undivided ratios. Baselines that take a coarse shortcut err most in few units, and an eighth of a
// bug's ratio would be explained by it.
bool IsSuspect(const OutputErrors& o) { return o.units.Ratio() > HonestUnits::kSuspect; }
bool IsSuspect(const std::vector<OutputErrors>& errors, Output output) {
  return std::ranges::any_of(errors,
                             [&](const OutputErrors& o) { return o.output == output && IsSuspect(o); });
}

Rest RestOf(const std::vector<OutputErrors>& left) {
  Rest rest;
  for (const OutputErrors& o : left) {
    rest.suspect += IsSuspect(o);
    // Below an honest error nothing is left to explain.
    rest.size += std::log(std::max(1.0, o.units.Ratio()));
  }
  return rest;
}

// The second tier under a set of shortcuts, and the exact values that it was set against.
struct Left {
  std::vector<OutputErrors> errors;
  std::vector<ExactValues> values;
};

class ShortcutSearch {
 public:
  ShortcutSearch(const kernel::Problem& problem, const kernel::Results& results,
                 const oracle::Contract& contract, const oracle::Inputs& inputs, const Family& family,
                 const Places& places, const SimulationOptions& options)
      : family_(family),
        places_(places),
        comparison_(problem, results, contract, inputs, places_, options.given_errors),
        fp32_(problem, inputs, places_, options),
        exact_(problem, inputs, family, places_, options, comparison_, &fp32_) {}

  // The second tier against exact arithmetic with these shortcuts; nothing if it was interrupted.
  std::optional<Left> Under(const Shortcuts& shortcuts) {
    std::vector<Baseline> baselines = family_.baselines;
    for (Baseline& each : baselines) {
      const bool filters_label = each.shortcuts.filter_label && shortcuts.filter > 0;
      each.shortcuts = shortcuts;
      each.shortcuts.filter_label = filters_label;
    }
    std::vector<ExactValues> values = exact_.Under(shortcuts);
    const auto simulated = fp32_.RunFamily(baselines);
    if (values.empty() || simulated.empty()) return std::nullopt;
    Left left{comparison_.Compare(values, baselines, simulated), {}};
    left.values = std::move(values);
    return left;
  }

  // False if exact values alone show that these shortcuts are not used: a third of the work, and most
  // candidates end here. Ties may leave half of a share.
  bool MayBeUsed(const Left& before, const Shortcuts& shortcuts) {
    const std::vector<ExactValues> values = exact_.AsRounded(shortcuts);
    if (values.empty()) return true;  // interrupted, which Under says
    return std::ranges::any_of(before.errors, [&](const OutputErrors& o) {
      const Comparison::Share share = ShareOf(o, before, values);
      return share.units >= kLeastUnits && share.median >= kLeastShare / 2;
    });
  }

  // True if the shortcut that leads from `before` to `after` is used: its own errors are most of the
  // target's in a suspect output, and in each that it clears. Baselines that take a shortcut may err
  // more than the target does, which clears an output by itself.
  bool IsUsed(const Left& before, const Left& after) const {
    bool used = false;
    for (const OutputErrors& o : before.errors) {
      if (!IsSuspect(o)) continue;
      const Comparison::Share share = ShareOf(o, before, after.values);
      const bool here = share.units > 0 && share.median >= kLeastShare;
      used = used || (here && share.units >= kLeastUnits);
      const auto same = std::ranges::find_if(after.errors, [&](const OutputErrors& other) {
        return other.output == o.output && other.part == o.part;
      });
      if (!here && same != after.errors.end() && !IsSuspect(*same)) return false;
    }
    return used;
  }

 private:
  static constexpr double kLeastShare = 0.5;
  static constexpr int64_t kLeastUnits = 3;

  // No units where the output is not suspect.
  Comparison::Share ShareOf(const OutputErrors& o, const Left& before,
                            const std::vector<ExactValues>& after) const {
    if (!IsSuspect(o)) return {};
    return comparison_.ExplainedShare(o, before.values.front(), after);
  }

  const Family& family_;
  const Places& places_;
  Comparison comparison_;
  Simulation<float> fp32_;
  ExactShortcuts exact_;
};

// Fewer columns and elements of grad_weight, of all rows: what is simulated of a gradient over a given
// forward pass.
Places FewerColumns(const Places& places) {
  constexpr int64_t kColumns = 48, kElements = 512;
  Places fewer = places;
  fewer.weight_rows = Spread(places.weight_rows, kColumns);
  fewer.weight_elements = kElements;
  return fewer;
}

// Fewer rows where all candidates that are tried in any case would take too long together.
Places FewerPlaces(const Places& places, const Family& family, int64_t vocab,
                   const std::vector<Candidate>& candidates) {
  const auto tried = std::ranges::count_if(candidates, [](const Candidate& c) { return !c.only; });
  const double each = static_cast<double>(vocab) * static_cast<double>(family.baselines.size()) *
                      static_cast<double>(tried);
  const auto most = std::max(kFewestRows, static_cast<int64_t>(kMostExponentials / each));
  const auto all = static_cast<int64_t>(places.rows.size());
  if (all <= most) return places;
  Places fewer = places;
  fewer.rows = Spread(places.rows, most);
  fewer.weight_rows.clear();  // they depend on every row
  return fewer;
}

// True if a row overflows that did not before: it is no row that a shortcut explains.
bool Overflows(const std::vector<OutputErrors>& left, const std::vector<OutputErrors>& before) {
  int64_t now = 0, then = 0;
  for (const OutputErrors& o : left) now += o.dropped;
  for (const OutputErrors& o : before) then += o.dropped;
  return now > then;
}

struct Choice {
  const Candidate* candidate = nullptr;
  std::string_view or_else;
  Left left;
};

// Returns the shortcut that is used and leaves least beside those that are taken; nothing if none
// leaves half as much or clears an output.
std::optional<Choice> Choose(ShortcutSearch* search, const std::vector<Candidate>& candidates,
                             const Shortcuts& taken, const Left& before_left, bool scales) {
  Choice best;
  const Candidate* second = nullptr;
  Rest least, next;
  for (const Candidate& candidate : candidates) {
    if (candidate.only && !SuspectIn(before_left.errors, *candidate.only)) continue;
    // A form is asked only where no rounding helps: under an offset its baselines err much.
    if (candidate.is_form && best.candidate != nullptr && !best.candidate->is_form) break;
    Shortcuts tried = taken;
    candidate.apply(&tried);
    if (tried == taken || (candidate.of_temperature && !scales)) continue;
    // A form changes no exact value.
    const bool share = !candidate.is_form && !Planted(HarnessDefect::kUnusedShortcut);
    if (share && !search->MayBeUsed(before_left, tried)) continue;
    std::optional<Left> left = search->Under(tried);
    if (!left) return {};  // interrupted
    if (Overflows(left->errors, before_left.errors)) continue;
    // A form whose baselines err as much as the target clears what logits that are wrong have made of
    // an output: lse, which forms leave as it is, says that they are.
    if (candidate.is_form && IsSuspect(left->errors, Output::kLse)) continue;
    const Rest rest = RestOf(left->errors), before = RestOf(before_left.errors);
    if (rest.suspect > before.suspect ||
        (rest.suspect == before.suspect && rest.size > before.size - std::log(2.0))) {
      continue;
    }
    if (share && !search->IsUsed(before_left, *left)) continue;
    if (best.candidate == nullptr || rest < least) {
      second = best.candidate;
      next = least;
      least = rest;
      best.candidate = &candidate;
      best.left = *std::move(left);
    } else if (second == nullptr || rest < next) {
      second = &candidate;
      next = rest;
    }
  }
  if (best.candidate == nullptr) return {};
  // What leaves less than twice as much is not told apart on these rows.
  const bool alike =
      second != nullptr && next.suspect == least.suspect && next.size - least.size < std::log(2.0);
  if (alike) best.or_else = second->what;
  return best;
}

// One form of each dot product, the one with logits apart: the sums matter little beside a shortcut.
Family LastForms(const Family& family) {
  Family last;
  for (const Baseline& baseline : family.baselines) {
    if (!last.baselines.empty() && last.baselines.back().dot == baseline.dot) last.baselines.pop_back();
    last.baselines.push_back(baseline);
  }
  return last;
}

}  // namespace

std::string ShortcutExplanation::Words() const {
  std::string text;
  for (size_t i = 0; i < shortcuts.size(); ++i) {
    text += (i > 0 ? "; and " : "") + shortcuts[i];
    if (!or_else[i].empty()) text += ", or " + or_else[i];
  }
  return text;
}

ShortcutExplanation ExplainByShortcuts(const kernel::Problem& problem, const kernel::Results& results,
                                       const oracle::Contract& contract, const oracle::Inputs& inputs,
                                       const Family& whole, const Places& places,
                                       const SimulationOptions& options,
                                       const std::vector<Output>& suspect) {
  const Family family = LastForms(whole);
  const std::vector<Candidate> candidates = CandidatesFor(inputs);
  const bool given = !options.given.empty();
  const Places fewer = given ? FewerColumns(places) : FewerPlaces(places, family, inputs.v, candidates);
  SimulationOptions simulation = options;
  if (fewer.weight_rows.empty()) simulation.grad_weight = false;
  ShortcutSearch search(problem, results, contract, inputs, family, fewer, simulation);
  const bool scales = !std::ranges::all_of(
      fewer.rows, [&](int64_t i) { return IsPowerOfTwo(inputs.temperature[static_cast<size_t>(i)]); });
  ShortcutExplanation out;
  std::optional<Left> without = search.Under(whole.declared);
  if (!without) return out;
  const std::vector<OutputErrors> before = without->errors;
  out.rows = static_cast<int64_t>(fewer.rows.size());
  out.all_rows = fewer.rows.size() == places.rows.size();
  out.left = before;
  Shortcuts taken = whole.declared;
  Left left = *std::move(without);
  std::vector<Choice> chosen;
  // The members of the set up to one that cleared an output. Without lse, another forward output that
  // stays suspect says that logits may be wrong, and no form is taken.
  size_t cleared = 0, before_forms = 0;
  bool forms = false;
  while (chosen.size() < kMostShortcuts && RestOf(left.errors).suspect > 0) {
    const Rest rest = RestOf(left.errors);
    std::optional<Choice> choice = Choose(&search, candidates, taken, left, scales);
    if (!choice) break;
    choice->candidate->apply(&taken);
    left = choice->left;
    forms = forms || choice->candidate->is_form;
    chosen.push_back(*std::move(choice));
    if (RestOf(left.errors).suspect < rest.suspect) {
      cleared = chosen.size();
      if (!forms) before_forms = cleared;
    }
  }
  if (IsSuspect(left.errors, Output::kLogprob) || IsSuspect(left.errors, Output::kEntropy))
    cleared = before_forms;
  for (size_t i = 0; i < cleared; ++i) {
    out.shortcuts.emplace_back(chosen[i].candidate->what);
    out.or_else.emplace_back(chosen[i].or_else);
    out.left = chosen[i].left.errors;
  }
  for (const Output o : suspect) {
    // An output of which these rows show nothing is not explained by them.
    const bool cleared_here = IsSuspect(before, o) && !IsSuspect(out.left, o);
    (cleared_here ? out.explains : out.unexplained).push_back(o);
  }
  return out;
}

}  // namespace plumbline::fuzz
