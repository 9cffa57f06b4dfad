// Policies in files.

#include "mcnb/bandit/saved_policy.h"

#include <fmt/core.h>

#include <utility>

#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/base/option_codec.h"

namespace mcnb {
namespace {

const StateHeader kPolicyFile{.kind = "policy", .version = 3};
constexpr const char* kUserFeatures = "what users look like";

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

// Versions before 3 knew of no logs.
TrainingMemory read_memory(StateReader& reader) {
  TrainingMemory memory;
  if (reader.version() < 3) {
    return memory;
  }
  constexpr std::uint64_t kMostUsers = 0xffffffffU;
  constexpr std::uint64_t kLongestName = std::uint64_t{1} << 24;
  memory.next_round = reader.read<std::uint64_t>();
  const std::uint64_t users = reader.read_count(kMostUsers);
  for (std::uint64_t i = 0; i < users; ++i) {
    memory.users.push_back(reader.read_string(kLongestName));
  }
  return memory;
}

}  // namespace

void save_policy_file(const std::string& path, const PolicySpec& spec, const PolicySetup& setup,
                      const Policy& policy) {
  save_trained_policy(path, spec, setup, policy, {});
}

void save_trained_policy(const std::string& path, const PolicySpec& spec, const PolicySetup& setup,
                         const Policy& policy, const TrainingMemory& memory) {
  save_state_file(path, kPolicyFile, [&](StateWriter& writer) {
    write_options(writer, identity(spec, setup));
    writer.write(memory.next_round);
    writer.write_count(memory.users.size());
    for (const std::string& user : memory.users) {
      writer.write_string(user);
    }
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
    read_memory(reader);
    policy = make_policy(known, setup);
    policy->load(reader);
  });
  return policy;
}

bool is_policy_file(const std::string& path) {
  struct FirstBytesRead {};
  try {
    load_state_file(path, kPolicyFile, [](StateReader&) { throw FirstBytesRead{}; });
  } catch (const FirstBytesRead&) {
    return true;
  } catch (const Error&) {
    return false;
  }
  return false;
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
    saved.memory = read_memory(reader);
    saved.policy = make_policy(saved.spec, saved.setup);
    saved.policy->load(reader);
    if (saved.memory.users.size() > saved.policy->user_count()) {
      reader.fail("more users have names than there are");
    }
  });
  return saved;
}

}  // namespace mcnb
