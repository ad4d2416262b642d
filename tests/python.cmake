# SPDX-License-Identifier: Apache-2.0
#
# The tests in Python, and those of scripts: of the benchmarks, the GPU acceptance, the pages and the tree.

find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
  foreach(name door running staging status steps)
    add_test(NAME gpu_accept_${name}_test
      COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/gpu/${name}_test.py)
    set_tests_properties(gpu_accept_${name}_test PROPERTIES LABELS harness TIMEOUT 600 COST 20)
  endforeach()
  foreach(path peers/command peers/measure peers/process peers/results peers/worker readme_numbers report/compare
          report/comparison_page report/figures report/history report/median_interval report/mutants
          report/pages report/public report/sight report/tables report/tightness run store/adapters
          store/compare store/carry store/check_dump store/false_alarms store/first_calls store/honest
          store/inference store/limited store/machine_code store/memory store/old_bugs store/planted_triton
          store/public_kernels store/record store/search store/speed store/stretch_bounds store/tail store/traffic store/trees
          store/triton_rate)
    string(REPLACE "/" "_" name ${path})
    add_test(NAME bench_${name}_test
      COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/bench/${path}_test.py)
    set_tests_properties(bench_${name}_test PROPERTIES LABELS harness TIMEOUT 300 COST 10
      ENVIRONMENT "PLUMBLINE_KERNEL_ARCHIVE=$<TARGET_FILE:plumbline_kernel>")
  endforeach()
  set_tests_properties(bench_store_old_bugs_test PROPERTIES LABELS "harness;slow")
  add_test(NAME blind_mutants_test COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/blind_mutants/measure_test.py)
  set_tests_properties(blind_mutants_test PROPERTIES LABELS harness TIMEOUT 300 COST 10)
  add_test(NAME setup_test COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/setup_test.py)
  # Targets in Python: the package as it lies in the build, in an interpreter that has what the test needs.
  if(TARGET plumbline_worker)
    # The packages that each cannot do without.
    set(packages_worker numpy)
    set(packages_probing numpy)
    set(packages_unexplained numpy)
    set(packages_api numpy)
    set(packages_dump numpy)
    set(packages_real_dump numpy)
    set(packages_rollout numpy)
    set(packages_shards numpy)
    set(packages_repro numpy mpmath)
    set(packages_pytest_plugin numpy pytest)
    set(packages_pages numpy)
    set(packages_report numpy)
    set(packages_report_shapes numpy)
    set(packages_progress numpy)
    set(packages_report_browser numpy jinja2 matplotlib)
    set(packages_wheel numpy)
    set(packages_workflow numpy)
    set(packages_capture torch numpy)
    set(packages_capture_page torch numpy)
    foreach(name worker letting_go probing unexplained api contract capture_start dump real_dump rollout shards progress report
            report_browser report_shapes repro pytest_plugin package pages wheel workflow)
      add_test(NAME python_${name}_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/python/run
        ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/python/${name}_test.py ${packages_${name}})
      set_tests_properties(python_${name}_test PROPERTIES LABELS harness TIMEOUT 600 COST 90)
    endforeach()
    add_test(NAME bench_store_sight_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/python/run
      ${CMAKE_CURRENT_SOURCE_DIR}/bench/store/sight_test.py numpy)
    set_tests_properties(bench_store_sight_test PROPERTIES LABELS harness TIMEOUT 300 COST 30 SKIP_RETURN_CODE 77
      ENVIRONMENT "PLUMBLINE_PYTHON_PACKAGE=${PROJECT_BINARY_DIR}/python")
    # Those that need PyTorch: in the interpreter that PLUMBLINE_TEST_TORCH names when they run, or tests/run's.
    set(packages_torch torch numpy)
    set(packages_triton torch triton liger_kernel)
    set(packages_adapters torch triton numpy)
    set(packages_tutorials torch triton numpy mpmath pytest)
    set(packages_device torch numpy)
    foreach(name torch triton adapters device capture capture_page tutorials)
      add_test(NAME python_${name}_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/python/run --torch
        ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/python/${name}_test.py ${packages_${name}})
      set_tests_properties(python_${name}_test PROPERTIES LABELS "harness;torch" TIMEOUT 1800 COST 120)
    endforeach()
    foreach(name operator corners compile gradients_in_forward module distributed target)
      add_test(NAME python_torch_${name}_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/python/run --torch
        ${CMAKE_CURRENT_SOURCE_DIR}/kernel/torch/${name}_test.py torch numpy)
      set_tests_properties(python_torch_${name}_test PROPERTIES LABELS "harness;torch" TIMEOUT 600 COST 60)
      list(APPEND torch_tests torch_${name})
    endforeach()
    add_test(NAME python_torch_device_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/python/run --torch
      ${CMAKE_CURRENT_SOURCE_DIR}/kernel/torch/device_test.py torch numpy)
    set_tests_properties(python_torch_device_test PROPERTIES LABELS "gpu;torch" TIMEOUT 900)
    list(APPEND torch_tests torch_device)
    # Benchmarks that train a model of some hundred words.
    foreach(name training rollout decoding)
      add_test(NAME python_bench_${name}_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/python/run --torch
        ${CMAKE_CURRENT_SOURCE_DIR}/bench/store/${name}_test.py torch numpy)
      set_tests_properties(python_bench_${name}_test PROPERTIES LABELS "harness;torch" TIMEOUT 600 COST 40)
      list(APPEND torch_tests bench_${name})
    endforeach()
    add_test(NAME python_torch_patches_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/python/run --torch
      ${CMAKE_CURRENT_SOURCE_DIR}/kernel/torch/patches_test.py torch numpy)
    set_tests_properties(python_torch_patches_test PROPERTIES LABELS "slow;torch" TIMEOUT 3600 COST 300)
    list(APPEND torch_tests torch_patches)
    # Fetches the package `kernels` on first use, and runs with the newest PyTorch where the cache has an environment of it.
    add_test(NAME python_torch_hub_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/python/run --torch
      ${CMAKE_CURRENT_SOURCE_DIR}/kernel/torch/hub_test.py torch numpy)
    set_tests_properties(python_torch_hub_test PROPERTIES LABELS "slow;torch" TIMEOUT 1800 COST 260)
    list(APPEND torch_tests torch_hub)
    foreach(name worker letting_go probing unexplained api contract capture_start dump real_dump rollout shards progress report
            report_browser report_shapes repro pytest_plugin package pages wheel torch triton
            adapters device capture capture_page tutorials ${torch_tests})
      set_tests_properties(python_${name}_test PROPERTIES SKIP_RETURN_CODE 77
        ENVIRONMENT "PLUMBLINE_PYTHON_PACKAGE=${PROJECT_BINARY_DIR}/python")
    endforeach()
    set_tests_properties(python_triton_test python_tutorials_test PROPERTIES LABELS "slow;torch")
    set_tests_properties(python_wheel_test PROPERTIES LABELS slow TIMEOUT 3600)  # it builds one
    set_tests_properties(python_progress_test python_unexplained_test python_report_browser_test PROPERTIES LABELS "harness;slow")
  endif()
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
