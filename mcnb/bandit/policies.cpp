#include "mcnb/bandit/policies.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "mcnb/bandit/policy_kind.h"
#include "mcnb/bandit/saved_policy.h"
#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/base/option_codec.h"

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

const StateHeader kPolicyFile{.kind = "policy", .version = 2};
constexpr const char* kUserFeatures = "what users look like";

[[noreturn]] void refuse_text(const std::string& text, const std::string& why) {
  throw Error(
      ErrorKind::kUsage,
      fmt::format("policy \"{}\": {}; expected name or name:option=value:option=value", text, why));
}

std::string context_of(const PolicyKind& kind) { return fmt::format("policy {}", kind.name); }

// A checksum of the users' features.
std::string checksum_text(std::span<const float> values) {
  return fmt::format(
      "{:016x}", hash_bytes({reinterpret_cast<const char*>(values.data()), values.size_bytes()}));
}

// Everything that a saved state depends on, by name. A load must agree with all of it. Options have
// their resolved values, whether they were given or not.
OptionValues identity(const PolicySpec& spec, const PolicySetup& setup) {
  OptionValues all;
  for (const auto& [name, value] : resolved_options(spec)) {
    all["option " + name] = value;
  }
  all["policy"] = spec.name;
  all["inputs"] = std::to_string(setup.inputs);
  all["users at the start"] = std::to_string(setup.users);
  all["features of a user"] = std::to_string(setup.user_feature_count);
  all[kUserFeatures] = checksum_text(setup.user_features);
  all["features of a block"] = std::to_string(setup.block_length);
  all["seed"] = std::to_string(setup.seed);
  return all;
}

// Completes what an earlier program saved about a policy of this kind. Returns the policy asked for
// with the same values, unless it names others itself.
PolicySpec as_saved(PolicySpec spec, OptionValues& saved) {
  for (const auto& [name, before] : find_policy(spec.name).values_before) {
    if (saved.emplace("option " + name, before).second) {
      spec.options.emplace(name, before);
    }
  }
  return spec;
}

// Throws Error (kUsage) that names what differs.
void compare(const std::string& path, const OptionValues& saved, const OptionValues& asked) {
  const auto value_in = [](const OptionValues& all, const std::string& name) {
    const auto found = all.find(name);
    return found == all.end() ? std::string("nothing") : "\"" + found->second + "\"";
  };
  const auto refuse = [&](const std::string& name) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: {}: the file was saved with {}, asked for is {}", path, name,
                            value_in(saved, name), value_in(asked, name)));
  };
  if (value_in(saved, "policy") != value_in(asked, "policy")) {
    refuse("policy");  // before the options, which differ too if the policies do
  }
  for (const auto& all : {saved, asked}) {
    for (const auto& [name, value] : all) {
      if (value_in(saved, name) != value_in(asked, name)) {
        refuse(name);
      }
    }
  }
}

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

void save_policy_file(const std::string& path, const PolicySpec& spec, const PolicySetup& setup,
                      const Policy& policy) {
  save_state_file(path, kPolicyFile, [&](StateWriter& writer) {
    write_options(writer, identity(spec, setup));
    policy.save(writer);
  });
}

std::unique_ptr<Policy> load_policy_file(const std::string& path, const PolicySpec& spec,
                                         const PolicySetup& setup) {
  std::unique_ptr<Policy> policy;
  load_state_file(path, kPolicyFile, [&](StateReader& reader) {
    OptionValues saved = read_options(reader);
    const PolicySpec known = as_saved(spec, saved);
    OptionValues asked = identity(known, setup);
    if (reader.version() == 1) {  // its checksum of the users' features was not XXH3
      saved.erase(kUserFeatures);
      asked.erase(kUserFeatures);
    }
    compare(path, saved, asked);
    policy = make_policy(known, setup);
    policy->load(reader);
  });
  return policy;
}

SavedPolicy load_saved_policy(const std::string& path, ThreadPool& threads) {
  SavedPolicy saved;
  load_state_file(path, kPolicyFile, [&](StateReader& reader) {
    OptionValues values = read_options(reader);
    constexpr std::string_view kOption = "option ";
    for (const auto& [name, text] : values) {
      if (name.starts_with(kOption)) {
        saved.spec.options[name.substr(kOption.size())] = text;
      }
    }
    saved.spec.name = saved.spec.label = values["policy"];
    complete_options(saved.spec);
    const auto number = [&](const char* name, double largest) {
      return parse_count(name, {.low = 0.0, .high = largest}, values[name]);
    };
    if (number("features of a user", 1e9) > 0) {
      throw Error(
          ErrorKind::kUsage,
          fmt::format("{}: this policy knows the features of its users, which the file does "
                      "not hold",
                      path));
    }
    constexpr double kLargest = 4294967295.0;
    saved.setup = {
        .inputs = static_cast<std::uint32_t>(number("inputs", kLargest)),
        .users = static_cast<std::size_t>(number("users at the start", kLargest)),
        .seed = number("seed", 18446744073709549568.0),
        .threads = &threads,
        .user_features = {},
        .block_length = static_cast<std::uint32_t>(number("features of a block", kLargest))};
    saved.policy = make_policy(saved.spec, saved.setup);
    saved.policy->load(reader);
  });
  return saved;
}

}  // namespace mcnb
