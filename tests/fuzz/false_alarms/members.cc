// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/false_alarms/members.h"

#include <array>
#include <stdexcept>
#include <utility>

#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"
#include "fuzz/target/description.h"

namespace plumbline::false_alarms {
namespace {

using fuzz::Baseline, fuzz::Family, honest::Kernel, honest::Order, honest::Scale;

oracle::Contract ContractOf(const std::string& name) {
  std::string error;
  const auto named = fuzz::DescriptionOf(name, &error);
  if (!named) throw std::runtime_error(error);
  return named->description.Assumed();
}

// An order of sums under a named contract.
struct Form {
  const char* contract;
  const char* name;
  Kernel kernel;
  bool pairwise = false;
  bool beyond = false;
};

// Beyond the baselines: the contract allows it, no hardware that is known does it. z is divided by T
// before or after the maximum is subtracted: the contracts allow both. The parts of a split are added
// to nearest in fp32, and truncated on a tensor core.
constexpr std::array kForms = {
    Form{"black-box",
         "hopper-tiles-64",
         {.name = "a",
          .order = Order::kBlocks,
          .gradient_order = Order::kBlocks,
          .block = 16,
          .extra_bits = 2,
          .scale = Scale::kAfterDivided,
          .tile = 64,
          .lanes = 16}},
    Form{"black-box",
         "hopper-split-8",
         {.name = "b",
          .order = Order::kBlocks,
          .gradient_order = Order::kBlocks,
          .block = 16,
          .extra_bits = 2,
          .split = 8,
          .scale = Scale::kDivided,
          .tile = 256,
          .lanes = 32,
          .two_pass = true}},
    Form{"black-box",
         "ampere-tiles-256",
         {.name = "c",
          .order = Order::kBlocks,
          .gradient_order = Order::kBlocks,
          .tile = 256,
          .lanes = 32,
          .ratio = false}},
    Form{"black-box",
         "chain-reversed",
         {.name = "d",
          .order = Order::kReversed,
          .gradient_order = Order::kReversed,
          .scale = Scale::kAfterDivided,
          .tile = 64,
          .lanes = 4}},
    Form{"black-box",
         "chain-split-16",
         {.name = "e", .split = 16, .tile = 1024, .lanes = 32, .splits = 4, .merge_tree = true}},
    Form{"black-box", "pairwise", {.name = "f", .scale = Scale::kDivided, .two_pass = true}, true},
    Form{"black-box",
         "chain-truncated",
         {.name = "g",
          .order = Order::kTruncated,
          .gradient_order = Order::kTruncated,
          .scale = Scale::kAfterDivided},
         false,
         true},
    Form{"fp32", "pairwise", {.name = "h", .scale = Scale::kDivided, .tile = 64, .lanes = 16}, true},
    Form{"fp32",
         "split-4",
         {.name = "i", .split = 4, .scale = Scale::kAfterDivided, .tile = 256, .lanes = 8}},
    Form{"fp32", "split-64", {.name = "j", .split = 64, .tile = 64, .lanes = 1, .ratio = false}},
    Form{"fp32",
         "reversed",
         {.name = "k",
          .order = Order::kReversed,
          .gradient_order = Order::kReversed,
          .scale = Scale::kAfterDivided,
          .tile = 1024,
          .lanes = 32,
          .splits = 8,
          .merge_tree = true,
          .two_pass = true}},
    Form{"hopper",
         "tiles-64",
         {.name = "l",
          .order = Order::kBlocks,
          .gradient_order = Order::kBlocks,
          .block = 16,
          .extra_bits = 2,
          .scale = Scale::kAfterDivided,
          .tile = 64,
          .lanes = 16}},
    Form{"hopper",
         "tiles-256-splits-8",
         {.name = "m",
          .order = Order::kBlocks,
          .gradient_order = Order::kBlocks,
          .block = 16,
          .extra_bits = 2,
          .tile = 256,
          .lanes = 32,
          .splits = 8,
          .merge_tree = true,
          .ratio = false}},
};

}  // namespace

void Members::AddForeign() {
  for (const Kernel& kernel : honest::Kernels()) {
    if (kernel.RoundsSteps()) continue;
    std::string error;
    const auto description = fuzz::ParseDescription(honest::Description(kernel), &error);
    if (!description) throw std::runtime_error(std::string(kernel.name) + ": " + error);
    Member member;
    member.name = std::string("foreign:") + kernel.name;
    member.contract = description->Assumed();
    member.only_sixteen_bits = description->capabilities.dtypes.size() < 3;
    member.kernel = kernel;
    all_.push_back(std::move(member));
  }
}

void Members::AddForms() {
  for (const Form& form : kForms) {
    Member member;
    member.name = std::string(form.beyond ? "beyond:" : "form:") + form.contract + "/" + form.name;
    member.contract = ContractOf(form.contract);
    member.only_sixteen_bits = form.kernel.order == Order::kBlocks;
    member.kernel = form.kernel;
    member.pairwise = form.pairwise;
    all_.push_back(std::move(member));
  }
}

void Members::AddBaselines() {
  const std::string contract(fuzz::kBlackBox);
  const oracle::Contract held = ContractOf(contract);
  const Family family = fuzz::FamilyOf(held, kernel::DType::kBf16);
  for (size_t at = 0; at < family.baselines.size(); ++at) {
    const Baseline& baseline = family.baselines[at];
    if (baseline.dot == family.baselines.back().dot) continue;
    Member member;
    member.name = "baseline:" + contract + "/" + baseline.Name();
    member.contract = held;
    member.only_sixteen_bits = baseline.dot.kind == fuzz::Dot::Kind::kAligned;
    member.baseline = at;
    all_.push_back(std::move(member));
  }
}

void Members::AddTarget(const std::string& name) {
  std::string error;
  targets_.push_back(fuzz::LoadTarget(name, &error));
  if (!targets_.back()) throw std::runtime_error(error);
  Member member;
  member.name = "target:" + name;
  member.contract = targets_.back()->description().Assumed();
  member.only_sixteen_bits = targets_.back()->description().capabilities.dtypes.size() < 3;
  member.target = targets_.back().get();
  all_.push_back(std::move(member));
}

Members::Members() {
  AddForeign();
  AddForms();
  AddBaselines();
  for (const char* name : {"host", "host-hopper"}) AddTarget(name);
}

Baseline BaselineOf(const Member& member, kernel::DType inputs) {
  return fuzz::FamilyOf(member.contract, inputs).baselines[*member.baseline];
}

Family FamilyFor(const Member& member, kernel::DType inputs) {
  Family family = fuzz::FamilyOf(member.contract, inputs);
  if (!member.baseline) return family;
  const Baseline target = family.baselines[*member.baseline];
  std::erase_if(family.baselines, [&](const Baseline& each) { return each.dot == target.dot; });
  return family;
}

}  // namespace plumbline::false_alarms
