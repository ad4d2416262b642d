// SPDX-License-Identifier: Apache-2.0
//
// The plug-in of one kernel, named by HONEST_KERNEL. It includes no more, since there is one of it for
// each kernel.

#include "fuzz/target_abi.h"

extern "C" {

const char* honest_describe(const char* kernel);  // kernels.cc
int honest_run(const char* kernel, const plumbline_problem* problem, plumbline_results* results,
               char* error, size_t capacity);

static const char* Describe() { return honest_describe(HONEST_KERNEL); }

static int Run(const plumbline_problem* problem, plumbline_results* results, void*, char* error,
               size_t capacity) {
  return honest_run(HONEST_KERNEL, problem, results, error, capacity);
}

static const plumbline_target_v1 kTable = {PLUMBLINE_TARGET_ABI_VERSION,
                                           sizeof(plumbline_target_v1),
                                           Describe,
                                           Run,
                                           nullptr,
                                           nullptr,
                                           nullptr};

const plumbline_target_v1* plumbline_target() { return &kTable; }
}
