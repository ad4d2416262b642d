// SPDX-License-Identifier: Apache-2.0

#include "bench/cuda/cublas_baseline.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "bench/cuda/softmax_gradient.h"

namespace plumbline::bench {

CublasBaseline::CublasBaseline(const OperatorRun& run, cudaStream_t stream)
    : stream_(stream),
      n_(static_cast<int64_t>(run.live_rows().size())),
      h_(run.shape().h),
      v_(run.shape().v),
      rows_(n_),
      labels_(n_),
      hidden_(n_ * h_),
      weight_(&run.weight()),
      g_(n_),
      k_(n_),
      logprob_(n_),
      largest_(n_),
      logits_(n_ * v_),
      d_logits_(n_ * v_),
      grad_hidden_(n_ * h_),
      grad_weight_(v_ * h_),
      cublas_(stream) {
  rows_.Put(run.live_rows());
  PickRows(run.hidden().data(), rows_.data(), n_, h_, hidden_.data(), stream_);
  PickRows(run.grad_logprob().data(), rows_.data(), n_, 1, g_.data(), stream_);
  PickRows(run.grad_entropy().data(), rows_.data(), n_, 1, k_.data(), stream_);
  PickRows(run.labels().data(), rows_.data(), n_, 1, labels_.data(), stream_);

  of_logits_ =
      cublas_.Choose({hidden_.data(), weight_->data(), logits_.data(), n_, v_, h_, false, true});
  SoftmaxGradient{logits_.data(),   labels_.data(),  g_.data(),      k_.data(), n_, v_,
                  d_logits_.data(), logprob_.data(), largest_.data()}
      .Enqueue(stream_);
  of_hidden_ = cublas_.Choose(
      {d_logits_.data(), weight_->data(), grad_hidden_.data(), n_, h_, v_, false, false});
  of_weight_ =
      cublas_.Choose({d_logits_.data(), hidden_.data(), grad_weight_.data(), v_, h_, n_, true, false});
}

void CublasBaseline::CheckLogprob(const OperatorRun& run) {
  Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  const std::vector<float> ours = run.logprob().Get(), entropy = run.entropy().Get(),
                           theirs = logprob_.Get(), largest = largest_.Get();
  for (size_t i = 0; i < theirs.size(); ++i) {
    const auto row = static_cast<size_t>(run.live_rows()[i]);
    // Rounding to bf16 moves a logit by at most 2^-8 of itself. It counts twice: in the label's logit,
    // and in the log of the sum over all.
    const float bound = 0x1p-7f * largest[i] + 0x1p-10f;
    if (!(std::abs(ours[row] - theirs[i]) <= bound) || !std::isfinite(entropy[row]))
      throw std::runtime_error("row " + std::to_string(row) + ": logprob " + std::to_string(ours[row]) +
                               ", of bf16 logits " + std::to_string(theirs[i]) + ", entropy " +
                               std::to_string(entropy[row]));
  }
}

void CublasBaseline::CheckGradients(const OperatorRun& run) {
  const auto compare = [&](const char* name, const DeviceArray<Bf16>& ours,
                           const DeviceArray<Bf16>& theirs) {
    const double ratio = std::sqrt(SumOfSquares(ours, stream_) / SumOfSquares(theirs, stream_));
    if (!(ratio > 0.9 && ratio < 1.1))
      throw std::runtime_error(std::string(name) + ": its norm is " + std::to_string(ratio) +
                               " of that of the products");
  };
  compare("grad_hidden", run.grad_hidden(), grad_hidden_);
  compare("grad_weight", run.grad_weight(), grad_weight_);
}

void CublasBaseline::Forward() { cublas_.Enqueue(of_logits_); }

void CublasBaseline::Backward() {
  cublas_.Enqueue(of_logits_);
  cublas_.Enqueue(of_hidden_);
  cublas_.Enqueue(of_weight_);
}

void CublasBaseline::ForwardBackward() {
  Forward();
  Backward();
}

double CublasBaseline::flop_of_a_product() const {
  return 2 * static_cast<double>(n_) * static_cast<double>(h_) * static_cast<double>(v_);
}

std::string CublasBaseline::choices_of_forward() const { return "logits: " + of_logits_.name; }

std::string CublasBaseline::choices() const {
  return choices_of_forward() + "; grad_hidden: " + of_hidden_.name +
         "; grad_weight: " + of_weight_.name;
}

}  // namespace plumbline::bench
