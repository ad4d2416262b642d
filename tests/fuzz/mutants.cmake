# SPDX-License-Identifier: Apache-2.0
#
# The harness's own defects (fuzz/mutation.h), each in a program of its own: tests of the harness as they
# are, one file of it compiled with the defect, and the rest from the archive, which the linker comes to
# last. Such a program must fail, in the test that is named here, and reach its summary: a crash is not a
# failure of that kind.
#
# Compiled without much optimisation: what is planted does not depend on it, and there are many of them.
# Only the tests named are run. Workers are the program as it is built, without a defect.
# json.cc is the one file that includes it, and one of those compiled here.
find_package(nlohmann_json CONFIG REQUIRED)

function(plumbline_harness_mutant defect source test)
  set(program harness_mutant_${defect})
  add_executable(${program} $<TARGET_OBJECTS:harness_test_objects> ${PROJECT_SOURCE_DIR}/fuzz/${source})
  target_compile_definitions(${program} PRIVATE PLUMBLINE_HARNESS_DEFECT=${defect})
  target_compile_options(${program} PRIVATE -O1)
  target_link_libraries(${program} PRIVATE
    plumbline_flags plumbline::fuzz nlohmann_json::nlohmann_json GTest::gmock GTest::gtest_main)
  add_dependencies(${program} plumb)
  add_test(NAME ${program} COMMAND ${program} "--gtest_filter=${test}")
  set_tests_properties(${program} PROPERTIES LABELS mutation TIMEOUT ${PLUMBLINE_MUTANT_LIMIT}
    PASS_REGULAR_EXPRESSION "listed below:.*FAILED  . ${test}")
endfunction()

plumbline_harness_mutant(kNaNPasses compare_runs.cc Examined.AnOutputLeftUnwritten)
plumbline_harness_mutant(kSignOfZeroIgnored compare_runs.cc Examined.AZeroOfAnotherSignEachRun)
plumbline_harness_mutant(kFirstElementOnly compare_runs.cc Examined.OtherBitsEachRun)
plumbline_harness_mutant(kUnspecifiedPasses examine.cc ExaminedHost.WhatIsUnspecifiedIsNotPassed)
plumbline_harness_mutant(kOneSidedGuard placement.cc Placement.EveryForbiddenByteIsSeen)
plumbline_harness_mutant(kInputsNotCompared placement.cc Placement.WrittenInputsAreSeen)
plumbline_harness_mutant(kScratchNotInspected device_run.cc
                         DeviceRun.WritesAroundWorkspaceAndSavedStateAreSeen)
plumbline_harness_mutant(kLastErrorIgnored device_run.cc DeviceRun.AnErrorLeftBehindIsAFinding)
plumbline_harness_mutant(kArbiterIgnored second_opinion.cc SecondOpinionTest.ADisagreementNamesTheElement)
plumbline_harness_mutant(kDeathPasses worker_process.cc Workers.ACrashIsAFinding)
plumbline_harness_mutant(kHangPasses worker_process.cc Workers.AHangIsAFinding)
plumbline_harness_mutant(kKillIsBlamed case_runner.cc Workers.ADeathThatDoesNotHappenAgainIsMarked)
plumbline_harness_mutant(kOnceIsDropped case_runner.cc Workers.AFindingThatIsNotSeenAgainIsMarked)
plumbline_harness_mutant(kStartNotWritten journal.cc JournalTest.WhatIsWrittenComesBack)
plumbline_harness_mutant(kDoneBeforeSighting ledger.cc LedgerTest.WhatACaseShowedIsWrittenBeforeItsEnd)
plumbline_harness_mutant(kTornLineKept journal.cc JournalTest.ATornLastLineIsDroppedAndCutOff)
plumbline_harness_mutant(kCountedTwice journal.cc JournalTest.AnItemCountsOnce)
plumbline_harness_mutant(kLengthUnchecked safetensors.cc SafeTensors.RefusesLyingHeaders)
plumbline_harness_mutant(kOverlapAccepted safetensors.cc SafeTensors.RefusesLyingHeaders)
plumbline_harness_mutant(kDTypeUnchecked safetensors.cc SafeTensors.RefusesLyingHeaders)
plumbline_harness_mutant(kDuplicateKeys json.cc Json.RefusesWhatTheLibraryLetsPass)
plumbline_harness_mutant(kSignatureUnpinned pursuit.cc Pursuit.KeepsToTheFindingThatItBeganWith)
plumbline_harness_mutant(kPassingIsTaken shrink_session.cc Shrink.LargeValueAndRaggedVocabulary)
plumbline_harness_mutant(kTimeLimitIgnored shrink_session.cc Shrink.TimeLimitIsHeld)
plumbline_harness_mutant(kSkippedIsPassed tally.cc Tally.SkippedCasesAreInNoClass)
plumbline_harness_mutant(kVacuousIsPassed tally.cc Tally.VacuousCasesAreNotPassed)
