// SPDX-License-Identifier: Apache-2.0
#include "fuzz/recipe/class.h"

#include "fuzz/recipe/regimes.h"
#include "kernel/dtype.h"

namespace plumbline::fuzz {
namespace {

const char* NameOf(const Recipe& r) {
  if (r.special != Special::kNone || r.labels == Labels::kInvalid) return "special";
  if (r.v >= kLargeVocabulary) return "large-vocabulary";
  switch (r.values) {
    case Values::kGaussian:
    case Values::kFullBits:
    case Values::kMassive:
      return "gaussian";
    case Values::kSmallLse:
    case Values::kAllNegative:
      return "shifted";
    case Values::kOffset:
    case Values::kLattice:
    case Values::kConstant:
    case Values::kRising:
    case Values::kFalling:
    case Values::kZigzag:
    case Values::kTies:
    case Values::kUlpApart:
    case Values::kLseZero:
    case Values::kEntropyTrap:
    case Values::kFar:
    case Values::kSignedZeros:
    case Values::kLowRank:
      return "exact";
    case Values::kConfident:
      return "confident";
    case Values::kCancel:
      return "cancellation";
    case Values::kSwallow:
    case Values::kSwallowFma:
    case Values::kSwallowTensor:
    case Values::kTruncate:
    case Values::kPositive:
      return "swallow";
    case Values::kSwallowSum:
      return "swallow-sum";
    case Values::kSwallowGrads:
      return "swallow-gradients";
    case Values::kSubnormal:
      return "subnormal";
    case Values::kHuge:
      return "huge";
    case Values::kOutlier:
      return "outlier";
    case Values::kBitPatterns:
    case Values::kAllExponents:
      return "range";
  }
  return "?";
}

}  // namespace

CaseClass ClassOf(const Recipe& r) {
  const bool fp32_grads = r.fp32_grads || r.dtype == kernel::DType::kF32;
  return {.name = NameOf(r),
          .aim = std::string(Name(AimOf(r.regime))),
          .dtype = std::string(kernel::Name(r.dtype)),
          .grads = std::string(kernel::Name(fp32_grads ? kernel::DType::kF32 : r.dtype))};
}

}  // namespace plumbline::fuzz
