// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/infer_contracts.h"

#include <string>
#include <utility>

#include "fuzz/campaign/inference.h"
#include "fuzz/cli/inference_text.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"

namespace plumbline::fuzz {

ExitStatus InferContracts(const std::optional<bool>& infer, const Console& console,
                          CampaignOptions* options, std::string* error) {
  if (options->resume || options->production || !options->recipe.empty()) return ExitStatus::kClean;
  for (std::string& target : options->targets) {
    const std::string plain(SplitTarget(target).first);
    std::string contract(SplitTarget(target).second);
    if (contract.empty() ? !infer.value_or(IsPython(target)) : !infer.value_or(false)) {
      continue;
    }
    if (contract.empty()) {
      const ExitStatus status =
          UndeclaredContract(*options, target, *console.interrupt, &contract, error);
      if (status != ExitStatus::kClean) return status;
      if (contract.empty()) continue;
      console.Say("plumb: " + target + " declares no contract: it is held to " + contract +
                  ", fp32 from tensor cores\n");
    }
    if (contract.ends_with(".json") || contract.starts_with("own,")) {
      *error = "--infer: it goes on from a contract's name or words, not from " + contract;
      return ExitStatus::kUsage;
    }
    console.Say("plumb: what else " + target + " rounds is inferred\n");
    const std::string held = HeldTo(plain, contract);
    Inference inference = InferFor(*options, held, *console.interrupt);
    console.Say(InferenceText(inference));
    target = inference.incomplete.empty() ? HeldTo(plain, inference.contract) : held;
    options->inferred.push_back(std::move(inference));
  }
  return ExitStatus::kClean;
}

}  // namespace plumbline::fuzz
