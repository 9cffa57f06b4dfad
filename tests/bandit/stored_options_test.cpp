// Options that a policy has not always had: what was stored before them keeps its meaning.
#include <gtest/gtest.h>

#include "mcnb/base/option_codec.h"
#include "tests/bandit/policy_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::stored_options_test {
namespace {

using cases::OwnRound;
using cases::World;
using plain::expect_error;

constexpr const char* kOption = "option normalise";

// Arms of length 2.
OwnRound long_arms(const World& world, std::uint64_t id) {
  OwnRound own = cases::draw_round(world, id);
  for (std::vector<float>& x : own.features) {
    for (float& value : x) {
      value *= 2.0F;
    }
  }
  return own;
}

void play(const World& world, Policy& policy, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t id = from; id < to; ++id) {
    const OwnRound own = long_arms(world, id);
    const ArmIndex choice = policy.choose(own.round);
    policy.learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
  }
}

// What a file says about its policy.
OptionValues facts_in(const std::string& path) {
  OptionValues facts;
  try {
    load_state_file(path, {"policy", 3}, [&](StateReader& reader) {
      facts = read_options(reader);
      throw Error(ErrorKind::kUsage, "the rest is not needed");
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  }
  return facts;
}

TEST(StoredOptions, AreCompletedWithTheValuesThatThePolicyHadBefore) {
  PolicySpec spec = parse_policy("mcnb:gamma=0.2");
  complete_options(spec);
  OptionValues before{{"normalise", "none"}, {"scan", "all"}, {"scan_limit", "0"}};
  before["gamma"] = "0.2";
  EXPECT_EQ(spec.options, before);
  spec = parse_policy("mcnb:normalise=unit:scan=sampled:scan_limit=5");
  complete_options(spec);
  EXPECT_EQ(spec.options,
            (OptionValues{{"normalise", "unit"}, {"scan", "sampled"}, {"scan_limit", "5"}}));
  spec = parse_policy("random");
  complete_options(spec);
  EXPECT_TRUE(spec.options.empty());
  PolicySpec unknown{.name = "nobody", .options = {}, .label = {}};
  complete_options(unknown);
  EXPECT_TRUE(unknown.options.empty());
}

TEST(StoredOptions, ArePinnedSoThatTheyMeanTheSameLater) {
  for (const auto& [text, value] :
       {std::pair("mcnb", "unit"), std::pair("mcnb:preset=default-classification", "unit"),
        std::pair("mcnb:preset=algorithm", "none"), std::pair("mcnb:normalise=none", "none")}) {
    PolicySpec spec = parse_policy(text);
    const OptionValues before = resolved_options(spec);
    pin_options(spec);
    EXPECT_EQ(spec.options.at("normalise"), value) << text;
    EXPECT_EQ(spec.options.at("scan"), before.at("scan")) << text;
    EXPECT_EQ(resolved_options(spec), before) << text;
  }
}

TEST(StoredOptions, APolicyFileFromBeforeThemLoadsAsThePolicyThatItWas) {
  const TemporaryFolder folder;
  const std::string path = (folder / "policy.state").string();
  ThreadPool threads(1);
  const World world;
  const PolicySetup setup = cases::setup_of(world, threads);
  const PolicySpec before = parse_policy("mcnb:width=8:normalise=none:scan=all:scan_limit=0");
  const auto policy = make_policy(before, setup);
  play(world, *policy, 0, 20);
  save_policy_file(path, before, setup, *policy);
  OptionValues facts = facts_in(path);
  for (const char* name : {kOption, "option scan", "option scan_limit"}) {
    ASSERT_EQ(facts.erase(name), 1U);
  }
  save_state_file(path, {"policy", 2}, [&](StateWriter& writer) {
    write_options(writer, facts);
    policy->save(writer);
  });
  for (const char* text : {"mcnb:width=8", "mcnb:width=8:normalise=none"}) {
    const auto loaded = load_policy_file(path, parse_policy(text), setup);
    ASSERT_TRUE(cases::saved(*loaded) == cases::saved(*policy));
    const auto went_on = load_policy_file(path, parse_policy(text), setup);
    const auto expected = make_policy(before, setup);
    play(world, *expected, 0, 40);
    play(world, *went_on, 20, 40);
    EXPECT_TRUE(cases::saved(*went_on) == cases::saved(*expected)) << text;
  }
  expect_error(ErrorKind::kUsage,
               "option normalise: the file was saved with \"none\", asked for is \"unit\"",
               [&] { load_policy_file(path, parse_policy("mcnb:width=8:normalise=unit"), setup); });
  expect_error(ErrorKind::kUsage,
               "option scan: the file was saved with \"all\", asked for is \"sampled\"",
               [&] { load_policy_file(path, parse_policy("mcnb:width=8:scan=sampled"), setup); });
}

TEST(StoredOptions, APolicyFileOfTodayKeepsThem) {
  const TemporaryFolder folder;
  const std::string path = (folder / "policy.state").string();
  ThreadPool threads(1);
  const World world;
  const PolicySetup setup = cases::setup_of(world, threads);
  const PolicySpec spec = parse_policy("mcnb:width=8");
  const auto policy = make_policy(spec, setup);
  play(world, *policy, 0, 20);
  save_policy_file(path, spec, setup, *policy);
  EXPECT_EQ(facts_in(path).at(kOption), "unit");
  EXPECT_TRUE(cases::saved(*load_policy_file(path, spec, setup)) == cases::saved(*policy));
  expect_error(ErrorKind::kUsage,
               "option normalise: the file was saved with \"unit\", asked for is \"none\"",
               [&] { load_policy_file(path, parse_policy("mcnb:width=8:normalise=none"), setup); });
}

}  // namespace
}  // namespace mcnb::stored_options_test
