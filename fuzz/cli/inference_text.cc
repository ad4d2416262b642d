// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/inference_text.h"

#include <cinttypes>

#include "fuzz/base/text.h"

namespace plumbline::fuzz {

std::string InferenceText(const Inference& inference) {
  if (!inference.incomplete.empty()) {
    return "  nothing was inferred: " + Printable(inference.incomplete) + "\n";
  }
  std::string text =
      Text("  %" PRId64 " of %" PRId64 " cases break it", inference.failing, inference.cases);
  if (inference.failing == 0) text += ": no shortcut is taken";
  if (inference.left > 0)
    text += Text("; %" PRId64 " more were not run, time was over", inference.left);
  text += "\n";
  for (const InferredShortcut& shortcut : inference.shortcuts) {
    text += "shortcut: " + shortcut.what + Text(": it explains %" PRId64 " cases", shortcut.cases);
    if (!shortcut.output.empty()) {
      text += Text(", %.3g in ", shortcut.error) + shortcut.output + " at most";
    }
    const bool has_key = !shortcut.declares.empty();
    text +=
        "\n  declares it    " + (has_key ? shortcut.declares : "no key does: it stays a bug") + "\n";
    if (!shortcut.recipe.empty()) text += "  shown by       --recipe '" + shortcut.recipe + "'\n";
  }
  if (!inference.shortcuts.empty()) text += "  held to        --contract " + inference.contract + "\n";
  if (inference.unexplained > 0) {
    text += Text("  %" PRId64 " cases are explained by no set of known shortcuts: bugs, to be hunted\n",
                 inference.unexplained);
  }
  return text;
}

}  // namespace plumbline::fuzz
