// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <gnu/libc-version.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "fuzz/base/fp_environment.h"
#include "fuzz/base/text.h"
#include "fuzz/base/version.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/gpu/probe/probe.h"

namespace plumbline::fuzz {
namespace {

// Returns the text after the colon of the first line of a /proc file that begins with `key`.
std::string ProcField(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

std::string Processor() {
  const std::string model = ProcField("/proc/cpuinfo", "model name");
  if (!model.empty()) return model;
  const std::string part = ProcField("/proc/cpuinfo", "CPU part");  // AArch64 kernels have this instead
  return part.empty() ? "not named by /proc/cpuinfo" : "part " + part;
}

std::string Disk() {
  std::error_code code;
  const std::filesystem::space_info space = std::filesystem::space(".", code);
  if (code) return code.message();
  return Text("%.1f GiB free here", static_cast<double>(space.available) / 0x1p30);
}

std::string Gpu() {
  std::string found;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", code)) {
    const std::string model = ProcField((entry.path() / "information").c_str(), "Model");
    found += (found.empty() ? "" : ", ") + (model.empty() ? "unnamed" : model);
  }
  const std::string driver = ProcField("/proc/driver/nvidia/version", "NVRM version");
  // The library is opened, not initialised: a device that hangs must not hang the doctor.
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) dlclose(library);
  if (found.empty() && driver.empty() && library == nullptr) return "none found";
  return (found.empty() ? "no device in /proc/driver/nvidia" : found) + "; driver " +
         (driver.empty() ? "unknown" : driver) +
         (library != nullptr ? "; libcuda present" : "; no libcuda");
}

// Prints the lines as they are measured, and adds them to the report. Returns the status that they end
// with.
ExitStatus Probe(const Console& console, Json* report, int64_t* findings) {
  ProbedDevice device;
  std::string reason;
  if (!DescribeDevice(&device, &reason)) {
    console.Complain("doctor --probe: " + reason);
    (*report)["probe"]["unavailable"] = reason;
    return ExitStatus::kUnavailable;
  }
  const auto version = [](int v) { return Text("%d.%d", v / 1000, v % 1000 / 10); };
  Json& json = (*report)["probe"];
  json["device"] = device.name;
  json["compute_capability"] = Text("%d.%d", device.major, device.minor);
  json["driver"] = ProcField("/proc/driver/nvidia/version", "NVRM version");
  json["cuda_driver"] = version(device.driver);
  json["cuda_runtime"] = version(device.runtime);
  console.Say("\n" + device.name + ", compute capability " + *json["compute_capability"].as_string() +
              ", CUDA driver " + version(device.driver) + ", runtime " + version(device.runtime) +
              "\n");
  int64_t kept = 0;
  try {
    ProbeDevice(device, [&](const ProbeLine& line) {
      json["lines"].Append(ToJson(line));
      *findings += line.kept == Kept::kNo;
      kept += line.kept == Kept::kYes;
      console.Say(Text("  %-11s %-34s claimed: %s; measured: %s\n",
                       std::string(Name(line.kept)).c_str(), line.what.c_str(), line.claim.c_str(),
                       line.measured.c_str()));
    });
  } catch (const CudaFault& fault) {
    console.Complain(std::string("doctor --probe: ") + fault.what());
    json["fault"] = fault.what();
    return ExitStatus::kFault;
  }
  return *findings > 0 ? ExitStatus::kFindings : kept > 0 ? ExitStatus::kClean : ExitStatus::kFault;
}

// `probe`: also measures whether the GPU keeps what the CUDA targets declare (fuzz/gpu/probe/probe.h).
// A claim that it does not keep is a finding; without a GPU the status is 4.
ExitStatus CommandDoctor(const Console& console, bool probe) {
  const std::string fault = FpEnvironmentFault();
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"plumb", std::string(kVersion)},
      {"cpu", Processor()},
      {"cores", std::to_string(std::thread::hardware_concurrency())},
      {"arithmetic", fault.empty() ? "subnormals kept, rounding to nearest even" : fault},
      {"compiler",
#if defined(__clang__)
       "clang " __clang_version__},
#else
       "g++ " __VERSION__},
#endif
      {"memory", ProcField("/proc/meminfo", "MemTotal") + " in all, " +
                     ProcField("/proc/meminfo", "MemAvailable") + " available"},
      {"disk", Disk()},
      {"libraries", std::string("glibc ") + gnu_get_libc_version() +
                        Text(", libstdc++ %d", _GLIBCXX_RELEASE) + Text(", DLPack %d", DLPACK_VERSION) +
                        ", CLI11 " CLI11_VERSION},
      {"gpu", Gpu()},
  };
  std::vector<std::vector<std::string>> rows;
  Json report;
  for (const auto& [key, value] : lines) {
    rows.push_back({key, value});
    report["machine"][key] = value;
  }
  console.Say(Table(rows));
  ExitStatus status = fault.empty() ? ExitStatus::kClean : ExitStatus::kFault;
  int64_t findings = 0;
  if (probe && status == ExitStatus::kClean) status = Probe(console, &report, &findings);
  return console.Finish(status, {.findings = findings}, std::move(report));
}

}  // namespace

void AddDoctor(CommandLine* line) {
  auto probe = std::make_shared<bool>(false);
  line->Add("doctor", "Describe this machine and check its arithmetic", "plumb doctor --json",
            [=] { return CommandDoctor(line->console, *probe); })
      ->add_flag("--probe", *probe,
                 "also measure whether the GPU keeps what the CUDA targets declare, under a minute");
}

}  // namespace plumbline::fuzz
