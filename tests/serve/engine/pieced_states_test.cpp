// The states of all policies, written in pieces over and over into a data folder.

#include <gtest/gtest.h>

#include <sstream>

#include "mcnb/bandit/policies.h"
#include "mcnb/serve/engine/saved_state.h"
#include "tests/serve/model_cases.h"
#include "tests/serve/store/piece_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::pieced_states_test {
namespace {

using namespace cases;

constexpr std::uint32_t kModel = 1;
constexpr std::uint64_t kStore = 77;

// Every policy, and variants with other states.
std::vector<std::string> policies() {
  std::vector<std::string> all = {"hierarchical:features=trained:body_units=10:first_fit=5",
                                  "mcnb:scan=all:training=replay", "linucb:users=hybrid",
                                  "neural-linear:graph=random:alpha_2=0.3"};
  for (const PolicyHelp& help : policy_help()) {
    if (help.name != "neuau") {  // the service has no features of users
      all.push_back(help.name);
    }
  }
  return all;
}

void teach(Ledger& ledger, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t i = from; i < to; ++i) {
    const std::string event = "event-" + std::to_string(i);
    ledger.rank(request_of(i, "user-" + std::to_string(i * i % 20)));
    if (i % 4 > 0) {
      ledger.reward(event, static_cast<float>(i % 2));
    }
  }
}

TEST(PiecedStates, OfEveryPolicyComeBackBitForBit) {
  for (const std::string& text : policies()) {
    SCOPED_TRACE(text);
    ModelOptions options = small_model();
    options.policy = parse_policy(text);
    bound_histories(options);
    const TemporaryFolder folder;
    const std::unique_ptr<Storage> storage = open_data_folder(folder.path(), StorageAccess::kOwn);
    SnapshotStore& store = storage->snapshots();
    Ledger ledger(options);
    std::string before;
    for (std::uint64_t position = 1; position < 5; ++position) {
      teach(ledger, 12 * (position - 1), 12 * position);
      const std::string expected = snapshot_bytes(*ledger, kStore);
      SavedState state(*ledger, kStore, 0, store.known_pieces(kModel, false));
      store.write_pieces(kModel, position, state.pieces());
      EXPECT_EQ(read_snapshot(store, kModel, position), expected);
      if (position > 1) {
        EXPECT_EQ(read_snapshot(store, kModel, position - 1), before);
      }
      before = expected;
    }
    ThreadPool threads(1);
    Model again(options, threads);
    const SnapshotSource source = store.open(kModel, 4);
    load_snapshot(*source.bytes, source.name, kStore, again);
    EXPECT_EQ(state_bytes(again), ledger.state());
  }
}

// Learners lie one behind the other in a state, and what one of them learns changes few pieces.
TEST(PiecedStates, OfWhichFewLearnersChangedAreMostlyKnown) {
  for (const char* text : {"mcnb:width=30", "hierarchical"}) {
    SCOPED_TRACE(text);
    ModelOptions options;
    options.dimension = 8;
    options.policy = parse_policy(text);
    bound_histories(options);
    const TemporaryFolder folder;
    const std::unique_ptr<Storage> storage = open_data_folder(folder.path(), StorageAccess::kOwn);
    SnapshotStore& store = storage->snapshots();
    ThreadPool threads(1);
    Model model(options, threads);
    std::vector<float> features(8, 0.2F);
    for (std::size_t user = 0; user < 6000; ++user) {
      features[user % 8] = static_cast<float>(user) / 12000.0F;
      model.prepare("user-" + std::to_string(user), {{features}, static_cast<float>(user % 2)});
    }
    std::uint64_t whole = 0;
    std::uint64_t sent = 0;
    for (std::uint64_t position = 1; position < 5; ++position) {
      model.prepare("late-" + std::to_string(position), {{features}, 1.0F});
      SavedState state(model, kStore, 0, store.known_pieces(kModel, false));
      PiecedState pieces = state.pieces();
      whole = 0;
      sent = 0;
      pieces.next = [&, next = pieces.next] {
        std::optional<SnapshotPiece> piece = next();
        whole += piece ? piece->size : 0;
        sent += piece ? piece->bytes.size() : 0;
        return piece;
      };
      store.write_pieces(kModel, position, pieces);
      EXPECT_EQ(read_snapshot(store, kModel, position), snapshot_bytes(model, kStore));
    }
    EXPECT_GT(sent, 0U);
    EXPECT_LT(sent, whole / 4);
  }
}

}  // namespace
}  // namespace mcnb::pieced_states_test
