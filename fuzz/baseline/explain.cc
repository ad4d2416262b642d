// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

namespace plumbline::fuzz {
namespace {

using kernel::DType, oracle::Output;

struct Candidate {
  std::string_view what;
  void (*apply)(Shortcuts*);
  bool of_temperature = false;  // does nothing, or the same as another, where T is a power of two
  bool is_form = false;         // changes no exact value
};

void StoreIn(DType dtype, Shortcuts* s) { s->logprob = s->entropy = s->lse = dtype; }

// Forms stand last.
constexpr std::array kCandidates = {
    Candidate{"logits rounded to bf16", [](Shortcuts* s) { s->logits = DType::kBf16; }},
    Candidate{"logits rounded to fp16", [](Shortcuts* s) { s->logits = DType::kF16; }},
    Candidate{"logits / T rounded to bf16", [](Shortcuts* s) { s->scaled_logits = DType::kBf16; },
              true},
    Candidate{"logits / T rounded to fp16", [](Shortcuts* s) { s->scaled_logits = DType::kF16; }, true},
    Candidate{"log2(e) rounded to bf16", [](Shortcuts* s) { s->log2e = DType::kBf16; }},
    Candidate{"log2(e) rounded to fp16", [](Shortcuts* s) { s->log2e = DType::kF16; }},
    Candidate{"log2(e) rounded to bf16 in the exponentials",
              [](Shortcuts* s) { s->exponent = DType::kBf16; }},
    Candidate{"log2(e) rounded to fp16 in the exponentials",
              [](Shortcuts* s) { s->exponent = DType::kF16; }},
    Candidate{"T rounded to bf16", [](Shortcuts* s) { s->temperature = DType::kBf16; }, true},
    Candidate{"T rounded to fp16", [](Shortcuts* s) { s->temperature = DType::kF16; }, true},
    Candidate{"outputs stored in bf16", [](Shortcuts* s) { StoreIn(DType::kBf16, s); }},
    Candidate{"outputs stored in fp16", [](Shortcuts* s) { StoreIn(DType::kF16, s); }},
    Candidate{"logprob stored in bf16", [](Shortcuts* s) { s->logprob = DType::kBf16; }},
    Candidate{"logprob stored in fp16", [](Shortcuts* s) { s->logprob = DType::kF16; }},
    Candidate{"entropy stored in bf16", [](Shortcuts* s) { s->entropy = DType::kBf16; }},
    Candidate{"lse stored in bf16", [](Shortcuts* s) { s->lse = DType::kBf16; }},
    Candidate{"entropy stored in fp16", [](Shortcuts* s) { s->entropy = DType::kF16; }},
    Candidate{"lse stored in fp16", [](Shortcuts* s) { s->lse = DType::kF16; }},
    Candidate{"lse kept in bf16 for backward", [](Shortcuts* s) { s->saved_lse = DType::kBf16; }},
    Candidate{"the softmax sum kept in bf16 for backward", [](Shortcuts* s) { s->sum = DType::kBf16; }},
    Candidate{"probabilities rounded to bf16 before the label's 1 is subtracted",
              [](Shortcuts* s) { s->probabilities = DType::kBf16; }},
    Candidate{"probabilities rounded to fp16 before the label's 1 is subtracted",
              [](Shortcuts* s) { s->probabilities = DType::kF16; }},
    Candidate{"d_logits rounded to bf16", [](Shortcuts* s) { s->d_logits = DType::kBf16; }},
    Candidate{"d_logits rounded to fp16", [](Shortcuts* s) { s->d_logits = DType::kF16; }},
    Candidate{"no gradient from probabilities below 2^-12", [](Shortcuts* s) { s->filter = 0x1p-12; }},
    Candidate{"no gradient from probabilities below 2^-8", [](Shortcuts* s) { s->filter = 0x1p-8; }},
    Candidate{"logprob formed as x_y - lse (\"plain_logprob\": true declares it)",
              [](Shortcuts* s) { s->plain_logprob = true; }, false, true},
    Candidate{"entropy formed as lse - sum p x (\"plain_entropy\": true declares it)",
              [](Shortcuts* s) { s->plain_entropy = true; }, false, true},
    Candidate{"entropy formed as -sum p ln p (\"entropy_of_probabilities\": true declares it)",
              [](Shortcuts* s) { s->entropy_of_probabilities = true; }, false, true},
};

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

Rest RestOf(const std::vector<OutputErrors>& left) {
  Rest rest;
  for (const OutputErrors& o : left) {
    rest.suspect += o.units.Suspect();
    // Below an honest error nothing is left to explain.
    rest.size += std::log(std::max(1.0, o.units.Judged()));
  }
  return rest;
}

class Search {
 public:
  Search(const kernel::Problem& problem, const kernel::Results& results,
         const oracle::Contract& contract, const oracle::Inputs& inputs, const Family& family,
         const Places& places, const SimulationOptions& options)
      : family_(family),
        places_(places),
        comparison_(problem, results, contract, inputs, places_),
        fp32_(problem, inputs, places_, options),
        exact_(problem, inputs, places_, options) {}

  // The second tier against exact arithmetic with these shortcuts; nothing if it was interrupted.
  std::optional<std::vector<OutputErrors>> Under(const Shortcuts& shortcuts) {
    std::vector<Baseline> baselines = family_.baselines;
    for (Baseline& each : baselines) each.shortcuts = shortcuts;
    Baseline plain;
    plain.shortcuts = shortcuts;
    std::vector<Baseline> sides(3, plain);
    sides[1].shortcuts.nudge = kErrors * LogitError();
    sides[2].shortcuts.nudge = -sides[1].shortcuts.nudge;
    const auto truth = exact_.Run(sides);
    const auto simulated = fp32_.Run(baselines);
    if (truth.empty() || simulated.empty()) return std::nullopt;
    std::vector<ExactValues> values;
    for (const Simulated<double>& side : truth) values.push_back(ValuesOf(side));
    return comparison_.Compare(values, baselines, simulated);
  }

 private:
  static constexpr double kErrors = 4;

  // The largest root mean square of what a baseline's logits err.
  double LogitError() {
    if (logit_error_ > 0) return logit_error_;
    const std::vector<double>& exact = exact_.LogitsOf({});
    for (const Baseline& baseline : family_.baselines) {
      const std::vector<float>& z = fp32_.LogitsOf(baseline);
      double sum = 0;
      for (size_t i = 0; i < z.size(); ++i) {
        const double error = static_cast<double>(z[i]) - exact[i];
        sum += error * error;
      }
      logit_error_ = std::max(logit_error_, std::sqrt(sum / static_cast<double>(z.size())));
    }
    return logit_error_;
  }

  ExactValues ValuesOf(const Simulated<double>& side) const {
    ExactValues values;
    for (const Output o : oracle::kOutputs) {
      if (!comparison_.Compares(o)) continue;
      const auto units = static_cast<size_t>(comparison_.UnitsOf(o));
      const auto elements = static_cast<size_t>(comparison_.ElementsOf(o));
      for (size_t i = 0; i < units; ++i) {
        for (size_t j = 0; j < elements; ++j) {
          values[o].push_back(ValueOf(side, o, i, j, elements));
        }
      }
    }
    return values;
  }

  const Family& family_;
  const Places& places_;
  Comparison comparison_;
  Simulation<float> fp32_;
  Simulation<double> exact_;
  double logit_error_ = 0;
};

// Fewer rows where all candidates together would take too long.
Places FewerPlaces(const Places& places, const Family& family, int64_t vocab) {
  const double each = static_cast<double>(vocab) * static_cast<double>(family.baselines.size()) *
                      static_cast<double>(kCandidates.size());
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
  std::vector<OutputErrors> left;
};

// Returns the shortcut that leaves least beside those that are taken; nothing if none leaves half as
// much or clears an output.
std::optional<Choice> Choose(Search* search, const Shortcuts& taken,
                             const std::vector<OutputErrors>& before_left, bool scales) {
  Choice best;
  const Candidate* second = nullptr;
  Rest least, next;
  for (const Candidate& candidate : kCandidates) {
    // A form is asked only where no rounding helps: under an offset its baselines err much.
    if (candidate.is_form && best.candidate != nullptr && !best.candidate->is_form) break;
    Shortcuts tried = taken;
    candidate.apply(&tried);
    if (tried == taken || (candidate.of_temperature && !scales)) continue;
    std::optional<std::vector<OutputErrors>> left = search->Under(tried);
    if (!left) return {};  // interrupted
    if (Overflows(*left, before_left)) continue;
    const Rest rest = RestOf(*left), before = RestOf(before_left);
    if (rest.suspect > before.suspect ||
        (rest.suspect == before.suspect && rest.size > before.size - std::log(2.0))) {
      continue;
    }
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

Explanation Explain(const kernel::Problem& problem, const kernel::Results& results,
                    const oracle::Contract& contract, const oracle::Inputs& inputs, const Family& whole,
                    const Places& places, const SimulationOptions& options,
                    const std::vector<Output>& suspect) {
  const Family family = LastForms(whole);
  const Places fewer = FewerPlaces(places, family, inputs.v);
  SimulationOptions simulation = options;
  if (fewer.weight_rows.empty()) simulation.grad_weight.reset();
  Search search(problem, results, contract, inputs, family, fewer, simulation);
  const bool scales = !std::ranges::all_of(
      fewer.rows, [&](int64_t i) { return IsPowerOfTwo(inputs.temperature[static_cast<size_t>(i)]); });
  Explanation out;
  const auto without = search.Under({});
  if (!without) return out;
  const std::vector<OutputErrors>& before = *without;
  out.rows = static_cast<int64_t>(fewer.rows.size());
  out.all_rows = fewer.rows.size() == places.rows.size();
  out.left = before;
  Shortcuts taken;
  std::vector<OutputErrors> left = before;
  std::vector<Choice> chosen;
  size_t cleared = 0;  // the members of the set up to the last one that cleared an output
  while (chosen.size() < kMostShortcuts && RestOf(left).suspect > 0) {
    const Rest rest = RestOf(left);
    std::optional<Choice> choice = Choose(&search, taken, left, scales);
    if (!choice) break;
    choice->candidate->apply(&taken);
    left = choice->left;
    chosen.push_back(*std::move(choice));
    if (RestOf(left).suspect < rest.suspect) cleared = chosen.size();
  }
  for (size_t i = 0; i < cleared; ++i) {
    out.shortcuts.emplace_back(chosen[i].candidate->what);
    out.or_else.emplace_back(chosen[i].or_else);
    out.left = chosen[i].left;
  }
  for (const Output o : suspect) {
    // An output of which these rows show nothing is not explained by them.
    const bool cleared_here = SuspectIn(before, o) && !SuspectIn(out.left, o);
    (cleared_here ? out.explains : out.unexplained).push_back(o);
  }
  return out;
}

}  // namespace plumbline::fuzz
