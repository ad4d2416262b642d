# SPDX-License-Identifier: Apache-2.0
#
# The harness's own defects (fuzz/base/harness_defect.h), each in a program of its own: tests of the harness as they
# are, the files that hold the defects, compiled with them, and the rest from the archive, which the linker comes
# to last. Such a program must fail, in the test that is named here, and reach its summary: a crash is not a
# failure of that kind.
#
# One file a program says which of the defects is the program's; all others are compiled once for all programs.
# A program links in 0.2 s of CPU and one of its files compiles in 1.7.
# Only the tests named are run. Workers are the program as it is built, without a defect.
# base/json.cc is the one file that includes it, and one of those compiled here.
find_package(nlohmann_json CONFIG REQUIRED)
add_library(harness_mutant_objects OBJECT EXCLUDE_FROM_ALL)
target_compile_definitions(harness_mutant_objects PRIVATE PLUMBLINE_HARNESS_DEFECTS)
target_link_libraries(harness_mutant_objects PRIVATE
  plumbline_flags plumbline::fuzz nlohmann_json::nlohmann_json GTest::gmock)
plumbline_test_code(harness_mutant_objects)
plumbline_unity(harness_mutant_objects)

function(plumbline_harness_mutant defect source test)
  set(program harness_mutant_${defect})
  get_target_property(sources harness_mutant_objects SOURCES)
  if(NOT ${PROJECT_SOURCE_DIR}/fuzz/${source} IN_LIST sources)
    target_sources(harness_mutant_objects PRIVATE ${PROJECT_SOURCE_DIR}/fuzz/${source})
  endif()
  add_executable(${program} EXCLUDE_FROM_ALL
    $<TARGET_OBJECTS:harness_test_objects> $<TARGET_OBJECTS:harness_mutant_objects> ${harness_defect})
  target_compile_definitions(${program} PRIVATE PLUMBLINE_HARNESS_DEFECTS PLUMBLINE_HARNESS_DEFECT=${defect})
  target_link_libraries(${program} PRIVATE plumbline_flags plumbline::fuzz GTest::gmock GTest::gtest_main ${ARGN})
  # The first definition counts, which is the objects': a member of the archive holds several sources.
  target_link_options(${program} PRIVATE -Wl,--allow-multiple-definition)
  add_dependencies(${program} plumb)
  add_dependencies(mutation_programs ${program})
  add_test(NAME ${program} COMMAND ${program} "--gtest_filter=${test}")
  set_tests_properties(${program} PROPERTIES LABELS mutation TIMEOUT ${PLUMBLINE_MUTANT_LIMIT})
  if(defect STREQUAL kNone)
    return()
  endif()
  set_property(TARGET harness_mutant_objects APPEND PROPERTY PLUMBLINE_TESTS ${test})
  set_tests_properties(${program} PROPERTIES PASS_REGULAR_EXPRESSION "listed below:.*FAILED  . ${test}")
endfunction()

plumbline_harness_mutant(kNaNPasses examine/compare_runs.cc Examined.AnOutputLeftUnwritten)
plumbline_harness_mutant(kSignOfZeroIgnored examine/compare_runs.cc Examined.AZeroOfAnotherSignEachRun)
plumbline_harness_mutant(kFirstElementOnly examine/compare_runs.cc Examined.OtherBitsEachRun)
plumbline_harness_mutant(kUnspecifiedPasses examine/examination.cc ExaminedHost.WhatIsUnspecifiedIsNotPassed)
plumbline_harness_mutant(kRelationNotCompared examine/relation.cc Relations.EachFindsWhatNoOtherCheckSees)
plumbline_harness_mutant(kRelationMassUnchecked examine/relation_columns.cc Relations.OurOwnTargetsViolateNone)
plumbline_harness_mutant(kRelationUntamed examine/relation_scaled.cc Relations.OurOwnTargetsViolateNone)
plumbline_harness_mutant(kConsistencyNotChecked examine/consistency_findings.cc
                         ConsistencyFindings.ShowWhatNoBoundShows)
plumbline_harness_mutant(kOneSidedGuard examine/placement.cc Placement.EveryForbiddenByteIsSeen)
plumbline_harness_mutant(kInputsNotCompared examine/placement.cc Placement.WrittenInputsAreSeen)
plumbline_harness_mutant(kScratchNotInspected examine/device_run.cc
                         DeviceRun.WritesAroundWorkspaceAndSavedStateAreSeen)
plumbline_harness_mutant(kLastErrorIgnored examine/device_run.cc DeviceRun.AnErrorLeftBehindIsAFinding)
plumbline_harness_mutant(kArbiterIgnored examine/second_opinion.cc SecondOpinionTest.ADisagreementNamesTheElement)
plumbline_harness_mutant(kSilenceIsKept examine/second_opinion.cc
                         SecondOpinionTest.WhatCostsTooMuchIsNotAskedNorCounted)
plumbline_harness_mutant(kAssumedNotJudged examine/tiers.cc Tiers.AnUnshiftedLogprobIsSuspect)
plumbline_harness_mutant(kSuspectIsWrong examine/tiers.cc Tiers.WhatIsDeclaredDecidesWhatIsWrong)
plumbline_harness_mutant(kUnusedShortcut baseline/explain.cc HonestErrors.ABugIsNoRounding plumbline_mutants)
plumbline_harness_mutant(kRowsLeftOut baseline/weight_columns.cc WeightColumns.HonestTargetsAreClean)
plumbline_harness_mutant(kDeathPasses worker/process.cc Workers.ACrashIsAFinding)
plumbline_harness_mutant(kHangPasses worker/process.cc Workers.AHangIsAFinding)
plumbline_harness_mutant(kKillIsBlamed worker/case_runner.cc Workers.ADeathThatDoesNotHappenAgainIsMarked)
plumbline_harness_mutant(kOnceIsDropped worker/case_runner.cc Workers.AFindingThatIsNotSeenAgainIsMarked)
plumbline_harness_mutant(kStartNotWritten campaign/journal.cc JournalTest.WhatIsWrittenComesBack)
plumbline_harness_mutant(kDoneBeforeSighting campaign/campaign_state.cc CampaignStateTest.WhatACaseShowedIsWrittenBeforeItsEnd)
plumbline_harness_mutant(kTornLineKept campaign/journal.cc JournalTest.ATornLastLineIsDroppedAndCutOff)
plumbline_harness_mutant(kCountedTwice campaign/journal.cc JournalTest.AnItemCountsOnce)
plumbline_harness_mutant(kLengthUnchecked problem/safetensors.cc SafeTensors.RefusesLyingHeaders)
plumbline_harness_mutant(kOverlapAccepted problem/safetensors.cc SafeTensors.RefusesLyingHeaders)
plumbline_harness_mutant(kDTypeUnchecked problem/safetensors.cc SafeTensors.RefusesLyingHeaders)
plumbline_harness_mutant(kDuplicateKeys base/json.cc Json.RefusesWhatTheLibraryLetsPass)
plumbline_harness_mutant(kSignatureUnpinned triage/reproduce/reproduction.cc Pursuit.KeepsToTheFindingThatItBeganWith)
plumbline_harness_mutant(kPassingIsTaken triage/shrink/session.cc Shrink.LargeValueAndRaggedVocabulary)
plumbline_harness_mutant(kTimeLimitIgnored triage/shrink/session.cc Shrink.TimeLimitIsHeld)
plumbline_harness_mutant(kShapesAreFree triage/shrink/session.cc ShrinkShapes.FewFirstCallsReachASmallProblem)
plumbline_harness_mutant(kRuleNotRefuted triage/shrink/extent_rule.cc ExtentRule.NoStatedRuleHasACounterexample)
plumbline_harness_mutant(kLinkIsCause triage/same_cause.cc SameCause.WhatNeedsMoreIsAnotherCause)
plumbline_harness_mutant(kCompanionIsOutput campaign/finding_groups.cc
                         FindingGroups.WhatTheShrunkProblemDoesNotShowIsAnotherFinding)
plumbline_harness_mutant(kShrinkingFirst campaign/shrink_schedule.cc ShrinkSchedule.TakesItsShare)
plumbline_harness_mutant(kLevelDropped campaign/search/covering.cc CoveringTest.EveryPairAndTripleIsPlannedInTime)
plumbline_harness_mutant(kSkippedIsPassed campaign/tally.cc Tally.SkippedCasesAreInNoClass)
plumbline_harness_mutant(kVacuousIsPassed campaign/tally.cc Tally.VacuousCasesAreNotPassed)
plumbline_harness_mutant(kKnownAcceptsAll campaign/known.cc Known.AnEntryAcceptsWhatItNamesAndNothingElse)
plumbline_harness_mutant(kFixedIsKept campaign/summary.cc GateTest.WhatIsAcceptedNeitherFailsNorHidesTheRest)
plumbline_harness_mutant(kWorkerIsShared campaign/worker_pool.cc GateTest.TheNumberOfJobsChangesNothing)

# The control: the same objects without a defect. Fails if one of the tests above fails by the way in which these
# programs are built, so that a defect would count as seen which no test sees.
get_target_property(tests harness_mutant_objects PLUMBLINE_TESTS)
list(REMOVE_DUPLICATES tests)
list(JOIN tests ":" tests)
plumbline_harness_mutant(kNone base/json.cc "${tests}" plumbline_mutants)
