// Who may open a connection: nobody keeps others out.

#include "mcnb/serve/http/connection_limits.h"

#include <gtest/gtest.h>

#include <string>

namespace mcnb::connection_limits_test {
namespace {

using Id = ConnectionLimits::Id;

ClientAddress address(const std::string& text) { return *ClientAddress::parse(text); }

// Limits with a clock and with numbers for connections.
class Door {
 public:
  explicit Door(const ConnectionLimits::Limits& limits) : limits_(limits) {}

  ConnectionLimits::Entry enter(const std::string& client, bool trusted = false) {
    last_ = limits_.enter(++last_id_, address(client), trusted, now_);
    return last_;
  }
  // The last connection is being served, not waiting for its client.
  void serve_last() { last_.guest->waiting_since.reset(); }
  void wait(double seconds) {
    now_ += std::chrono::duration_cast<ConnectionLimits::Time::duration>(
        std::chrono::duration<double>(seconds));
  }
  Id last_id() const { return last_id_; }
  ConnectionLimits& limits() { return limits_; }
  ConnectionLimits::Time now() const { return now_; }

 private:
  ConnectionLimits limits_;
  ConnectionLimits::Entry last_;
  ConnectionLimits::Time now_{};
  Id last_id_ = 0;
};

TEST(ConnectionLimits, SilentConnectionsGiveWayToNewOnes) {
  Door door({.most = 3, .most_per_address = 0, .reserved = 0});
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(door.enter("10.0.0.1").guest, nullptr);
    door.wait(0.01);
  }
  EXPECT_EQ(door.enter("10.0.0.1").guest, nullptr) << "nobody has been silent for long";
  door.wait(1.0);
  for (Id oldest = 1; oldest <= 3; ++oldest) {
    const ConnectionLimits::Entry entry = door.enter("10.0.0.1");
    EXPECT_NE(entry.guest, nullptr);
    EXPECT_EQ(entry.to_replace, std::optional(oldest));
  }
  EXPECT_EQ(door.limits().count(), 3U);
}

TEST(ConnectionLimits, TheAddressWithTheMostConnectionsGivesWayFirst) {
  Door door({.most = 4, .most_per_address = 0, .reserved = 0});
  door.enter("10.0.0.1");  // has waited longest, but is alone
  door.wait(0.1);
  for (int i = 0; i < 3; ++i) {
    door.enter("10.0.0.2");
  }
  door.wait(1.0);
  const auto entry = door.enter("10.0.0.3");
  EXPECT_NE(entry.to_replace, std::optional<Id>(1));
  EXPECT_TRUE(entry.to_replace.has_value());
}

TEST(ConnectionLimits, WhoHasFewerReplacesThoseOfWhoHasMoreAtOnce) {
  Door door({.most = 20, .most_per_address = 0, .reserved = 4});
  for (int i = 0; i < 20; ++i) {
    door.enter("10.0.0." + std::to_string(1 + i % 2));  // ten each
  }
  for (int i = 0; i < 6; ++i) {
    const auto entry = door.enter("10.0.0.9");
    ASSERT_NE(entry.guest, nullptr);
    EXPECT_FALSE(entry.guest->reserved);
    EXPECT_TRUE(entry.to_replace.has_value()) << i;
  }
  const auto entry = door.enter("10.0.0.9");
  ASSERT_NE(entry.guest, nullptr);
  EXPECT_TRUE(entry.guest->reserved) << "now all have as many";
}

TEST(ConnectionLimits, WhatIsServedIsNeverReplaced) {
  Door door({.most = 2, .most_per_address = 0, .reserved = 0});
  door.enter("10.0.0.1");
  door.serve_last();
  door.enter("10.0.0.1");
  door.wait(100.0);
  EXPECT_EQ(door.enter("10.0.0.2").to_replace, std::optional<Id>(2));
  door.serve_last();
  EXPECT_EQ(door.enter("10.0.0.3").guest, nullptr);
  EXPECT_EQ(door.limits().give_up_one(door.now()), std::nullopt);
}

TEST(ConnectionLimits, TheReserveIsThereWhenAllOthersAreServed) {
  Door door({.most = 1, .most_per_address = 0, .reserved = 4});
  door.enter("10.0.0.1");
  door.serve_last();
  for (int i = 0; i < 2; ++i) {
    const auto entry = door.enter("10.0.0.1");
    ASSERT_NE(entry.guest, nullptr);
    EXPECT_TRUE(entry.guest->reserved);
    door.serve_last();
  }
  EXPECT_EQ(door.enter("10.0.0.1").guest, nullptr) << "half of the reserve is for others";
  EXPECT_NE(door.enter("10.0.0.2").guest, nullptr);
  door.serve_last();
  EXPECT_NE(door.enter("10.0.0.3").guest, nullptr);
  door.serve_last();
  EXPECT_EQ(door.enter("10.0.0.4").guest, nullptr);
  door.limits().leave(1);
  const auto entry = door.enter("10.0.0.4");
  ASSERT_NE(entry.guest, nullptr);
  EXPECT_FALSE(entry.guest->reserved);
}

TEST(ConnectionLimits, ReservedConnectionsThatAreSilentAreTakenBackAtOnce) {
  Door door({.most = 100, .most_per_address = 2, .reserved = 4});
  door.enter("10.0.0.1");
  door.enter("10.0.0.1");
  for (Id i = 0; i < 10; ++i) {  // the share is used up
    const auto entry = door.enter("10.0.0.1");
    ASSERT_NE(entry.guest, nullptr);
    EXPECT_TRUE(entry.guest->reserved);
    EXPECT_EQ(entry.to_replace, i < 2 ? std::nullopt : std::optional(i + 1));
    door.wait(0.001);
  }
  door.serve_last();
  EXPECT_NE(door.enter("10.0.0.1").guest, nullptr);
  door.serve_last();
  EXPECT_EQ(door.enter("10.0.0.1").guest, nullptr) << "its half is being served";
}

TEST(ConnectionLimits, AnAddressHasItsShareAndTrustedProxiesHaveNone) {
  Door door({.most = 100, .most_per_address = 2, .reserved = 0});
  door.enter("10.0.0.1");
  door.wait(0.1);
  door.enter("10.0.0.1");
  EXPECT_EQ(door.enter("10.0.0.1").guest, nullptr);
  door.wait(1.0);
  EXPECT_EQ(door.enter("10.0.0.1").to_replace, std::optional<Id>(1)) << "one of its own";
  EXPECT_NE(door.enter("10.0.0.2").guest, nullptr);
  for (int i = 0; i < 10; ++i) {
    EXPECT_NE(door.enter("10.9.9.9", true).guest, nullptr);
  }
  // All addresses of an IPv6 network are one client.
  door.enter("2001:db8::1");
  door.enter("2001:db8::2");
  EXPECT_EQ(door.enter("2001:db8::3").guest, nullptr);
  EXPECT_NE(door.enter("2001:db8:0:1::3").guest, nullptr);
}

TEST(ConnectionLimits, WhatLeavesMakesRoom) {
  Door door({.most = 2, .most_per_address = 1, .reserved = 1});
  for (int i = 0; i < 50; ++i) {
    ASSERT_NE(door.enter("10.0.0.1").guest, nullptr);
    ASSERT_NE(door.enter("10.0.0.2").guest, nullptr);
    door.limits().leave(door.last_id());
    door.limits().leave(door.last_id() - 1);
    door.limits().leave(door.last_id());  // has left already
    EXPECT_EQ(door.limits().count(), 0U);
  }
}

}  // namespace
}  // namespace mcnb::connection_limits_test
