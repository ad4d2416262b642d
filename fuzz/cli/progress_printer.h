// SPDX-License-Identifier: Apache-2.0
//
// Prints how far a campaign is while it runs: on a terminal one line that is written over; elsewhere a
// line every ten seconds; with --json an object a second on stderr, {"progress": {…}} (status_line.h).

#pragma once

#include <chrono>
#include <cstddef>

#include "fuzz/campaign/progress.h"
#include "fuzz/cli/console.h"

namespace plumbline::fuzz {

class ProgressPrinter {
 public:
  explicit ProgressPrinter(const Console& console);

  void Show(const Progress& progress);
  // Removes the line from a terminal. Called before anything else is printed.
  void Clear();

 private:
  size_t Width() const;

  const Console& console_;
  const bool live_;
  bool dirty_ = false;
  std::chrono::milliseconds next_;
};

}  // namespace plumbline::fuzz
