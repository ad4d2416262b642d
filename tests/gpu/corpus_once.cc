// SPDX-License-Identifier: Apache-2.0
//
// usage: corpus_once FOLDER [BYTES [raw]]
//
// Runs every stored case below FOLDER on each path of the CUDA operator, in this process and in
// sequence, so that compute-sanitizer can watch it (`plumb replay` runs cases in worker processes, and
// judges them). Each runs by Forward and Backward with nothing kept, and by one of the other ways in
// which the operator may be called (kWays), which take turns: under racecheck each call takes long. A
// few problems of this program, which reach what no stored case does, run in every way that they are
// for on the paths of tensor cores. The outputs of a way must have the bits of the first, for the same
// form of keeping.
//
// Workspace and saved state have exactly the requested size and are poisoned; with `raw` they are left
// as they come from the driver, which initcheck needs. Cases that take more than BYTES of device memory
// (default 64 MiB) are left out and counted. The last line is one JSON object.
//
// Exit status: 0 if every call returned ok, touched nothing but its outputs and gave the bits of the
// others, 1 if not, 2 usage, 3 if no case was run, 4 if there is no device.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/examine/output_bits.h"
#include "fuzz/examine/placement.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "kernel/cuda/operator.h"
#include "tests/gpu/ways_once.h"
#include "tests/kernel/cuda/support/device_problem.h"

namespace plumbline {
namespace {

using kernel::CudaPath;

const char* NameOf(CudaPath path) {
  switch (path) {
    case CudaPath::kSimt:
      return "cuda-simt";
    case CudaPath::kPortable:
      return "cuda-portable";
    case CudaPath::kBest:
      return "cuda";
  }
  return "an unknown path";
}

// What a call gave.
struct Ran {
  std::vector<std::string> wrong;  // one line each
  fuzz::OutputBits bits;
};

Ran RunOnce(fuzz::Placement* placement, CudaPath path, const Way& way, int poison) {
  kernel::device::DeviceProblem device(placement->problem(), placement->results());
  kernel::Execution execution = kernel::device::OnDevice(path);
  execution.kept_form = way.form;
  execution.block_rows = way.block_rows;
  execution.saved_is_consumed = way.consumed;
  execution.saved_logits_bytes = execution.kept_logits_bytes = way.logits_bytes;
  Ran ran;
  kernel::Status status;
  bool intact = true;
  if (way.one_call) {
    size_t bytes = 0;
    status = kernel::cuda::GetForwardBackwardSize(device.problem(), device.results(), execution, &bytes,
                                                  way.chunk_columns);
    kernel::device::DeviceBuffer workspace(bytes, poison != kernel::device::kUnfilled);
    if (status.ok()) {
      status = kernel::cuda::ForwardBackward(device.problem(), device.results(), execution, {},
                                             workspace.data(), /*path=*/nullptr, way.chunk_columns);
    }
    kernel::device::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    intact = workspace.GuardsIntact();
  } else {
    kernel::device::DeviceCall call(device, execution, poison, way.chunk_columns);
    status = call.Run();
    intact = call.GuardsIntact();
  }
  if (status.ok()) {
    ran.wrong = device.Fetch();
  } else {
    ran.wrong.push_back(status.message);
  }
  if (!intact) ran.wrong.emplace_back("a guard band of workspace or saved state was written");
  ran.bits = fuzz::CopyBits(placement->results(), /*one_nan=*/true);
  return ran;
}

// Returns whether some row may have no part in grad_weight, whose bits blocks of rows then change.
bool MayDropRows(const fuzz::OwnedProblem& problem) {
  for (int64_t i = 0; i < problem.labels.size(); ++i) {
    if (!problem.IsClass(problem.labels.GetInt(i))) return true;
  }
  if (!problem.grad_logprob) return true;
  for (int64_t i = 0; i < problem.grad_logprob->size(); ++i) {
    if (problem.grad_logprob->GetFloat(i) == 0) return true;
  }
  return false;
}

// Runs a problem on a path, first with nothing kept, then by `count` ways from number `first` on.
// Returns what went wrong, one line each.
std::vector<std::string> RunWays(const fuzz::OwnedProblem& problem, CudaPath path, size_t first,
                                 size_t count, int poison) {
  constexpr const char* kOutputs[] = {"logprob",     "loss",        "entropy",          "lse",
                                      "grad_hidden", "grad_weight", "first_invalid_row"};
  fuzz::Placement placement(problem);
  std::vector<std::string> wrong;
  std::optional<fuzz::OutputBits> alike[2];  // with nothing kept, of either form
  const auto run = [&](const Way& way) {
    Ran ran = RunOnce(&placement, path, way, poison);
    for (const std::string& line : ran.wrong) wrong.push_back(std::string(way.name) + ": " + line);
    return ran.bits;
  };
  const auto reference = [&](kernel::KeptForm form) -> const fuzz::OutputBits& {
    std::optional<fuzz::OutputBits>& bits = alike[form == kLogits ? 1 : 0];
    if (!bits) bits = run({.name = "nothing kept", .form = form});
    return *bits;
  };
  reference(kernel::KeptForm::kDefault);
  for (size_t i = first; i < first + count; ++i) {
    const Way& way = kWays[i % std::size(kWays)];
    const fuzz::OutputBits &want = reference(way.form), got = run(way);
    for (size_t output = 0; output < std::size(kOutputs); ++output) {
      const bool other = way.block_rows > 0 && output == 5 && MayDropRows(problem);
      if (other || got.outputs[output] == want.outputs[output]) continue;
      wrong.push_back(std::string(way.name) + ": " + kOutputs[output] +
                      " has other bits than with nothing kept");
    }
  }
  return wrong;
}

size_t DeviceBytes(const fuzz::Placement& placement) {
  const kernel::Problem& problem = placement.problem();
  const kernel::Results& results = placement.results();
  size_t sum = 0;
  for (const auto& tensor : {problem.hidden, problem.weight, problem.labels})
    sum += kernel::device::ExtentBytes(tensor);
  for (const auto& tensor : {problem.temperature, problem.grad_logprob, problem.grad_entropy})
    if (tensor) sum += kernel::device::ExtentBytes(*tensor);
  for (const auto& tensor :
       {results.logprob, results.entropy, results.lse, results.grad_hidden, results.grad_weight})
    if (tensor) sum += kernel::device::ExtentBytes(kernel::AsConst(*tensor));
  return sum;
}

int Main(const std::filesystem::path& folder, size_t most, int poison) {
  const std::string why = kernel::device::WhyNoDevice();
  if (!why.empty()) {
    std::fprintf(stderr, "corpus_once: %s\n", why.c_str());
    return 4;
  }
  double longest = 0;
  std::string slowest;
  int64_t runs = 0, left_out = 0, wrong = 0, unread = 0;
  // Runs a problem by some of the ways, unless it is too large.
  const auto take = [&](const std::string& name, const fuzz::OwnedProblem& problem, CudaPath path,
                        size_t first, size_t count) {
    ++runs;
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& line : RunWays(problem, path, first, count, poison)) {
      ++wrong;
      std::printf("%s on %s, %s\n", name.c_str(), NameOf(path), line.c_str());
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (took.count() > 2) {  // a stopped run then shows where its time went
      std::printf("%s on %s: %.1f s\n", name.c_str(), NameOf(path), took.count());
      std::fflush(stdout);
    }
    if (took.count() > longest) {
      longest = took.count();
      slowest = name;
    }
  };
  const auto fits = [&](const fuzz::OwnedProblem& problem) {
    const bool small = DeviceBytes(fuzz::Placement(problem)) <= most;
    left_out += small ? 0 : 1;
    return small;
  };
  for (const OwnProblem& own : kProblems) {
    fuzz::Recipe recipe;
    std::string error;
    if (!fuzz::Parse(own.recipe, &recipe, &error)) throw std::runtime_error(error);
    const fuzz::OwnedProblem problem = fuzz::Expand(recipe);
    if (!fits(problem)) continue;
    if (own.chunk_columns > 0) {
      for (size_t i = 0; i < std::size(kWays); ++i) {
        if (kWays[i].chunk_columns == own.chunk_columns)
          take(own.recipe, problem, CudaPath::kBest, i, 1);
      }
      continue;
    }
    for (const CudaPath path : {CudaPath::kPortable, CudaPath::kBest})
      take(own.recipe, problem, path, 0, std::size(kWays));
  }
  const fuzz::CaseListing listing = fuzz::ListCases(folder);
  for (const std::string& line : listing.unreadable) {
    std::fprintf(stderr, "%s\n", line.c_str());
    ++unread;
  }
  size_t next = 0;  // way
  for (const std::filesystem::path& file : listing.files) {
    std::string error;
    const auto stored = fuzz::ReadCase(file, &error);
    if (!stored) {
      std::fprintf(stderr, "%s\n", error.c_str());
      ++unread;
      continue;
    }
    if (!fits(stored->problem)) continue;
    for (const CudaPath path : {CudaPath::kSimt, CudaPath::kPortable, CudaPath::kBest}) {
      take(file.filename(), stored->problem, path, next++, 1);
    }
    ++next;  // so that a path has each way in some case, whose number is a multiple of the paths'
  }
  fuzz::Json result;
  result["slowest"] = slowest;
  result["slowest_seconds"] = longest;
  result["runs"] = runs;
  result["left_out"] = left_out;
  result["unread"] = unread;
  result["wrong"] = wrong;
  std::printf("%s\n", result.Dump().c_str());
  return wrong + unread > 0 ? 1 : runs == 0 ? 3 : 0;
}

}  // namespace
}  // namespace plumbline

int main(int argc, char** argv) {
  char* end = nullptr;
  const size_t most = argc >= 3 ? std::strtoull(argv[2], &end, 10) : size_t{64} << 20;
  const bool raw = argc == 4 && std::string_view(argv[3]) == "raw";
  if (argc < 2 || argc > 4 || (argc == 4 && !raw) || (end != nullptr && *end != 0)) {
    std::fprintf(stderr, "usage: corpus_once FOLDER [BYTES [raw]]\n");
    return 2;
  }
  try {
    return plumbline::Main(argv[1], most, raw ? plumbline::kernel::device::kUnfilled : 0xff);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "corpus_once: %s\n", fault.what());
    return 1;
  }
}
