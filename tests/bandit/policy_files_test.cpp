#include <gtest/gtest.h>

#include "mcnb/bandit/saved_policy.h"
#include "mcnb/base/option_codec.h"
#include "tests/bandit/every_policy.h"
#include "tests/temporary_folder.h"

namespace mcnb::policy_files_test {
namespace {

using cases::Arrival;
using cases::for_every_policy;
using cases::Session;
using cases::World;
using plain::expect_error;

TEST(PolicyFiles, KeepAPolicyAndWhatItWasMadeWith) {
  const TemporaryFolder folder;
  const std::string path = (folder / "policy.state").string();
  for_every_policy([&](const std::string& text, const World& world) {
    ThreadPool threads(2);
    const PolicySpec spec = parse_policy(text);
    const PolicySetup setup = cases::setup_of(world, threads);
    const auto policy = make_policy(spec, setup);
    Session session(world, Arrival::kAtOnce);
    session.play(*policy, 0, 30);
    policy->add_users(1);  // more than at the start
    save_policy_file(path, spec, setup, *policy);
    const auto copy = load_policy_file(path, spec, setup);
    EXPECT_TRUE(cases::saved(*copy) == cases::saved(*policy));
  });
}

TEST(PolicyFiles, AreRefusedWhereAnythingDiffers) {
  const TemporaryFolder folder;
  const std::string path = (folder / "policy.state").string();
  ThreadPool threads(1);
  const PolicySetup setup = cases::setup_of({}, threads);
  const PolicySpec spec = parse_policy("linucb:alpha=0.5");
  save_policy_file(path, spec, setup, *make_policy(spec, setup));
  const auto refused = [&](const std::string& words, const std::string& text,
                           const PolicySetup& other) {
    expect_error(ErrorKind::kUsage, path + ": " + words,
                 [&] { load_policy_file(path, parse_policy(text), other); });
  };
  refused("policy: the file was saved with \"linucb\", asked for is \"random\"", "random", setup);
  refused("option alpha: the file was saved with \"0.5\", asked for is \"0.25\"",
          "linucb:alpha=0.25", setup);
  refused("option alpha: the file was saved with \"0.5\", asked for is \"", "linucb", setup);
  refused("option users: the file was saved with \"one\", asked for is \"each\"",
          "linucb:alpha=0.5:users=each", setup);
  PolicySetup other = setup;
  other.seed = 8;
  refused("seed: the file was saved with \"7\", asked for is \"8\"", spec.label, other);
  other = setup;
  other.inputs = 6;
  refused("inputs: the file was saved with \"5\", asked for is \"6\"", spec.label, other);
  other = setup;
  other.users = 2;
  refused("users at the start: the file was saved with \"3\", asked for is \"2\"", spec.label,
          other);
  EXPECT_NO_THROW(load_policy_file(path, spec, setup));
}

// Version 1 had another checksum of the users' features, so a load does not compare it.
TEST(PolicyFiles, OfVersion1AreRead) {
  const TemporaryFolder folder;
  const std::string path = (folder / "linucb.mcnb").string();
  ThreadPool threads(1);
  const std::vector<float> looks{1.0F, 0.0F, 0.5F};
  PolicySetup setup{.inputs = 2, .users = 3, .seed = 5, .threads = &threads};
  setup.user_features = looks;
  setup.user_feature_count = 1;
  const PolicySpec spec = parse_policy("linucb");
  const auto policy = make_policy(spec, setup);
  save_policy_file(path, spec, setup, *policy);
  OptionValues identity;
  try {
    load_state_file(path, {"policy", 3}, [&](StateReader& reader) {
      identity = read_options(reader);
      throw Error(ErrorKind::kUsage, "the rest is not needed");
    });
  } catch (const Error& error) {
    ASSERT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  }
  ASSERT_EQ(identity.count("what users look like"), 1U);
  identity["what users look like"] = "af63bd4c8601b7df";
  const auto rewrite = [&](std::uint32_t version) {
    save_state_file(path, {"policy", version}, [&](StateWriter& writer) {
      write_options(writer, identity);
      policy->save(writer);
    });
  };
  rewrite(1);
  EXPECT_NO_THROW(load_policy_file(path, spec, setup));
  rewrite(2);
  expect_error(ErrorKind::kUsage, "what users look like",
               [&] { load_policy_file(path, spec, setup); });
  identity["seed"] = "6";
  rewrite(1);
  expect_error(ErrorKind::kUsage, "seed", [&] { load_policy_file(path, spec, setup); });
}

TEST(PolicyFiles, KeepTheNamesOfUsers) {
  const TemporaryFolder folder;
  const std::string path = (folder / "policy.state").string();
  ThreadPool threads(1);
  const PolicySpec spec = parse_policy("linucb");
  const PolicySetup setup{.inputs = 4, .users = 1, .seed = 3, .threads = &threads};
  const auto policy = make_policy(spec, setup);
  policy->add_users(1);
  save_trained_policy(path, spec, setup, *policy, {.users = {"ann", ""}, .next_round = 17});
  const SavedPolicy saved = load_saved_policy(path, threads);
  EXPECT_EQ(saved.memory.users, (std::vector<std::string>{"ann", ""}));
  EXPECT_EQ(saved.memory.next_round, 17U);
  EXPECT_TRUE(cases::saved(*saved.policy) == cases::saved(*policy));
  EXPECT_NO_THROW(load_policy_file(path, spec, setup));
  save_trained_policy(path, spec, setup, *policy, {.users = {"a", "b", "c"}});
  expect_error(ErrorKind::kCorrupt, "more users have names than there are",
               [&] { load_saved_policy(path, threads); });
}

TEST(PolicyFiles, ThatAreDamagedOrMissingAreRefused) {
  const TemporaryFolder folder;
  const std::string path = (folder / "policy.state").string();
  ThreadPool threads(1);
  const PolicySetup setup = cases::setup_of({}, threads);
  const PolicySpec spec = parse_policy("linucb");
  expect_error(ErrorKind::kSystem, path, [&] { load_policy_file(path, spec, setup); });
  save_policy_file(path, spec, setup, *make_policy(spec, setup));
  std::string contents = file_contents(path);
  put_file(path, contents.substr(0, contents.size() / 2));
  expect_error(ErrorKind::kCorrupt, path, [&] { load_policy_file(path, spec, setup); });
  contents[contents.size() / 2] = static_cast<char>(contents[contents.size() / 2] ^ 1);
  put_file(path, contents);
  expect_error(ErrorKind::kCorrupt, path, [&] { load_policy_file(path, spec, setup); });
}

}  // namespace
}  // namespace mcnb::policy_files_test
