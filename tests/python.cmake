# SPDX-License-Identifier: Apache-2.0
#
# The tests in Python, and those of scripts: of the benchmarks, the GPU acceptance, the pages and the tree.

find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
  foreach(name running staging status steps)
    add_test(NAME gpu_accept_${name}_test
      COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/gpu/${name}_test.py)
    set_tests_properties(gpu_accept_${name}_test PROPERTIES LABELS harness TIMEOUT 600 COST 20)
  endforeach()
  foreach(path peers/command peers/measure peers/process peers/results readme_numbers report/compare report/figures
          report/history report/median_interval report/mutants report/pages report/tables report/tightness run
          store/carry store/check_dump store/honest store/limited store/machine_code store/record store/search store/trees)
    string(REPLACE "/" "_" name ${path})
    add_test(NAME bench_${name}_test
      COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/bench/${path}_test.py)
    set_tests_properties(bench_${name}_test PROPERTIES LABELS harness TIMEOUT 300 COST 10
      ENVIRONMENT "PLUMBLINE_KERNEL_ARCHIVE=$<TARGET_FILE:plumbline_kernel>")
  endforeach()
  add_test(NAME setup_test COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/setup_test.py)
  # Every option of the program is in a page for its users.
  add_test(NAME options_test
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/structure/options_test.py $<TARGET_FILE:plumb>)
  add_test(NAME flags_test
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/structure/flags_test.py ${PROJECT_BINARY_DIR})
  add_test(NAME functions_test COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/structure/functions_test.py)
  # The climbs of three ways through the tree, which may only become fewer.
  add_test(NAME walks COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/walks/walks.py --list)
  add_test(NAME walks_test COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/walks/walks_test.py)
  set_tests_properties(flags_test functions_test options_test setup_test walks walks_test PROPERTIES LABELS harness TIMEOUT 300)
  # A stored result that failed, or cannot be read, fails this test. One that is stale skips it: 77 (a warning).
  add_test(NAME stored_results_are_current COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/gpu/accept --status --strict)
  set_tests_properties(stored_results_are_current PROPERTIES LABELS harness SKIP_RETURN_CODE 77)
endif()
