// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/options.h"

#include <limits>

#include "fuzz/campaign/search/palette.h"
#include "fuzz/target/description.h"

namespace plumbline::fuzz {
std::optional<int64_t> CampaignOptions::Cases() const {
  const auto count = static_cast<int64_t>(targets.size());
  if (!recipe.empty()) return count;
  if (gate) return (GetBudget().cases + corpus_stamp.cases) * count;
  const int64_t each = GetBudget().cases;
  if (each == 0) return std::nullopt;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return each > kMost / count ? kMost : each * count;
}

void Fields(FieldVisitor& io, CampaignOptions& options) {
  io.AllowUnknown();
  io("targets", options.targets);
  if (options.targets.empty()) io.Wrong("targets", "a list of targets that is not empty");
  // Numbers of 64 bits are text: they may pass int64.
  io.AsText("seed", options.seed, std::to_string(options.seed), ParseSeed);
  io("regime", options.regime);
  io("recipe", options.recipe);
  io.AsText("shard", options.shard, Format(options.shard), ParseShard);
  io("blind", options.blind);
  io.IfSet("production", options.production);
  io.IfSet("gate", options.gate);
  int64_t lag = options.lag == kLeastLag ? 0 : options.lag;
  io.IfSet("lag", lag);
  if (lag != 0 && (lag < kLeastLag || lag > kMostLag)) io.Wrong("lag", "a number of generations");
  options.lag = lag == 0 ? kLeastLag : lag;
  if (!io.reading() ? !options.capabilities.empty() : io.Has("capabilities", false)) {
    io("capabilities", options.capabilities);
    if (options.capabilities.size() != options.targets.size()) {
      io.Wrong("capabilities", "a list as long as targets");
    }
    for (const std::string& text : options.capabilities) {
      std::string error;
      if (!ParseCapabilities(text, &error)) io.Refuse("capabilities: " + error);
    }
  }
  int64_t palette = options.palette.value_or(0);
  io.IfSet("palette", palette);
  if (palette < 0 || palette > kMostPalette) io.Wrong("palette", "a number of shapes");
  options.palette = palette;
  io.IfSet("palette_by_class", options.palette_by_class);
  io.As("corpus", options.corpus.string(), [&](std::string path) { options.corpus = path; });
  io("corpus_cases", options.corpus_stamp.cases);
  io.AsText("corpus_hash", options.corpus_stamp.hash, std::to_string(options.corpus_stamp.hash),
            ParseSeed);
  io.AsText("budget", options.budget, Format(options.GetBudget()), ParseBudget);
  io.As("stop_after", options.GetStopAfter(), [&](int64_t findings) { options.stop_after = findings; });
  io.As("case_timeout_ms", int64_t{options.GetCaseTimeout().count()},
        [&](int64_t ms) { options.case_timeout = std::chrono::milliseconds(ms); });
  io.IfSet("shrink_tries", options.shrink_tries);
  io.IfSet("inferred", options.inferred);
  io("started", options.started);
  io.IfSet("python", options.python);
}

}  // namespace plumbline::fuzz
