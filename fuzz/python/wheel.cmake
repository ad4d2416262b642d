# SPDX-License-Identifier: Apache-2.0
# The program and the library as they go into a wheel, and the files beside them: PACKAGE.md.

option(PLUMBLINE_WHEEL "Build for a wheel: plumb without the system's C++ runtime, and the wheel's install rules" OFF)

# What the two take from a shared libhwy and from the newest glibc, as objects of their own.
add_library(plumbline_runtime OBJECT older_glibc.cc)
target_link_libraries(plumbline_runtime PRIVATE plumbline_flags hwy::hwy)
target_compile_options(plumbline_runtime PRIVATE -fvisibility=hidden)
get_target_property(highway_type hwy::hwy TYPE)
if(NOT highway_type STREQUAL "STATIC_LIBRARY" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  target_sources(plumbline_runtime PRIVATE highway_targets.cc)
endif()

# plumbline_own_runtime(TARGET): no shared library but those of glibc. --as-needed leaves libhwy out, because
# every symbol of it is defined before the linker comes to it.
function(plumbline_own_runtime target)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:plumbline_runtime>)
  target_link_options(${target} PRIVATE LINKER:--as-needed LINKER:--gc-sections -static-libstdc++ -static-libgcc)
endfunction()

plumbline_own_runtime(plumbline_worker)
if(NOT PLUMBLINE_WHEEL)
  return()
endif()
plumbline_own_runtime(plumb)

# The component alone is in the wheel. scikit-build-core adds the Python files and the licences (pyproject.toml).
install(TARGETS plumbline_worker LIBRARY DESTINATION plumbline COMPONENT wheel EXCLUDE_FROM_ALL)
install(TARGETS plumb RUNTIME DESTINATION plumbline/bin COMPONENT wheel EXCLUDE_FROM_ALL)
# The headers of a plug-in in C: `plumb plugin-flags` looks for them in a folder above the program.
install(FILES ${PROJECT_SOURCE_DIR}/fuzz/target_abi.h DESTINATION plumbline/include/plumbline/fuzz
        COMPONENT wheel EXCLUDE_FROM_ALL)
get_target_property(dlpack_folders dlpack::dlpack INTERFACE_INCLUDE_DIRECTORIES)
find_file(PLUMBLINE_DLPACK_HEADER dlpack/dlpack.h HINTS ${dlpack_folders} REQUIRED)
install(FILES ${PLUMBLINE_DLPACK_HEADER} DESTINATION plumbline/include/plumbline/dlpack
        COMPONENT wheel EXCLUDE_FROM_ALL)
