// SPDX-License-Identifier: Apache-2.0
//
// What Highway's dynamic dispatch calls of libhwy: which instruction sets this CPU has, and which was
// chosen. A distribution's libhwy is a shared library that loads the system's libstdc++, so it can be
// neither in a wheel nor in an interpreter whose framework brings another libstdc++.

#include <hwy/targets.h>

#if !HWY_ARCH_X86
#error "the instruction sets of this architecture are not told apart here: link a static libhwy"
#endif

namespace hwy {
namespace {

// The compiler's own check looks at what the operating system saves of the registers, too.
bool HasSse4() {
  return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
         __builtin_cpu_supports("aes");
}

bool HasAvx2() {
  return __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool HasAvx3() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd");
}

bool HasAvx3Dl() {
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("vaes") && __builtin_cpu_supports("avx512vpopcntdq") &&
         __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("gfni");
}

// Each set is one more bit of the last. A set that only a newer Highway knows is not chosen.
int64_t Detect() {
  int64_t targets = HWY_STATIC_TARGET | HWY_EMU128 | HWY_SCALAR;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("ssse3")) return targets;
  targets |= HWY_SSSE3;
  if (!HasSse4()) return targets;
  targets |= HWY_SSE4;
  if (!HasAvx2()) return targets;
  targets |= HWY_AVX2;
  if (!HasAvx3()) return targets;
  targets |= HWY_AVX3;
  return HasAvx3Dl() ? targets | HWY_AVX3_DL : targets;
}

}  // namespace

int64_t SupportedTargets() {
  static const int64_t targets = Detect();
  return targets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
