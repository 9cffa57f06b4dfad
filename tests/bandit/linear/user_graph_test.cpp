#include "mcnb/bandit/linear/user_graph.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "mcnb/base/random.h"
#include "tests/bandit/plain_user_graph.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::user_graph_test {
namespace {

using plain::expect_error;

using cases::PlainUserGraph;
using Kind = cases::PlainUserGraph::Kind;

std::unique_ptr<UserGraph> make(Kind kind, const UserRows& known, std::uint64_t seed = 3) {
  return kind == Kind::kComplete ? complete_user_graph(known) : random_user_graph(known, seed);
}

void expect_same(const UserGraph& graph, const UserRows& known, const PlainUserGraph& plain) {
  std::map<std::uint32_t, std::vector<UserId>> components;
  UserGraph::Links links;
  for (std::uint32_t user = 0; user < plain.size(); ++user) {
    components[graph.component(UserId{user})].push_back(UserId{user});
    std::set<std::uint32_t> rows;
    bool unknown = false;
    for (std::uint32_t other = 0; other < plain.size(); ++other) {
      const bool linked = plain.linked(user, other);
      ASSERT_EQ(graph.linked(UserId{user}, UserId{other}), linked) << user << ", " << other;
      const std::optional<std::uint32_t> row = known.row(UserId{other});
      if (linked && row) {
        rows.insert(*row);
      }
      unknown = unknown || (linked && !row);
    }
    if (known.row(UserId{user})) {
      graph.find_links(UserId{user}, links);
      ASSERT_EQ(std::set<std::uint32_t>(links.rows.begin(), links.rows.end()), rows) << user;
      ASSERT_EQ(links.rows.size(), rows.size());
      ASSERT_EQ(links.unknown, unknown) << user;
    }
  }
  ASSERT_EQ(components.size(), graph.component_count());
  for (const auto& [number, members] : components) {
    std::set<std::size_t> expected;
    for (const UserId user : members) {
      expected.insert(index(user));
    }
    ASSERT_EQ(plain.component(index(members.front())), expected);
    ASSERT_EQ(graph.members(members.back()), members);
    ASSERT_EQ(graph.size(members.front()), members.size());
  }
}

std::string save(const UserGraph& graph) {
  std::ostringstream out;
  StateWriter writer(out, "graph", {.kind = "test"});
  graph.save(writer);
  writer.finish();
  return out.str();
}

void load(UserGraph& graph, const std::string& bytes) {
  std::istringstream in(bytes);
  StateReader reader(in, "graph", {.kind = "test"});
  graph.load(reader);
  reader.finish();
}

// What has happened in the comparisons with a plain graph.
struct Happened {
  std::size_t splits = 0;
  std::size_t merges = 0;
  std::size_t newcomers_among_known = 0;  // users who came when every earlier one was known
};

// A graph and a plain one, to which the same things happen.
struct Twins {
  Twins(Kind graph_kind, std::size_t users)
      : kind(graph_kind),
        known(users),
        graph(make(graph_kind, known)),
        plain(graph_kind, users, 3) {}

  void meet(UserId user) {
    if (!known.row(user)) {
      known.meet(user);
      graph->meet(user);
    }
  }

  // Cuts most edges to users of other groups, some to users of the own group, and sometimes those
  // to unknown users.
  void cut_some(UserId user, std::size_t groups, Rng& rng, Happened& happened) {
    UserGraph::Links cut;
    UserGraph::Links links;
    graph->find_links(user, links);
    for (const std::uint32_t row : links.rows) {
      const std::size_t other = index(known.user(row));
      if (rng.chance(other % groups == index(user) % groups ? 0.1 : 0.9)) {
        cut.rows.push_back(row);
        plain.cut(index(user), other);
      }
    }
    cut.unknown = links.unknown && rng.chance(0.3);
    for (std::size_t other = 0; cut.unknown && other < plain.size(); ++other) {
      if (!known.row(UserId{static_cast<std::uint32_t>(other)})) {
        plain.cut(index(user), other);
      }
    }
    const std::size_t before = graph->component_count();
    const std::size_t fresh = graph->cut(user, cut).size();
    ASSERT_EQ(graph->component_count(), before + fresh);
    happened.splits += fresh;
  }

  void add_users(std::size_t count, Happened& happened) {
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t other = 0; other < known.user_count(); ++other) {
      numbers.push_back(graph->component(UserId{other}));
    }
    std::vector<std::size_t> met;
    for (std::uint32_t row = 0; row < known.count(); ++row) {
      met.push_back(index(known.user(row)));
    }
    happened.newcomers_among_known += count > 0 && met.size() == plain.size() ? 1 : 0;
    known.add_users(count);
    plain.add_newcomers(count, met);
    const bool renumbered = graph->add_users(count);
    happened.merges += renumbered ? 1 : 0;
    for (std::uint32_t other = 0; !renumbered && other < numbers.size(); ++other) {
      ASSERT_EQ(graph->component(UserId{other}), numbers[other]);
    }
  }

  void save_and_load() {
    const std::string state = save(*graph);
    graph = make(kind, known);
    load(*graph, state);
    ASSERT_TRUE(save(*graph) == state);
  }

  Kind kind;
  UserRows known;
  std::unique_ptr<UserGraph> graph;
  PlainUserGraph plain;
};

// Users become known, lose edges to known and unknown ones, and new ones come.
void compare_with_plain(Kind kind, std::uint64_t seed, Happened& happened) {
  Rng rng(seed, Stream::kTest);
  Twins twins(kind, 1 + rng.below(40));
  const std::size_t groups = 1 + rng.below(4);
  for (int i = 0; i < 250; ++i) {
    const UserId user{static_cast<std::uint32_t>(rng.below(twins.known.user_count()))};
    twins.meet(user);
    twins.cut_some(user, groups, rng, happened);
    if (rng.chance(0.03)) {
      twins.add_users(rng.below(3), happened);
    }
    if (i % 10 == 0) {
      expect_same(*twins.graph, twins.known, twins.plain);
      twins.save_and_load();
      expect_same(*twins.graph, twins.known, twins.plain);
    }
    if (testing::Test::HasFatalFailure()) {
      FAIL() << "seed " << seed << ", step " << i;
    }
  }
}

TEST(UserGraph, MatchesAPlainMatrixWhateverHappens) {
  for (const Kind kind : {Kind::kComplete, Kind::kRandom}) {
    SCOPED_TRACE(kind == Kind::kComplete ? "complete" : "random");
    Happened happened;
    for (std::uint64_t seed = 0; seed < 15; ++seed) {
      compare_with_plain(kind, seed, happened);
    }
    EXPECT_GT(happened.splits, 100U);
    EXPECT_GT(happened.newcomers_among_known, 5U);
    if (kind == Kind::kRandom) {
      EXPECT_GT(happened.merges, 10U);
    } else {
      EXPECT_EQ(happened.merges, 0U) << "newcomers leave components as they are";
    }
  }
}

TEST(UserGraph, ARandomOneHasAboutAsManyEdgesAsItShould) {
  const std::size_t users = 2000;
  const UserRows known(users);
  const auto graph = random_user_graph(known, 5);
  std::size_t edges = 0;
  for (std::uint32_t a = 0; a < users; ++a) {
    for (std::uint32_t b = 0; b < a; ++b) {
      edges += graph->linked(UserId{a}, UserId{b}) ? 1 : 0;
    }
  }
  const double pairs = users * (users - 1) / 2.0;
  const double chance = 3.0 * std::log(2000.0) / 2000.0;
  const double deviation = std::sqrt(pairs * chance * (1.0 - chance));
  EXPECT_NEAR(static_cast<double>(edges), pairs * chance, 4.0 * deviation);
  EXPECT_EQ(graph->component_count(), 1U);
  EXPECT_FALSE(save(*graph) == save(*random_user_graph(known, 6)));
  EXPECT_TRUE(save(*graph) == save(*random_user_graph(known, 5)));
}

TEST(UserGraph, AMillionUsersOfWhomFewAreKnownCostLittle) {
  UserRows known(1'000'000);
  const auto graph = complete_user_graph(known);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const UserId user{i * 991};
    known.meet(user);
    graph->meet(user);
    graph->cut(user, {.rows = {}, .unknown = i % 2 == 1});  // never the last of their edges
  }
  EXPECT_LT(graph->memory_bytes() + known.memory_bytes(), 500'000U);
  EXPECT_EQ(graph->component_count(), 1U);
  EXPECT_EQ(graph->size(UserId{5}), 1'000'000U);
  EXPECT_FALSE(graph->linked(UserId{991}, UserId{1}));
  EXPECT_TRUE(graph->linked(UserId{0}, UserId{1}));
  known.add_users(1);
  graph->add_users(1);
  EXPECT_FALSE(graph->linked(UserId{991}, UserId{1'000'000})) << "as those who are not known";
  EXPECT_TRUE(graph->linked(UserId{0}, UserId{1'000'000}));
}

TEST(UserGraph, FreshOnesKnowWhomTheirUsersKnow) {
  UserRows known(5);
  known.meet(UserId{3});
  known.meet(UserId{1});
  const auto some = complete_user_graph(known);
  EXPECT_EQ(some->component_count(), 1U);
  EXPECT_EQ(some->size(UserId{0}), 5U);
  for (const std::uint32_t user : {0U, 2U, 4U}) {
    known.meet(UserId{user});
  }
  const auto all = complete_user_graph(known);
  EXPECT_EQ(all->component_count(), 1U);
  EXPECT_EQ(all->size(UserId{0}), 5U);
  EXPECT_EQ(all->members(UserId{2}).size(), 5U);
}

TEST(UserGraph, StatesThatDoNotFitTheUsersAreRefused) {
  for (const Kind kind : {Kind::kComplete, Kind::kRandom}) {
    UserRows known(8);
    const auto graph = make(kind, known);
    for (const std::uint32_t user : {2U, 5U, 7U}) {
      known.meet(UserId{user});
      graph->meet(UserId{user});
    }
    UserGraph::Links links;
    graph->find_links(UserId{5}, links);
    graph->cut(UserId{5}, links);  // alone
    const std::string state = save(*graph);
    UserRows more = known;
    if (kind == Kind::kComplete) {
      more.meet(UserId{1});
    } else {
      more.add_users(1);
    }
    const auto other = make(kind, more);
    expect_error(ErrorKind::kCorrupt, "not that of its users", [&] { load(*other, state); });
    EXPECT_NO_THROW(load(*make(kind, known), state));
  }
}

TEST(UserGraph, ARandomOneWithImpossibleListsIsRefused) {
  struct Saved {
    std::vector<std::uint32_t> components = {0, 0, 1};
    std::uint64_t count = 2;
    std::vector<std::uint32_t> second = {0};
    std::vector<std::uint32_t> third = {};
  };
  const auto load_saved = [](const Saved& saved) {
    std::ostringstream out;
    StateWriter writer(out, "graph", {.kind = "test"});
    writer.write_all(saved.components);
    writer.write(saved.count);
    writer.write_all(std::vector<std::uint32_t>{});
    writer.write_all(saved.second);
    writer.write_all(saved.third);
    writer.finish();
    const UserRows known(3);
    const auto graph = random_user_graph(known, 1);
    load(*graph, out.str());
    return graph->component_count();
  };
  EXPECT_EQ(load_saved({}), 2U);
  EXPECT_EQ(load_saved({.components = {1, 1, 0}}), 2U);
  const auto refused = [&](const std::string& words, const Saved& saved) {
    expect_error(ErrorKind::kCorrupt, words, [&] { load_saved(saved); });
  };
  refused("not that of its users", {.components = {0, 0}});
  refused("not that of its users", {.count = 4});
  refused("not in their order", {.second = {1}});
  refused("not in their order", {.third = {1, 0}});
  refused("not in their order", {.third = {1, 1}});
  for (const std::vector<std::uint32_t>& components :
       {std::vector<std::uint32_t>{0, 1, 1}, {0, 0, 0}, {0, 0, 2}, {0, 1, 0}, {1, 0, 0}}) {
    refused("not what its links make", {.components = components});
  }
  refused("not what its links make", {.count = 3});
  refused("not what its links make", {.count = 1});
}

}  // namespace
}  // namespace mcnb::user_graph_test
