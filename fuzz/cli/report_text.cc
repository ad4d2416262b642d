// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/report_text.h"

#include <algorithm>
#include <cinttypes>
#include <map>

#include "fuzz/base/text.h"
#include "fuzz/campaign/search/assurance.h"
#include "fuzz/target/contracts.h"

namespace plumbline::fuzz {
namespace {

double Seconds(std::chrono::milliseconds ms) { return std::chrono::duration<double>(ms).count(); }

std::string Tightness(const std::map<std::string, double>& tightness) {
  std::string text;
  for (const auto& [output, value] : tightness)
    text += (text.empty() ? "" : " ") + output + Text("=%.3g", value);
  return text.empty() ? "none judged" : text;
}

int64_t BlindCases(const RegimeYields& yields) {
  int64_t blind = 0;
  for (const auto& [regime, yield] : yields) blind += yield.blind;
  return blind;
}

std::string Verdict(const std::string& target, const Tally& tally, int64_t blind) {
  const int64_t judged = tally.pass + tally.fail + tally.suspect;
  if (tally.fail > 0)
    return Text("%s: %" PRId64 " of %" PRId64 " judged cases fail", target.c_str(), tally.fail, judged);
  if (tally.suspect > 0) {
    return Text("%s: %" PRId64 " of %" PRId64 " judged cases are suspect, none is wrong",
                target.c_str(), tally.suspect, judged);
  }
  if (judged == 0) return target + ": no case was judged, so nothing is known";
  std::string text = Text("%s: no failure in %" PRId64 " judged cases", target.c_str(), judged);
  if (blind == 0) return text + ", none of them a blind draw: nothing is known of others";
  return text + Text("; from the %" PRId64
                     " blind ones: with 95 %% confidence under %.2g per case of this mix",
                     blind, RuleOfThree(blind));
}

std::string Coverage(const std::string& target, const CoverageReport& report, double elapsed) {
  std::string text = Text("%s: %" PRId64
                          " cells of outputs, classes and shapes were seen, the last new "
                          "one %" PRId64 " cases and %.1f s before the end",
                          target.c_str(), report.cells, report.cases_since_new,
                          std::max(0.0, elapsed - Seconds(report.newest)));
  if (report.blind > 0) {
    text += Text(
        "; a further blind case shows another with a chance of about %.2g, at most %.2g with "
        "95 %% confidence",
        report.chance.estimate, report.chance.at_most);
  }
  if (report.pairs > 0) {
    text +=
        Text("\n%s: covering: %" PRId64 " of %" PRId64 " pairs, %" PRId64 " of %" PRId64
             " triples of regime, shapes, dtype, layout, labels, gradients, reduction and "
             "temperature were judged in cases of the covering design",
             target.c_str(), report.pairs_judged, report.pairs, report.triples_judged, report.triples);
  }
  return text;
}

std::string YieldTable(const RegimeYields& yields, const std::map<std::string, int64_t>& findings) {
  std::vector<std::vector<std::string>> rows = {
      {"regime", "cases", "seconds", "findings", "new cells", "error/allowed", "fails below"}};
  for (const auto& [regime, yield] : yields) {
    const auto found = findings.find(regime);
    rows.push_back({regime, std::to_string(yield.cases), Text("%.1f", yield.seconds),
                    std::to_string(found != findings.end() ? found->second : 0),
                    std::to_string(yield.new_cells), Text("%.3g", yield.tightness),
                    yield.blind > 0 && yield.blind_fail == 0 ? Text("%.2g", RuleOfThree(yield.blind))
                                                             : std::string()});
  }
  return Table(rows) +
         "new cells: coarse kinds of results that no case before had shown; fails below: with 95 % "
         "confidence a blind case\nof the regime fails less often\n";
}

// Sums the table up.
std::string YieldLine(const std::string& target, const RegimeYields& yields) {
  int64_t cases = 0;
  for (const auto& [regime, yield] : yields) cases += yield.cases;
  return Text("%s: %" PRId64
              " cases of %zu regimes, each aimed at one way of being wrong; --verbose lists them\n",
              target.c_str(), cases, yields.size());
}

// What is known of one target.
std::string TargetText(const CampaignSummary& summary, size_t t, bool verbose) {
  std::string text;
  const auto& [target, tally] = summary.targets[t];
  const RegimeYields yields = t < summary.yields.size() ? summary.yields[t] : RegimeYields{};
  if (!yields.empty()) {
    text += verbose ? "\n" + YieldTable(yields, FindingsOf(summary, target)) + "\n"
                    : YieldLine(target, yields);
  }
  text += target + ": largest error/allowed " + Tightness(tally.tightness) + "\n";
  text +=
      Text(summary.options.production ? "%s: the sweep on the host computed %" PRId64 " rows again%s\n"
                                      : "%s: the arbiter was asked about %" PRId64 " elements%s\n",
           target.c_str(), tally.arbitrated,
           tally.arbitrated > 0 && tally.faults == 0 ? " and agrees on each" : "");
  const auto silent = std::count_if(
      summary.sightings.begin(), summary.sightings.end(), [&t = target](const Sighting& s) {
        return s.target == t && !(s.kept ? s.kept->finding : s.finding).arbiter_silent.empty();
      });
  if (silent > 0) {
    text += Text("%s: the arbiter was not asked about %td findings, each of which says why\n",
                 target.c_str(), silent);
  }
  for (const std::string& line : ConventionsOf(tally)) {
    text += target + ": convention: " + line + "\n";
  }
  for (const auto& [reason, count] : tally.skip_reasons) {
    text += Text("%s: %" PRId64 " skipped: ", target.c_str(), count) + reason + "\n";
  }
  if (tally.retried > 0) {
    text += Text("%s: %" PRId64 " cases were run twice because a worker died or passed its deadline\n",
                 target.c_str(), tally.retried);
  }
  if (tally.faults > 0) {
    text += Text("%s: %" PRId64 " cases showed a fault of the harness, see ", target.c_str(),
                 tally.faults) +
            (summary.options.out / "faults").string() + "\n";
  }
  std::string shown;
  for (const auto& [signature, count] : tally.signatures) {
    shown +=
        (shown.empty() ? ": cases by what they show: " : ", ") + signature + Text(" %" PRId64, count);
  }
  if (!shown.empty()) text += target + shown + "\n";
  if (t < summary.coverage.size() && summary.coverage[t].cases > 0) {
    text += Coverage(target, summary.coverage[t], Seconds(summary.elapsed)) + "\n";
  }
  const auto held_to = SplitTarget(target).second;
  for (const std::string& line : ProposalOf(tally, held_to.empty() ? kBlackBox : held_to)) {
    text += target + ": " + line + "\n";
  }
  if (t < summary.not_shown.size()) {
    for (const std::string& line : summary.not_shown[t])
      text += target + ": cannot show: " + line + "\n";
  }
  text += Verdict(target, tally, BlindCases(yields)) + "\n";
  if (summary.options.recipe.empty() && tally.Thinness() == ExitStatus::kThin) {
    text += target + ": too little was judged to call it clean: " + HowFewJudged(tally) + "\n";
  }
  return text;
}

// A line for each finding that is accepted, with the reason.
std::string KnownText(const CampaignSummary& summary) {
  std::string text;
  for (const auto& [key, i] : summary.accepted) {
    const KnownFinding& entry = summary.options.known[i];
    text += "known: " + key.second + " on " + key.first + ", by " + entry.Name() + ": " + entry.reason +
            " (" + entry.link + ", " + entry.date + ")\n";
  }
  return text;
}

}  // namespace

Counts CountsOf(const CampaignSummary& summary) {
  Counts counts{.findings = CountNotAccepted(summary)};
  for (const auto& [target, tally] : summary.targets) {
    counts.cases += tally.cases;
    counts.judged += tally.Judged();
  }
  return counts;
}

std::string VerdictLine(ExitStatus status, const Counts& counts) {
  return "plumb: verdict=" + std::string(Name(status)) +
         Text(" cases=%" PRId64 " judged=%" PRId64 " findings=%" PRId64 " status=%d", counts.cases,
              counts.judged, counts.findings, ProcessStatus(status));
}

std::string ReadingsText(const Finding& finding) {
  if (!finding.suspect) return {};
  std::string text;
  for (const SuspectReading& reading : finding.readings) {
    text += "           no defect if " + reading.what + ": declare " + reading.opt_out +
            " in its contract\n";
  }
  return text.empty() ? "           no single form that a contract can declare explains it\n" : text;
}

namespace {

// Lines of the explanation that narrow the finding down: those of an extent that may not be any.
std::string NeedsText(const StoredFinding& kept) {
  std::string text;
  for (const std::string& line : kept.explain) {
    const bool of_extent =
        line.starts_with("V: ") || line.starts_with("N: ") || line.starts_with("H: ");
    if (!of_extent || line.find(": any (") != std::string::npos) continue;
    text += (text.empty() ? "  needs    " : "; ") + line;
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::string FindingBlock(const RankedFinding& ranked, int64_t number, std::string_view purpose,
                         std::string_view program, const std::filesystem::path& out, bool production) {
  const Sighting& sighting = ranked.sighting;
  const Finding& finding = sighting.kept ? sighting.kept->finding : sighting.finding;
  std::string text = Text("finding %" PRId64 ": ", number) + finding.what + "\n";
  text += (finding.suspect ? "  suspect  " : "  wrong    ") + sighting.signature + " on " +
          sighting.target + "; " + Describe(ranked) + "\n" + ReadingsText(finding);
  if (!ranked.parts.empty()) text += "  also     " + Joined(ranked.parts) + "\n";
  if (sighting.kept) text += NeedsText(*sighting.kept);
  if (!ranked.shortcut.empty()) text += "  shortcut " + ranked.shortcut + " explains it\n";
  if (!finding.arbiter.empty()) text += "  arbiter  the value is " + finding.arbiter + "\n";
  if (!finding.arbiter_silent.empty()) {
    text += "           the arbiter was not asked: " + finding.arbiter_silent + "\n";
  }
  if (sighting.kept) {
    const StoredFinding& t = *sighting.kept;
    if (!production) {
      text += Text("  shrunk   %" PRId64 " -> %" PRId64 " values in %.1f s (%" PRId64 " tried, %" PRId64
                   " kept%s)\n",
                   t.values_before, t.values_after, t.seconds, t.tried, t.accepted,
                   t.complete ? "" : ", stopped by a limit");
    }
    if (!t.note.empty()) text += "           " + t.note + "\n";
  }
  text += "  drawn by " + sighting.regime + (purpose.empty() ? "" : ": " + std::string(purpose)) +
          Text(" (case %" PRId64 ", %.1f s)\n", sighting.item, sighting.seconds);
  const bool stored = sighting.kept && !sighting.kept->file.empty();
  if (stored) {
    text += "  again    " + ShellQuote(program) + " replay " +
            ShellQuote((out / sighting.kept->file).string()) + "\n";
  }
  if (!sighting.source.empty()) {
    return text + "  kept in  " + ShellQuote(program) + " replay " + ShellQuote(sighting.source) +
           " --target " + ShellQuote(sighting.target) + "\n";
  }
  text += std::string(stored ? "           " : "  again    ") + ShellQuote(program) +
          (production ? " fuzz --production --target " : " fuzz --target ") +
          ShellQuote(sighting.target) + " --recipe " + ShellQuote(sighting.recipe) + "\n";
  return text;
}

std::string NotesText(const CampaignSummary& summary) {
  std::string text;
  text += KnownText(summary);
  if (!summary.wrong_slips.empty() || !summary.suspect_slips.empty()) {
    text +=
        "slips/ holds smaller cases that failed in another way while a finding was shrunk; no drawn "
        "case shows them:\n";
  }
  for (const std::string& file : summary.wrong_slips) {
    text += "    wrong: " + file + "\n";
  }
  for (const std::string& file : summary.suspect_slips) {
    text += "    suspect: " + file + "\n";
  }
  for (const std::string& line : summary.unreadable) text += "not replayed: " + line + "\n";
  return text;
}

std::string SummaryText(const CampaignSummary& summary, std::string_view program, bool verbose) {
  std::string text;
  std::vector<std::vector<std::string>> rows = {
      {"target", "cases", "pass", "wrong", "suspect", "skipped", "vacuous", "findings"}};
  for (const auto& [target, tally] : summary.targets) {
    const auto findings = std::count_if(summary.sightings.begin(), summary.sightings.end(),
                                        [&t = target](const Sighting& s) { return s.target == t; });
    rows.push_back({target, std::to_string(tally.cases), std::to_string(tally.pass),
                    std::to_string(tally.fail), std::to_string(tally.suspect),
                    std::to_string(tally.skipped), std::to_string(tally.vacuous),
                    std::to_string(findings)});
  }
  text += Table(rows);
  for (size_t t = 0; t < summary.targets.size(); ++t) text += TargetText(summary, t, verbose);
  for (const RankedFinding& finding : summary.ranking) {
    const Sighting& sighting = finding.sighting;
    text += sighting.signature + " on " + sighting.target + ", " + Describe(finding) +
            (finding.parts.empty() ? "" : ", also " + Joined(finding.parts)) + ": " +
            (!sighting.kept                ? "not stored yet"
             : sighting.kept->file.empty() ? sighting.kept->note
                                           : (summary.options.out / sighting.kept->file).string()) +
            "\n";
  }
  text += NotesText(summary);
  if (!summary.options.out.empty()) {
    text += Text("seed %" PRIu64 ", %.1f s; everything lies in ", summary.options.seed,
                 Seconds(summary.elapsed)) +
            summary.options.out.string() + "\n";
    text += "this run: " + Describe(summary.time) + "\n";
    constexpr int64_t kProposedLag = 16;
    const bool waits = summary.time.waiting > summary.time.Total() / 5;
    if (waits && !summary.options.gate && summary.options.lag < kProposedLag)
      text += Text("jobs waited for slow cases: a campaign with --lag %" PRId64 " waits less\n",
                   kProposedLag);
  }
  if (summary.status == ExitStatus::kInterrupted) {
    text += "interrupted; go on with: " + ShellQuote(program) + " fuzz --resume " +
            ShellQuote(summary.options.out.string()) + "\n";
  }
  return text;
}

}  // namespace plumbline::fuzz
