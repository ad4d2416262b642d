// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/explain.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "fuzz/problem/values.h"
#include "fuzz/triage/shrink/extent_rule.h"
#include "fuzz/triage/shrink/passes.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

constexpr int kDraws = 20;
constexpr int64_t kMostValues = 1 << 16;  // for a problem that grows
constexpr const char* kTensorNames[kFloatTensors] = {"hidden", "weight", "temperature", "grad_logprob",
                                                     "grad_entropy"};

std::string List(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Returns the matrix with so many columns, those that it does not have filled with `rest`.
HostTensor WithColumns(const HostTensor& from, int64_t columns, float rest) {
  HostTensor to = HostTensor::Zeros(from.dtype, {from.shape[0], columns});
  for (int64_t i = 0; i < from.shape[0]; ++i) {
    for (int64_t d = 0; d < columns; ++d) {
      if (d < from.shape[1]) {
        to.SetBits(i * columns + d, from.GetBits(i * from.shape[1] + d));
      } else {
        to.SetFloat(i * columns + d, rest);
      }
    }
  }
  return to;
}

class Explainer {
 public:
  Explainer(const OwnedProblem& problem, const StillFails& fails, const ExplainOptions& options)
      : p_(problem), fails_(fails), options_(options) {}

  Explanation Run() {
    Say([&] { return Vocabulary(); });
    Say([&] { return Rows(); });
    Say([&] { return Hidden(); });
    Say([&] { return Labels(); });
    Say([&] { return Offset(); });  // the last rule that buckets use
    for (int tensor = 0; tensor < kFloatTensors; ++tensor) Say([&] { return Values(tensor); });
    Say([&] { return Scale(); });
    Say([&] { return Options(); });
    if (late_) {
      explained_.lines.push_back(std::string("the rest was not tried: out of ") +
                                 (options_.tries ? "tries" : "time"));
    }
    return std::move(explained_);
  }

 private:
  bool Fails(const OwnedProblem& candidate) {
    if (late_ || Inconsistency(candidate)) return false;
    late_ = options_.tries ? tried_ >= *options_.tries
                           : std::chrono::steady_clock::now() - begin_ >= options_.time;
    if (late_) return false;
    ++tried_;
    return fails_(candidate);
  }

  // A rule for which the time was too short is not stated.
  void Say(const std::function<Rule()>& find) {
    if (late_) return;
    Rule rule = find();
    if (late_ || rule.line.empty()) return;
    explained_.lines.push_back(std::move(rule.line));
    if (!rule.word.empty()) explained_.rules.push_back(std::move(rule.word));
  }

  uint64_t Draw() { return Mix(0x6578706c, drawn_++); }

  // Tries extents near multiples of tiles, then those that would refute the rule. `grow` makes
  // candidates of an extent, any of which may fail.
  Rule Axis(const std::string& name, int64_t now, const std::vector<int64_t>& extents,
            int64_t values_each, const std::function<std::vector<OwnedProblem>(int64_t)>& grow) {
    Tried own = {{now, true}}, any = own;
    const auto ask = [&](int64_t extent) {
      bool fails = false, otherwise = false;
      for (const OwnedProblem& candidate : grow(extent)) {
        if (fails) break;
        fails = Fails(candidate);
        otherwise = otherwise || (!fails && !late_ && options_.otherwise && options_.otherwise());
      }
      if (late_) return false;
      own[extent] = fails;
      any[extent] = fails || otherwise;
      return true;
    };
    ExtentAxis axis{.name = name, .most = kMostValues / std::max<int64_t>(values_each, 1), .fails = {}};
    for (const int64_t extent : extents) {
      if (extent <= axis.most && !own.contains(extent)) ask(extent);
    }
    axis.fails = [&](int64_t extent) {
      return ask(extent) ? std::optional(own[extent]) : std::nullopt;
    };
    Tried tried = own;
    Rule rule = FindExtentRule(axis, &tried);
    if (!options_.otherwise) return rule;
    axis.fails = [&](int64_t extent) {
      return any.contains(extent) || ask(extent) ? std::optional(any[extent]) : std::nullopt;
    };
    tried = any;
    const Rule in_any_way = FindExtentRule(axis, &tried);
    if (late_) return rule;
    explained_.any_rules.push_back(in_any_way.word);
    const bool vague = in_any_way.word.ends_with(":any") || in_any_way.word.ends_with(":mixed");
    if (in_any_way.word != rule.word && !vague) {
      rule.line += "; in one way or another" + in_any_way.line.substr(name.size() + 1);
    }
    return rule;
  }

  Rule Rows() {
    if (p_.rows() == 0) return {};
    return Axis("N", p_.rows(), {1, 2, 3, 4, 5, 8, 16, 17, 33, 64, 65}, p_.hidden_size(),
                [&](int64_t n) {
                  std::vector<int64_t> rows;
                  for (int64_t i = 0; i < n; ++i) rows.push_back(i % p_.rows());
                  return std::vector{SelectRows(p_, rows)};
                });
  }

  // Shortens the vocabulary, or extends it by its own entries, by zeros, or by copies of the last.
  Rule Vocabulary() {
    const int64_t v = p_.vocab(), h = p_.hidden_size();
    if (v == 0) return {};
    // An index of V takes a row of zeros.
    HostTensor and_zeros = p_.weight;
    and_zeros.shape[0] = v + 1;
    and_zeros.bytes.resize(p_.weight.bytes.size() / static_cast<size_t>(v) *
                           static_cast<size_t>(v + 1));
    const auto grown = [&](int64_t extent, const std::function<int64_t(int64_t)>& source) {
      std::vector<int64_t> rows = Iota(extent);
      for (int64_t& row : rows) row = source(row);
      OwnedProblem q = p_;
      q.weight = GatherRows(and_zeros.View(), rows);
      return q;
    };
    return Axis("V", v, {1,  2,  3,  4,  5,   8,   9,   15,  16,  17,  31,  32, 33,
                         63, 64, 65, 96, 127, 128, 129, 192, 255, 256, 257, 320},
                h, [&](int64_t extent) {
                  std::vector<OwnedProblem> some;
                  some.push_back(grown(extent, [&](int64_t i) { return i % v; }));
                  if (extent <= v) return some;
                  some.push_back(grown(extent, [&](int64_t i) { return std::min(i, v); }));
                  some.push_back(grown(extent, [&](int64_t i) { return std::min(i, v - 1); }));
                  return some;
                });
  }

  Rule Hidden() {
    const int64_t h = p_.hidden_size();
    if (h == 0) return {};
    const auto grown = [&](int64_t extent, bool fill) {
      OwnedProblem q = p_;
      q.hidden = WithColumns(p_.hidden, extent, fill ? 1 : 0);
      q.weight = WithColumns(p_.weight, extent, 0);
      return q;
    };
    return Axis("H", h, {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 32, 33, 63, 64, 65, 127, 128, 129},
                p_.rows() + p_.vocab(), [&](int64_t extent) {
                  return std::vector<OwnedProblem>{grown(extent, false), grown(extent, true)};
                });
  }

  Rule Labels() {
    constexpr int64_t kMostLabels = 20;
    const int64_t v = p_.vocab();
    bool any = false;
    for (int64_t i = 0; i < p_.rows(); ++i) any = any || p_.IsClass(p_.labels.GetInt(i));
    if (!any || v < 2) return {};
    Tried tried;
    std::set<int64_t> labels = {0, 1, v / 2, v - 2, v - 1};
    for (int64_t label = 0; v <= kMostLabels && label < v; ++label) labels.insert(label);
    bool one_fails = false;
    const auto fails = [&](int64_t label) {
      OwnedProblem q = p_;
      for (int64_t i = 0; i < q.rows(); ++i) {
        if (p_.IsClass(q.labels.GetInt(i))) q.labels.SetInt(i, label);
      }
      return q == p_ || Fails(q);
    };
    for (const int64_t label : labels) {
      tried[label] = fails(label);
      one_fails = one_fails || tried[label];
    }
    // If no common label fails, the rows need labels of their own.
    if (!one_fails) return {"label: the rows need labels of their own", "label:own"};
    const ExtentAxis axis{.name = "label", .least = 0, .most = v - 1, .fails = [&](int64_t label) {
                            const bool failed = fails(label);
                            return late_ ? std::nullopt : std::optional(failed);
                          }};
    Rule rule = FindExtentRule(axis, &tried);
    const auto alone = [&](int64_t label) {
      return std::all_of(tried.begin(), tried.end(),
                         [&](const auto& t) { return t.second == (t.first == label); });
    };
    rule.word = alone(0) ? "label:first" : alone(v - 1) ? "label:last" : rule.word;
    return rule;
  }

  // Tries random values; then, if not all of those fail, values of the same sign and similar size.
  Rule Values(int number) {
    const HostTensor* tensor = FloatTensor(p_, number);
    if (tensor == nullptr || tensor->size() == 0) return {};
    const auto fraction = [&] { return 1 + static_cast<float>(Draw() % 8) / 8; };
    const auto count = [&](const auto& draw_instead_of) {
      int failed = 0;
      for (int draw = 0; draw < kDraws; ++draw) {
        OwnedProblem q = p_;
        HostTensor& t = *FloatTensor(q, number);
        for (int64_t i = 0; i < t.size(); ++i) t.SetFloat(i, draw_instead_of(t.GetFloat(i)));
        failed += Fails(q) ? 1 : 0;
      }
      return failed;
    };
    const int any = count([&](float) {
      const float size = std::ldexp(fraction(), static_cast<int>(Draw() % 7) - 3);
      return number != kTemperatureNumber && Draw() % 2 == 0 ? -size : size;
    });
    const std::string name = kTensorNames[number];
    if (any == kDraws) {
      return {name + Text(": any finite values (%d of %d at random)", any, kDraws), name + ":any"};
    }
    const int like = count([&](float value) { return value * fraction(); });
    if (any == 0 && like == 0) return {name + ": these values, or few others", name + ":these"};
    return {name + Text(": %d of %d at random, %d of %d of the same sign and size", any, kDraws, like,
                        kDraws),
            name + (2 * any > kDraws    ? ":most"
                    : 2 * like > kDraws ? ":like"
                                        : ":some")};
  }

  // Returns the widest run of steps around 0 that all fail, `step` from -steps to steps.
  std::pair<int, int> Around(int steps, const std::function<bool(int)>& fails_at) {
    int low = 0, high = 0;
    while (low > -steps && fails_at(low - 1)) --low;
    while (high < steps && fails_at(high + 1)) ++high;
    return {low, high};
  }

  // Names the ends of the range that it reaches: ":any", "<", ">", or ":near" if neither.
  static std::string Span(int low, int high, int steps) {
    if (low == -steps) return high == steps ? ":any" : "<";
    return high == steps ? ">" : ":near";
  }

  // Adds one column: 1 in hidden, the offset in weight.
  Rule Offset() {
    constexpr int kSteps = 17;
    const auto offset = [](int step) {
      return step == 0 ? 0.0f : std::ldexp(step < 0 ? -1.0f : 1.0f, std::abs(step) - 1);
    };
    const int64_t h = p_.hidden_size();
    if (p_.vocab() == 0 || p_.rows() == 0) return {};
    const auto fails_at = [&](int step) {
      OwnedProblem q = p_;
      q.hidden = WithColumns(p_.hidden, h + 1, 1);
      q.weight = WithColumns(p_.weight, h + 1, offset(step));
      return Fails(q);
    };
    if (!fails_at(0)) return {};  // the finding does not allow a further column
    const auto [low, high] = Around(kSteps, fails_at);
    const std::string what = "offset of all logits: ";
    const std::string word = "offset" + Span(low, high, kSteps);
    if (low == 0 && high == 0) return {what + "none of +-1", word};
    const double from = static_cast<double>(offset(low)), to = static_cast<double>(offset(high));
    if (low == -kSteps && high == kSteps) return {what + Text("any from %g to %g", from, to), word};
    double top = -std::numeric_limits<double>::infinity();
    for (const double logit : Logits(p_, 0)) top = std::max(top, logit);
    std::string text = what + Text("fails from %g to %g", from, to);
    if (std::isfinite(top)) text += Text(" (largest logit %g to %g)", top + from, top + to);
    text += ", passes at";
    if (low > -kSteps) text += Text(" %g", static_cast<double>(offset(low - 1)));
    if (high < kSteps) text += Text(" %g", static_cast<double>(offset(high + 1)));
    return {std::move(text), word};
  }

  Rule Scale() {
    constexpr int kSteps = 10;
    const auto [low, high] = Around(kSteps, [&](int step) {
      OwnedProblem q = p_;
      for (int64_t i = 0; i < q.hidden.size(); ++i) {
        q.hidden.SetFloat(i, std::ldexp(q.hidden.GetFloat(i), step));
      }
      return q == p_ || Fails(q);
    });
    const std::string what = "scale of hidden: ", word = "scale" + Span(low, high, kSteps);
    if (low == 0 && high == 0) return {what + "neither half nor double", word};
    return {what + Text("2^%d to 2^%d", low, high) +
                (low == -kSteps && high == kSteps ? ", and perhaps more" : ""),
            word};
  }

  Rule Options() {
    std::vector<std::string> fails, passes;
    const auto attempt = [&](const char* name, std::optional<OwnedProblem> q) {
      if (q && !(*q == p_)) (Fails(*q) ? fails : passes).push_back(name);
    };
    const auto with = [&](auto change) {
      OwnedProblem q = p_;
      change(q);
      return q;
    };
    attempt("bf16", Convert(p_, DType::kBf16, true));
    attempt("fp16", Convert(p_, DType::kF16, true));
    attempt("fp32", Convert(p_, DType::kF32, true));
    explained_.other_dtype = !fails.empty();
    if (p_.wanted.grad_hidden || p_.wanted.grad_weight) {
      attempt("fp32 gradients", with([](OwnedProblem& q) { q.wanted.fp32_grads = true; }));
    }
    attempt("weight hidden-major", with([](OwnedProblem& q) { q.layout.weight_hidden_major = true; }));
    attempt("padded rows", with([](OwnedProblem& q) {
              q.layout.hidden_padding = 3;
              q.layout.weight_padding = 3;
            }));
    attempt("int32 labels", with([](OwnedProblem& q) { q.labels = LabelsAs(DType::kI32, q.labels); }));
    if (!p_.temperature) {
      attempt("temperature 2", with([](OwnedProblem& q) {
                q.temperature = HostTensor::Zeros(DType::kF32, {});
                q.temperature->SetFloat(0, 2);
              }));
    }
    attempt("every output", with([](OwnedProblem& q) {
              const bool fp32 = q.wanted.fp32_grads;
              q.wanted = {true, true, true, true, fp32};
            }));
    std::string text;
    if (!fails.empty()) text = "also with: " + List(fails);
    if (!passes.empty()) text += (text.empty() ? "not with: " : "; not with: ") + List(passes);
    std::string word;
    for (const std::string& option : passes) word += (word.empty() ? "not:" : ",") + option;
    std::replace(word.begin(), word.end(), ' ', '-');
    return {std::move(text), std::move(word)};
  }

  const OwnedProblem& p_;
  const StillFails& fails_;
  const ExplainOptions& options_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int64_t tried_ = 0;
  uint64_t drawn_ = 0;
  bool late_ = false;
  Explanation explained_;
};

}  // namespace

Explanation Explain(const OwnedProblem& problem, const StillFails& still_fails,
                    const ExplainOptions& options) {
  return Explainer(problem, still_fails, options).Run();
}

}  // namespace plumbline::fuzz
