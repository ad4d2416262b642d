// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/driver.h"
#include "kernel/cuda/paths.h"
#include "kernel/cuda/portable/launch.cuh"

namespace plumbline::kernel::cuda {
namespace {

template <class Element>
Status Forward(const Product& product, const SoftmaxEpilogue& epilogue, cudaStream_t stream) {
  return portable::Launch<Element, false, false>("forward", product, epilogue, stream);
}

template <class Element>
Status DLogits(const Product& product, const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream) {
  return portable::Launch<Element, false, false>("d_logits", product, epilogue, stream);
}

template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  return portable::Launch<Element, false, true>("grad_hidden", product, epilogue, stream);
}

template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  return portable::Launch<Element, true, true>("grad_weight", product, epilogue, stream);
}

template <class Element>
constexpr ProductKernels<Element> kKernels = {&Forward<Element>, &DLogits<Element>,
                                              &GradHidden<Element>, &GradWeight<Element>};

}  // namespace

const Path kPortablePath = {portable::kTile, kKernels<__nv_bfloat16>, kKernels<__half>};

}  // namespace plumbline::kernel::cuda
