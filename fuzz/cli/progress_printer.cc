// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/progress_printer.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "fuzz/base/json.h"
#include "fuzz/cli/status_line.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLineEvery{10'000}, kObjectEvery{1000};

}  // namespace

ProgressPrinter::ProgressPrinter(const Console& console)
    : console_(console),
      live_(!console.json && isatty(fileno(console.human())) == 1),
      next_(console.json ? kObjectEvery : kLineEvery) {}

void ProgressPrinter::Show(const Progress& progress) {
  if (live_) {
    console_.Say("\r\x1b[K" + StatusLine(progress, Width()));
    dirty_ = true;
    return;
  }
  if (progress.elapsed < next_) return;
  next_ = progress.elapsed + (console_.json ? kObjectEvery : kLineEvery);
  if (console_.json) {
    Json json;
    json["progress"] = ToJson(progress);
    console_.Say(json.Dump() + "\n");
  } else {
    console_.Say(StatusLine(progress) + "\n");
  }
}

void ProgressPrinter::Clear() {
  if (std::exchange(dirty_, false)) console_.Say("\r\x1b[K");
}

// Returns one column less than the terminal has now: a line that wraps cannot be written over.
size_t ProgressPrinter::Width() const {
  winsize size{};
  const bool known = ioctl(fileno(console_.human()), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : 80U) - 1U;
}

}  // namespace plumbline::fuzz
