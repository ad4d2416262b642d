// SPDX-License-Identifier: Apache-2.0

#include "fuzz/gpu/probe/probe.h"

#include <string>
#include <tuple>
#include <utility>

#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

using kernel::CudaPath, kernel::DType, kernel::Problem, kernel::Status;

constexpr int64_t kPairs = 1'000'000;  // for each instruction and dtype
constexpr int64_t kRows = 4608;  // for each path, dtype, depth and kind: 4.1e5 a line, 10^6 a path
constexpr uint64_t kSeed = 20261121;

kernel::ConstTensor OnDevice(kernel::ConstTensor tensor, const DeviceBytes& memory) {
  tensor.data = memory.data();
  return tensor;
}

Status RunOnDevice(CudaPath path, const Problem& problem, float* lse) {
  const int64_t n = problem.rows();
  const auto bytes = [](const kernel::ConstTensor& tensor) {
    return static_cast<size_t>(tensor.size()) * kernel::SizeOf(tensor.dtype);
  };
  const kernel::Execution execution{.device = kernel::Device::kCuda, .path = path};
  DeviceBytes hidden(bytes(problem.hidden)), weight(bytes(problem.weight)),
      labels(bytes(problem.labels)), output(static_cast<size_t>(n) * sizeof(float));
  hidden.Put(problem.hidden.data, bytes(problem.hidden));
  weight.Put(problem.weight.data, bytes(problem.weight));
  labels.Put(problem.labels.data, bytes(problem.labels));
  output.Fill(0xff);
  Problem there = problem;
  there.hidden = OnDevice(problem.hidden, hidden);
  there.weight = OnDevice(problem.weight, weight);
  there.labels = OnDevice(problem.labels, labels);
  kernel::Results results;
  results.lse = kernel::Tensor{output.data(), DType::kF32, 1, {n, 1}, {1, 1}};
  kernel::Sizes sizes;
  Status status = kernel::GetSizes(there, results, execution, &sizes);
  if (!status.ok()) return status;
  DeviceBytes workspace(sizes.workspace + 64), saved(sizes.saved + 64);
  workspace.Fill(0xff);
  saved.Fill(0xff);
  status = kernel::Forward(there, results, execution, workspace.data(), saved.data());
  if (status.ok()) output.Get(lse, static_cast<size_t>(n) * sizeof(float));
  return status;
}

ProbeLine Skipped(const std::string& what, const std::string& claim, const ProbedDevice& device,
                  const char* why) {
  return {.what = what,
          .claim = claim,
          .measured = Text("compute capability %d.%d %s", device.major, device.minor, why),
          .kept = Kept::kSkipped};
}

}  // namespace

std::string_view Name(Kept kept) {
  constexpr std::string_view kNames[] = {"kept", "not kept", "not claimed", "skipped"};
  return kNames[static_cast<int>(kept)];
}

Json ToJson(const ProbeLine& line) {
  Json json;
  json["what"] = line.what;
  json["claim"] = line.claim;
  json["measured"] = line.measured;
  json["verdict"] = Name(line.kept);
  json["samples"] = line.samples;
  json["wrong"] = line.wrong;
  json["worst_u"] = line.worst;
  return json;
}

ProbeLine JudgeSweep(std::string_view what, const FunctionSweep& sweep, double claim, bool ordered) {
  ProbeLine line;
  line.what = what;
  line.samples = sweep.arguments;
  line.wrong = sweep.wrong;
  line.worst = sweep.worst;
  line.claim = claim > 0 ? Text("within %g u", claim) : "";
  if (ordered) line.claim += line.claim.empty() ? "monotone" : ", monotone";
  if (line.claim.empty()) line.claim = "none";
  line.measured = Text("%.3f u at %a", sweep.worst, static_cast<double>(sweep.worst_at)) +
                  (sweep.rising == 0
                       ? ", monotone"
                       : Text(", %lld neighbours out of order", static_cast<long long>(sweep.rising)));
  if (sweep.wrong > 0) {
    line.measured += Text(", %lld wrong values, one at %a", static_cast<long long>(sweep.wrong),
                          static_cast<double>(sweep.wrong_at));
  }
  // An empty sweep, or a figure that is no number, keeps no claim.
  const bool kept = sweep.arguments > 0 && sweep.wrong == 0 && (!ordered || sweep.rising == 0) &&
                    (claim == 0 || sweep.worst <= claim);
  line.kept = kept ? Kept::kYes : Kept::kNo;
  if (claim == 0 && !ordered) line.kept = kept ? Kept::kNotClaimed : Kept::kNo;
  return line;
}

std::vector<ProbeLine> ProbeDevice(const ProbedDevice& device,
                                   const std::function<void(const ProbeLine&)>& progress) {
  std::vector<ProbeLine> lines;
  const auto add = [&](ProbeLine line) {
    progress(line);
    lines.push_back(std::move(line));
  };
  add(JudgeSweep("ex2.approx.ftz, all negative fp32", SweepExponential(kClaimedExponential),
                 kClaimedExponential, true));
  add(JudgeSweep("logf on [1, 2^32)", SweepLogarithm(), kClaimedLogarithm, false));
  ProbeLine fast = JudgeSweep("lg2.approx on [1, 2^32)", SweepFastLogarithm(), 0, false);
  fast.kept = Kept::kNotClaimed;  // the operator does not call it: this line shows why
  add(std::move(fast));
  add(JudgeSweep("1 / s on [1, 2^32)", SweepReciprocal(), 1, true));
  add(JudgeSweep("a / b, any finite pair", SampleDivision(), 1, false));

  for (const bool fp16 : {false, true}) {
    const std::string dtype = fp16 ? "fp16" : "bf16";
    // These are the instruction, true if the device has it, and the function that runs it.
    const std::tuple<std::string, bool, TileProducts> instructions[] = {
        {"mma.sync", device.major >= 8, MmaTiles}, {"wgmma", device.major == 9, WgmmaTiles}};
    for (const auto& [name, present, products] : instructions) {
      if (present) {
        add(ProbeTensorCore(name + " " + dtype, fp16, kPairs, kSeed + fp16, products));
      } else {
        add(Skipped(name + " " + dtype, "the model's bits", device, "has no such instruction"));
      }
    }
  }
  for (const CudaPath path : {CudaPath::kPortable, CudaPath::kBest}) {
    const std::string target = path == CudaPath::kBest ? "cuda" : "cuda-portable";
    for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
      const std::string what = target + " logits, " + std::string(kernel::Name(dtype));
      if (device.major < 8) {
        add(Skipped(what, "host-hopper's bits", device, "takes fused multiply-adds instead"));
        continue;
      }
      add(ProbeLogits(what, dtype, kRows, kSeed, [path](const Problem& problem, float* lse) {
        return RunOnDevice(path, problem, lse);
      }));
    }
  }
  return lines;
}

}  // namespace plumbline::fuzz
