#include "mcnb/bandit/policies.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

// Every policy, in the order of names. To add one, define NAME_policy() in a file of its own and
// add POLICY(NAME) here.
#define MCNB_EVERY_POLICY \
  POLICY(club)            \
  POLICY(cofiba)          \
  POLICY(epsilon_greedy)  \
  POLICY(hierarchical)    \
  POLICY(kernelucb)       \
  POLICY(linucb)          \
  POLICY(locb)            \
  POLICY(mcnb)            \
  POLICY(neuau)           \
  POLICY(neural_linear)   \
  POLICY(neuralts)        \
  POLICY(neuucb_ind)      \
  POLICY(neuucb_one)      \
  POLICY(random)          \
  POLICY(sclub)

namespace mcnb {

#define POLICY(name) PolicyKind name##_policy();
MCNB_EVERY_POLICY
#undef POLICY

namespace {

const std::vector<PolicyKind>& every_policy() {
#define POLICY(name) name##_policy(),
  static const std::vector<PolicyKind> kAll{MCNB_EVERY_POLICY};
#undef POLICY
  return kAll;
}

// Null for an unknown name.
const PolicyKind* known_policy(const std::string& name) {
  const auto found = std::ranges::find(every_policy(), name, &PolicyKind::name);
  return found == every_policy().end() ? nullptr : &*found;
}

[[noreturn]] void refuse_text(const std::string& text, const std::string& why) {
  throw Error(
      ErrorKind::kUsage,
      fmt::format("policy \"{}\": {}; expected name or name:option=value:option=value", text, why));
}

std::string context_of(const PolicyKind& kind) { return fmt::format("policy {}", kind.name); }

}  // namespace

const PolicyKind& find_policy(const std::string& name) {
  if (const PolicyKind* kind = known_policy(name)) {
    return *kind;
  }
  std::string known;
  for (const PolicyKind& kind : every_policy()) {
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw Error(ErrorKind::kUsage, fmt::format("policy \"{}\": expected one of {}", name, known));
}

PolicySpec parse_policy(const std::string& text) {
  PolicySpec spec{.label = text};
  std::size_t end = std::min(text.find(':'), text.size());
  spec.name = text.substr(0, end);
  if (spec.name.empty()) {
    refuse_text(text, "no name");
  }
  while (end < text.size()) {
    const std::size_t begin = end + 1;
    end = std::min(text.find(':', begin), text.size());
    const std::string option = text.substr(begin, end - begin);
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse_text(text, fmt::format("\"{}\" is no option", option));
    }
    const std::string name = option.substr(0, equals);
    if (!spec.options.emplace(name, option.substr(equals + 1)).second) {
      refuse_text(text, fmt::format("option {} is given twice", name));
    }
  }
  const PolicyKind& kind = find_policy(spec.name);
  within(context_of(kind), [&] { kind.resolve(spec.options); });
  return spec;
}

OptionValues resolved_options(const PolicySpec& spec) {
  const PolicyKind& kind = find_policy(spec.name);
  return within(context_of(kind), [&] { return kind.resolve(spec.options); });
}

void pin_options(PolicySpec& spec) {
  const OptionValues all = resolved_options(spec);
  for (const auto& [name, before] : find_policy(spec.name).values_before) {
    spec.options.emplace(name, all.at(name));
  }
}

void complete_options(PolicySpec& spec) {
  if (const PolicyKind* kind = known_policy(spec.name)) {
    spec.options.insert(kind->values_before.begin(), kind->values_before.end());
  }
}

std::vector<PolicyHelp> policy_help() {
  std::vector<PolicyHelp> all;
  for (const PolicyKind& kind : every_policy()) {
    all.push_back({kind.name, kind.help, kind.paper, kind.options()});
  }
  return all;
}

namespace {

// A setup without threads means the caller's own: a pool without further ones, which all share.
PolicySetup with_threads(PolicySetup setup) {
  static ThreadPool callers(1);
  setup.threads = setup.threads == nullptr ? &callers : setup.threads;
  return setup;
}

}  // namespace

std::unique_ptr<Policy> make_policy(const PolicySpec& spec, const PolicySetup& setup) {
  const PolicyKind& kind = find_policy(spec.name);
  if (setup.device != Device::kCpu && spec.name != "mcnb") {
    refuse_option("device", "cpu, since only mcnb computes on a GPU", device_name(setup.device));
  }
  return within(context_of(kind), [&] { return kind.build(spec.options, with_threads(setup)); });
}

PolicySize size_of_policy(const PolicySpec& spec, const PolicySetup& setup) {
  const PolicyKind& kind = find_policy(spec.name);
  return within(context_of(kind), [&] { return kind.size(spec.options, with_threads(setup)); });
}

}  // namespace mcnb
