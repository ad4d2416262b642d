// SPDX-License-Identifier: Apache-2.0
//
// usage: corpus_once FOLDER [BYTES [raw]]
//
// Runs every stored case below FOLDER once on each path of the CUDA operator, in this process and in
// sequence, so that compute-sanitizer can watch it (`plumb replay` runs cases in worker processes, and
// judges them). Workspace and saved state have exactly the requested size and are poisoned; with `raw`
// they are left as they come from the driver, which initcheck needs. Cases that take more than BYTES of
// device memory (default 64 MiB) are left out and counted. The last line is one JSON object.
//
// Exit status: 0 if every call returned ok and touched nothing but its outputs, 1 if not, 2 usage, 3 if
// no case was run, 4 if there is no device.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/examine/placement.h"
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

// Returns what went wrong, one line each.
std::vector<std::string> RunOnce(fuzz::Placement* placement, CudaPath path, size_t saved_logits_bytes,
                                 int poison) {
  kernel::device::DeviceProblem device(placement->problem(), placement->results());
  kernel::Execution execution = kernel::device::OnDevice(path);
  execution.saved_logits_bytes = saved_logits_bytes;
  kernel::device::DeviceCall call(device, execution, poison);
  const kernel::Status status = call.Run();
  std::vector<std::string> wrong;
  if (status.ok()) {
    wrong = device.Fetch();
  } else {
    wrong.push_back(status.message);
  }
  if (!call.GuardsIntact()) wrong.emplace_back("a guard band of workspace or saved state was written");
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
  const fuzz::CaseListing listing = fuzz::ListCases(folder);
  for (const std::string& line : listing.unreadable) {
    std::fprintf(stderr, "%s\n", line.c_str());
    ++unread;
  }
  for (const std::filesystem::path& file : listing.files) {
    std::string error;
    const auto stored = fuzz::ReadCase(file, &error);
    if (!stored) {
      std::fprintf(stderr, "%s\n", error.c_str());
      ++unread;
      continue;
    }
    fuzz::Placement placement(stored->problem);
    if (DeviceBytes(placement) > most) {
      ++left_out;
      continue;
    }
    for (const CudaPath path : {CudaPath::kSimt, CudaPath::kPortable, CudaPath::kBest}) {
      ++runs;
      const auto start = std::chrono::steady_clock::now();
      for (const size_t logits : {size_t{0}, ~size_t{0}}) {
        for (const std::string& line : RunOnce(&placement, path, logits, poison)) {
          ++wrong;
          std::printf("%s on %s, logits %ssaved: %s\n", file.filename().c_str(), NameOf(path),
                      logits == 0 ? "not " : "", line.c_str());
        }
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (took.count() > 2) {  // a stopped run then shows where its time went
        std::printf("%s on %s: %.1f s\n", file.filename().c_str(), NameOf(path), took.count());
        std::fflush(stdout);
      }
      if (took.count() > longest) {
        longest = took.count();
        slowest = file.filename();
      }
    }
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
