// docs/FORMATS.md, byte by byte: readers written after the page alone find what the model has.

#include <gtest/gtest.h>

#include <cstring>

#include "mcnb/base/hash.h"
#include "mcnb/serve/model/events.h"
#include "tests/serve/model_cases.h"

namespace mcnb::formats_page_test {
namespace {

// Takes numbers, texts and lists from the front of bytes, as the page describes them. `Count` is
// the type of counts: 8 bytes in saved states, 4 in bodies of the log.
template <class Count>
class Bytes {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return bytes(number<Count>()); }
  template <class T>
  std::vector<T> list() {
    std::vector<T> values(number<Count>());
    for (T& value : values) {
      value = number<T>();
    }
    return values;
  }
  std::string bytes(std::size_t count) {
    if (count > bytes_.size() - at_) {
      throw std::out_of_range("the page describes more bytes than there are");
    }
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

// The stream in the frames of a saved state.
std::string stream_of(const std::string& state) {
  Bytes<std::uint64_t> in(state);
  EXPECT_EQ(in.bytes(8), "MCNBsta1");
  std::string stream;
  for (std::uint64_t number = 1;; ++number) {
    const auto length = in.number<std::uint64_t>();
    const auto checksum = in.number<std::uint64_t>();
    const std::string frame = in.bytes(length);
    EXPECT_EQ(checksum, hash_bytes(frame, number));
    if (frame.empty()) {
      break;
    }
    stream += frame;
  }
  EXPECT_EQ(in.left(), 0U);
  return stream;
}

OptionValues options_in(Bytes<std::uint64_t>& in) {
  OptionValues options;
  for (auto count = in.number<std::uint64_t>(); count > 0; --count) {
    const std::string name = in.text();
    options[name] = in.text();
  }
  return options;
}

RankRequest deferred(std::uint64_t number) {
  RankRequest request = cases::request_of(number, "ann");
  request.deferred = true;
  return request;
}

// What a snapshot says of outcomes, values and challengers: event-1 has ended, event-2 has not.
void expect_outcomes(Bytes<std::uint64_t>& in, cases::Ledger& ledger) {
  EXPECT_EQ(in.number<std::uint64_t>(), 0U) << "decisions that count";
  EXPECT_EQ(in.number<std::uint64_t>(), 0U) << "decisions left out";
  EXPECT_EQ(in.number<double>(), 0.0) << "sum of rewards";
  EXPECT_EQ(in.number<std::uint64_t>(), 2U) << "outcomes that do not count yet";
  EXPECT_EQ(in.number<std::uint64_t>(), *ledger->find_decision("event-1"));
  EXPECT_EQ(in.number<std::uint64_t>(), ledger->user_key("ann"));
  EXPECT_EQ(in.number<std::int64_t>(), 1000);
  EXPECT_EQ(in.number<double>(), ledger->options().epsilon);
  EXPECT_EQ(in.number<float>(), 1.0F) << "reward";
  EXPECT_GT(in.number<float>(), 0.0F) << "probability";
  EXPECT_EQ(in.number<std::uint32_t>(), 3U) << "actions that were not excluded";
  EXPECT_EQ(in.number<std::uint16_t>(), 0U) << "what challengers preferred";
  EXPECT_EQ(in.number<std::uint16_t>() & 7U, 5U) << "ended, scored";
  in.bytes(48);
  EXPECT_EQ(in.number<std::uint64_t>(), 0U) << "since when the policy is estimated";
  in.bytes(3 * 80);  // the values of policy, random and first
  EXPECT_EQ(in.number<std::uint64_t>(), 1U) << "challengers";
  EXPECT_EQ(in.text(), "linear");
  EXPECT_EQ(options_in(in).at("policy"), "linucb");
  EXPECT_EQ(in.number<std::uint32_t>(), 0U) << "slot";
  EXPECT_EQ(in.number<std::uint64_t>(), ledger->last_position()) << "since when it is estimated";
  in.bytes(2 * 8 + 2 * 80);
}

TEST(FormatsPage, ASnapshotIsReadAsThePageSays) {
  cases::Ledger ledger(cases::small_model());
  ledger.rank(cases::request_of(1, "ann"), 1000);
  ledger.reward("event-1", 1.0F, "r");
  ledger.reward("event-1", 1.0F, "other");
  const Decision waiting = ledger.rank(deferred(2), 3000);
  ledger.reward("event-2", 0.25F, "early", 4000);
  ChallengerOptions linear;
  linear.policy = parse_policy("linucb");
  ledger.add(ChallengerBegin{4000, "linear", option_values(linear)});
  Bytes<std::uint64_t> in(stream_of(snapshot_bytes(*ledger, 77)));
  EXPECT_EQ(in.text(), "served-model");
  EXPECT_EQ(in.number<std::uint32_t>(), 3U);
  EXPECT_EQ(in.number<std::uint64_t>(), 77U) << "the number of the database";
  EXPECT_EQ(options_in(in), option_values(ledger->options()));
  const OptionValues policy = options_in(in);
  EXPECT_EQ(policy.at("policy"), "mcnb");
  EXPECT_EQ(policy.at("options.width"), "8");
  EXPECT_EQ(in.number<std::uint64_t>(), ledger->last_position());
  EXPECT_EQ(in.number<std::int64_t>(), ledger->last_time());
  EXPECT_EQ(in.number<std::uint64_t>(), ledger->counts().decisions);
  in.bytes(13 * 8);
  EXPECT_EQ(in.number<std::uint64_t>(), 1U) << "learners";
  EXPECT_EQ(in.number<std::uint64_t>(), 2U) << "its decisions";
  EXPECT_EQ(in.number<std::uint64_t>(), 1U) << "its lessons";
  EXPECT_EQ(in.list<std::uint64_t>(), std::vector{ledger->user_key("ann")});
  EXPECT_TRUE(in.list<std::uint32_t>().empty()) << "free learners";

  EXPECT_EQ(in.number<std::uint64_t>(), 1U) << "waiting events";
  EXPECT_EQ(in.number<std::uint64_t>(), ledger->event_key("event-2"));
  EXPECT_EQ(in.number<std::uint64_t>(), *ledger->find_decision("event-2"));
  EXPECT_EQ(in.number<std::uint64_t>(), ledger->user_key("ann"));
  EXPECT_EQ(in.number<std::int64_t>(), 3000);
  EXPECT_EQ(in.number<std::uint32_t>(), 0U) << "learner";
  EXPECT_EQ(in.number<std::uint32_t>(), waiting.arm);
  EXPECT_EQ(in.number<std::uint8_t>(), 0) << "not active";
  EXPECT_EQ(in.number<std::uint8_t>(), 1) << "is learned from";
  EXPECT_EQ(in.number<float>(), 1.0F / (3.0F * waiting.actions[waiting.chosen].probability));
  EXPECT_EQ(in.list<float>().size(), 4U) << "features";
  EXPECT_EQ(in.list<float>(), std::vector{0.25F});
  EXPECT_EQ(in.list<std::uint64_t>().size(), 1U) << "ids of rewards";

  EXPECT_EQ(in.number<std::uint64_t>(), 1U) << "ended events";
  EXPECT_EQ(in.number<std::uint64_t>(), ledger->event_key("event-1"));
  EXPECT_EQ(in.number<std::uint64_t>(), *ledger->find_decision("event-1"));
  EXPECT_EQ(in.number<std::uint64_t>(), ledger->user_key("ann"));
  EXPECT_NE(in.number<std::uint64_t>(), 0U) << "the reward that ended it";
  in.list<std::uint64_t>();

  expect_outcomes(in, ledger);
  EXPECT_GT(in.left(), 0U) << "the states of the policies";
}

TEST(FormatsPage, ADecisionIsReadAsThePageSays) {
  cases::Ledger ledger(cases::small_model());
  Decision decision = ledger.rank(deferred(1));
  decision.part_names = {"first", "second", "third"};
  decision.estimated_sizes = true;
  decision.challenged = {2, 0};
  decision.slot = {1, {"top", "side"}};
  decision.kept = CallerFeatures{"{\"a\":1}", "", {"{}", "[1,2]", ""}};
  for (LoggedAction& action : decision.actions) {
    action.cluster_found = 3;
    action.cluster_visited = 40;
  }
  Bytes<std::uint32_t> in(encode_event(decision));
  EXPECT_EQ(in.text(), "event-1");
  EXPECT_EQ(in.text(), "ann");
  EXPECT_EQ(in.number<std::int64_t>(), decision.time);
  EXPECT_EQ(in.number<std::uint64_t>(), decision.model_version);
  EXPECT_EQ(in.number<std::uint8_t>(), 0) << "mode";
  EXPECT_EQ(in.number<std::uint8_t>(), 63)
      << "deferred, named parts, estimated sizes, challengers, slots, kept features";
  EXPECT_EQ(in.number<std::uint32_t>(), decision.chosen);
  EXPECT_EQ(in.number<std::uint32_t>(), decision.preferred);
  EXPECT_EQ(in.number<std::uint32_t>(), decision.arm);
  EXPECT_EQ(in.number<std::uint32_t>(), 3U);
  for (const char* name : {"first", "second", "third"}) {
    EXPECT_EQ(in.text(), name);
  }
  EXPECT_EQ(in.number<std::uint32_t>(), 3U) << "actions";
  for (const LoggedAction& action : decision.actions) {
    EXPECT_EQ(in.text(), action.id);
    EXPECT_EQ(in.number<float>(), action.probability);
    EXPECT_EQ(in.number<float>(), action.value);
    EXPECT_EQ(in.number<float>(), action.estimate);
    in.bytes(3 * 4);
    EXPECT_EQ(in.number<std::uint32_t>(), action.cluster_size);
    EXPECT_EQ(in.number<std::uint32_t>(), 3U) << "found";
    EXPECT_EQ(in.number<std::uint32_t>(), 40U) << "visited";
    EXPECT_EQ(in.number<std::uint8_t>(), 1) << "eligible";
  }
  EXPECT_EQ(in.list<std::uint32_t>(), decision.ranking);
  EXPECT_EQ(in.list<float>(), decision.features);
  EXPECT_EQ(in.list<std::uint32_t>(), decision.challenged);
  EXPECT_EQ(in.number<std::uint32_t>(), 1U) << "slot";
  EXPECT_EQ(in.number<std::uint32_t>(), 2U) << "slots";
  EXPECT_EQ(in.text(), "top");
  EXPECT_EQ(in.text(), "side");
  for (const char* const features : {"{\"a\":1}", "", "{}", "[1,2]", ""}) {
    EXPECT_EQ(in.text(), features);
  }
  EXPECT_EQ(in.left(), 0U);
}

}  // namespace
}  // namespace mcnb::formats_page_test
