#include "mcnb/bandit/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/numeric/plain_network.h"

namespace mcnb::history_test {
namespace {

using plain::expect_error;
using plain::OwnFeatures;

constexpr std::uint64_t kSeed = 5;
const NetworkShape kShape{.inputs = 40};

struct OwnSample {
  OwnFeatures x;
  float reward = 0.0F;

  Sample view() const { return {x.view(), reward}; }
};

// The reward equals the number, so it identifies the sample.
OwnSample draw_sample(Rng& rng, std::size_t number) {
  const std::size_t count = 1 + rng.below(6);
  return {{plain::draw(rng, count), static_cast<std::uint32_t>(rng.below(40 - count))},
          static_cast<float>(number)};
}

std::vector<UserId> draw_users(Rng& rng, std::uint32_t users) {
  std::vector<UserId> some;
  for (std::uint32_t user = 0; user < users; ++user) {
    if (rng.chance(0.4)) {
      some.push_back(UserId{user});
    }
  }
  return some;
}

void expect_same(const Sample& found, const OwnSample& expected) {
  EXPECT_EQ(found.reward, expected.reward);
  EXPECT_EQ(found.features.offset, expected.x.offset);
  EXPECT_TRUE(plain::same_bits(found.features.values, expected.x.values));
}

std::string saved(const Histories& histories) {
  std::ostringstream out;
  StateWriter writer(out, "histories", {.kind = "test"});
  histories.save(writer);
  writer.finish();
  return out.str();
}

void load(Histories& histories, const std::string& state) {
  std::istringstream in(state);
  StateReader reader(in, "histories", {.kind = "test"});
  histories.load(reader, kShape);
  reader.finish();
}

// Histories, and plain lists with the same samples to compare with.
class Model {
 public:
  Model(std::size_t limit, std::uint32_t users) : histories(kSeed, limit), limit_(limit) {
    add_users(users);
  }

  void add_users(std::uint32_t count) {
    histories.add_users(count);
    lists_.resize(lists_.size() + count);
    joined_.resize(lists_.size());
  }

  void add(std::span<const UserId> users, const OwnSample& sample) {
    histories.add(users, sample.view());
    for (const UserId user : users) {
      std::vector<OwnSample>& list = lists_[index(user)];
      const std::uint64_t before = joined_[index(user)]++;
      if (limit_ == 0 || before < limit_) {
        list.push_back(sample);
        continue;
      }
      Rng rng(kSeed, Stream::kReservoir, before, static_cast<std::uint32_t>(user));
      const std::uint64_t position = rng.below(before + 1);
      if (position < limit_) {
        list[static_cast<std::size_t>(position)] = sample;
      }
    }
  }

  void add_some(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t number = from; number < to; ++number) {
      Rng rng(kSeed, Stream::kTest, number);
      const OwnSample sample = draw_sample(rng, number);
      add(draw_users(rng, static_cast<std::uint32_t>(lists_.size())), sample);
    }
  }

  void expect_equal() const {
    ASSERT_EQ(histories.user_count(), lists_.size());
    std::set<float> held;
    for (std::uint32_t user = 0; user < lists_.size(); ++user) {
      const std::vector<OwnSample>& list = lists_[user];
      ASSERT_EQ(histories.size(UserId{user}), list.size());
      ASSERT_EQ(histories.samples_of(UserId{user}).size(), list.size());
      for (std::size_t i = 0; i < list.size(); ++i) {
        expect_same(histories.sample(histories.event(UserId{user}, i)), list[i]);
        expect_same(histories.samples_of(UserId{user})[i], list[i]);
        held.insert(list[i].reward);
      }
    }
    std::set<float> stored;
    for (const Sample& sample : histories.all_samples()) {
      EXPECT_TRUE(stored.insert(sample.reward).second) << "stored twice: " << sample.reward;
    }
    EXPECT_EQ(stored, held);
    EXPECT_EQ(histories.memory_bytes(), histories.count_memory_bytes());
  }

  Histories histories;

 private:
  std::size_t limit_;
  std::vector<std::vector<OwnSample>> lists_;
  std::vector<std::uint64_t> joined_;
};

TEST(Histories, MatchPlainLists) {
  for (const std::size_t limit : {0U, 1U, 7U}) {
    SCOPED_TRACE(limit);
    Model model(limit, 6);
    model.expect_equal();
    for (std::uint64_t number = 0; number < 200; number += 10) {
      model.add_some(number, number + 10);
      model.expect_equal();
      if (number == 100) {
        model.add_users(2);
      }
    }
  }
}

TEST(Histories, AnEventForNobodyLeavesNothing) {
  Model model(0, 2);
  model.add_some(0, 5);
  Rng rng(1, Stream::kTest);
  model.add({}, draw_sample(rng, 99));
  model.expect_equal();
}

TEST(Histories, StoreAnEventOnceAndAReferenceInSixBytes) {
  constexpr std::uint32_t kUsers = 300;
  constexpr std::size_t kEvents = 3000;
  Histories histories(kSeed, 0);
  histories.add_users(kUsers);
  std::vector<UserId> all;
  for (std::uint32_t user = 0; user < kUsers; ++user) {
    all.push_back(UserId{user});
  }
  const std::vector<float> x(10, 0.25F);
  for (std::size_t i = 0; i < kEvents; ++i) {
    histories.add(all, {{x}, 1.0F});
    if ((i + 1) % 500 == 0) {  // wherever the capacity of a list is
      const double each =
          static_cast<double>(histories.memory_bytes()) / static_cast<double>(kUsers * (i + 1));
      EXPECT_LE(each, 8.0) << i;
      EXPECT_GE(each, 4.0) << i;
    }
  }
  EXPECT_EQ(histories.event_slots(), kEvents);
  EXPECT_EQ(histories.all_samples().size(), kEvents);
}

TEST(Histories, WithALimitMemoryStaysBounded) {
  constexpr std::uint32_t kUsers = 10;
  constexpr std::size_t kLimit = 8;
  Model model(kLimit, kUsers);
  model.add_some(0, 2000);
  const std::size_t memory = model.histories.memory_bytes();
  EXPECT_LE(model.histories.event_slots(), kUsers * kLimit + 1);
  model.add_some(2000, 12'000);
  EXPECT_LE(model.histories.event_slots(), kUsers * kLimit + 1);
  EXPECT_LE(model.histories.memory_bytes(), memory + memory / 10);
  model.expect_equal();
}

// Each of 60 events stays in a history of 6 with probability 1/10, early or late.
TEST(Histories, AReservoirIsAUniformSample) {
  constexpr std::uint32_t kUsers = 4000;
  constexpr std::size_t kEvents = 60;
  constexpr std::size_t kLimit = 6;
  Histories histories(kSeed, kLimit);
  histories.add_users(kUsers);
  std::vector<UserId> all;
  for (std::uint32_t user = 0; user < kUsers; ++user) {
    all.push_back(UserId{user});
  }
  const std::vector<float> x{1.0F};
  for (std::size_t i = 0; i < kEvents; ++i) {
    histories.add(all, {{x}, static_cast<float>(i)});
  }
  std::vector<double> counts(kEvents, 0.0);
  std::vector<double> both(kEvents, 0.0);  // held together with the last event
  std::set<std::vector<float>> different;
  for (const UserId user : all) {
    std::vector<float> held;
    for (const Sample& sample : histories.samples_of(user)) {
      held.push_back(sample.reward);
      counts[static_cast<std::size_t>(sample.reward)] += 1.0;
    }
    std::ranges::sort(held);
    ASSERT_EQ(std::ranges::adjacent_find(held), held.end());  // nothing twice
    for (const float event : held) {
      both[static_cast<std::size_t>(event)] += held.back() == kEvents - 1 ? 1.0 : 0.0;
    }
    different.insert(held);
  }
  const auto chi_square = [](std::span<const double> found, double expected) {
    double sum = 0.0;
    for (const double count : found) {
      sum += (count - expected) * (count - expected) / expected;
    }
    return sum;
  };
  // Both statistics have mean 59 and deviation 11: this one for events, the next one for pairs.
  EXPECT_LT(chi_square(counts, 1.0 * kUsers * kLimit / kEvents), 110.0);
  const double pairs = both.back() * (kLimit - 1) / (kEvents - 1);
  EXPECT_LT(chi_square(std::span(both).first(kEvents - 1), pairs), 110.0);
  EXPECT_GT(different.size(), kUsers * 9 / 10);  // every user has its own draws
}

TEST(Histories, ComeBackFromTheirState) {
  for (const std::size_t limit : {0U, 4U}) {
    SCOPED_TRACE(limit);
    Model through(limit, 5);
    through.add_some(0, 150);
    const std::string state = saved(through.histories);
    Model other(limit, 5);
    other.add_some(0, 150);
    Histories fresh(kSeed, limit);
    load(fresh, state);
    EXPECT_EQ(saved(fresh), state);
    other.histories = std::move(fresh);
    through.add_some(150, 300);
    other.add_some(150, 300);
    other.expect_equal();
    EXPECT_EQ(saved(other.histories), saved(through.histories));
  }
}

// The parts of a state as `save` writes them.
struct Slot {
  std::uint32_t offset = 0;
  std::uint32_t count = 2;
  float reward = 1.0F;
  std::uint32_t holders = 1;

  using Stored = StoredInOrder<&Slot::offset, &Slot::count, &Slot::reward, &Slot::holders>;
};
struct Parts {
  std::uint64_t stride = 2;
  std::vector<Slot> slots = {{}, {}, {.count = 0, .holders = 0}};
  std::vector<float> values = {1, 2, 3, 4, 0, 0};
  std::vector<std::uint32_t> free = {2};
  std::vector<std::uint64_t> joined = {9, 1};
  std::vector<std::vector<std::uint32_t>> references = {{0}, {1}};
};

void load_parts(const Parts& parts, std::size_t limit) {
  std::ostringstream out;
  StateWriter writer(out, "histories", {.kind = "test"});
  writer.write(parts.stride);
  writer.write_all(parts.slots);
  writer.write_all(parts.values);
  writer.write_all(parts.free);
  writer.write_all(parts.joined);
  writer.write(static_cast<std::uint64_t>(parts.references.size()));
  for (const auto& history : parts.references) {
    writer.write_all(history);
  }
  writer.finish();
  Histories histories(kSeed, limit);
  load(histories, out.str());
}

TEST(Histories, RefuseAStateThatTheyCannotHaveWritten) {
  load_parts({}, 1);
  Parts without_limit;
  without_limit.joined.clear();
  load_parts(without_limit, 0);
  const auto refused = [](const std::string& words, const std::function<void(Parts&)>& change,
                          std::size_t limit = 1) {
    expect_error(ErrorKind::kCorrupt, words, [&] {
      Parts parts;
      change(parts);
      load_parts(parts, limit);
    });
  };
  const auto nothing = [](Parts&) {};
  refused("the histories do not fit together", nothing, 0);
  refused("a bounded history is not as long", nothing, 3);
  refused("a bounded history is not as long", [](Parts& p) { p.joined[1] = 0; });
  refused("more features than the networks have inputs", [](Parts& p) { p.stride = 41; });
  refused("do not fit together", [](Parts& p) { p.values.pop_back(); });
  refused("do not fit together", [](Parts& p) { p.joined.pop_back(); });
  refused("an event that does not exist", [](Parts& p) { p.references[0] = {3}; });
  refused("an event that does not exist", [](Parts& p) { p.references[0] = {2}; });
  refused("could have been stored", [](Parts& p) { p.slots[0].holders = 2; });
  refused("could have been stored", [](Parts& p) { p.slots[0].offset = 39; });
  refused("could have been stored", [](Parts& p) { p.slots[0].count = 3; });
  refused("could have been stored", [](Parts& p) { p.slots[1].reward = NAN; });
  refused("free slots", [](Parts& p) { p.free = {3}; });
  refused("free slots", [](Parts& p) { p.free = {1}; });
  refused("free slots", [](Parts& p) { p.free = {2, 2}; });
  refused("not finite", [](Parts& p) { p.values[3] = INFINITY; });
}

TEST(Histories, SayWhereAnEventIs) {
  Rng rng(7, Stream::kTest);
  Histories histories(kSeed, 3);
  histories.add_users(1);
  const UserId user{0};
  int let_go = 0;
  for (std::size_t i = 0; i < 60; ++i) {
    const OwnSample sample = draw_sample(rng, i);
    const EventId event = histories.add({&user, 1}, sample.view());
    const std::vector<std::uint32_t>& kept = histories.events(user);
    if (std::ranges::find(kept, static_cast<std::uint32_t>(event)) != kept.end()) {
      expect_same(histories.sample(event), sample);
    } else {
      ++let_go;
      EXPECT_TRUE(histories.sample(event).features.values.empty());
    }
  }
  EXPECT_GT(let_go, 30);
}

}  // namespace
}  // namespace mcnb::history_test
