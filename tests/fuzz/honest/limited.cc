// SPDX-License-Identifier: Apache-2.0
//
// A plug-in that is right (silent-flash) and can do no more than the environment says. It fails if it
// is asked for more, so a campaign on it has no finding unless the harness asked.
//
//   LIMITED_CAPABILITIES  JSON, its capabilities [{}]
//   LIMITED_COMPILE_MS    the first call of each shape in a process takes so long; others take 5 ms
//   LIMITED_COMPILE_FOR   "shapes" [default], or "classes": compiles as Triton does, for the dtypes,
//   the
//                         power of two from V on, up to 512, and whether an extent, a stride or an
//                         address is 1, a multiple of 16, or neither; forward and backward each
//   LIMITED_DEFECT        "M,R": logprob is off by one where V mod M is R
//   LIMITED_LOG           a file that is appended to at each call: "first" if its shape is new and it
//                         compiles, else "call"; the milliseconds; N, V and H

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fuzz/target_abi.h"

extern "C" int honest_run(const char* kernel, const plumbline_problem* problem,
                          plumbline_results* results, char* error, size_t capacity);

namespace {

std::string Variable(const char* name, const char* absent) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : absent;
}

// The value of an integer key of the capabilities, which are flat; `absent` if it is not there.
int64_t Limit(const char* key, int64_t absent) {
  static const std::string text = Variable("LIMITED_CAPABILITIES", "{}");
  const size_t at = text.find("\"" + std::string(key) + "\":");
  return at == text.npos ? absent : std::atoll(text.c_str() + text.find(':', at) + 1);
}
bool Has(const char* key) {
  static const std::string text = Variable("LIMITED_CAPABILITIES", "{}");
  return text.find("\"" + std::string(key) + "\":false") == text.npos;
}

bool Misplaced(const DLTensor* t) {
  if (t == nullptr) return false;
  const auto at = reinterpret_cast<uintptr_t>(t->data) + t->byte_offset;
  if (at % static_cast<uintptr_t>(Limit("base_alignment", 1)) != 0) return true;
  int64_t dense = 1;
  for (int d = t->ndim - 1; d >= 0; --d) {
    const int64_t stride = t->strides != nullptr ? t->strides[d] : dense;
    if (stride < 0 && !Has("negative_strides")) return true;
    dense *= t->shape[d];
  }
  if (t->ndim != 2 || t->strides == nullptr) return false;
  const int pitch = t->strides[1] == 1 ? 0 : 1;
  return t->shape[pitch] > 1 &&
         t->strides[pitch] * (t->dtype.bits / 8) % Limit("row_alignment", 1) != 0;
}

const char* Refusal(const plumbline_problem& p, const plumbline_results& r) {
  for (const DLTensor* t :
       {p.hidden, p.weight, p.labels, p.temperature, p.grad_logprob, p.grad_entropy,
        static_cast<const DLTensor*>(r.logprob), static_cast<const DLTensor*>(r.grad_hidden),
        static_cast<const DLTensor*>(r.grad_weight)}) {
    if (Misplaced(t)) return "limited: a tensor does not lie as declared";
  }
  const int64_t n = p.hidden->shape[0], h = p.hidden->shape[1], v = p.weight->shape[0];
  if (!Has("empty_extents") && (n == 0 || h == 0 || v == 0)) return "limited: an extent is 0";
  if (!Has("first_invalid_row") && r.first_invalid_row != nullptr) return "limited: first_invalid_row";
  if (n % Limit("rows_multiple", 1) != 0 || h % Limit("hidden_multiple", 1) != 0 ||
      v % Limit("vocab_multiple", 1) != 0) {
    return "limited: an extent is no multiple";
  }
  return nullptr;
}

// What Triton compiles for: an integer argument is 1, a multiple of 16, or neither.
int64_t ClassOf(int64_t value) { return value == 1 ? 1 : value % 16 == 0 ? 16 : 0; }

void AppendClass(const DLTensor* t, std::vector<int64_t>* key) {
  if (t == nullptr) return key->push_back(-1);
  key->push_back(t->dtype.code * 256 + t->dtype.bits);
  key->push_back((reinterpret_cast<uintptr_t>(t->data) + t->byte_offset) % 16 == 0);
  for (int d = 0; d < t->ndim; ++d) {
    key->push_back(t->strides != nullptr ? ClassOf(t->strides[d]) : 1);
  }
}

// The number of kernels that were not compiled before.
int64_t FirstCalls(const plumbline_problem& p, const plumbline_results& r) {
  static std::set<std::vector<int64_t>> compiled;
  static const bool classes = Variable("LIMITED_COMPILE_FOR", "shapes") == "classes";
  const int64_t n = p.hidden->shape[0], v = p.weight->shape[0], h = p.hidden->shape[1];
  if (!classes) return compiled.insert({n, v, h}).second;
  const int64_t columns = std::clamp<int64_t>(std::bit_ceil(static_cast<uint64_t>(v)), 16, 512);
  std::vector<int64_t> forward = {columns, ClassOf(n), ClassOf(v)};
  AppendClass(p.labels, &forward);
  forward.push_back(p.ignore_index == static_cast<int32_t>(p.ignore_index));
  std::vector<int64_t> backward = forward;
  AppendClass(p.grad_logprob, &backward);
  AppendClass(p.grad_entropy, &backward);
  AppendClass(r.grad_hidden, &backward);
  const int64_t first = compiled.insert(forward).second;
  return first + (r.grad_hidden != nullptr && compiled.insert(backward).second);
}

// Takes the time of a compiler at a first call.
void Compile(const plumbline_problem& p, const plumbline_results& r) {
  static const int64_t first_ms = std::atoll(Variable("LIMITED_COMPILE_MS", "0").c_str());
  const int64_t first = first_ms > 0 ? FirstCalls(p, r) : 0;
  const int64_t ms = first > 0 ? first * first_ms : first_ms > 0 ? 5 : 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  static const std::string log = Variable("LIMITED_LOG", "");
  std::FILE* const file = log.empty() ? nullptr : std::fopen(log.c_str(), "a");
  if (file == nullptr) return;
  std::fprintf(file, "%s %lld %lld %lld %lld\n", first > 0 ? "first" : "call",
               static_cast<long long>(ms), static_cast<long long>(p.hidden->shape[0]),
               static_cast<long long>(p.weight->shape[0]), static_cast<long long>(p.hidden->shape[1]));
  std::fclose(file);
}

void Spoil(const plumbline_problem& p, const plumbline_results& r) {
  static const std::string defect = Variable("LIMITED_DEFECT", "");
  long long modulus = 0, residue = 0;
  if (std::sscanf(defect.c_str(), "%lld,%lld", &modulus, &residue) != 2) return;
  if (r.logprob == nullptr || p.weight->shape[0] % modulus != residue) return;
  for (int64_t i = 0; i < r.logprob->shape[0]; ++i) {
    const int64_t stride = r.logprob->strides != nullptr ? r.logprob->strides[0] : 1;
    static_cast<float*>(r.logprob->data)[i * stride] += 1;
  }
}

const char* Describe() {
  static const std::string text =
      R"({"name":"limited","capabilities":)" + Variable("LIMITED_CAPABILITIES", "{}") + "}";
  return text.c_str();
}

int Run(const plumbline_problem* problem, plumbline_results* results, void*, char* error,
        size_t capacity) {
  if (const char* why = Refusal(*problem, *results)) {
    std::snprintf(error, capacity, "%s", why);
    return PLUMBLINE_FAILED;
  }
  Compile(*problem, *results);
  const int status = honest_run("silent-flash", problem, results, error, capacity);
  if (status == PLUMBLINE_OK) Spoil(*problem, *results);
  return status;
}

constexpr plumbline_target_v1 kTable = {PLUMBLINE_TARGET_ABI_VERSION,
                                        sizeof(plumbline_target_v1),
                                        Describe,
                                        Run,
                                        nullptr,
                                        nullptr,
                                        nullptr};

}  // namespace

extern "C" const plumbline_target_v1* plumbline_target() { return &kTable; }
