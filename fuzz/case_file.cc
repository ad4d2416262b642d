// SPDX-License-Identifier: Apache-2.0

#include "fuzz/case_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "fuzz/case_json.h"
#include "fuzz/recipe.h"
#include "fuzz/safetensors.h"

namespace plumbline::fuzz {
namespace {

constexpr std::string_view kKey = "case";

std::string TakeTensors(std::map<std::string, HostTensor>* tensors, OwnedProblem* p) {
  const auto take = [&](const char* name) -> std::optional<HostTensor> {
    auto node = tensors->extract(name);
    if (node.empty()) return std::nullopt;
    return std::move(node.mapped());
  };
  for (const auto& [name, tensor] : {std::pair("hidden", &p->hidden), std::pair("weight", &p->weight),
                                     std::pair("labels", &p->labels)}) {
    std::optional<HostTensor> taken = take(name);
    if (!taken) return "tensor \"" + std::string(name) + "\" is missing";
    *tensor = std::move(*taken);
  }
  p->temperature = take("temperature");
  p->grad_logprob = take("grad_logprob");
  p->grad_entropy = take("grad_entropy");
  if (!tensors->empty()) return "unknown tensor \"" + tensors->begin()->first + "\"";
  return {};
}

// A tensor without elements costs a file nothing, whatever its extents ([2^40, 0] is a valid weight
// that would be judged for ever), and padding none at all. Cases are held to the size that recipes are
// held to; of a wide stride (fuzz/placement.h) only what is touched counts, but it must fit in
// addresses.
std::string TooLarge(const OwnedProblem& p) {
  constexpr int64_t kMaxSpan = int64_t{1} << 36;
  const auto touched = [](int64_t stride) { return std::min<int64_t>(stride, 4096); };
  const int64_t n = p.rows(), h = p.hidden_size(), v = p.vocab();
  const bool hidden_major = p.layout.weight_hidden_major;
  struct Product {
    const char* what;
    int64_t count, stride;
  };
  for (const Product& product : {Product{"N*V", n, v},
                                 {"N*(H+padding)", n, h + touched(p.layout.hidden_padding)},
                                 {"weight with its padding", hidden_major ? h : v,
                                  (hidden_major ? v : h) + touched(p.layout.weight_padding)},
                                 {"N*label_stride", n, touched(p.layout.label_stride)},
                                 {"N*grad_stride", n, touched(p.layout.grad_stride)}}) {
    int64_t elements = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(product.count, 1),
                               std::max<int64_t>(product.stride, 1), &elements) ||
        elements > kMaxElements) {
      return std::string(product.what) + " = " + std::to_string(product.count) + "*" +
             std::to_string(product.stride) + " elements, above " + std::to_string(kMaxElements);
    }
  }
  const int64_t lines = std::max({n, hidden_major ? h : v, int64_t{1}});
  for (const int64_t stride : {p.layout.hidden_padding, p.layout.weight_padding, p.layout.label_stride,
                               p.layout.grad_stride}) {
    if (stride > kMaxSpan / lines) {
      return "a stride of " + std::to_string(stride) + " over " + std::to_string(lines) +
             " lines: more than 2^36 elements";
    }
  }
  return {};
}

// NaN equals NaN: JSON keeps that a value is NaN, not its payload.
bool Same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

bool Same(const Finding& a, const Finding& b) {
  return a.kind == b.kind && a.output == b.output && a.row == b.row && a.column == b.column &&
         Same(a.got, b.got) && Same(a.expected, b.expected) && Same(a.bound, b.bound) &&
         Same(a.tightness, b.tightness) && a.arbiter == b.arbiter && a.what == b.what;
}

std::string NamePart(std::string_view text) {
  constexpr size_t kMaxPart = 64;  // a plug-in's stem may fill a whole file name
  std::string part;
  for (const char c : text.substr(0, kMaxPart)) {
    if (c >= 'A' && c <= 'Z') {
      part += static_cast<char>(c - 'A' + 'a');
    } else {
      const bool allowed = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
      part += allowed ? c : '-';
    }
  }
  return part;
}

std::string TargetPart(const std::string& target) {
  constexpr std::string_view kPlugin = "plugin:";
  if (target.starts_with(kPlugin)) {
    return "plugin-" + NamePart(std::filesystem::path(target.substr(kPlugin.size())).stem().string());
  }
  return target.empty() ? "unknown" : NamePart(target);
}

uint32_t Fnv1a(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte b : bytes) hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001b3u;
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

std::string SystemError(const std::string& what, const std::filesystem::path& path) {
  return what + " " + path.string() + ": " + std::strerror(errno);
}

bool WriteAndSync(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return ::fsync(fd) == 0;
}

}  // namespace

bool Case::operator==(const Case& other) const {
  return problem == other.problem && target == other.target && why == other.why &&
         recipe == other.recipe && Same(finding, other.finding);
}

std::vector<std::byte> SerializeCase(const Case& c) {
  SafeTensors content;
  content.metadata[std::string(kKey)] = CaseToJson(c).Dump();
  content.tensors["hidden"] = c.problem.hidden;
  content.tensors["weight"] = c.problem.weight;
  content.tensors["labels"] = c.problem.labels;
  if (c.problem.temperature) content.tensors["temperature"] = *c.problem.temperature;
  if (c.problem.grad_logprob) content.tensors["grad_logprob"] = *c.problem.grad_logprob;
  if (c.problem.grad_entropy) content.tensors["grad_entropy"] = *c.problem.grad_entropy;
  return WriteSafeTensors(content);
}

std::optional<Case> ParseCase(std::span<const std::byte> bytes, std::string* error) {
  const auto refuse = [&](std::string why) {
    *error = std::move(why);
    return std::nullopt;
  };
  std::optional<SafeTensors> content = ReadSafeTensors(bytes, error);
  if (!content) return std::nullopt;
  const auto metadata = content->metadata.find(std::string(kKey));
  if (metadata == content->metadata.end())
    return refuse("metadata has no key \"case\": not a case file");
  std::string why;
  const std::optional<Json> json = Json::Parse(metadata->second, &why);
  if (!json) return refuse("metadata \"case\": " + why);

  Case c;
  if (why = CaseFromJson(*json, &c); !why.empty()) return refuse(why);
  if (why = TakeTensors(&content->tensors, &c.problem); !why.empty()) return refuse(why);
  if (const auto reason = Inconsistency(c.problem)) return refuse(*reason);
  if (why = TooLarge(c.problem); !why.empty()) return refuse(why);
  return c;
}

bool WriteCase(const std::filesystem::path& path, const Case& c, std::string* error) {
  static std::atomic<uint64_t> counter{0};
  std::filesystem::path temporary = path;
  temporary += "." + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
  const std::vector<std::byte> bytes = SerializeCase(c);

  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) {
    *error = SystemError("cannot create", temporary);
    return false;
  }
  bool written = WriteAndSync(fd, bytes);
  if (!written) *error = SystemError("cannot write", temporary);
  if (::close(fd) != 0 && written) {
    *error = SystemError("cannot close", temporary);
    written = false;
  }
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    *error = SystemError("cannot rename to", path);
    written = false;
  }
  if (!written) {
    ::unlink(temporary.c_str());
    return false;
  }
  // The rename itself must survive a crash too. Best effort: not every file system lets a folder sync.
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (const int dir = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
  return true;
}

std::optional<Case> ReadCase(const std::filesystem::path& path, std::string* error) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) {
    *error = path.string() + ": " + (code ? code.message() : "not a regular file");
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    *error = SystemError("cannot read", path);
    return std::nullopt;
  }
  std::string why;
  std::optional<Case> c = ParseCase(std::as_bytes(std::span(text)), &why);
  if (!c) *error = path.string() + ": " + why;
  return c;
}

std::string CaseFileName(const Case& c) {
  // Of the problem alone: the same minimised problem gets the same name whenever and however it was
  // found.
  Case content;
  content.problem = c.problem;
  const uint32_t hash = Fnv1a(SerializeCase(content));
  std::string digits;
  for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[(hash >> shift) & 15];
  return TargetPart(c.target) + "-" + NamePart(c.finding.Signature()) + "-" + digits + ".safetensors";
}

}  // namespace plumbline::fuzz
