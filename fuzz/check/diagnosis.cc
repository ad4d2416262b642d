// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/diagnosis.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/check/excerpt.h"
#include "fuzz/check/logit_hypotheses.h"
#include "oracle/judge/judge.h"
#include "oracle/output.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;
using oracle::OutputVerdict;

constexpr Output kForward[] = {Output::kLogprob, Output::kEntropy, Output::kLse};

struct Hypothesis {
  std::string sentence;
  // Changes the excerpt to what it would be if the kernel were right and the caller had made the
  // mistake. Returns false if that does not apply.
  std::function<bool(DumpExcerpt*, oracle::Contract*)> assume;
};

// Returns true if every element is judged and none is wrong. A bound that says nothing explains
// nothing.
bool Fits(const DumpExcerpt& excerpt, const oracle::Contract& contract,
          const JudgeDumpOptions& judging) {
  oracle::SweepOptions options = judging;
  options.counted_rows.reset();  // an excerpt has no reduction
  const oracle::Judgement judgement =
      oracle::JudgeProblem(excerpt.problem(), excerpt.results(), contract, options);
  int64_t judged = 0;
  for (const OutputVerdict& v : judgement.outputs) {
    if (v.fail + v.vacuous + v.unspecified > 0) return false;
    judged += v.pass;
  }
  return judged > 0 && judgement.fault.empty() && !judgement.interrupted;
}

// Relabels all rows by `label`. Returns false if a row has no valid new label, or if none changes.
bool Relabel(DumpExcerpt* e, const std::function<std::optional<int64_t>(int64_t, int64_t)>& label) {
  bool changed = false;
  for (size_t i = 0; i < e->rows.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const std::optional<int64_t> other = label(e->rows[i], e->labels.GetInt(at));
    if (!other || *other < 0 || *other >= e->weight.shape[0]) return false;
    changed = changed || *other != e->labels.GetInt(at);
    e->labels.SetInt(at, *other);
  }
  return changed;
}

// Leaves the tensor out. Returns false if it is not there.
bool Drop(std::optional<HostTensor>* tensor) {
  const bool there = tensor->has_value();
  tensor->reset();
  return there;
}

// Takes the forward outputs as logarithms to base 2.
bool ToNats(DumpExcerpt* e) {
  for (auto* tensor : {&e->logprob, &e->entropy, &e->lse}) {
    for (int64_t i = 0; *tensor && i < (*tensor)->size(); ++i) {
      (*tensor)->SetFloat(
          i, static_cast<float>(static_cast<double>((*tensor)->GetFloat(i)) * std::numbers::ln2));
    }
  }
  return true;
}

bool Negate(std::optional<HostTensor>* tensor) {
  if (!*tensor) return false;
  for (int64_t i = 0; i < (*tensor)->size(); ++i) (*tensor)->SetFloat(i, -(*tensor)->GetFloat(i));
  return true;
}

// Multiplies both upstream gradients by factor(row), rounded to fp32.
bool ScaleGradients(DumpExcerpt* e, const std::function<double(int64_t)>& factor) {
  bool changed = false;
  for (auto* tensor : {&e->grad_logprob, &e->grad_entropy}) {
    if (!*tensor) continue;
    for (int64_t i = 0; i < (*tensor)->size(); ++i) {
      const double f = factor(i);
      changed = changed || f != 1;
      (*tensor)->SetFloat(i, static_cast<float>(static_cast<double>((*tensor)->GetFloat(i)) * f));
    }
  }
  return changed;
}

// Returns what the columns left out of the sum would be, if a number of them accounts for the error.
std::vector<Hypothesis> MaskedColumns(const DumpExcerpt& excerpt, const oracle::Contract& contract,
                                      int threads) {
  const std::optional<int64_t> columns = UnmaskedColumns(excerpt, contract, threads);
  if (!columns) return {};
  const int64_t v = excerpt.weight.shape[0];
  return {{Text("the last %" PRId64 " of %" PRId64 " columns are left out of the sum: padding that the "
                "kernel masks? Say vocabulary_size %" PRId64 " then (metadata, or --vocabulary)",
                v - *columns, v, *columns),
           [k = *columns](DumpExcerpt* e, oracle::Contract*) {
             e->weight.shape[0] = k;
             return true;
           }}};
}

// Padding that the kernel does not mask.
std::vector<Hypothesis> PaddingHypotheses(const Dump& dump) {
  if (dump.weight_rows == dump.problem.vocab()) return {};
  return {{Text("the %" PRId64 " rows of padding take part in the softmax",
                dump.weight_rows - dump.problem.vocab()),
           [rows = dump.weight_rows](DumpExcerpt* e, oracle::Contract*) {
             e->weight.shape[0] = rows;
             return true;
           }}};
}

// Labels shifted along the rows.
std::vector<Hypothesis> ShiftHypotheses(const Dump& dump) {
  const auto neighbour = [&dump](int64_t by) {
    return [&dump, by](int64_t row, int64_t) -> std::optional<int64_t> {
      if (row + by < 0 || row + by >= dump.problem.rows()) return std::nullopt;
      return oracle::ReadInt(dump.problem.labels, row + by);
    };
  };
  return {
      {"each row was given the next row's label",
       [=](DumpExcerpt* e, oracle::Contract*) { return Relabel(e, neighbour(1)); }},
      {"each row was given the previous row's label",
       [=](DumpExcerpt* e, oracle::Contract*) { return Relabel(e, neighbour(-1)); }},
  };
}

std::vector<Hypothesis> ForwardHypotheses() {
  const auto further = [](int64_t by) {
    return [by](int64_t, int64_t label) -> std::optional<int64_t> { return label + by; };
  };
  return {
      {"the temperature was not applied",
       [](DumpExcerpt* e, oracle::Contract*) { return Drop(&e->temperature); }},
      {"logprob has the opposite sign (a loss of each row?)",
       [](DumpExcerpt* e, oracle::Contract*) { return Negate(&e->logprob); }},
      {"labels are looked up one column too far on",
       [=](DumpExcerpt* e, oracle::Contract*) { return Relabel(e, further(1)); }},
      {"labels are looked up one column too early",
       [=](DumpExcerpt* e, oracle::Contract*) { return Relabel(e, further(-1)); }},
      {"logprob was formed as x_y - lse, which loses digits when all logits share an offset",
       [](DumpExcerpt* e, oracle::Contract* contract) {
         contract->plain_logprob = true;
         return e->logprob.has_value();
       }},
      {"the entropy was formed as lse - sum p x, which cancels",
       [](DumpExcerpt* e, oracle::Contract* contract) {
         contract->plain_entropy = true;
         return e->entropy.has_value();
       }},
      {"the values are in bits (logarithms to base 2), not in nats",
       [](DumpExcerpt* e, oracle::Contract*) { return ToNats(e); }},
  };
}

std::vector<Hypothesis> BackwardHypotheses(const Dump& dump, int64_t counted) {
  const auto n = static_cast<double>(std::max<int64_t>(counted, 1));
  return {
      {"grad_entropy was not used",
       [](DumpExcerpt* e, oracle::Contract*) { return Drop(&e->grad_entropy) && e->grad_logprob; }},
      {"grad_logprob was not used",
       [](DumpExcerpt* e, oracle::Contract*) { return Drop(&e->grad_logprob) && e->grad_entropy; }},
      {"the gradient was not divided by the temperature",
       [](DumpExcerpt* e, oracle::Contract*) {
         if (!e->temperature) return false;
         const HostTensor& t = *e->temperature;
         return ScaleGradients(e, [&t](int64_t i) { return static_cast<double>(t.GetFloat(i)); });
       }},
      {"every row was scaled by the first row's grad_logprob",
       [&dump](DumpExcerpt* e, oracle::Contract*) {
         const auto& g = dump.problem.grad_logprob;
         if (!g || g->rank == 0 || !e->grad_logprob) return false;
         const auto first = static_cast<float>(oracle::ReadElement(*g, 0, 0));
         for (int64_t i = 0; i < e->grad_logprob->size(); ++i) e->grad_logprob->SetFloat(i, first);
         return true;
       }},
      {"the gradient has the opposite sign",
       [](DumpExcerpt* e, oracle::Contract*) { return Negate(&e->grad_hidden); }},
      {"the gradient was divided by the number of rows once too often",
       [n](DumpExcerpt* e, oracle::Contract*) {
         return ScaleGradients(e, [n](int64_t) { return 1 / n; });
       }},
      {"the gradient was not divided by the number of rows",
       [n](DumpExcerpt* e, oracle::Contract*) {
         return ScaleGradients(e, [n](int64_t) { return n; });
       }},
      {"the backward pass looked labels up one column too far on",
       [](DumpExcerpt* e, oracle::Contract*) {
         return Relabel(e, [](int64_t, int64_t label) { return std::optional(label + 1); });
       }},
  };
}

bool FailsIn(const DumpVerdict& verdict, Output output) {
  return std::any_of(verdict.outputs.begin(), verdict.outputs.end(), [&](const JudgedOutput& o) {
    return o.verdict.output == output && o.wrong() > 0;
  });
}

// Returns few enough rows to be judged a dozen times: 2^30 products take the oracle about a second.
int64_t RowsToTry(const kernel::Problem& p) {
  const int64_t products = std::max<int64_t>(1, p.vocab() * std::max<int64_t>(1, p.hidden_size()));
  return std::clamp<int64_t>((int64_t{1} << 30) / products, 2, 16);
}

// Returns true if there is such a row, and its label is in the vocabulary and not ignored.
bool HasLabel(const kernel::Problem& p, int64_t row) {
  if (row < 0 || row >= p.rows()) return false;
  const int64_t label = oracle::ReadInt(p.labels, row);
  return label != p.ignore_index && label >= 0 && label < p.vocab();
}

// Returns positions in the sample: rows that fail forward, or, if only a gradient fails, its worst row
// and others that have a gradient. `between`: only those between two rows with a label.
std::vector<int64_t> Suspects(const DumpSample& sample, const DumpVerdict& verdict, bool forward,
                              int64_t most, bool between = false) {
  std::vector<int64_t> at;
  const kernel::Problem& p = sample.problem();
  const kernel::Problem& whole = sample.dump().problem;
  const std::vector<int64_t>& wrong = verdict.wrong_rows;
  if (!forward) {
    for (const JudgedOutput& o : verdict.outputs) {
      if (o.verdict.output == Output::kGradHidden) at.push_back(o.verdict.row);
    }
  }
  for (int64_t i = 0; i < p.rows() && static_cast<int64_t>(at.size()) < most; ++i) {
    const int64_t row = sample.rows()[static_cast<size_t>(i)];
    if (!HasLabel(p, i) || std::find(at.begin(), at.end(), i) != at.end()) continue;
    if (between && !(HasLabel(whole, row - 1) && HasLabel(whole, row + 1))) continue;
    if (std::binary_search(wrong.begin(), wrong.end(), row) || !forward) at.push_back(i);
  }
  std::sort(at.begin(), at.end());
  return at;
}

// Tries one after another on the excerpt, and those that fit also on the gradients of its rows in
// `gradients`, if those fail as well.
void Try(const std::vector<Hypothesis>& hypotheses, const DumpExcerpt& excerpt,
         const DumpExcerpt* gradients, const oracle::Contract& contract,
         const JudgeDumpOptions& options, std::vector<Diagnosis>* diagnoses) {
  const auto fits = [&](const Hypothesis& hypothesis, DumpExcerpt other) {
    oracle::Contract assumed = contract;
    return hypothesis.assume(&other, &assumed) && Fits(other, assumed, options);
  };
  for (const Hypothesis& hypothesis : hypotheses) {
    if (!fits(hypothesis, excerpt)) continue;
    Diagnosis diagnosis{hypothesis.sentence,
                        Text("%zu rows judged again on that assumption pass", excerpt.rows.size()),
                        {}};
    const kernel::Results there = excerpt.results();
    for (const Output o : oracle::kOutputs) {
      if (oracle::Find(there, o)) diagnosis.explains.push_back(o);
    }
    if (gradients != nullptr && fits(hypothesis, *gradients)) {
      diagnosis.explains.push_back(Output::kGradHidden);
    }
    diagnoses->push_back(std::move(diagnosis));
  }
}

// A loss that is another of the usual reductions of the same rows, which a factor tells.
void DiagnoseLoss(const kernel::Problem& p, int64_t counted, const OutputVerdict& loss,
                  std::vector<Diagnosis>* diagnoses) {
  const oracle::Element& e = loss.expected;
  if (e.expect != oracle::Expect::kFinite || counted < 1) return;
  const auto n = static_cast<double>(counted);
  const bool mean = p.reduction == kernel::Reduction::kMean;
  const std::pair<double, std::string> factors[] = {
      {mean ? n : 1 / n, mean ? "loss is the sum over the rows, not their mean"
                              : "loss is the mean over the rows, not their sum"},
      {mean ? n / static_cast<double>(p.rows()) : 1, "loss was divided by all rows, ignored ones too"},
      {-1, "loss has the opposite sign"},
      {1 / std::numbers::ln2, "loss is in bits (logarithms to base 2), not in nats"}};
  for (const auto& [factor, what] : factors) {
    const double allowed = std::fabs(factor) * (e.bound + e.radius) + std::fabs(loss.got) * 0x1p-23;
    if (factor == 1 || !(std::fabs(loss.got - factor * e.value) <= allowed)) continue;
    diagnoses->push_back(
        {what,
         Text("%.9g is %.9g times the %.9g that is required", loss.got, factor, e.value),
         {Output::kLoss}});
  }
}

}  // namespace

std::vector<Diagnosis> Diagnose(const DumpSample& sample, const kernel::Results& results,
                                const oracle::Contract& contract, const DumpVerdict& verdict,
                                const JudgeDumpOptions& options) {
  std::vector<Diagnosis> diagnoses;
  if (verdict.interrupted) return diagnoses;
  int64_t counted = options.counted_rows.value_or(0);
  for (int64_t i = 0; !options.counted_rows && i < sample.problem().rows(); ++i) {
    counted += oracle::ReadInt(sample.problem().labels, i) != sample.problem().ignore_index;
  }
  const int64_t most = RowsToTry(sample.problem());
  const bool forward = std::any_of(std::begin(kForward), std::end(kForward),
                                   [&](Output o) { return FailsIn(verdict, o); });
  const bool backward = FailsIn(verdict, Output::kGradHidden);
  kernel::Results gradient;
  gradient.grad_hidden = results.grad_hidden;
  if (forward) {
    kernel::Results failing = results;
    for (const Output o : kForward) {
      if (!FailsIn(verdict, o)) oracle::Find(&failing, o).reset();
    }
    failing.grad_hidden.reset();
    const std::vector<int64_t> at = Suspects(sample, verdict, true, most);
    if (!at.empty()) {
      const DumpExcerpt excerpt(sample, failing, at, counted);
      const DumpExcerpt gradients(sample, gradient, at, counted);
      std::vector<Hypothesis> hypotheses = ForwardHypotheses();
      for (Hypothesis& masked : MaskedColumns(excerpt, contract, options.threads)) {
        hypotheses.push_back(std::move(masked));
      }
      for (Hypothesis& padding : PaddingHypotheses(sample.dump())) {
        hypotheses.push_back(std::move(padding));
      }
      Try(hypotheses, excerpt, backward ? &gradients : nullptr, contract, options, &diagnoses);
      // One row would be no evidence of a shift; the first and the last may be without a neighbour.
      const std::vector<int64_t> inner = Suspects(sample, verdict, true, most, true);
      if (inner.size() > 1) {
        const DumpExcerpt shifted(sample, failing, inner, counted);
        const DumpExcerpt its_gradients(sample, gradient, inner, counted);
        Try(ShiftHypotheses(sample.dump()), shifted, backward ? &its_gradients : nullptr, contract,
            options, &diagnoses);
      }
      if (!options.Interrupted()) {
        DiagnoseLogits(excerpt, contract, options.threads, &diagnoses);
      }
    }
  }
  for (const JudgedOutput& o : verdict.outputs) {
    if (o.verdict.output != Output::kLoss || o.wrong() == 0) continue;
    DiagnoseLoss(sample.problem(), counted, o.verdict, &diagnoses);
  }
  const bool explained = std::any_of(diagnoses.begin(), diagnoses.end(), [](const Diagnosis& d) {
    return std::find(d.explains.begin(), d.explains.end(), Output::kGradHidden) != d.explains.end();
  });
  if (backward && !explained) {
    const std::vector<int64_t> at = Suspects(sample, verdict, false, most);
    const DumpExcerpt excerpt(sample, gradient, at, counted);
    Try(BackwardHypotheses(sample.dump(), counted), excerpt, nullptr, contract, options, &diagnoses);
  }
  return diagnoses;
}

}  // namespace plumbline::fuzz
