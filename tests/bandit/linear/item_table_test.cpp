#include "mcnb/bandit/linear/item_table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "mcnb/numeric/kmeans.h"
#include "tests/bandit/policy_cases.h"

namespace mcnb::item_table_test {
namespace {

using plain::expect_error;

constexpr std::uint32_t kInputs = 4;

// An arm that borrows its features.
Arm arm_of(const std::vector<float>& x, std::uint32_t item, std::uint32_t offset = 0) {
  return {.item = ItemId{item}, .features = {x, offset}};
}
constexpr std::uint32_t kNone = 0xffffffffU;

std::string save(const ItemTable& table) {
  std::ostringstream out;
  StateWriter writer(out, "items", {.kind = "test"});
  table.save(writer);
  writer.finish();
  return out.str();
}

ItemTable load(const std::string& bytes, const FeatureBlocks& blocks, std::size_t groups = 2) {
  std::istringstream in(bytes);
  StateReader reader(in, "items", {.kind = "test"});
  ItemTable table(kInputs, {.groups = groups}, 1);
  table.load(reader, blocks);
  reader.finish();
  return table;
}

TEST(ItemTable, KnowsItemsByTheirIdsFromTheirFirstFeedbackOn) {
  ItemTable table(kInputs, {.groups = 2}, 1);
  const std::vector<float> x = {1.0F, 0.0F, 0.0F, 0.0F};
  const std::vector<float> y = {0.0F, 1.0F, 0.0F, 0.0F};
  const std::vector<float> near_y = {0.0F, 0.9F, 0.1F, 0.0F};
  EXPECT_FALSE(table.find(arm_of(x, 7), 0).has_value());
  const ItemTable::Meeting first = table.learn(arm_of(x, 7), 0);
  EXPECT_EQ(first.item, 0U);
  EXPECT_FALSE(first.like.has_value());
  EXPECT_FALSE(first.began_anew);
  EXPECT_EQ(table.find(arm_of(y, 7), 0), 0U);    // the id counts
  EXPECT_EQ(table.find(arm_of(y, 999), 0), 0U);  // an unknown id is taken for the only item
  EXPECT_EQ(table.learn(arm_of(y, 999), 0).like, 0U);
  EXPECT_EQ(table.find(arm_of(near_y, 5), 0), 1U);
  EXPECT_EQ(table.learn(arm_of(near_y, 5), 0).like, 1U);
  EXPECT_EQ(table.size(), 3U);
  // An item has the features that were seen last.
  EXPECT_EQ(table.learn(arm_of(y, 7), 0).item, 0U);
  EXPECT_FALSE(table.learn(arm_of(y, 7), 0).like.has_value());
  EXPECT_EQ(table.features(0).values[1], 1.0F);
}

TEST(ItemTable, NearestItemsThatTieGoToTheFirst) {
  ItemTable table(kInputs, {.groups = 2}, 1);
  const std::vector<float> x = {1.0F, 0.0F, 0.0F, 0.0F};
  table.learn(arm_of(x, 3), 0);
  table.learn(arm_of(x, 1), 0);
  EXPECT_EQ(table.find(arm_of(x, 2), 0), 0U);
}

TEST(ItemTable, BlocksStandForItemsWithoutIds) {
  ItemTable table(kInputs, {.groups = 2}, 1);
  const std::vector<float> x = {1.0F, 0.5F};
  EXPECT_TRUE(table.learn(arm_of(x, kNone, 2), 0).began_anew);
  const ItemTable::Meeting second = table.learn(arm_of(x, kNone, 0), 1);
  EXPECT_EQ(second.item, 1U);
  EXPECT_EQ(second.like, 0U);
  EXPECT_FALSE(second.began_anew);
  EXPECT_EQ(table.find(arm_of(x, kNone, 0), 1), 1U);
  EXPECT_EQ(table.find(arm_of(x, 5, 2), 0), 0U);
  EXPECT_EQ(table.learn(arm_of(x, 5, 2), 0).item, 0U) << "ids no longer count";
  EXPECT_EQ(table.size(), 2U);
}

TEST(ItemTable, GroupsStandForItemsWithoutIdsOnceThereAreFeaturesEnough) {
  constexpr std::size_t kGroups = 3;
  ItemTable table(kInputs, {.groups = kGroups}, 9);
  Rng rng(1, Stream::kTest);
  std::vector<float> sample;
  std::vector<float> x;
  for (std::size_t i = 0; i < ItemTable::kSamplesPerGroup * kGroups; ++i) {
    EXPECT_EQ(table.size(), 0U);
    x = cases::draw_unit(rng, kInputs);
    sample.insert(sample.end(), x.begin(), x.end());
    if (i < 4) {
      table.start({x, 0});
    } else {
      const ItemTable::Meeting meeting = table.learn(arm_of(x, kNone), 0);
      EXPECT_EQ(meeting.began_anew, i == 4);
      EXPECT_EQ(meeting.item.has_value(), i + 1 == ItemTable::kSamplesPerGroup * kGroups);
    }
  }
  const KMeans expected = k_means(sample, kInputs, kGroups, 9);
  ASSERT_EQ(table.size() * kInputs, expected.centres.size());
  for (std::size_t item = 0; item < table.size(); ++item) {
    const Features centre = table.features(item);
    EXPECT_TRUE(std::equal(centre.values.begin(), centre.values.end(),
                           expected.centres.begin() + static_cast<std::ptrdiff_t>(item * kInputs)));
  }
  EXPECT_EQ(table.find(arm_of(x, kNone), 0), expected.group.back());
  const std::string before = save(table);
  for (int i = 0; i < 20; ++i) {
    x = cases::draw_unit(rng, kInputs);
    EXPECT_EQ(table.find(arm_of(x, kNone), 0), table.learn(arm_of(x, kNone), 0).item);
  }
  EXPECT_TRUE(save(table) == before) << "groups do not move";
}

TEST(ItemTable, IdsCanBeIgnored) {
  const std::vector<float> x = {1.0F, 0.5F, 0.0F, 2.0F};
  ItemTable table(kInputs, {.ids = false, .groups = 1}, 1);
  EXPECT_TRUE(table.learn(arm_of(x, 3), 0).began_anew);
  EXPECT_FALSE(table.learn(arm_of(x, 3), 0).item.has_value()) << "not yet enough for groups";
}

TEST(ItemTable, AnIdTooManyBeginsAnew) {
  ItemTable table(kInputs, {.most = 4, .groups = 1}, 1);
  Rng rng(2, Stream::kTest);
  std::vector<float> x;
  for (const std::uint32_t item : {7U, 4'000'000'000U, 1000U, 7U, 0U}) {  // whatever they are
    x = cases::draw_unit(rng, kInputs);
    EXPECT_FALSE(table.learn(arm_of(x, item), 0).began_anew);
  }
  EXPECT_EQ(table.size(), 4U);
  EXPECT_EQ(table.find(arm_of(x, 1000), 0), 2U) << "in the order of their first feedback";
  FeatureBlocks blocks;
  blocks.find_or_add({x, 0});
  std::istringstream in(save(table));
  StateReader reader(in, "items", {.kind = "test"});
  ItemTable loaded(kInputs, {.most = 4, .groups = 1}, 1);
  loaded.load(reader, blocks);
  EXPECT_TRUE(save(loaded) == save(table));
  for (ItemTable* each : {&table, &loaded}) {
    EXPECT_FALSE(each->learn(arm_of(x, 4'000'000'000U), 0).began_anew);
    const ItemTable::Meeting meeting = each->learn(arm_of(x, 1), 0);  // the fifth
    EXPECT_TRUE(meeting.began_anew);
    EXPECT_EQ(meeting.item, 0U);
    EXPECT_EQ(each->size(), 1U);
  }
  EXPECT_TRUE(save(loaded) == save(table));
}

TEST(ItemTable, AThousandIdsAreItemsUnlessOtherwiseAskedFor) {
  ItemTable table(kInputs, {}, 1);
  const std::vector<float> x = {1.0F, 0.5F, 0.0F, 2.0F};
  for (std::uint32_t item = 0; item < 1000; ++item) {
    EXPECT_FALSE(table.learn(arm_of(x, 5000 - item), 0).began_anew);
  }
  EXPECT_EQ(table.size(), 1000U);
  EXPECT_TRUE(table.learn(arm_of(x, 5001), 0).began_anew);
}

TEST(ItemTable, LoadsWhatWasSaved) {
  const std::vector<float> x = {1.0F, 0.5F};
  const std::vector<float> whole = {1.0F, 0.5F, 0.0F, 2.0F};
  FeatureBlocks halves;
  halves.find_or_add({x, 0});
  halves.find_or_add({x, 2});
  FeatureBlocks one;
  one.find_or_add({whole, 0});
  ItemTable ids(kInputs, {.groups = 2}, 1);
  ids.learn(arm_of(x, 4, 2), 1);
  ids.learn(arm_of(x, 9, 0), 0);
  EXPECT_TRUE(save(load(save(ids), halves)) == save(ids));
  EXPECT_EQ(load(save(ids), halves).find(arm_of(x, 9, 0), 0), 1U);
  ItemTable blocks(kInputs, {.groups = 2}, 1);
  blocks.learn(arm_of(x, kNone, 2), 1);
  EXPECT_TRUE(save(load(save(blocks), halves)) == save(blocks));
  ItemTable groups(kInputs, {.groups = 2}, 1);
  groups.start({whole, 0});
  groups.learn(arm_of(whole, kNone), 0);
  EXPECT_TRUE(save(load(save(groups), one)) == save(groups));
  expect_error(ErrorKind::kCorrupt, "not finite", [&] { load(save(ids), one); });
  for (std::size_t length = 0; length < save(ids).size(); ++length) {
    expect_error(ErrorKind::kCorrupt, "items", [&] { load(save(ids).substr(0, length), halves); });
  }
}

TEST(ItemTable, StatesThatNoTableWouldHaveSavedAreRefused) {
  const std::vector<float> block(kInputs, 0.0F);
  FeatureBlocks blocks;
  blocks.find_or_add({block, 0});
  struct Saved {
    std::uint32_t identity = 0;
    std::vector<std::uint32_t> keys = {5, 999};
    std::vector<std::uint32_t> offsets = {0, 0};
    std::vector<float> values = {1.0F, 2.0F, 3.0F, 4.0F};
    std::vector<float> sample = {1.0F, 2.0F, 3.0F, 4.0F};
  };
  const auto load_saved = [&](const Saved& saved) {
    std::ostringstream out;
    StateWriter writer(out, "items", {.kind = "test"});
    writer.write(saved.identity);
    writer.write_all(saved.keys);
    writer.write_all(saved.offsets);
    for (std::size_t i = 0; i < saved.offsets.size(); ++i) {
      writer.write_all(saved.values);
    }
    writer.write_all(saved.sample);
    writer.finish();
    return load(out.str(), blocks).size();
  };
  EXPECT_EQ(load_saved({}), 2U);
  EXPECT_EQ(load_saved({.identity = 2, .keys = {}}), 2U);
  const auto refused = [&](const std::string& words, const Saved& saved) {
    expect_error(ErrorKind::kCorrupt, words, [&] { load_saved(saved); });
  };
  refused("wrong number of items", {.identity = 3});
  refused("wrong number of items", {.identity = 2});
  refused("wrong number of items", {.keys = {5}});
  refused("wrong number of items", {.identity = 2, .keys = {}, .offsets = {0, 0, 0}});
  refused("known twice", {.keys = {5, 5}});
  refused("none can have", {.keys = {5, kNone}});
  refused("none can have", {.identity = 1, .keys = {5, 1000}});
  refused("not finite", {.offsets = {0, 1}});
  refused("not finite", {.values = {1.0F}});
  refused("not finite", {.values = {1.0F, 2.0F, 3.0F, std::nanf("")}});
  refused("gathered for groups", {.sample = {1.0F, 2.0F, 3.0F}});
  refused("gathered for groups", {.sample = {1.0F, 2.0F, 3.0F, HUGE_VALF}});
  refused("longer than it can be", {.sample = std::vector<float>(11 * kInputs, 0.0F)});
}

}  // namespace
}  // namespace mcnb::item_table_test
