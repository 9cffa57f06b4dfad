#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "mcnb/bandit/policy.h"
#include "mcnb/bandit/policy_size.h"

namespace mcnb {

// The help text of an option that several policies have.
inline constexpr const char* kNonnegativeHelp =
    "whether an estimate below zero counts as zero, for rewards that are never below zero";

// A policy as people choose it: its name, its help texts, its options, and how it is made.
struct PolicyKind {
  const char* name;
  const char* help;
  const char* paper;  // authors, title, where and when
  std::function<std::vector<OptionHelp>()> options;
  // Every option with its value, given or not. Throws Error (kUsage) for a bad option; `build`
  // finds what depends on the setup.
  std::function<OptionValues(const OptionValues&)> resolve;
  std::function<std::unique_ptr<Policy>(const OptionValues&, const PolicySetup&)> build;
  // What `build` would need. Throws Error (kUsage) for a bad option; finds nothing else.
  std::function<PolicySize(const OptionValues&, const PolicySetup&)> size;
  // Options that the policy has not always had, or whose defaults have changed, with the values
  // that it had before. A stored map of options that lacks one of them was stored then, and means
  // that value.
  OptionValues values_before = {};
};

// What policy_kind needs beside the options; as in PolicyKind.
struct PolicyTexts {
  const char* name;
  const char* help;
  const char* paper;
  OptionValues values_before = {};
};

// For a policy without options.
struct NoOptions {};

// A kind of policy that make(options, setup) builds and whose size size(options, setup) estimates.
// If Options has `void check() const`, it refuses (Error, kUsage) what the ranges of the table
// cannot express.
template <class Options, class Make, class Size>
PolicyKind policy_kind_by(const PolicyTexts& texts, const OptionTable<Options>& table, Make make,
                          Size size) {
  const auto parse = [table](const OptionValues& values) {
    Options options;
    table.set_all(options, values);
    if constexpr (requires { options.check(); }) {
      options.check();
    }
    return options;
  };
  return {.name = texts.name,
          .help = texts.help,
          .paper = texts.paper,
          .options = [table] { return table.help(); },
          .resolve = [=](const OptionValues& values) { return table.values(parse(values)); },
          .build = [=](const OptionValues& values,
                       const PolicySetup& setup) { return make(parse(values), setup); },
          .size = [=](const OptionValues& values,
                      const PolicySetup& setup) { return size(parse(values), setup); },
          .values_before = texts.values_before};
}

// A kind of policy with the constructor Implementation(const Options&, const PolicySetup&).
template <class Implementation, class Options, class Size>
PolicyKind policy_kind(const PolicyTexts& texts, const OptionTable<Options>& table, Size size) {
  return policy_kind_by(
      texts, table,
      [](const Options& options, const PolicySetup& setup) -> std::unique_ptr<Policy> {
        return std::make_unique<Implementation>(options, setup);
      },
      size);
}

}  // namespace mcnb
