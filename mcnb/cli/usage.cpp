#include "mcnb/cli/usage.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/base/numbers.h"

namespace mcnb {
namespace {

// How many letters have to be changed, inserted, removed or swapped with their neighbour.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = std::exchange(last, row);
  }
  return last.back();
}

const CLI::App* subcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (child->get_name() == name) {
      return child;
    }
  }
  return nullptr;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      flags.push_back("--" + name);
    }
    for (const std::string& name : option->get_snames()) {
      flags.push_back("-" + name);
    }
  }
  return flags;
}

// -1 and -.5 are numbers.
bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '.' && (word[1] < '0' || word[1] > '9');
}

}  // namespace

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  std::string nearest;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& other : known) {
    const std::size_t own = distance(word, other);
    if (own < least && own < other.size()) {
      least = own;
      nearest = other;
    }
  }
  return nearest;
}

std::string advice(const std::string& nearest, const std::string& command) {
  return nearest.empty() ? fmt::format("; see {} --help", command)
                         : fmt::format(": did you mean {}?", nearest);
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(child->get_name());
  }
  return names;
}

void refuse_unknown_flags(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string path = app.get_name();
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (const CLI::App* child = subcommand(*command, word)) {
      command = child;
      path += " " + word;
    }
    if (!is_flag(word)) {
      continue;
    }
    const bool is_long = word.starts_with("--");
    const std::string name = word.substr(0, is_long ? word.find('=') : 2);
    const CLI::Option* option = command->get_option_no_throw(name);
    if (option == nullptr) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("unknown flag \"{}\"{}", name,
                              advice(nearest_word(name, flags_of(*command)), path)));
    }
    if (name == word) {  // its values are the next words
      i += static_cast<std::size_t>(std::max(0, option->get_items_expected_min()));
    }
  }
}

void accept_powers_of_ten(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("UINT") || type.starts_with("INT")) {
      option->transform([](const std::string& text) { return plain_digits(text); }, "", "");
    }
  }
  for (CLI::App* child : app.get_subcommands([](CLI::App*) { return true; })) {
    accept_powers_of_ten(*child);
  }
}

}  // namespace mcnb
