// SPDX-License-Identifier: Apache-2.0
#include "tests/structure/checker.h"

#include <algorithm>
#include <map>
#include <regex>

#include "tests/structure/room_table.h"
#include "tests/structure/text.h"

namespace plumbline::structure {
namespace {

namespace fs = std::filesystem;

// What a library is allowed to cost: the slow headers have one includer each, or one room, and at most
// one test file.
struct SoleIncluder {
  std::string_view prefix;
  std::string_view file;  // or folder; empty: nobody
  std::string_view test_file = {};
};
constexpr std::array<SoleIncluder, 4> kSoleIncluders = {{
    {"boost/", "oracle/arbiter.cc", "tests/oracle/wide_objective.cc"},
    {"CLI/", "fuzz/cli", "tests/fuzz/false_alarms/false_alarms.cc"},
    {"nlohmann/", "fuzz/base/json.cc"},
    {"fmt/", ""},
}};

struct File {
  std::string name;  // from the root, as everywhere here
  std::string text;

  std::string Extension() const { return fs::path(name).extension(); }
  std::string BaseName() const { return fs::path(name).filename(); }
  bool IsScript() const { return Extension() == ".py" || text.starts_with("#!"); }
  bool IsPage() const { return Extension() == ".md"; }
  bool IsSource() const {
    static const std::set<std::string> kSources = {".h", ".cc",  ".cu",  ".cuh",
                                                   ".c", ".cpp", ".hpp", ".inc"};
    return kSources.contains(Extension());
  }
  bool IsCMake() const { return BaseName() == "CMakeLists.txt" || Extension() == ".cmake"; }
  bool IsBuild() const {
    return IsCMake() || Extension() == ".sh" || BaseName() == "CMakePresets.json" ||
           BaseName() == "run";
  }
};

bool IsOrIsIn(std::string_view name, std::string_view file_or_folder) {
  return !file_or_folder.empty() && name.starts_with(file_or_folder) &&
         (name.size() == file_or_folder.size() || name[file_or_folder.size()] == '/');
}

// "" where `room` may include `header` (both named from the root), else the reason why not.
std::string WhyForbidden(std::string_view room, const std::string& header) {
  const std::string other = TopRoomOf(header);
  if (room == "kernel" && other != "kernel") return "kernel knows no other room";
  if (room == "oracle") {
    if (other == "kernel" && header != "kernel/problem.h" && header != "kernel/dtype.h") {
      return "of kernel, oracle knows only problem.h and dtype.h, never an implementation";
    }
    if (other != "kernel" && other != "oracle") return "oracle knows only itself and kernel";
  }
  if (room == "fuzz" && (other == "tests" || other == "bench"))
    return "fuzz knows neither tests nor bench";
  if (room == "bench" && other == "tests") return "bench does not know tests";
  return "";
}

std::vector<Include> IncludesOf(const File& file) {
  static const std::regex kInclude(R"re(^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">])re",
                                   std::regex::ECMAScript | std::regex::multiline);
  std::vector<Include> includes;
  for (auto it = std::sregex_iterator(file.text.begin(), file.text.end(), kInclude);
       it != std::sregex_iterator(); ++it) {
    includes.push_back({file.name, (*it)[1]});
  }
  return includes;
}

void CheckInclude(const fs::path& root, const Include& include, std::vector<std::string>* violations) {
  const auto& [name, header] = include;
  const std::string room = TopRoomOf(name);
  const std::string prefix = name + ": includes " + header + ": ";
  for (const SoleIncluder& sole : kSoleIncluders) {
    if (header.starts_with(sole.prefix) && !IsOrIsIn(name, sole.file) && name != sole.test_file) {
      violations->push_back(prefix + "only " + std::string(sole.file.empty() ? "nobody" : sole.file) +
                            " may");
    }
  }
  // `"./kernel/host/exp.h"` and `"oracle/../kernel/host/exp.h"` would hide the room that they borrow
  // from.
  if (fs::path(header).lexically_normal() != fs::path(header)) {
    violations->push_back(prefix + "not spelled from the root");
  } else if (!TopRoomOf(header).empty()) {
    const std::string why = WhyForbidden(room, header);
    if (!why.empty()) violations->push_back(prefix + why);
  } else if (!name.starts_with("tests/consumer/") &&  // a project of its own, with a root of its own
             (fs::is_regular_file((root / name).parent_path() / header) ||
              fs::is_regular_file(root / room / header))) {
    violations->push_back(prefix + "not spelled from the root");
  }
}

// The files that the room's CMakeLists.txt and .cmake files name: by room, from the root.
using Listed = std::map<std::string, std::set<std::string>>;

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::vector<std::string> Words(const std::string& text) {
  static const std::regex kWord("[^ \t\n()\"]+");
  std::vector<std::string> words;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kWord); it != std::sregex_iterator();
       ++it) {
    words.push_back(it->str());
  }
  return words;
}

// A name in a comment lists nothing; ${x} stands for each word of every foreach(x …) of the file.
void AddListed(const File& file, Listed* listed) {
  const std::string code = WithoutComments(file.text, Syntax::kHash);
  std::vector<std::string> words = Words(code);
  static const std::regex kForeach(R"(foreach\(([A-Za-z_]+) ([^)]*)\))");
  for (auto it = std::sregex_iterator(code.begin(), code.end(), kForeach); it != std::sregex_iterator();
       ++it) {
    const std::string variable = "${" + (*it)[1].str() + "}";
    const std::vector<std::string> values = Words((*it)[2]);
    for (const std::string& word : Words(code)) {
      if (word.find(variable) == word.npos) continue;
      for (const std::string& value : values) words.push_back(Replaced(word, variable, value));
    }
  }
  const fs::path folder = fs::path(file.name).parent_path();
  for (const std::string& word : words) {
    const std::string below = Replaced(word, "${CMAKE_CURRENT_SOURCE_DIR}/", "");
    (*listed)[TopRoomOf(file.name)].insert((folder / below).lexically_normal().generic_string());
  }
}

// A source that no CMakeLists.txt lists is not built; a test that is not built or run cannot fail. A
// plug-in in C is built by the test that loads it.
void CheckListed(const File& file, const Listed& listed, const std::vector<File>& files,
                 std::vector<std::string>* violations) {
  const std::string extension = file.Extension();
  const bool python_test = file.name.starts_with("tests/") && file.name.ends_with("_test.py");
  if (extension != ".cc" && extension != ".cpp" && extension != ".cu" && extension != ".c" &&
      !python_test) {
    return;
  }
  const auto room = listed.find(TopRoomOf(file.name));
  if (room != listed.end() && room->second.contains(file.name)) return;
  if (extension == ".c") {
    const std::regex named("[\"/ `]" + fs::path(file.name).stem().string() + "\\.c[\" `]");
    for (const File& other : files) {
      const bool test = other.IsSource() && other.name.starts_with("tests/") && other.name != file.name;
      const bool page_above =
          other.IsPage() &&
          file.name.starts_with(fs::path(other.name).parent_path().generic_string() + "/");
      if (!test && !page_above) continue;
      if (std::regex_search(test ? WithoutComments(other.text, Syntax::kSlashes) : other.text, named)) {
        return;
      }
    }
  }
  violations->push_back(file.name + ": " + std::string(kUnlisted));
}

void CheckSource(const File& file, std::vector<std::string>* violations) {
  // The oracle decodes bits by itself: sharing the operator's conversions would share their mistakes.
  static const std::regex kConversion(R"(\b(ToFloat|ToBFloat16|ToFloat16)\b)");
  if (TopRoomOf(file.name) == "oracle" &&
      std::regex_search(WithoutComments(file.text, Syntax::kSlashes), kConversion)) {
    violations->push_back(file.name + ": uses a conversion of kernel/dtype.h");
  }
}

size_t CountLines(const std::string& text) {
  return static_cast<size_t>(std::ranges::count(text, '\n'));
}

void CheckLength(const File& file, std::vector<std::string>* violations) {
  const size_t lines = CountLines(file.text);
  if (lines > kMaxLines) {
    violations->push_back(file.name + ": " + std::to_string(lines) +
                          " lines: two concepts in one file");
  }
}

void CheckLicence(const File& file, std::vector<std::string>* violations) {
  // A script's first line is its interpreter's.
  const std::string& text = file.text;
  const size_t start = text.starts_with("#!") ? std::min(text.find('\n'), text.size() - 1) + 1 : 0;
  const std::string line = text.substr(start, text.find('\n', start) - start);
  if (line.find("SPDX-License-Identifier: Apache-2.0") == line.npos) {
    violations->push_back(file.name + ": no SPDX line first");
  }
}

void CheckBuildFile(const File& file, std::vector<std::string>* violations) {
  // Each makes results depend on the compiler's mood or on the machine that built them.
  for (const char* flag : {"fast-math", "-Ofast", "march=native", "mcpu=native", "unsafe-math"}) {
    if (file.text.find(flag) != file.text.npos) {
      violations->push_back(file.name + ": mentions " + flag);
    }
  }
}

// A comment begins with its subject or its verb, and so does each sentence of it.
void CheckComments(const File& file, std::vector<std::string>* violations) {
  static const std::regex kOf(R"((^|[.:;] )Of\b)");
  const Syntax syntax = file.IsSource() ? Syntax::kSlashes : Syntax::kHash;
  for (const Comment& comment : Comments(file.text, syntax)) {
    std::smatch found;
    if (!std::regex_search(comment.text, found, kOf)) continue;
    const std::string sentence = comment.text.substr(static_cast<size_t>(found.position()));
    violations->push_back(file.name + ":" + std::to_string(comment.line) +
                          ": a comment begins with \"Of\": " + sentence.substr(0, 60));
  }
}

std::vector<File> ReadFiles(const fs::path& root) {
  std::vector<File> files;
  const auto add = [&](const fs::path& path) {
    File file{path.lexically_relative(root).generic_string(), ReadAll(path)};
    if (file.IsSource() || file.IsBuild() || file.IsScript() || file.IsPage()) {
      files.push_back(std::move(file));
    }
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (entry.is_regular_file()) add(entry.path());
  }
  std::vector<std::string> folders(kTopRooms.begin(), kTopRooms.end());
  folders.insert(folders.end(), {".ci", "corpus"});
  for (const std::string& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file()) add(entry.path());
    }
  }
  std::ranges::sort(files, {}, &File::name);
  return files;
}

// Every room of fuzz/ says on one page what it does, how data go through it, its words and its
// includes.
void CheckReadmes(const fs::path& root, const RoomTable& fuzz, std::vector<std::string>* violations) {
  for (const std::string& folder : fuzz.TopFolders()) {
    const std::string page = "fuzz/" + folder + "/README.md";
    if (!fs::exists(root / page)) {
      violations->push_back(page + ": a room has none");
    } else if (const size_t lines = CountLines(ReadAll(root / page)); lines > kMaxReadmeLines) {
      violations->push_back(page + ": " + std::to_string(lines) + " lines, more than a room's " +
                            std::to_string(kMaxReadmeLines));
    }
  }
}

}  // namespace

std::string TopRoomOf(std::string_view path) {
  const std::string_view head = path.substr(0, path.find('/'));
  const bool known =
      path.find('/') != path.npos && std::ranges::find(kTopRooms, head) != kTopRooms.end();
  return known ? std::string(head) : "";
}

Scan FindViolations(const fs::path& root) {
  Scan scan;
  const std::vector<File> files = ReadFiles(root);
  Listed listed;
  std::vector<Include> includes;
  for (const File& file : files) {
    if (file.IsCMake()) AddListed(file, &listed);
    if (file.IsSource()) std::ranges::move(IncludesOf(file), std::back_inserter(includes));
  }
  for (const Include& include : includes) CheckInclude(root, include, &scan.violations);
  for (const File& file : files) {
    scan.files.push_back(file.name);
    CheckLength(file, &scan.violations);
    if (file.IsPage()) continue;
    if (file.IsSource()) {
      scan.sources.push_back(file.name);
      scan.rooms_seen.insert(TopRoomOf(file.name));
      CheckSource(file, &scan.violations);
    }
    CheckListed(file, listed, files, &scan.violations);
    if (file.IsBuild()) CheckBuildFile(file, &scan.violations);
    if (file.Extension() == ".json") continue;
    CheckLicence(file, &scan.violations);
    CheckComments(file, &scan.violations);
  }
  for (const std::string_view folder : kRoomPages) {
    const RoomTable table(std::string(folder), ReadAll(root / folder / "README.md"), &scan.violations);
    table.Check(scan.sources, includes, &scan.violations);
    if (folder == "fuzz") CheckReadmes(root, table, &scan.violations);
  }
  return scan;
}

}  // namespace plumbline::structure
