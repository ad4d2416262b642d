# SPDX-License-Identifier: Apache-2.0
#
# The oracle's defects (oracle/defect.h), each in a program of its own. A program has the oracle's tests as they
# are, one file of the oracle compiled with the defect, and the rest from the archive, which the linker takes
# last. It must fail in a test of the suite named here, and must reach its summary: a crash does not count.
#
# The programs are compiled for the baseline instruction set alone and at -Og: no defect depends on either, and
# there are many of them.
function(plumbline_mutant defect source suite)
  set(program oracle_mutant_${defect})
  add_executable(${program} EXCLUDE_FROM_ALL
    $<TARGET_OBJECTS:oracle_test_objects> ${PROJECT_SOURCE_DIR}/oracle/${source})
  add_dependencies(mutation_programs ${program})
  target_compile_definitions(${program} PRIVATE PLUMBLINE_ORACLE_DEFECT=${defect} HWY_COMPILE_ONLY_STATIC)
  plumbline_test_code(${program})
  target_link_libraries(${program} PRIVATE
    plumbline_flags plumbline::oracle hwy::hwy GTest::gmock GTest::gtest_main)
  add_test(NAME ${program} COMMAND ${program} "--gtest_filter=${suite}.*:*/${suite}.*")
  set_tests_properties(${program} PROPERTIES LABELS mutation TIMEOUT ${PLUMBLINE_MUTANT_LIMIT} COST 5
    PASS_REGULAR_EXPRESSION "listed below:.*FAILED  . [A-Za-z/]*${suite}\\.")
endfunction()

plumbline_mutant(kNoPropagation budget/budget.cc SimulatedKernel)
plumbline_mutant(kNoLogError budget/budget.cc SimulatedKernel)
plumbline_mutant(kNoSummation budget/budget.cc SimulatedKernel)
plumbline_mutant(kNoDLogitsRounding budget/budget.cc SimulatedKernel)
plumbline_mutant(kNoOutputRounding budget/finish.cc SimulatedKernel)
plumbline_mutant(kNoLossSum budget/forward_elements.cc SimulatedKernel)
plumbline_mutant(kNoLabelLogit budget/budget.cc SimulatedKernel)
plumbline_mutant(kNoFlushedOperands budget/budget.cc SimulatedKernel)
plumbline_mutant(kNoLateUnderflow budget/budget.cc SimulatedKernel)
plumbline_mutant(kDivisionOfWeightsAlone budget/arithmetic.cc DeclaredLimits)
plumbline_mutant(kArgumentOfGap budget/column_terms.cc DeclaredLimits)
plumbline_mutant(kScaleOfLogitsAlone budget/arithmetic.cc DeclaredLimits)
plumbline_mutant(kUpstreamNeverOverflows budget/overflow.cc DeclaredLimits)
plumbline_mutant(kPlainSumNeverOverflows budget/budget.cc DeclaredLimits)
plumbline_mutant(kShortChain budget/budget.cc DeclaredLimits)
plumbline_mutant(kProbabilitiesAddUp budget/probability_errors.cc DeclaredLimits)
plumbline_mutant(kGradientSumIsExact budget/column_terms.cc SimulatedKernel)
plumbline_mutant(kCertificateTooWide budget/budget.cc SimulatedKernel)
plumbline_mutant(kNoTies budget/rounded_logits.cc SimulatedKernel)
plumbline_mutant(kOutputsAsTheyAre budget/forward_elements.cc SimulatedKernel)
plumbline_mutant(kVacuousIsHeld budget/forward_elements.cc StoredSteps)
plumbline_mutant(kOneRangeOfTwo budget/finish.cc StoredSteps)
plumbline_mutant(kLabelGradientIsExact budget/column_terms.cc StoredSteps)
plumbline_mutant(kDoubledLogprob budget/budget.cc SimulatedKernel)
plumbline_mutant(kLabelSign budget/budget.cc ClosedForms)
plumbline_mutant(kEntropySign budget/budget.cc Derivative)
plumbline_mutant(kInfiniteLabelStays budget/column_terms.cc WorstCases)
plumbline_mutant(kIgnoredRowCounted budget/inputs.cc ClosedForms)
plumbline_mutant(kSmallRadius budget/arithmetic.cc WorstCases)
plumbline_mutant(kNaNPasses verdict/verdict.cc Judge)
plumbline_mutant(kLatitudeForAll verdict/verdict.cc Judge)
