// Logs of others and our own are read, refused by file and line, and written as they were read.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "mcnb/base/random.h"
#include "mcnb/logs/timestamps.h"
#include "tests/evaluate/log_cases.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace mcnb::log_readers_test {
namespace {

using cases::rounds_in;
using cases::rounds_of;
using cases::written;

const std::string kBandit =
    R"({"_label_cost":-1.0,"_label_probability":0.8,"_label_Action":2,"_labelIndex":1,)"
    R"("o":[{"v":1.0,"EventId":"e1"}],"Timestamp":"2021-02-04T16:31:29.2460000Z","EventId":"e1",)"
    R"("a":[2,1,3],"p":[0.8,0.1,0.1],"c":{"User":{"age":30},"_user":"ann","_multi":[)"
    R"({"_tag":"tea","hot":true},{"_tag":"juice","sweet":0.5},{"_tag":"x","hashed":[0.5,-1]}]},)"
    R"("pdrop":0.5})";
const std::string kSlots =
    R"({"c":{"s":1,"_multi":[{"f":"1"},{"f":"2"},{"f":"3"}],"_slots":[{"_id":"top","n":1},)"
    R"({"_id":"side"}]},"_outcomes":[{"_label_cost":-0.25,"_id":"top","_a":[2,1,0],)"
    R"("_p":[0.5,0.25,0.25],"_o":[{"v":0.25}]},{"_label_cost":-0.0,"_id":"side","_a":[1,0],)"
    R"("_p":[0.5,0.5],"_o":[]}],"EventId":"e2"})";

TEST(LogReaders, ReadDecisionsOfDsjson) {
  const std::vector<LoggedRound> rounds = rounds_in(kBandit + "\n");
  ASSERT_EQ(rounds.size(), 1U);
  const LoggedRound& round = rounds[0];
  EXPECT_EQ(round.event, "e1");
  EXPECT_EQ(round.user, "ann");
  EXPECT_EQ(time_text(*round.time), "2021-02-04T16:31:29.246000Z");
  EXPECT_EQ(round.chosen, 1U);
  EXPECT_EQ(round.probability, 0.8);
  EXPECT_EQ(round.probabilities, (std::vector<double>{0.1, 0.8, 0.1}));
  EXPECT_TRUE(round.eligible.empty());
  EXPECT_EQ(round.reward, 1.0);
  EXPECT_FALSE(round.default_reward);
  EXPECT_FALSE(round.excluded);
  EXPECT_EQ(round.drop_probability, 0.5);
  EXPECT_EQ(round.context, R"({"User":{"age":30}})");
  EXPECT_EQ(round.actions,
            (std::vector<RoundAction>{
                {"tea", R"({"hot":true})"}, {"juice", R"({"sweet":0.5})"}, {"x", "[0.5,-1]"}}));
}

TEST(LogReaders, ReadSlotsOfDsjson) {
  const std::vector<LoggedRound> rounds = rounds_in(kSlots);
  ASSERT_EQ(rounds.size(), 2U);
  EXPECT_EQ(rounds[0].slot_id, "top");
  EXPECT_EQ(rounds[0].slot_features, R"({"n":1})");
  EXPECT_EQ(rounds[0].chosen, 2U);
  EXPECT_EQ(rounds[0].probability, 0.5);
  EXPECT_EQ(rounds[0].reward, 0.25);
  EXPECT_FALSE(rounds[0].default_reward);
  EXPECT_EQ(rounds[1].slot, 1U);
  EXPECT_EQ(rounds[1].slots, 2U);
  EXPECT_EQ(rounds[1].chosen, 1U);
  EXPECT_EQ(rounds[1].eligible, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(rounds[1].probabilities, (std::vector<double>{0.5, 0.5, 0.0}));
  EXPECT_TRUE(rounds[1].default_reward);
}

TEST(LogReaders, CountWhatIsNoRound) {
  ReadReport report;
  const auto rounds = rounds_of(
      text_input(kBandit + "\n[CHECKPOINT INFO LINE]\n" +
                 R"({"RewardValue":1.0,"EventId":"e1","Observations":[{"v":1.0}]})" + "\n"),
      {}, &report);
  EXPECT_EQ(rounds.size(), 1U);
  EXPECT_EQ(report.text(),
            "1 rows; left out: 1 checkpoint lines (first: file:2); left out: 1 rewards without a "
            "decision (first: file:3)");
}

TEST(LogReaders, ReadLinesOfOurOwnShape) {
  const auto rounds = rounds_in(
      R"({"event":"e","user":7,"time":"2026-01-31","context":{"a":1},"actions":["x",{"id":"y",)"
      R"("features":{"b":2}}],"chosen":"y","probability":0.25,"reward":0.5})");
  ASSERT_EQ(rounds.size(), 1U);
  EXPECT_EQ(rounds[0].user, "7");
  EXPECT_EQ(rounds[0].chosen, 1U);
  EXPECT_EQ(rounds[0].probability, 0.25);
  EXPECT_TRUE(rounds[0].probabilities.empty());
  EXPECT_EQ(rounds[0].actions[1].features, R"({"b":2})");
  EXPECT_EQ(rounds[0].reward, 0.5);
}

TEST(LogReaders, ReadTablesWhoseOtherColumnsAreTheContext) {
  const auto rounds = rounds_in(
      "day,action,probability,reward,user,visits\n"
      "Monday,tea,0.5,1,ann,3\n\"Friday, late\",juice,0.25,,bob,\n");
  ASSERT_EQ(rounds.size(), 2U);
  EXPECT_EQ(rounds[0].actions, (std::vector<RoundAction>{{"juice", ""}, {"tea", ""}}));
  EXPECT_EQ(rounds[0].chosen, 1U);
  EXPECT_EQ(rounds[0].context, R"({"day":"Monday","visits":3})");
  EXPECT_EQ(rounds[1].context, R"({"day":"Friday, late"})");
  EXPECT_FALSE(rounds[1].reward.has_value());
  const auto named = rounds_in("action,probability,reward,actions\nb,0.5,0,a|b|c\n");
  EXPECT_EQ(named[0].actions.size(), 3U);
  EXPECT_EQ(named[0].chosen, 1U);
}

TEST(LogReaders, ReadOpenBandit) {
  const TemporaryFolder folder;
  put_file(folder / "item_context.csv",
           ",item_id,item_feature_0,item_feature_1\n0,0,-0.5,aa\n1,1,0.25,bb\n");
  const std::string log =
      ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0,"
      "user-item_affinity_1\n"
      "0,2019-11-24 00:03:13.442536+00:00,1,3,1,0.25,u,0.0,2.0\n";
  put_file(folder / "men.csv.gz", gzipped(log));
  std::vector<LoggedRound> rounds;
  read_log_file(folder / "men.csv.gz", {},
                [&](const LoggedRound& round) { rounds.push_back(round); });
  ASSERT_EQ(rounds.size(), 1U);
  EXPECT_EQ(rounds[0].slot, 2U);
  EXPECT_EQ(rounds[0].chosen, 1U);
  EXPECT_EQ(rounds[0].reward, 1.0);
  EXPECT_EQ(rounds[0].probability, 0.25);
  EXPECT_EQ(rounds[0].context, R"({"user_feature_0":"u"})");
  EXPECT_EQ(rounds[0].actions[0].features, R"({"item_feature_0":-0.5,"item_feature_1":"aa"})");
  EXPECT_EQ(rounds[0].actions[1].features,
            R"({"item_feature_0":0.25,"item_feature_1":"bb","affinity":2})");
}

// Draws rounds with everything that a format can express.
std::vector<LoggedRound> drawn_rounds(bool whole) {
  std::vector<LoggedRound> rounds;
  for (std::uint64_t event = 0; event < 60; ++event) {
    Rng rng(2, Stream::kTest, event);
    LoggedRound round;
    round.event = "event \"" + std::to_string(event) + "\", \xc3\xa9";
    round.user = rng.chance(0.5) ? "user\n" + std::to_string(rng.below(5)) : "";
    round.context = rng.chance(0.5) ? R"({"a":{"b":[1,2.5]},"t":"x,\"y\""})" : "";
    if (rng.chance(0.8)) {
      round.time = static_cast<std::int64_t>(rng.below(2'000'000'000'000'000ULL));
    }
    round.excluded = rng.chance(0.1);
    round.drop_probability = rng.chance(0.2) ? 0.25 : 0.0;
    round.slots = 1 + static_cast<std::uint32_t>(rng.below(3));
    const std::size_t count = 3 + rng.below(3);
    for (std::size_t i = 0; i < count; ++i) {
      round.actions.push_back({fmt::format("a{}", i), rng.chance(0.3)   ? "[0.5,-0.25]"
                                                      : rng.chance(0.5) ? R"({"f":1.5})"
                                                                        : ""});
    }
    for (round.slot = 0; round.slot < round.slots; ++round.slot) {
      round.slot_id = round.slots > 1 ? fmt::format("s{}", round.slot) : "";
      round.slot_features = round.slots > 1 && rng.chance(0.5) ? R"({"w":2})" : "";
      round.chosen = static_cast<std::uint32_t>(rng.below(count));
      round.eligible.clear();
      if (rng.chance(0.3)) {
        round.eligible.assign(count, true);
        round.eligible[(round.chosen + 1) % count] = false;
      }
      round.probabilities.assign(count, 0.0);
      for (std::size_t i = 0; i < count; ++i) {
        round.probabilities[i] = round.is_eligible(i) ? 1.0 / static_cast<double>(2 * count) : 0.0;
      }
      round.probabilities[round.chosen] = 0.1 + 0.4 * rng.uniform();
      round.probability = round.probabilities[round.chosen];
      round.reward = static_cast<double>(rng.below(1000)) / 999.0;
      round.default_reward = rng.chance(0.3);
      if (whole && rng.chance(0.3)) {  // what dsjson cannot say
        round.probabilities.clear();
        round.reward.reset();
        round.default_reward = false;
      }
      rounds.push_back(round);
    }
  }
  return rounds;
}

TEST(LogWriters, WhatIsReadBackEqualsWhatWasWritten) {
  for (const LogFormat format : {LogFormat::kJsonLines, LogFormat::kCsv, LogFormat::kDsjson}) {
    const std::vector<LoggedRound> rounds = drawn_rounds(format != LogFormat::kDsjson);
    const std::string text = written(format, rounds);
    const std::vector<LoggedRound> read = rounds_in(text);
    ASSERT_EQ(read.size(), rounds.size());
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      EXPECT_EQ(read[i], rounds[i]) << static_cast<int>(format) << " round " << i;
    }
    EXPECT_EQ(written(format, read), text);
  }
}

TEST(LogWriters, DsjsonRefusesWhatItCannotSay) {
  LoggedRound round{.event = "e", .actions = {{"a", ""}, {"b", ""}}, .probability = 0.5};
  round.reward = 1.0;
  expect_error(ErrorKind::kInput, "needs the probability of every action",
               [&] { written(LogFormat::kDsjson, {round}); });
  round.probabilities = {0.5, 0.5};
  round.reward.reset();
  expect_error(ErrorKind::kInput, "event \"e\" has no reward",
               [&] { written(LogFormat::kDsjson, {round}); });
  round.reward = 1.0;
  round.slots = 2;
  expect_error(ErrorKind::kInput, "only 1 of its 2 slots",
               [&] { written(LogFormat::kDsjson, {round}); });
}

struct Damage {
  std::string line;
  std::string message;
};

// Replaces the first occurrence of a part of a text.
std::string changed(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), by);
}

TEST(LogReaders, NameFileLineAndFieldOfDamage) {
  const std::vector<Damage> damages = {
      {kBandit.substr(0, 100), "log:2: expected a JSON object"},
      {changed(kBandit, "\"p\":[0.8,0.1,", "\"p\":[0.8,"), "p: expected as many numbers"},
      {changed(kBandit, "\"a\":[2,1,3]", "\"a\":[2,1,4]"), "a: expected indices from 1 to 3"},
      {changed(kBandit, "\"a\":[2,1,3]", "\"a\":[2,1,2]"), "a: expected indices from 1 to 3"},
      {changed(kBandit, "_probability\":0.8", "_probability\":0"), "probability: expected"},
      {changed(kBandit, "_probability\":0.8", "_probability\":1.5"), "probability: expected"},
      {changed(kBandit, "[0.8,", "[-0.8,"), "probabilities: expected numbers in [0, 1]"},
      {changed(kBandit, "_label_cost\":-1.0", "_label_cost\":\"x\""),
       "_label_cost: expected a num"},
      {changed(kBandit, "_label_cost\":-1.0", "_label_cost\":1e300"), "reward: expected"},
      {changed(kBandit, "_labelIndex\":1", "_labelIndex\":2"), "_label_Action: expected 3"},
      {changed(kBandit, "2021-02-04", "2021-02-30"), "Timestamp: expected a time"},
      {changed(kBandit, "\"pdrop\":0.5", "\"pdrop\":1"), "drop probability: expected"},
      {changed(kBandit, "_multi", "multi"), "expected a member \"_multi\""},
      {changed(kSlots, ",{\"_id\":\"side\"}", ""), "_outcomes: expected one for each of 1 slots"},
      {R"({"_label_cost":0})", "expected a member \"c\""},
      {"7", "line: expected an object"}};
  for (const Damage& damage : damages) {
    const std::string text = kBandit + "\n" + damage.line + "\n" + kSlots + "\n";
    const std::string message = refusal([&] { rounds_in(text); });
    EXPECT_TRUE(message.starts_with("log:2: ")) << message;
    EXPECT_NE(message.find(damage.message), std::string::npos) << message;
    ReadReport report;
    EXPECT_EQ(rounds_of(text_input(text), {.skip_bad = 1}, &report).size(), 3U);
    ASSERT_EQ(report.skipped.size(), 1U);
    EXPECT_EQ(report.skipped[0], (ReadReport::Skipped{"damaged lines", 1, "file:2"}));
  }
}

TEST(LogReaders, SkipOnlySoManyDamagedLines) {
  const std::string text = kBandit + "\n{\n" + kBandit + "\n{\n";
  EXPECT_EQ(rounds_in(text, {.skip_bad = 2}).size(), 2U);
  const std::string message = refusal([&] { rounds_in(text, {.skip_bad = 1}); });
  EXPECT_TRUE(message.starts_with("log:4: ")) << message;
}

TEST(LogReaders, RefuseTablesByLineAndColumn) {
  const std::string head = "action,probability,reward,actions\na,0.5,1,a|b\n";
  for (const auto& [line, words] : std::vector<std::pair<std::string, std::string>>{
           {"c,0.5,1,a|b", "action: expected one of those in the column actions"},
           {"a,0,1,a|b", "probability: expected a number above 0"},
           {"a,1e-101,1,a|b", "probability: expected a number above 0 (at least 1e-100)"},
           {"a,nan,1,a|b", "probability: expected a finite number"},
           {"a,0.5,inf,a|b", "reward: expected a finite number"},
           {"a,0.5,1", "expected 4 columns"}}) {
    const std::string message = refusal([&] { rounds_in(head + line + "\n"); });
    EXPECT_TRUE(message.starts_with("log:3: ")) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
  EXPECT_NE(refusal([&] { rounds_in("a,b,c\n1,2,3\n"); }).find("log:1: expected a log"),
            std::string::npos);
}

// The structure of an exported line is that of the sample it was read from: the same members with
// the same types, except for those that only Personalizer's own service knows.
void expect_same_structure(const nlohmann::json& sample, const nlohmann::json& exported,
                           const std::string& path) {
  if (sample.is_object()) {
    ASSERT_TRUE(exported.is_object()) << path;
    for (const auto& [name, value] : sample.items()) {
      if (name == "_ba") {  // what the default policy would have shown, which rounds do not keep
        continue;
      }
      ASSERT_TRUE(exported.contains(name)) << path << "." << name;
      expect_same_structure(value, exported[name], path + "." + name);
    }
  } else if (sample.is_array()) {
    ASSERT_TRUE(exported.is_array() && exported.size() == sample.size()) << path;
    for (std::size_t i = 0; i < sample.size(); ++i) {
      expect_same_structure(sample[i], exported[i], path + "[" + std::to_string(i) + "]");
    }
  } else {
    EXPECT_EQ(sample.is_number(), exported.is_number()) << path;
    EXPECT_EQ(sample.is_string(), exported.is_string()) << path;
  }
}

TEST(LogReaders, RealSamplesOfDsjsonAreReadAndExported) {
  MCNB_NEED_REAL_DATA(data);
  const std::filesystem::path folder = data / "dsjson";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no samples of dsjson";
  }
  ReadReport report;
  const auto news = rounds_of(Input::file(folder / "news.dsjson"), {}, &report);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_TRUE(news[0].excluded);
  EXPECT_EQ(news[0].actions.size(), 6U);
  ASSERT_EQ(report.skipped.size(), 2U);
  EXPECT_EQ(report.skipped[0].rows, 6U);
  EXPECT_EQ(report.skipped[1].rows, 1U);
  const auto drop = rounds_of(Input::file(folder / "slots_pdrop.dsjson"));
  ASSERT_EQ(drop.size(), 2U);
  EXPECT_EQ(drop[0].drop_probability, 0.9);
  for (const char* name : {"contextual_bandit.dsjson", "slots.dsjson", "slots_pdrop.dsjson"}) {
    const auto rounds = rounds_of(Input::file(folder / name));
    const std::string text = written(LogFormat::kDsjson, rounds);
    EXPECT_EQ(rounds_in(text), rounds);
    std::istringstream exported(text);
    std::istringstream original(file_contents(folder / name));
    std::size_t lines = 0;
    for (std::string line, ours; std::getline(original, line); ++lines) {
      ASSERT_TRUE(std::getline(exported, ours));
      expect_same_structure(nlohmann::json::parse(line), nlohmann::json::parse(ours), name);
    }
    EXPECT_EQ(lines, name == std::string("contextual_bandit.dsjson") ? 12U : 1U);
  }
}

TEST(LogReaders, RealSamplesOfOpenBanditHaveTheirCounts) {
  MCNB_NEED_REAL_DATA(data);
  for (const auto& [policy, clicks] : {std::pair{"random", 46.0}, std::pair{"bts", 69.0}}) {
    const std::filesystem::path log = data / "open-bandit" / policy / "men" / "men.csv.gz";
    if (!std::filesystem::exists(log)) {
      GTEST_SKIP() << "no sample of Open Bandit";
    }
    double found = 0.0;
    std::uint64_t rounds = 0;
    std::vector<std::uint64_t> slots(3);
    read_log_file(log, {}, [&](const LoggedRound& round) {
      found += *round.reward;
      ++slots.at(round.slot);
      ASSERT_EQ(round.actions.size(), 34U);
      if (++rounds % 1000 == 0) {
        EXPECT_EQ(rounds_in(written(LogFormat::kJsonLines, {round})).front(), round);
      }
    });
    EXPECT_EQ(rounds, 10'000U);
    EXPECT_EQ(found, clicks);
    EXPECT_GT(*std::ranges::min_element(slots), 3000U);
  }
}

}  // namespace
}  // namespace mcnb::log_readers_test
