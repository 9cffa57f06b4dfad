#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mcnb {

/// Options by name, as text: from flags, files or other languages.
using OptionValues = std::map<std::string, std::string>;

/// What people read about one option.
struct OptionHelp {
  std::string name;
  std::string help;
  std::string expected;  ///< "a number in (0, 1)"
  std::string standard;  ///< the default

  bool operator==(const OptionHelp&) const = default;
};

/// A range of numbers, with open or closed ends.
struct Range {
  double low;
  double high;
  bool low_open = false;
  bool high_open = false;

  bool contains(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
  std::string text() const;
};

/// Read one value from its whole text. Throw Error (kUsage), which names the option, what was
/// expected and the text given; NaN and infinity are refused.
double parse_number(const std::string& name, const Range& range, const std::string& text);
std::uint64_t parse_count(const std::string& name, const Range& range, const std::string& text);
bool parse_switch(const std::string& name, const std::string& text);
// The same, but "auto" is nullopt.
std::optional<double> parse_number_or_auto(const std::string& name, const Range& range,
                                           const std::string& text);
std::optional<bool> parse_switch_or_auto(const std::string& name, const std::string& text);
[[noreturn]] void refuse_option(const std::string& name, const std::string& expected,
                                const std::string& text);
std::string number_text(double value);

/// Describes the options of a struct: one table feeds flags, files, help texts and saved states.
template <class Struct>
class OptionTable {
 public:
  OptionTable& number(std::string name, double Struct::*member, Range range, std::string help) {
    return add(
        {name, std::move(help), "a number in " + range.text(), {}},
        [=](Struct& s, const std::string& text) { s.*member = parse_number(name, range, text); },
        [=](const Struct& s) { return number_text(s.*member); });
  }

  OptionTable& count(std::string name, std::uint64_t Struct::*member, Range range,
                     std::string help) {
    return add(
        {name, std::move(help), "a whole number in " + range.text(), {}},
        [=](Struct& s, const std::string& text) { s.*member = parse_count(name, range, text); },
        [=](const Struct& s) { return std::to_string(s.*member); });
  }

  OptionTable& yes_no(std::string name, bool Struct::*member, std::string help) {
    return add(
        {name, std::move(help), "yes or no", {}},
        [=](Struct& s, const std::string& text) { s.*member = parse_switch(name, text); },
        [=](const Struct& s) { return std::string(s.*member ? "yes" : "no"); });
  }

  /// Like number and yes_no, but the value may be left to the owner of the options: "auto".
  OptionTable& number_or_auto(std::string name, std::optional<double> Struct::*member, Range range,
                              std::string help) {
    return add(
        {name, std::move(help), "a number in " + range.text() + " or auto", {}},
        [=](Struct& s, const std::string& text) {
          s.*member = parse_number_or_auto(name, range, text);
        },
        [=](const Struct& s) { return s.*member ? number_text(*(s.*member)) : "auto"; });
  }

  OptionTable& yes_no_or_auto(std::string name, std::optional<bool> Struct::*member,
                              std::string help) {
    return add(
        {name, std::move(help), "yes, no or auto", {}},
        [=](Struct& s, const std::string& text) { s.*member = parse_switch_or_auto(name, text); },
        [=](const Struct& s) { return s.*member ? (*(s.*member) ? "yes" : "no") : "auto"; });
  }

  /// Any text; `expected` says what it means ("a column's name").
  OptionTable& text(std::string name, std::string Struct::*member, std::string expected,
                    std::string help) {
    return add(
        {std::move(name), std::move(help), std::move(expected), {}},
        [=](Struct& s, const std::string& given) { s.*member = given; },
        [=](const Struct& s) { return s.*member; });
  }

  template <class Enum>
  OptionTable& choice(std::string name, Enum Struct::*member,
                      std::vector<std::pair<std::string, Enum>> names, std::string help) {
    std::string expected;
    for (const auto& [text, value] : names) {
      expected += (expected.empty() ? "" : " | ") + text;
    }
    return add(
        {name, std::move(help), expected, {}},
        [=](Struct& s, const std::string& given) {
          for (const auto& [text, value] : names) {
            if (text == given) {
              s.*member = value;
              return;
            }
          }
          refuse_option(name, expected, given);
        },
        [=](const Struct& s) {
          for (const auto& [text, value] : names) {
            if (value == s.*member) {
              return text;
            }
          }
          return std::string("?");
        });
  }

  /// Adds all options of a struct inside this one.
  template <class Part>
  OptionTable& part(Part Struct::*member, const OptionTable<Part>& table) {
    for (const auto& entry : table.entries_) {
      add(
          entry.about,
          [=, set = entry.set](Struct& s, const std::string& text) { set(s.*member, text); },
          [=, get = entry.get](const Struct& s) { return get(s.*member); });
    }
    return *this;
  }

  /// Sets one option. Throws Error (kUsage) for an unknown name, and lists the known ones.
  void set(Struct& options, const std::string& name, const std::string& text) const {
    for (const Entry& entry : entries_) {
      if (entry.about.name == name) {
        entry.set(options, text);
        return;
      }
    }
    std::string known;
    for (const Entry& entry : entries_) {
      known += (known.empty() ? "" : ", ") + entry.about.name;
    }
    refuse_option(name, known.empty() ? "no options" : "one of the options " + known,
                  known.empty() ? text : name);
  }

  void set_all(Struct& options, const OptionValues& values) const {
    for (const auto& [name, text] : values) {
      set(options, name, text);
    }
  }

  /// Returns every option with its value, as text that `set` reads back.
  OptionValues values(const Struct& options) const {
    OptionValues values;
    for (const Entry& entry : entries_) {
      values[entry.about.name] = entry.get(options);
    }
    return values;
  }

  /// Throws Error (kUsage) unless every value is in its range.
  void validate(const Struct& options) const {
    Struct copy = options;
    set_all(copy, values(options));
  }

  std::vector<OptionHelp> help(const Struct& standard = {}) const {
    std::vector<OptionHelp> all;
    for (const Entry& entry : entries_) {
      all.push_back(entry.about);
      all.back().standard = entry.get(standard);
    }
    return all;
  }

 private:
  template <class Other>
  friend class OptionTable;

  struct Entry {
    OptionHelp about;
    std::function<void(Struct&, const std::string&)> set;
    std::function<std::string(const Struct&)> get;
  };

  OptionTable& add(OptionHelp about, std::function<void(Struct&, const std::string&)> set,
                   std::function<std::string(const Struct&)> get) {
    entries_.push_back({std::move(about), std::move(set), std::move(get)});
    return *this;
  }

  std::vector<Entry> entries_;
};

}  // namespace mcnb
