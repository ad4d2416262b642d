// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/false_alarms/tally.h"

#include <algorithm>
#include <cmath>

namespace plumbline::false_alarms {
namespace {

using fuzz::HonestUnits, fuzz::Json;

constexpr std::array kClasses = {8, 12, 16, 24, 32};
constexpr double kBinsAnOctave = 8, kLeastBin = -64;

// Three significant digits.
double Short(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double power = std::pow(10, 2 - std::floor(std::log10(x)));
  return std::round(x * power) / power;
}

std::string NameOf(const fuzz::OutputErrors& errors) {
  const std::string name(oracle::Name(errors.output));
  return errors.part.empty() ? name : name + ", " + std::string(errors.part);
}

Json OneOutput(uint64_t seed, const fuzz::OutputErrors& errors) {
  const HonestUnits& u = errors.units;
  return Json::Object{{"seed", static_cast<int64_t>(seed)},
                      {"output", NameOf(errors)},
                      {"units", u.units},
                      {"effective", Short(u.effective)},
                      {"ratios", Json::Array{Short(u.rms), Short(u.median), Short(u.largest)}}};
}

}  // namespace

int ClassOf(int64_t units) {
  int of = 0;
  for (const int least : kClasses) of = units >= least ? least : of;
  return of;
}

int BinOf(double ratio) {
  return static_cast<int>(std::max(kLeastBin, std::floor(kBinsAnOctave * std::log2(ratio))));
}

void Tally::Add(uint64_t seed, const std::vector<MemberErrors>& errors) {
  for (const MemberErrors& each : errors) {
    OfMember& of = of_[each.member];
    int64_t least = INT64_MAX;
    double largest = 0;
    const fuzz::OutputErrors* worst = nullptr;
    for (const fuzz::OutputErrors& output : each.outputs) {
      const HonestUnits& u = output.units;
      if (u.TooFew()) continue;
      least = std::min(least, u.units);
      Largest& ratios = of.outputs[NameOf(output)];
      ++ratios.count;
      const std::array found = {u.rms / u.Divisor(), u.median, u.largest / u.Divisor()};
      for (size_t i = 0; i < found.size(); ++i) ratios.ratios[i] = std::max(ratios.ratios[i], found[i]);
      if (worst == nullptr || u.Judged() > largest) worst = &output;
      largest = std::max(largest, u.Judged());
      if (u.Suspect()) of.suspect.push_back(OneOutput(seed, output));
    }
    if (worst == nullptr) continue;
    ++of.verdicts;
    ++of.classes[ClassOf(least)][BinOf(largest)];
    if (largest <= of.largest) continue;
    of.largest = largest;
    of.worst = OneOutput(seed, *worst);
  }
}

Json Tally::ToJson() const {
  Json to{Json::Object{}};
  for (const auto& [at, of] : of_) {
    Json member{Json::Object{}};
    member["verdicts"] = of.verdicts;
    for (const auto& [least, bins] : of.classes) {
      for (const auto& [bin, count] : bins) {
        member["classes"][std::to_string(least)][std::to_string(bin)] = count;
      }
    }
    for (const auto& [name, found] : of.outputs) {
      Json::Array values{found.count};
      for (const double ratio : found.ratios) values.emplace_back(Short(ratio));
      member["outputs"][name] = std::move(values);
    }
    if (of.verdicts > 0) member["worst"] = of.worst;
    if (!of.suspect.empty()) member["suspect"] = of.suspect;
    to[members_.all()[at].name] = std::move(member);
  }
  return to;
}

}  // namespace plumbline::false_alarms
