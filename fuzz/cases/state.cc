// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/state.h"

#include <array>
#include <cstddef>

namespace plumbline::fuzz {
namespace {

constexpr std::array<std::string_view, 7> kReplayed = {
    "still fails", "fails once", "fails differently", "passes", "skipped", "vacuous", "fault"};

bool Fails(Replayed replayed) {
  return replayed == Replayed::kFails || replayed == Replayed::kFailsOnce ||
         replayed == Replayed::kFailsDifferently;
}

}  // namespace

std::string_view Name(CaseState state) { return kCaseStateNames[static_cast<size_t>(state)]; }

std::string_view Name(Replayed replayed) { return kReplayed[static_cast<size_t>(replayed)]; }

CaseState After(CaseState state, Replayed replayed) {
  switch (state) {
    case CaseState::kNew:
      return replayed == Replayed::kFails ? CaseState::kConfirmed : state;
    case CaseState::kConfirmed:
      return replayed == Replayed::kPasses ? CaseState::kFixed : state;
    case CaseState::kFixed:
      return Fails(replayed)                 ? CaseState::kConfirmed
             : replayed == Replayed::kPasses ? CaseState::kRegression
                                             : state;
    case CaseState::kRegression:
      break;
  }
  return state;
}

bool CameBack(CaseState state, Replayed replayed) {
  return Fails(replayed) && (state == CaseState::kFixed || state == CaseState::kRegression);
}

}  // namespace plumbline::fuzz
