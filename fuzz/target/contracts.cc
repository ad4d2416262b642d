// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target/contracts.h"

#include <algorithm>
#include <array>

#include "fuzz/base/regular_file.h"
#include "fuzz/target/contract_words.h"

namespace plumbline::fuzz {
namespace {

using oracle::Contract;

// CONTRACTS.md says where each value comes from.
constexpr std::array kContracts = {
    NamedContract{kBlackBox, "nothing is known: any dot product, common forms of softmax", "{}"},
    NamedContract{"tensor-core-fp32",
                  "fp32 from any tensor core: nothing but inputs and gradients in fewer bits; what a "
                  "Python function that declares no contract is held to",
                  R"({"d_logits": "fp32"})"},
    NamedContract{"fp32", "dot products in fp32, to nearest, in any order",
                  R"({"accumulate": "fp32"})"},
    NamedContract{"pytorch-fp32-logits",
                  "PyTorch eager on logits in fp32: log_softmax, -sum p ln p, d_logits in fp32",
                  R"({"accumulate": "fp32", "scale_roundings": 1, "scale_exact_powers": true,
                      "shift": "exact_max", "tile": 8, "tile_depth": 31, "rescales": 0,
                      "label_logit_separate": false, "recompute_same_bits": true,
                      "entropy_of_probabilities": true, "log_softmax_backward": true,
                      "d_logits": "fp32"})"},
    NamedContract{
        "pytorch-eager",
        "PyTorch eager, every tensor in the dtype of hidden: logits, logits / T, log_softmax, "
        "-sum p ln p, and autograd of these",
        R"({"scale_roundings": 1, "scale_exact_powers": true, "shift": "exact_max", "tile": 8,
                      "tile_depth": 31, "rescales": 0, "label_logit_separate": false,
                      "recompute_same_bits": true, "entropy_of_probabilities": true,
                      "log_softmax_backward": true, "logits": "input", "scaled_logits": "input",
                      "log_probs": "input", "probabilities": "input", "upstream_logprob": "input",
                      "upstream_entropy": "input", "outputs": {"logprob": "input", "loss": "input",
                      "entropy": "input", "lse": "input"}})"},
    NamedContract{"pytorch-upcast",
                  "PyTorch eager, logits in the dtype of hidden, upcast to fp32 before the softmax",
                  R"({"scale_roundings": 1, "scale_exact_powers": true, "shift": "exact_max", "tile": 8,
                      "tile_depth": 31, "rescales": 0, "label_logit_separate": false,
                      "recompute_same_bits": true, "entropy_of_probabilities": true,
                      "log_softmax_backward": true, "logits": "input"})"},
    NamedContract{"pytorch-cross-entropy",
                  "F.cross_entropy on logits in the dtype of hidden, without an upcast",
                  R"({"scale_roundings": 1, "scale_exact_powers": true, "shift": "exact_max", "tile": 8,
                      "tile_depth": 31, "rescales": 0, "label_logit_separate": false,
                      "recompute_same_bits": true, "log_softmax_backward": true, "logits": "input",
                      "log_probs": "input", "upstream_logprob": "input",
                      "outputs": {"logprob": "input", "loss": "input"}})"},
    NamedContract{"triton",
                  "a Triton kernel: tensor cores or FMA, 1/T and log2(e) in front of the maximum, "
                  "blocks of at least 16 columns",
                  R"({"scale": "before", "scale_roundings": 3, "tile": 16, "tile_depth": 15})"},
    NamedContract{"hopper",
                  "dot products of 16-bit inputs on Hopper's tensor cores, in one accumulator",
                  R"({"accumulate": "tensor_core", "block": 16, "extra_bits": 2})"},
    NamedContract{"cublas",
                  "logits from cuBLAS in fp32, split into at most 32 partial sums, kept; a softmax in "
                  "two passes",
                  R"({"accumulate": "unknown", "split": 32, "shift": "exact_max", "tile": 16,
                      "tile_depth": 15, "rescales": 0, "label_logit_separate": false,
                      "recompute_same_bits": true})"},
};

constexpr std::string_view kFile = ".json";
constexpr std::string_view kOwn = "own,";  // words after it are added to the target's own contract
constexpr uint64_t kMaxDescription = uint64_t{1} << 20;

const NamedContract* Find(std::string_view name) {
  const auto found = std::ranges::find(kContracts, name, &NamedContract::name);
  return found != kContracts.end() ? &*found : nullptr;
}

// Returns the contract of the description in a file; null where it has none.
std::optional<Json> ContractOfFile(const std::string& path, std::string* error) {
  const std::optional<std::string> text = ReadRegular(path, kMaxDescription, error);
  if (!text) return std::nullopt;
  std::string why;
  if (!ParseDescription(*text, &why)) {
    *error = path + ": " + why;
    return std::nullopt;
  }
  const std::optional<Json> json = Json::Parse(*text, &why);  // parsed once already
  const Json* contract = json->Find("contract");
  return contract != nullptr ? *contract : Json(Json::Object{});
}

}  // namespace

std::span<const NamedContract> NamedContracts() { return kContracts; }

std::string ContractNames() {
  std::string names;
  for (const NamedContract& contract : kContracts) names += std::string(contract.name) + ", ";
  return names +
         "words as in \"logits=bf16,matmul=tf32\", or the path of a description, which ends in "
         ".json";
}

std::optional<Json> ContractNamed(std::string_view name, std::string* error) {
  if (const NamedContract* named = Find(name)) return Json::Parse(named->json, error);
  if (IsContractWords(name)) {
    const size_t comma = name.find(',');
    const NamedContract* const base = Find(name.substr(0, comma));
    if (base != nullptr) name.remove_prefix(comma + 1);
    std::optional<Json> contract = Json::Parse(base != nullptr ? base->json : "{}", error);
    std::string why;
    if (contract && !ApplyContractWords(name, &*contract, &why)) {
      *error = "contract \"" + std::string(name) + "\": " + why;
      return std::nullopt;
    }
    return contract;
  }
  *error = "contract \"" + std::string(name) + "\" is unknown; there are " + ContractNames();
  return std::nullopt;
}

std::pair<std::string_view, std::string_view> SplitTarget(std::string_view name) {
  const size_t at = name.rfind('@');
  if (at == name.npos) return {name, {}};
  const std::string_view contract = name.substr(at + 1);
  const bool known =
      Find(contract) != nullptr || contract.ends_with(kFile) || IsContractWords(contract);
  if (!known) return {name, {}};
  return {name.substr(0, at), contract};
}

std::string HeldTo(std::string target, std::string_view contract) {
  if (contract.empty() || !SplitTarget(target).second.empty()) return target;
  return target + "@" + std::string(contract);
}

std::optional<std::string> WithContract(std::string_view description, std::string_view contract,
                                        std::string* error) {
  std::optional<Json> json = Json::Parse(description, error);
  if (!json || json->as_object() == nullptr) {
    *error = "description is not a JSON object";
    return std::nullopt;
  }
  std::optional<Json> wanted;
  if (contract.starts_with(kOwn)) {
    // A contract that is itself a name was resolved when the target was loaded.
    const Json* const own = json->Find("contract");
    wanted = own != nullptr ? *own : Json(Json::Object{});
    if (const std::string* name = wanted->as_string())
      wanted = ContractNamed(std::string(*name), error);
    if (!wanted || !ApplyContractWords(contract.substr(kOwn.size()), &*wanted, error))
      return std::nullopt;
  } else {
    wanted = contract.ends_with(kFile) ? ContractOfFile(std::string(contract), error)
                                       : ContractNamed(contract, error);
  }
  if (!wanted) return std::nullopt;
  (*json)["contract"] = *std::move(wanted);
  return json->Dump();
}

std::optional<NamedDescription> DescriptionOf(const std::string& contract, std::string* error) {
  std::optional<std::string> text;
  const bool named = Find(contract) != nullptr || IsContractWords(contract);
  if (named) {
    text = WithContract(R"({"name": "contract"})", contract, error);
  } else {
    text = ReadRegular(contract, kMaxDescription, error);
    if (!text) *error += "; named contracts are " + ContractNames();
  }
  if (!text) return std::nullopt;
  std::string why;
  std::optional<Description> description = ParseDescription(*text, &why);
  if (!description) {
    *error = contract + ": " + why;
    return std::nullopt;
  }
  const std::string name = named ? contract : description->name;
  return NamedDescription{name, *std::move(description)};
}

std::vector<std::string> NotShown(const Description& description) {
  const Contract& declared = description.contract;
  const Contract judged = description.Assumed();
  std::vector<std::string> lines;
  const auto may = [&](bool allowed, const char* line) {
    if (allowed) lines.emplace_back(line);
  };
  may(judged.accumulate == oracle::Accumulate::kUnknown,
      "dot products that truncate, or align their products, as any tensor core since Volta does");
  may(!judged.scale_exact_powers && !judged.plain_logprob,
      "x_y - lse in place of (x_y - m) - ln s: the roundings of scaled logits cover it");
  may(judged.scale_exact_powers && !declared.scale_exact_powers && !judged.plain_logprob,
      "x_y - lse in place of (x_y - m) - ln s where T is no power of two: the roundings of scaled "
      "logits cover it");
  may(!judged.exp_gradual, "exponentials below 2^-126 that are flushed to 0");
  may(judged.probability == oracle::Probability::kExpOfLse,
      "probabilities exp(x - lse), which do not add up to 1");
  may(judged.label_logit_separate, "a label logit that is not the one summed");
  may(judged.shift == oracle::Shift::kOther, "a maximum that is rounded before it is subtracted");
  may(!judged.d_logits, "d_logits rounded to the dtype of hidden");
  may(!judged.promises.signs, "a positive logprob or a negative entropy inside its bound");
  may(!judged.promises.definition, "another convention in what is no number");
  lines.insert(lines.end(), description.cannot_show.begin(), description.cannot_show.end());
  lines.emplace_back(
      "errors inside the bound, which grows with H and V: at H = 4096 a logprob may be off by 0.2");
  return lines;
}

}  // namespace plumbline::fuzz
