// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/usage.h"

#include "fuzz/base/nearest.h"
#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

std::string Quoted(const std::string& text) { return "'" + Printable(Abridged(text)) + "'"; }

std::string UnknownCommand(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* sub :
       app.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); }))
    names.push_back(sub->get_name());
  return "there is no command " + Quoted(word) + "." + DidYouMean(word, names);
}

// Names the option among the arguments that belong to nothing: the others may be its value.
std::string UnknownArgument(const CLI::App& sub, const std::vector<std::string>& left) {
  std::vector<std::string> names;
  for (const CLI::Option* option : sub.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string command = "plumb " + sub.get_name();
  for (const std::string& word : left) {
    if (!word.starts_with('-')) continue;
    const std::string name = word.substr(0, word.find('='));
    return command + " has no option " + Quoted(name) + "." + DidYouMean(name, names);
  }
  const bool takes_target = sub.get_option_no_throw("--target") != nullptr;
  return command + " takes no argument " + Quoted(left.front()) + "." +
         (takes_target ? " Did you mean --target " + Printable(Abridged(left.front())) + "?" : "");
}

}  // namespace

std::string UsageMessage(const CLI::App& app, const CLI::ParseError& error,
                         const std::vector<std::string>& arguments) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  if (parsed.empty()) {
    // The library would say that a command is missing, not that this one does not exist.
    const bool word = !arguments.empty() && !arguments.front().starts_with('-');
    if (word) return UnknownCommand(app, arguments.front());
    return arguments.empty() ? "no command is given" : error.what();
  }
  // A misspelt option is named even where the library's first objection is that another is missing.
  const std::vector<std::string> left = parsed.front()->remaining();
  return left.empty() ? error.what() : UnknownArgument(*parsed.front(), left);
}

}  // namespace plumbline::fuzz
