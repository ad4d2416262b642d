// SPDX-License-Identifier: Apache-2.0
//
// The instruction sets for which the vectorised files of the host implementation are compiled; each
// includes this before Highway. Disabled are vector sets without a fused multiply-add, because the
// scalar code is as good there, and those whose vectors have no size known at compile time.
//
// Include it before hwy/foreach_target.h. It holds two macros, so it has no include guard.

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#if defined(__clang__)
#define PLUMBLINE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PLUMBLINE_UNROLL _Pragma("GCC unroll 64")
#endif
