// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/ranking.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plumbline::fuzz {
namespace {

CaseRecord Judged(std::vector<std::string> outputs, std::vector<std::string> signatures) {
  CaseRecord record;
  for (const std::string& output : outputs) record.by_output[output] = {1, 0, 0, 0};
  record.verdict = signatures.empty() ? oracle::Verdict::kPass : oracle::Verdict::kFail;
  record.signatures = std::move(signatures);
  return record;
}

// Fails if reach counts cases that could not show a signature, because they lack its output or were not
// judged, or does not count those that could.
TEST(Reach, IsTheShareOfThoseThatCould) {
  Reach reach;
  for (int i = 0; i < 6; ++i) reach.Add(Judged({"lse"}, {}));
  reach.Add(Judged({"lse", "loss"}, {"bound:loss"}));
  reach.Add(Judged({"loss"}, {}));
  reach.Add(Judged({}, {"crash"}));
  CaseRecord skipped;
  skipped.verdict = oracle::Verdict::kSkipped;
  reach.Add(skipped);
  EXPECT_EQ(reach.Of("bound:loss").showed, 1);
  EXPECT_EQ(reach.Of("bound:loss").of, 2);
  EXPECT_EQ(reach.Of("bound:lse").of, 7);
  EXPECT_EQ(reach.Of("bound:lse").showed, 0);
  EXPECT_EQ(reach.Of("crash").showed, 1);
  EXPECT_EQ(reach.Of("crash (once)").of, 9);
}

// Fails if a milder finding goes before a graver one, a rarer before a more frequent one, or if a part
// does not count for the finding that it is a part of.
TEST(Ranking, BySeverityThenByReach) {
  const auto seen = [](const std::string& signature, FindingKind kind,
                       const std::string& part_of = "") {
    Sighting sighting;
    sighting.target = "t";
    sighting.signature = signature;
    sighting.finding.kind = kind;
    sighting.part_of = part_of;
    return sighting;
  };
  std::map<std::string, Reach> reaches;
  for (int i = 0; i < 8; ++i) {
    reaches["t"].Add(Judged({"lse", "loss", "entropy"},
                            i < 4   ? std::vector<std::string>{"bound:loss", "sign:entropy"}
                            : i < 5 ? std::vector<std::string>{"bound:lse"}
                                    : std::vector<std::string>{}));
  }
  const std::vector<RankedFinding> ranking = RankFindings(
      {seen("batch-variant:lse", FindingKind::kBatchVariant), seen("bound:lse", FindingKind::kBound),
       seen("bound:loss", FindingKind::kBound), seen("crash", FindingKind::kCrash)},
      {seen("sign:entropy", FindingKind::kSign, "bound:loss"),
       seen("hang", FindingKind::kHang, "batch-variant:lse")},
      reaches);
  std::vector<std::string> order;
  for (const RankedFinding& finding : ranking) order.push_back(finding.sighting.signature);
  EXPECT_EQ(order, (std::vector<std::string>{"crash", "batch-variant:lse", "bound:loss", "bound:lse"}));
  EXPECT_EQ(ranking[2].parts, std::vector<std::string>{"sign:entropy"});
  EXPECT_EQ(Describe(ranking[2]), "wrong, in 4 of 8 judged cases that could show it (50 %)");
}

// Fails if the rounding that a part of a finding was named by is lost, or if another finding gets it.
TEST(Ranking, APartsShortcutIsTheFindings) {
  std::vector<Sighting> findings(2), parts(1);
  findings[0].target = findings[1].target = parts[0].target = "t";
  findings[0].signature = "bound:lse";
  findings[1].signature = "crash";
  parts[0].signature = "bound:loss";
  parts[0].part_of = "bound:lse";
  parts[0].finding.shortcut = "logits rounded to bf16";
  for (const RankedFinding& ranked : RankFindings(findings, parts, {})) {
    EXPECT_EQ(ranked.shortcut,
              ranked.sighting.signature == "bound:lse" ? parts[0].finding.shortcut : "");
  }
}

}  // namespace
}  // namespace plumbline::fuzz
