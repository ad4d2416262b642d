// SPDX-License-Identifier: Apache-2.0
//
// Checks what the compiler made of the Hopper kernels, in their machine code; needs no GPU. The faults
// change no result, only speed, so no other test would see them: products that are not wgmma; products
// that wait for each other because the compiler could not prove that nothing else touches their
// accumulators (ptxas C7510 and its kind); registers spilled inside the main loop; fences in it; warps
// that await the preceding grid while their block is still at work. One fault does change results, but
// only sometimes: a grid that lets the next one begin before it has awaited the one before.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline::kernel::cuda {
namespace {

struct Function {
  std::string name;
  std::vector<std::string> instructions;  // without addresses and encodings
};

// Lines look like "Function : NAME" and "/*ADDRESS*/   INSTRUCTION ;   /* ENCODING */".
std::vector<Function> Parse(const std::string& sass) {
  constexpr std::string_view kName = "Function : ", kBlank = " \t";
  std::vector<Function> functions;
  std::istringstream lines(sass);
  for (std::string line; std::getline(lines, line);) {
    if (const size_t name = line.find(kName); name != line.npos) {
      functions.push_back({line.substr(name + kName.size()), {}});
      continue;
    }
    const size_t address = line.find("/*"), start = line.find("*/"), end = line.find(';');
    if (functions.empty() || start == line.npos || end == line.npos || end < start) continue;
    if (line.find_first_not_of(kBlank) != address) continue;
    const size_t instruction = line.find_first_not_of(kBlank, start + 2);
    functions.back().instructions.push_back(line.substr(instruction, end - instruction));
  }
  return functions;
}

bool Contains(const std::string& text, const char* part) { return text.find(part) != text.npos; }

bool IsSweep(const Function& function) { return Contains(function.name, "SweepKernel"); }

// Returns "name: what" for each kernel whose main loop is not as it must be.
std::vector<std::string> FindViolations(const std::vector<Function>& functions) {
  std::vector<std::string> violations;
  for (const Function& function : functions) {
    const auto report = [&](const std::string& what) {
      violations.push_back(function.name + ": " + what);
    };
    size_t first = function.instructions.size(), last = 0, products = 0, copies = 0, multicasts = 0;
    size_t last_barrier = 0, last_await = 0;
    for (size_t i = 0; i < function.instructions.size(); ++i) {
      const std::string& text = function.instructions[i];
      copies += Contains(text, "UTMALDG") ? 1 : 0;
      multicasts += Contains(text, "UTMALDG") && Contains(text, "MULTICAST") ? 1 : 0;
      if (Contains(text, "UCGABAR_WAIT")) last_barrier = i;
      if (Contains(text, "ACQBULK")) last_await = i;
      if (!Contains(text, "HGMMA")) continue;
      first = std::min(first, i);
      last = i;
      ++products;
    }
    if (products == 0) {
      report("no HGMMA");
      continue;
    }
    if (copies == 0) report("no UTMALDG");
    // A part of the mangled name of a TileShape whose cluster is one block.
    const bool alone = Contains(function.name, "ELi1ELi1E");
    if (multicasts == 0 && !alone) report("no UTMALDG.MULTICAST");
    // Otherwise the neighbours of the issuing thread hold its warp, and a grid that began early waits.
    // In a sweep all threads await the preceding grid before they part.
    if (last_await < last_barrier && !IsSweep(function))
      report("ACQBULK before the cluster's last barrier");
    size_t waits = 0;
    for (size_t i = first; i <= last; ++i) {
      const std::string& text = function.instructions[i];
      waits += Contains(text, "WARPGROUP.DEPBAR") ? 1 : 0;
      for (const char* slow : {"LDL", "STL", "MEMBAR"}) {
        if (Contains(text, slow)) report(std::string(slow) + " in the main loop: " + text);
      }
    }
    // A stage has at least 4 products and one wait. The wait of the last stage lies behind the loop.
    if (4 * waits > products)
      report(std::to_string(waits) + " waits among " + std::to_string(products) + " products");
  }
  return violations;
}

// Returns the kernels that allow the next grid (PREEXIT) before the preceding one is awaited (ACQBULK).
// The next grid's wait is for the end of this one alone. What the grid before this one wrote is there
// only because this grid's blocks have passed their own wait first (support/overlap.cuh). A kernel that
// may begin beside the preceding grid jumps over the first wait, and awaits it at its end.
std::vector<std::string> AllowingTooEarly(const std::vector<Function>& functions) {
  std::vector<std::string> names;
  for (const Function& function : functions) {
    const auto first = [&](const char* what) {
      return std::ranges::find_if(function.instructions,
                                  [&](const std::string& text) { return Contains(text, what); });
    };
    const auto allow = first("PREEXIT");
    if (allow != function.instructions.end() && first("ACQBULK") > allow)
      names.push_back(function.name);
  }
  return names;
}

int64_t Having(const std::vector<Function>& functions, const char* what) {
  return std::ranges::count_if(functions, [&](const Function& function) {
    return std::ranges::any_of(function.instructions,
                               [&](const std::string& text) { return Contains(text, what); });
  });
}

std::vector<Function> MainLoops(const std::vector<Function>& functions) {
  std::vector<Function> loops;
  for (const Function& function : functions) {
    if (Contains(function.name, "hopper") &&
        (Contains(function.name, "ProductKernel") || IsSweep(function)))
      loops.push_back(function);
  }
  return loops;
}

// Returns what cuobjdump prints of an object with the option.
std::string PrintedOf(const std::string& object, const std::string& option) {
  const std::string program = PLUMBLINE_CUOBJDUMP;
  // cuobjdump looks for nvdisasm on the path.
  const std::string command = "PATH=$PATH:" + program.substr(0, program.rfind('/')) + " " + program +
                              " " + option + " " + object + " 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 1 << 16> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) != 0;)
    text.append(buffer.data(), n);
  pclose(pipe);  // after a failure kernels are missing, which is reported
  return text;
}

class HopperSass : public testing::Test {
 protected:
  // Calls f(object) for each of `objects`, paths with colons between them, or skips the test. The
  // objects are read, not the archive: cuobjdump takes seconds over the host's code in it.
  template <class F>
  void ForEachObject(const char* objects, F&& f) {
    if (!std::filesystem::exists(PLUMBLINE_CUOBJDUMP))
      GTEST_SKIP() << "cuobjdump is not installed (cmake -DPLUMBLINE_CUOBJDUMP=…)";
    std::istringstream list(objects);
    for (std::string object; std::getline(list, object, ':');) {
      if (!std::filesystem::exists(object)) GTEST_SKIP() << "this machine did not build " << object;
      f(object);
    }
  }
  // Disassembles the kernels of `objects`, or skips the test.
  void Disassemble(const char* objects) {
    std::string sass;
    ForEachObject(objects, [&](const std::string& object) { sass += PrintedOf(object, "-sass"); });
    functions = Parse(sass);
  }
  std::vector<Function> functions;
};

// Fails on a kernel that breaks a rule, and if kernels are no longer found. There are forward (nothing
// kept, with and without a moment; logits kept; exponents kept, with and without a moment) and d_logits
// (in planes, and through fp16) in two tiles each, grad_hidden in two tiles, grad_weight in three forms
// and that of a block of rows, and sweeps, all in two dtypes except the planes, exponents and the
// block, and four with planted defects.
TEST_F(HopperSass, MainLoopsAreAsTheyWereMeant) {
  Disassemble(PLUMBLINE_HOPPER_OBJECTS);
  if (IsSkipped()) return;
  const std::vector<Function> loops = MainLoops(functions);
  EXPECT_EQ(loops.size(), 41u);
  EXPECT_THAT(FindViolations(loops), testing::IsEmpty());
}

// Every kernel of the operator that has either instruction. FinishRows, FinishLoss, FinishGradient and
// AddStretches await alone. Fails if one lets the next grid begin too early, or if they are no longer
// found.
TEST_F(HopperSass, TheNextGridIsAllowedOnlyAfterThePrecedingOneIsAwaited) {
  Disassemble(PLUMBLINE_KERNEL_OBJECTS);
  if (IsSkipped()) return;
  EXPECT_EQ(Having(functions, "PREEXIT"), 48);
  EXPECT_EQ(Having(functions, "ACQBULK"), 52);
  EXPECT_THAT(AllowingTooEarly(functions), testing::IsEmpty());
}

// A device after 9.0 without machine code of its own translates the PTX of the highest version that it
// can run. Fails if that is less than 9.0: such kernels do not await the preceding grid, and on these
// devices begin before its end.
TEST_F(HopperSass, LaterDevicesTranslateKernelsThatAwait) {
  int with_ptx = 0;
  ForEachObject(PLUMBLINE_KERNEL_OBJECTS, [&](const std::string& object) {
    const std::string files = PrintedOf(object, "-lptx");
    if (!Contains(files, ".ptx")) return;
    ++with_ptx;
    EXPECT_TRUE(Contains(files, ".sm_90.ptx")) << object << ": " << files;
  });
  if (IsSkipped()) return;
  EXPECT_EQ(with_ptx, 9);
}

// Returns one function as cuobjdump prints it.
std::string Printed(const std::vector<std::string>& instructions) {
  std::string text = "\t\tFunction : _ZN9plumbline6kernel4cuda6hopper13ProductKernelIx\n";
  int address = 0;
  for (const std::string& instruction : instructions) {
    char line[200];
    std::snprintf(line, sizeof line, "        /*%04x*/                   %s ;   /* 0x000 */\n", address,
                  instruction.c_str());
    text += line;
    address += 16;
  }
  return text;
}

std::vector<std::string> Good() {
  return {"STL [R1], R4",
          "UTMALDG.3D [UR8], [UR14]",
          "UTMALDG.3D.MULTICAST [UR8], [UR14], UR13",
          "HGMMA.64x192x16.F32.BF16 R24, gdesc[UR8], R24, UP0",
          "HGMMA.64x192x16.F32.BF16 R24, gdesc[UR8], R24",
          "HGMMA.64x192x16.F32.BF16 R24, gdesc[UR8], R24",
          "HGMMA.64x192x16.F32.BF16 R24, gdesc[UR8], R24, gsb0",
          "WARPGROUP.DEPBAR.LE gsb0, 0x1",
          "LDL R4, [R1]",
          "UCGABAR_WAIT",
          "@P0 ACQBULK"};
}

// Each case fails if its rule is gone, or if the rule rejects what is right.
TEST(HopperSassRules, EveryOneCanFail) {
  EXPECT_THAT(FindViolations(Parse(Printed(Good()))), testing::IsEmpty());
  const auto with = [](size_t at, const std::string& instruction) {
    std::vector<std::string> text = Good();
    text.insert(text.begin() + static_cast<std::ptrdiff_t>(at), instruction);
    return FindViolations(Parse(Printed(text)));
  };
  const auto only = [](const char* what) { return testing::ElementsAre(testing::HasSubstr(what)); };
  EXPECT_THAT(with(5, "LDL R4, [R1]"), only("LDL in the main loop"));
  EXPECT_THAT(with(5, "@P0 STL [R1], R4"), only("STL in the main loop"));
  EXPECT_THAT(with(5, "@!P0 MEMBAR.ALL.GPU"), only("MEMBAR in the main loop"));
  std::vector<std::string> serial = Good();
  for (const size_t at : {6, 5, 4})
    serial.insert(serial.begin() + static_cast<std::ptrdiff_t>(at), "WARPGROUP.DEPBAR.LE gsb0, 0x0");
  EXPECT_THAT(FindViolations(Parse(Printed(serial))), only("3 waits among 4 products"));
  EXPECT_THAT(FindViolations(Parse(Printed({"HMMA.16816.F32.BF16 R4, R8, R12, R4"}))),
              only("no HGMMA"));
  std::vector<std::string> early = Good();
  std::swap(early[early.size() - 2], early.back());
  EXPECT_THAT(FindViolations(Parse(Printed(early))), only("ACQBULK before"));
  std::vector<std::string> alone = Good();
  alone.erase(alone.begin() + 2);
  EXPECT_THAT(FindViolations(Parse(Printed(alone))), only("no UTMALDG.MULTICAST"));
  const auto allowing = [](const std::vector<std::string>& text) {
    return AllowingTooEarly(Parse(Printed(text)));
  };
  EXPECT_THAT(allowing({"@P0 BRA 0x20", "ACQBULK", "PREEXIT", "ACQBULK"}), testing::IsEmpty());
  EXPECT_THAT(allowing({"ACQBULK"}), testing::IsEmpty());
  EXPECT_THAT(allowing({"PREEXIT", "ACQBULK"}), only("ProductKernel"));
  EXPECT_THAT(allowing({"PREEXIT"}), only("ProductKernel"));
}

}  // namespace
}  // namespace plumbline::kernel::cuda
