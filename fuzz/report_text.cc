// SPDX-License-Identifier: Apache-2.0
#include "fuzz/report_text.h"

#include <algorithm>
#include <cinttypes>

#include "fuzz/text.h"

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

Tally Total(const std::vector<std::pair<std::string, Tally>>& targets) {
  Tally total;
  for (const auto& [name, tally] : targets) total.Add(tally);
  return total;
}

bool IsNumber(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789.") == std::string::npos;
}

std::string Verdict(const std::string& target, const Tally& tally) {
  const int64_t judged = tally.pass + tally.fail;
  if (tally.fail > 0)
    return Text("%s: %" PRId64 " of %" PRId64 " judged cases fail", target.c_str(), tally.fail, judged);
  if (judged == 0) return target + ": no case was judged, so nothing is known";
  // The rule of three: (1 - p)^n = 0.05 at p = 3/n, nearly (Hanley and Lippman-Hand, JAMA 1983).
  return Text("%s: no failure in %" PRId64
              " cases: with 95 %% confidence under %.2g per case of this mix",
              target.c_str(), judged, std::min(1.0, 3.0 / static_cast<double>(judged)));
}

}  // namespace

std::string VerdictLine(ExitStatus status, int64_t cases, int64_t findings) {
  return "plumb: verdict=" + std::string(Name(status)) +
         Text(" cases=%" PRId64 " findings=%" PRId64 " status=%d", cases, findings,
              static_cast<int>(status));
}

std::string StatusLine(const Progress& progress) {
  const Tally total = Total(progress.targets);
  const double seconds = Seconds(progress.elapsed);
  std::string line =
      Text("%.0fs  %" PRId64 " cases  %.0f/s  %" PRId64 " findings", seconds, total.cases,
           static_cast<double>(total.cases) / std::max(seconds, 1e-3), progress.findings);
  // Before what is long: a terminal shows the first 118 characters.
  for (const std::string& activity : progress.activity) line += "  " + activity;
  line += "  error/allowed " + Tightness(total.tightness);
  const int64_t elements =
      total.elements[0] + total.elements[1] + total.elements[2] + total.elements[3];
  line += Text("  %.1f%% vacuous  %" PRId64 " skipped", Percent(total.elements[2], elements),
               total.skipped);
  return line;
}

std::string ShellQuote(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string FindingBlock(const Sighting& sighting, int64_t number, std::string_view why,
                         std::string_view program, const std::filesystem::path& out) {
  const Finding& finding = sighting.kept ? sighting.kept->finding : sighting.finding;
  std::string text = Text("finding %" PRId64 ": ", number) + sighting.signature + " on " +
                     sighting.target +
                     Text(", case %" PRId64 " after %.1f s\n", sighting.item, sighting.seconds);
  text += "  regime   " + sighting.regime + (why.empty() ? "" : ": " + std::string(why)) + "\n";
  text += "  wrong    " + finding.what + "\n";
  if (!finding.arbiter.empty()) text += "           the arbiter's value: " + finding.arbiter + "\n";
  if (sighting.kept) {
    const StoredFinding& t = *sighting.kept;
    text += Text("  shrunk   %" PRId64 " -> %" PRId64 " values in %.1f s (%" PRId64 " tried, %" PRId64
                 " kept%s)\n",
                 t.values_before, t.values_after, t.seconds, t.tried, t.accepted,
                 t.complete ? "" : ", stopped by a limit");
    if (!t.note.empty()) text += "           " + t.note + "\n";
    text +=
        "  again    " + ShellQuote(program) + " replay " + ShellQuote((out / t.file).string()) + "\n";
  }
  text += std::string(sighting.kept ? "           " : "  again    ") + ShellQuote(program) +
          " fuzz --target " + ShellQuote(sighting.target) + " --recipe " + ShellQuote(sighting.recipe) +
          "\n";
  return text;
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (IsNumber(row[c]) ? gap + row[c] : row[c] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
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
  for (const auto& [target, tally] : summary.targets) {
    text += target + ": largest error/allowed " + Tightness(tally.tightness) + "\n";
    text +=
        Text("%s: the arbiter was asked about %" PRId64 " elements%s\n", target.c_str(),
             tally.arbitrated, tally.arbitrated > 0 && tally.faults == 0 ? " and agrees on each" : "");
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
    text += Verdict(target, tally) + "\n";
  }
  for (const Sighting& sighting : summary.sightings) {
    text += sighting.signature + " on " + sighting.target + ": " +
            (sighting.kept ? (summary.options.out / sighting.kept->file).string() : "not stored yet") +
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
