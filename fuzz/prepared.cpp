#include <fstream>

#include "fuzz/expectations.h"
#include "mcnb/data/prepare/user_pool.h"
#include "tests/temporary_folder.h"

namespace mcnb {
namespace {

const Provenance kMadeFrom{{}, "fuzz"};

void expect_sound(const ItemLists& lists, const RecommendationData& data) {
  check(lists.begin.size() == data.member_count() + 1, "every member has a list");
  std::size_t items = 0;
  for (std::size_t member = 0; member < data.member_count(); ++member) {
    for (const std::uint32_t item : lists.of(member)) {
      check(item < data.item_count(), "items are those there are");
    }
    items += lists.count(member);
  }
  check(items == lists.items.size() && items > 0, "every item is in a list");
}

void expect_unit_features(std::span<const float> features, std::size_t rows) {
  check(features.size() == rows * kRecommendationFeatures, "everyone has features");
  check(std::ranges::all_of(features, [](float value) { return std::abs(value) <= 1.0F; }),
        "features are those of unit vectors");
}

void expect_sound(const RecommendationData& data) {
  expect_unit_features(data.item_features, data.item_count());
  expect_unit_features(data.member_features, data.member_count());
  expect_sound(data.liked, data);
  expect_sound(data.not_liked, data);
  check(!describe(data).empty(), "it can be described");
}

// Four members and three items: each member likes one item and dislikes another.
RecommendationData small_data() {
  constexpr std::uint32_t kItems = 3;
  RecommendationData data;
  data.item_numbers = {0, 1, 2};
  data.member_numbers = {0, 1, 2, 3};
  data.item_features.assign(data.item_count() * kRecommendationFeatures, 0.25F);
  data.member_features.assign(data.member_count() * kRecommendationFeatures, 0.25F);
  for (std::uint32_t member = 0; member < data.member_count(); ++member) {
    data.liked.begin.push_back(member);
    data.liked.items.push_back(member % kItems);
    data.not_liked.begin.push_back(member);
    data.not_liked.items.push_back((member + 1) % kItems);
  }
  data.liked.begin.push_back(data.member_count());
  data.not_liked.begin.push_back(data.member_count());
  return data;
}

void expect_sound(const UserPool& pool, const RecommendationData& data) {
  check(pool.user_count() > 0, "there are users");
  expect_unit_features(pool.features, pool.user_count());
  for (std::size_t user = 0; user < pool.user_count(); ++user) {
    check(!pool.of(user).empty(), "every user has members");
    for (const std::uint32_t member : pool.of(user)) {
      check(member < data.member_count(), "members are those there are");
    }
  }
  check(!describe(pool).empty(), "it can be described");
}

}  // namespace
}  // namespace mcnb

// The first byte selects the kind of prepared data; the other bytes are the data. They are put into
// a file with valid checksums, so that the fuzzer gets past the check of the checksums.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  static const TemporaryFolder folder(quick_folder());
  static const RecommendationData small = small_data();
  if (size == 0) {
    return 0;
  }
  const std::filesystem::path path = folder / "prepared";
  const bool is_pool = data[0] % 2 == 1;
  {
    std::ofstream file(path, std::ios::binary);
    StateWriter writer(file, "fuzz", is_pool ? kUserPoolState : kRecommendationState);
    writer.write_bytes(data + 1, size - 1);
    writer.finish();
  }
  try {
    if (is_pool) {
      expect_sound(load_user_pool(path, small, kMadeFrom), small);
    } else {
      expect_sound(load_recommendation(path, kMadeFrom));
    }
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kInput,
          "damaged data is called that");
  }
  return 0;
}
