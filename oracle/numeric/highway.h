// SPDX-License-Identifier: Apache-2.0
//
// The instruction sets for which the vectorised files of the oracle are compiled; each includes this
// before Highway. AVX3_DL adds nothing that doubles use. SSSE3 and SSE4 have no fused multiply-add, so
// the baseline serves them as well. Vectors without a size at compile time cannot be kept in arrays.
//
// Include it before hwy/foreach_target.h. It holds one macro, so it has no include guard.

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#if defined(__clang__)
#define PLUMBLINE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PLUMBLINE_UNROLL _Pragma("GCC unroll 64")
#endif
