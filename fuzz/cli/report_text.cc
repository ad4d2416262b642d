// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/report_text.h"

#include <algorithm>
#include <cinttypes>
#include <map>

#include "fuzz/base/text.h"
#include "fuzz/campaign/search/assurance.h"

namespace plumbline::fuzz {
namespace {

double Seconds(std::chrono::milliseconds ms) { return std::chrono::duration<double>(ms).count(); }

double Percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

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
  const int64_t judged = tally.pass + tally.fail;
  if (tally.fail > 0)
    return Text("%s: %" PRId64 " of %" PRId64 " judged cases fail", target.c_str(), tally.fail, judged);
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
             "temperature were judged",
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
  return Table(rows);
}

}  // namespace

std::string VerdictLine(ExitStatus status, int64_t cases, int64_t findings) {
  return "plumb: verdict=" + std::string(Name(status)) +
         Text(" cases=%" PRId64 " findings=%" PRId64 " status=%d", cases, findings,
              static_cast<int>(status));
}

std::string StatusLine(const Progress& progress, size_t width) {
  int64_t cases = 0, skipped = 0;
  ElementCounts elements{};
  std::pair<std::string, double> tightest;
  for (const auto& [target, tally] : progress.targets) {
    cases += tally.cases;
    skipped += tally.skipped;
    AddCounts(tally.elements, &elements);
    for (const auto& [output, value] : tally.tightness) {
      if (tightest.first.empty() || value > tightest.second) tightest = {output, value};
    }
  }
  const double seconds = Seconds(progress.elapsed);
  std::string line = std::string(Name(progress.phase)) + Text("  %.0fs", seconds);
  if (progress.phase != Phase::kRecipe) line += " of " + Format(progress.budget);
  line +=
      Text("  %" PRId64 " cases  %.0f/s  %" PRId64 " findings", cases,
           static_cast<double>(cases - progress.cases_before) / std::max(progress.in_this_run, 1e-3),
           progress.findings);
  for (const std::string& activity : progress.activity) line += "  " + activity;
  if (!tightest.first.empty()) {
    line += "  error/allowed " + tightest.first + Text(" %.3g", tightest.second);
  }
  line += Text("  %" PRId64 " cells, last new %.0fs ago", progress.cells,
               std::max(0.0, seconds - Seconds(progress.newest)));
  line += Text("  %.1f%% vacuous  %" PRId64 " skipped",
               Percent(elements[2], elements[0] + elements[1] + elements[2] + elements[3]), skipped);
  if (width > 0 && line.size() > width) line.resize(width);
  return line;
}

std::string FindingBlock(const Sighting& sighting, int64_t number, std::string_view why,
                         std::string_view program, const std::filesystem::path& out, bool production) {
  const Finding& finding = sighting.kept ? sighting.kept->finding : sighting.finding;
  std::string text = Text("finding %" PRId64 ": ", number) + sighting.signature + " on " +
                     sighting.target +
                     Text(", case %" PRId64 " after %.1f s\n", sighting.item, sighting.seconds);
  text += "  regime   " + sighting.regime + (why.empty() ? "" : ": " + std::string(why)) + "\n";
  text += "  wrong    " + finding.what + "\n";
  if (!finding.arbiter.empty()) text += "           the arbiter's value: " + finding.arbiter + "\n";
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
    if (!t.file.empty()) {
      text +=
          "  again    " + ShellQuote(program) + " replay " + ShellQuote((out / t.file).string()) + "\n";
    }
  }
  if (!sighting.source.empty()) {
    return text + "  kept in  " + ShellQuote(program) + " replay " + ShellQuote(sighting.source) +
           " --target " + ShellQuote(sighting.target) + "\n";
  }
  text += std::string(sighting.kept && !sighting.kept->file.empty() ? "           " : "  again    ") +
          ShellQuote(program) + (production ? " fuzz --production --target " : " fuzz --target ") +
          ShellQuote(sighting.target) + " --recipe " + ShellQuote(sighting.recipe) + "\n";
  return text;
}

std::string SummaryText(const CampaignSummary& summary, std::string_view program) {
  std::string text;
  std::vector<std::vector<std::string>> rows = {
      {"target", "cases", "pass", "fail", "skipped", "vacuous", "findings"}};
  for (const auto& [target, tally] : summary.targets) {
    const auto findings = std::count_if(summary.sightings.begin(), summary.sightings.end(),
                                        [&t = target](const Sighting& s) { return s.target == t; });
    rows.push_back({target, std::to_string(tally.cases), std::to_string(tally.pass),
                    std::to_string(tally.fail), std::to_string(tally.skipped),
                    std::to_string(tally.vacuous), std::to_string(findings)});
  }
  text += Table(rows);
  for (size_t t = 0; t < summary.targets.size(); ++t) {
    const auto& [target, tally] = summary.targets[t];
    const RegimeYields yields = t < summary.yields.size() ? summary.yields[t] : RegimeYields{};
    if (!yields.empty()) text += "\n" + YieldTable(yields, FindingsOf(summary, target)) + "\n";
    text += target + ": largest error/allowed " + Tightness(tally.tightness) + "\n";
    text += Text(summary.options.production
                     ? "%s: the sweep on the host computed %" PRId64 " rows again%s\n"
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
      text +=
          Text("%s: %" PRId64 " cases were run twice because a worker died or passed its deadline\n",
               target.c_str(), tally.retried);
    }
    if (tally.faults > 0) {
      text += Text("%s: %" PRId64 " cases showed a fault of the harness, see ", target.c_str(),
                   tally.faults) +
              (summary.options.out / "faults").string() + "\n";
    }
    for (const auto& [signature, count] : tally.signatures) {
      text += Text("%s: %" PRId64 " cases show ", target.c_str(), count) + signature + "\n";
    }
    if (t < summary.coverage.size() && summary.coverage[t].cases > 0) {
      text += Coverage(target, summary.coverage[t], Seconds(summary.elapsed)) + "\n";
    }
    text += Verdict(target, tally, BlindCases(yields)) + "\n";
  }
  for (const Sighting& sighting : summary.sightings) {
    text += sighting.signature + " on " + sighting.target + ": " +
            (!sighting.kept                ? "not stored yet"
             : sighting.kept->file.empty() ? sighting.kept->note
                                           : (summary.options.out / sighting.kept->file).string()) +
            "\n";
  }
  if (!summary.options.out.empty()) {
    text += Text("seed %" PRIu64 ", %.1f s; everything lies in ", summary.options.seed,
                 Seconds(summary.elapsed)) +
            summary.options.out.string() + "\n";
    text += "this run: " + Describe(summary.time) + "\n";
  }
  if (summary.status == ExitStatus::kInterrupted) {
    text += "interrupted; go on with: " + ShellQuote(program) + " fuzz --resume " +
            ShellQuote(summary.options.out.string()) + "\n";
  }
  return text;
}

}  // namespace plumbline::fuzz
