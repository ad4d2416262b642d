// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/exact_shortcuts.h"

#include <algorithm>
#include <cmath>

namespace plumbline::fuzz {

using oracle::Output;

namespace {

constexpr double kLeastLogitError = 0x1p-40;

Baseline BaselineUnder(const Shortcuts& shortcuts) {
  Baseline baseline;
  baseline.shortcuts = shortcuts;
  baseline.operand_bits = shortcuts.operand_bits;
  baseline.hidden_bits = shortcuts.hidden_bits;
  return baseline;
}

}  // namespace

std::vector<ExactValues> ExactShortcuts::Under(const Shortcuts& shortcuts) {
  constexpr double kErrors = 4;
  std::vector<Shortcuts> forms = {shortcuts};
  // What a contract declares it allows and does not ask for: the label's 1 - p may be filtered as well,
  // and not every use of the probabilities need be rounded.
  if (family_.declared.filter > 0 && shortcuts.filter > 0) {
    forms.push_back(shortcuts);
    forms.back().filter_label = true;
  }
  if (family_.declared.probabilities != kernel::DType::kF32) {
    for (size_t i = 0, count = forms.size(); i < count; ++i) {
      forms.push_back(forms[i]);
      forms.back().probabilities = kernel::DType::kF32;
    }
  }
  std::vector<Baseline> sides;
  for (const Shortcuts& form : forms) {
    for (const double errors : {0.0, kErrors, -kErrors}) {
      sides.push_back(BaselineUnder(form));
      if (errors != 0) sides.back().shortcuts.nudge = errors * LogitError();
    }
  }
  return Of(sides);
}

std::vector<ExactValues> ExactShortcuts::AsRounded(const Shortcuts& shortcuts) {
  return Of({BaselineUnder(shortcuts)});
}

std::vector<ExactValues> ExactShortcuts::Of(const std::vector<Baseline>& sides) {
  std::vector<ExactValues> values;
  for (const Simulated<double>& side : exact_.Run(sides)) values.push_back(ValuesOf(side));
  return values;
}

// The largest root mean square of what a baseline's logits err, and some number where they are exact:
// its sign is a side of a tie.
double ExactShortcuts::LogitError() {
  if (logit_error_ > 0) return logit_error_;
  logit_error_ = kLeastLogitError;
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

ExactValues ExactShortcuts::ValuesOf(const Simulated<double>& side) const {
  ExactValues values;
  for (const Output o : oracle::kOutputs) {
    if (!comparison_.Compares(o)) continue;
    const auto units = static_cast<size_t>(comparison_.UnitsOf(o));
    const auto elements = static_cast<size_t>(comparison_.ElementsOf(o));
    for (size_t i = 0; i < units; ++i) {
      for (size_t j = 0; j < elements; ++j) values[o].push_back(ValueOf(side, o, i, j, elements));
    }
  }
  return values;
}

}  // namespace plumbline::fuzz
