#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "mcnb/numeric/network_pool.h"
#include "tests/numeric/plain_network.h"
#include "tests/temporary_folder.h"

namespace mcnb::network_pool_state_test {
namespace {

using plain::expect_error;
using plain::OwnFeatures;
using plain::SimdTargetInScope;

const StateHeader kHeader{.kind = "network-pool", .version = 1};

UserId user(std::size_t number) { return static_cast<UserId>(number); }

std::string state_of(const StateHeader& header, const std::function<void(StateWriter&)>& write) {
  std::ostringstream out;
  StateWriter writer(out, "test", header);
  write(writer);
  writer.finish();
  return out.str();
}

std::string save(const NetworkPool& pool) {
  return state_of(kHeader, [&](StateWriter& writer) { pool.save(writer); });
}

NetworkPool load(const std::string& bytes) {
  std::istringstream in(bytes);
  StateReader reader(in, "test", kHeader);
  NetworkPool pool = NetworkPool::load(reader);
  reader.finish();
  return pool;
}

// Users 1, 4 and 6 of seven are distinct.
NetworkPool make_pool(const NetworkShape& shape) {
  Rng rng(1, Stream::kTest);
  NetworkPool pool(shape, plain::draw_network(rng, shape));
  pool.add_users(7);
  for (const std::size_t i : {4U, 1U, 6U}) {  // so that the slab's order is not the users'
    pool.set_parameters(user(i), plain::draw_network(rng, shape));
  }
  return pool;
}

void expect_same(const NetworkPool& a, const NetworkPool& b) {
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_TRUE(plain::same_bits(a.start(), b.start()));
  EXPECT_EQ(a.distinct_count(), b.distinct_count());
  ASSERT_EQ(a.user_count(), b.user_count());
  for (std::size_t i = 0; i < a.user_count(); ++i) {
    EXPECT_EQ(a.is_distinct(user(i)), b.is_distinct(user(i))) << i;
    EXPECT_TRUE(plain::same_bits(a.parameters(user(i)), b.parameters(user(i)))) << i;
  }
}

TEST(NetworkPoolState, LoadsBitForBitWhatWasSaved) {
  for (const NetworkShape& shape : plain::some_shapes(5)) {
    const NetworkPool pool = make_pool(shape);
    const std::string bytes = save(pool);
    const NetworkPool loaded = load(bytes);
    expect_same(pool, loaded);
    EXPECT_EQ(save(loaded), bytes) << plain::describe(shape);
  }
}

TEST(NetworkPoolState, SharedUsersStaySharedAndCostNoRoom) {
  const NetworkShape shape{.inputs = 10};
  NetworkPool pool(shape, random_network(shape, Initialisation::kPaper, 1));
  pool.add_users(1000);
  EXPECT_LT(save(pool).size(), 4 * (1000U + shape.parameter_count()) + 1000);
  const NetworkPool loaded = load(save(pool));
  EXPECT_EQ(loaded.user_count(), 1000U);
  EXPECT_EQ(loaded.distinct_count(), 0U);
  EXPECT_EQ(loaded.parameters(user(999)).data(), loaded.start().data());
}

TEST(NetworkPoolState, AnEmptyPoolLoads) {
  const NetworkShape shape{.inputs = 2, .width = 3};
  const NetworkPool loaded = load(save(NetworkPool(shape, std::vector<float>(9, 0.5F))));
  EXPECT_EQ(loaded.user_count(), 0U);
  EXPECT_TRUE(plain::same_bits(loaded.start(), std::vector<float>(9, 0.5F)));
}

TEST(NetworkPoolState, ALoadedPoolGoesOnAsTheSavedOneWouldHave) {
  const NetworkShape shape{.inputs = 6, .width = 20, .depth = 3, .biases = true};
  ThreadPool threads(1);
  NetworkPool pool = make_pool(shape);
  NetworkPool loaded = load(save(pool));
  const auto go_on = [&](NetworkPool& from) {
    Rng rng(2, Stream::kTest);
    Rng order(3, Stream::kTrainingOrder);
    TrainingScratch scratch;
    for (std::size_t i = 0; i < 10; ++i) {
      const OwnFeatures x{plain::draw(rng, 3), static_cast<std::uint32_t>(i % 4)};
      const OwnFeatures y{plain::draw(rng, 6)};
      const std::vector<UserId> users = {user(i % 3), user(3 + i % 4)};
      from.step(threads, users, {x.view(), 1.0F}, 0.05F);
      const std::vector<Sample> samples = {{x.view(), 0.0F}, {y.view(), 1.0F}};
      from.train(user(i % 7), samples, {.step_limit = 5}, order, scratch);
      from.add_users(1);
    }
  };
  go_on(pool);
  go_on(loaded);
  expect_same(pool, loaded);
}

TEST(NetworkPoolState, RemembersTheInstructionSetInUse) {
  const NetworkPool pool = make_pool({.inputs = 3, .width = 4});
  EXPECT_EQ(pool.saved_simd_target(), "");
  for (const std::string& target : kernels::simd_targets()) {
    std::string bytes;
    {
      const SimdTargetInScope scope(target);
      bytes = save(pool);
    }
    EXPECT_EQ(load(bytes).saved_simd_target(), target);
  }
}

TEST(NetworkPoolState, GoesThroughFiles) {
  const TemporaryFolder folder;
  const std::string path = (folder / "pool").string();
  const NetworkPool pool = make_pool({.inputs = 3, .width = 4});
  pool.save_file(path);
  expect_same(pool, NetworkPool::load_file(path));
  expect_error(ErrorKind::kSystem, "missing",
               [&] { NetworkPool::load_file((folder / "missing").string()); });
  expect_error(ErrorKind::kSystem, "no_folder",
               [&] { pool.save_file((folder / "no_folder" / "pool").string()); });
  put_file(path, file_contents(path).substr(0, 200));
  expect_error(ErrorKind::kCorrupt, path, [&] { NetworkPool::load_file(path); });
}

// ---- damage

TEST(NetworkPoolState, EveryChangedByteIsNoticed) {
  const std::string bytes = save(make_pool({.inputs = 3, .width = 4}));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int bit : {0, 7}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      expect_error(ErrorKind::kCorrupt, "test: ", [&] { load(damaged); });
    }
    if (testing::Test::HasFailure()) {
      FAIL() << "byte " << i;
    }
  }
}

TEST(NetworkPoolState, EveryTruncationIsNoticedAndSoAreBytesBehindTheEnd) {
  const std::string bytes = save(make_pool({.inputs = 3, .width = 4}));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    expect_error(ErrorKind::kCorrupt, "test: ", [&] { load(bytes.substr(0, length)); });
  }
  expect_error(ErrorKind::kCorrupt, "test: ", [&] { load(bytes + "x"); });
  expect_error(ErrorKind::kCorrupt, "test: ", [&] { load(bytes + bytes); });
}

TEST(NetworkPoolState, AnotherKindOrANewerVersionIsRefused) {
  const NetworkPool pool = make_pool({.inputs = 3, .width = 4});
  const auto write = [&](StateWriter& writer) { pool.save(writer); };
  EXPECT_NO_THROW(load(state_of(kHeader, write)));
  expect_error(ErrorKind::kCorrupt, "holds a ridge, expected a network-pool",
               [&] { load(state_of({.kind = "ridge", .version = 1}, write)); });
  expect_error(ErrorKind::kCorrupt, "version 2",
               [&] { load(state_of({.kind = "network-pool", .version = 2}, write)); });
}

// ---- states that no pool would have written, with checksums that match

// A pool's state field by field, at first a fine one: users 0 and 2 of three are distinct.
struct Fields {
  std::string simd_target = "plain";
  std::uint32_t inputs = 2;
  std::uint32_t width = 3;
  std::uint32_t depth = 2;
  std::vector<float> start = std::vector<float>(9, 0.5F);
  std::vector<std::uint32_t> slots = {1, 0xffffffffU, 0};
  std::uint64_t distinct = 2;
  std::vector<float> slab = std::vector<float>(18, 0.25F);
};

std::string state_of(const Fields& fields) {
  return state_of(kHeader, [&](StateWriter& writer) {
    writer.write_string(fields.simd_target);
    writer.write(fields.inputs);
    writer.write(fields.width);
    writer.write(fields.depth);
    writer.write(std::uint8_t{0});
    writer.write_all(fields.start);
    writer.write_all(fields.slots);
    writer.write(fields.distinct);
    writer.write_bytes(fields.slab.data(), fields.slab.size() * sizeof(float));
  });
}

void expect_refused(const std::string& words, const std::function<void(Fields&)>& spoil) {
  Fields fields;
  spoil(fields);
  expect_error(ErrorKind::kCorrupt, words, [&] { load(state_of(fields)); });
}

TEST(NetworkPoolState, FieldsOfTheseTestsAreThoseOfAPool) {
  const NetworkPool pool = load(state_of(Fields()));
  EXPECT_EQ(pool.distinct_count(), 2U);
  EXPECT_TRUE(pool.is_distinct(user(0)) && !pool.is_distinct(user(1)) && pool.is_distinct(user(2)));
  EXPECT_TRUE(plain::same_bits(pool.parameters(user(0)), std::vector<float>(9, 0.25F)));
  EXPECT_TRUE(plain::same_bits(pool.parameters(user(1)), std::vector<float>(9, 0.5F)));
}

TEST(NetworkPoolState, ImpossibleShapesAreRefused) {
  expect_refused("inputs", [](Fields& fields) { fields.inputs = 0; });
  expect_refused("inputs", [](Fields& fields) { fields.inputs = 0xffffffffU; });
  expect_refused("width", [](Fields& fields) { fields.width = 0; });
  expect_refused("width", [](Fields& fields) { fields.width = 0xffffffffU; });
  expect_refused("depth", [](Fields& fields) { fields.depth = 1; });
  expect_refused("depth", [](Fields& fields) { fields.depth = 0xffffffffU; });
  expect_refused("parameters", [](Fields& fields) {
    fields.width = 1U << 14;
    fields.depth = 60;
  });
  expect_refused("a list is longer", [](Fields& fields) { fields.simd_target.assign(33, 'a'); });
}

TEST(NetworkPoolState, ParametersThatDoNotMatchTheShapeAreRefused) {
  expect_refused("start", [](Fields& fields) { fields.start.pop_back(); });
  expect_refused("a list is longer", [](Fields& fields) { fields.start.push_back(0.5F); });
  expect_refused("start", [](Fields& fields) { fields.start.clear(); });
  expect_refused("ends too early", [](Fields& fields) { fields.slab.pop_back(); });
  expect_refused("more data follows", [](Fields& fields) { fields.slab.push_back(0.5F); });
}

TEST(NetworkPoolState, ParametersThatAreNotFiniteAreRefused) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    expect_refused("finite", [&](Fields& fields) { fields.start[0] = bad; });
    expect_refused("finite", [&](Fields& fields) { fields.start[8] = bad; });
    expect_refused("finite", [&](Fields& fields) { fields.slab[0] = bad; });
    expect_refused("finite", [&](Fields& fields) { fields.slab[17] = bad; });
  }
}

TEST(NetworkPoolState, TablesOfUsersThatDoNotMatchTheNetworksAreRefused) {
  const std::string words = "the table of users does not match";
  constexpr std::uint32_t kShared = 0xffffffffU;
  expect_refused(words, [](Fields& fields) { fields.slots = {0, 0, 1}; });
  expect_refused(words, [](Fields& fields) { fields.slots = {0, 0, kShared}; });  // two in one
  expect_refused(words, [](Fields& fields) { fields.slots = {2, kShared, 0}; });  // beyond
  expect_refused(words, [](Fields& fields) { fields.slots = {0xfffffffeU, 1, 0}; });
  expect_refused(words, [](Fields& fields) { fields.slots[0] = kShared; });  // one is missing
  expect_refused(words, [](Fields& fields) { fields.distinct = 1; });
  expect_refused(words, [](Fields& fields) { fields.distinct = 3; });
  expect_refused(words, [](Fields& fields) { fields.distinct = ~std::uint64_t{0}; });
}

// A pool refuses to save a state that could not be loaded, so that the last good file stays.
TEST(NetworkPoolState, ADivergedPoolIsNotSavedAndTheOldFileStays) {
  const TemporaryFolder folder;
  const std::string path = folder / "pool";
  ThreadPool threads(1);
  NetworkPool pool = make_pool({.inputs = 3, .width = 4});
  pool.save_file(path);
  const std::string before = file_contents(path);
  const std::vector<UserId> users = {user(5)};
  const OwnFeatures x{{1.0F, 2.0F, 3.0F}};
  const auto finite = [&] {
    return std::ranges::all_of(pool.parameters(user(5)),
                               [](float value) { return std::isfinite(value); });
  };
  ASSERT_TRUE(finite());
  pool.step(threads, users, {x.view(), 1e38F}, 1e38F);
  ASSERT_FALSE(finite());
  expect_error(ErrorKind::kLimit, "user 5", [&] { save(pool); });
  expect_error(ErrorKind::kLimit, "user 5", [&] { pool.save_file(path); });
  EXPECT_EQ(file_contents(path), before);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"pool"});
  expect_same(NetworkPool::load_file(path), make_pool({.inputs = 3, .width = 4}));
}

// The count of users in the file says 2^32 - 16, but few follow: no memory is taken for them.
TEST(NetworkPoolState, AHugeCountOfUsersIsRefusedWithoutHugeMemory) {
  const auto with_count = [](std::uint64_t users) {
    return state_of(kHeader, [&](StateWriter& writer) {
      const Fields fields;
      writer.write_string(fields.simd_target);
      writer.write(fields.inputs);
      writer.write(fields.width);
      writer.write(fields.depth);
      writer.write(std::uint8_t{0});
      writer.write_all(fields.start);
      writer.write(users);
      writer.write(std::uint32_t{0});
    });
  };
  expect_error(ErrorKind::kCorrupt, "ends too early",
               [&] { load(with_count(NetworkPool::kMaxUsers)); });
  expect_error(ErrorKind::kCorrupt, "a list is longer",
               [&] { load(with_count(NetworkPool::kMaxUsers + 1)); });
}

}  // namespace
}  // namespace mcnb::network_pool_state_test
