// Who calls: addresses behind proxies, host names and origins, and those who try keys.

#include <gtest/gtest.h>

#include "mcnb/base/error.h"
#include "mcnb/serve/http/caller_policy.h"
#include "mcnb/serve/http/client_address.h"
#include "mcnb/serve/http/key_throttle.h"
#include "tests/expect_error.h"
#include "tests/serve/http/refusal.h"

namespace mcnb::callers_test {
namespace {

ClientAddress address(const std::string& text) { return *ClientAddress::parse(text); }

TEST(Callers, AddressesAreReadAndGrouped) {
  EXPECT_EQ(address("10.1.2.3").text(), "10.1.2.3");
  EXPECT_EQ(address("::ffff:10.1.2.3"), address("10.1.2.3"));
  EXPECT_EQ(address("2001:DB8::1").text(), "2001:db8::1");
  EXPECT_EQ(address("2001:db8:1:2:3::4").group().text(), "2001:db8:1:2::");
  EXPECT_EQ(address("10.1.2.3").group(), address("10.1.2.3"));
  for (const char* text : {"", "10.1.2", "10.1.2.256", "localhost", "::1%lo", "10.1.2.3:80"}) {
    EXPECT_FALSE(ClientAddress::parse(text).has_value()) << text;
  }
}

TEST(Callers, NetworksContainTheirAddresses) {
  const AddressList list("10.0.0.0/9, 192.168.1.7,2001:db8::/33", "trusted_proxies");
  for (const char* inside : {"10.127.255.255", "192.168.1.7", "2001:db8:7fff::1"}) {
    EXPECT_TRUE(list.contains(address(inside))) << inside;
  }
  for (const char* outside : {"10.128.0.0", "192.168.1.6", "2001:db8:8000::1", "::1"}) {
    EXPECT_FALSE(list.contains(address(outside))) << outside;
  }
  for (const char* bad : {"10.0.0.0/33", "10.0.0.0/", "x", "10.0.0.0/8x", "::/129", "::/-1"}) {
    expect_error(ErrorKind::kUsage, "trusted_proxies",
                 [&] { AddressList(bad, "trusted_proxies"); });
  }
}

TEST(Callers, OnlyTrustedProxiesNameTheClient) {
  const AddressList trusted("10.0.0.0/8", "trusted_proxies");
  const auto client = [&](const char* peer, const char* forwarded) {
    return original_client(address(peer), forwarded, trusted).text();
  };
  EXPECT_EQ(client("10.0.0.1", "1.2.3.4"), "1.2.3.4");
  EXPECT_EQ(client("10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2"), "1.2.3.4");
  EXPECT_EQ(client("10.0.0.1", "6.6.6.6, what"), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", ""), "10.0.0.1");
  EXPECT_EQ(client("9.0.0.1", "1.2.3.4"), "9.0.0.1") << "anybody can send the header";
}

std::string verdict(const CallerPolicy& policy, bool has_keys, const std::string& host,
                    const std::string& origin = "") {
  HttpRequest head;
  head.host = host;
  head.origin = origin;
  return refusal_of([&] { policy.check(head, has_keys); });
}

TEST(Callers, WithoutKeysOnlyLoopbackNamesAreServed) {
  const CallerPolicy policy("Bandit.example, 10.0.0.7", "");
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1", "127.9.9.9:1", "[::1]:8080",
                           "bandit.example:8080", "10.0.0.7", ""}) {
    EXPECT_EQ(verdict(policy, false, host), "") << host;
    EXPECT_EQ(verdict(policy, true, host), "") << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                           "10.0.0.8", "[::2]", "128.0.0.1", "0.0.0.0"}) {
    EXPECT_EQ(verdict(policy, false, host), "403 foreign_host ") << host;
    EXPECT_EQ(verdict(CallerPolicy("", ""), false, host), "403 foreign_host ") << host;
    EXPECT_EQ(verdict(CallerPolicy("", ""), true, host), "") << "with keys: " << host;
  }
}

TEST(Callers, WithoutKeysOnlyTheOwnOriginIsServed) {
  const CallerPolicy policy("", "https://shop.example");
  for (const char* origin :
       {"http://localhost:8080", "https://shop.example", "https://SHOP.example"}) {
    EXPECT_EQ(verdict(policy, false, "localhost:8080", origin), "") << origin;
  }
  EXPECT_EQ(verdict(policy, false, "localhost", "http://localhost:80"), "");
  for (const char* origin : {"http://localhost:3000", "http://evil.example", "null", "https://x",
                             "http://localhost:8080.evil.example", "http://shop.example"}) {
    EXPECT_EQ(verdict(policy, false, "localhost:8080", origin), "403 foreign_origin ") << origin;
    EXPECT_EQ(verdict(CallerPolicy("", ""), true, "localhost:8080", origin), "") << origin;
    EXPECT_EQ(verdict(policy, true, "localhost:8080", origin), "403 foreign_origin ")
        << "the option counts with keys, too";
  }
}

TEST(Callers, WithoutKeysBodiesMustBeDeclaredAsJson) {
  const auto verdict_on = [](const std::string& type, bool has_keys, bool has_body = true) {
    HttpRequest head;
    head.content_type = type;
    head.has_body = has_body;
    return refusal_of([&] { CallerPolicy::check_body(head, has_keys); });
  };
  EXPECT_EQ(verdict_on("application/json", false), "");
  EXPECT_EQ(verdict_on("Application/JSON ; charset=utf-8", false), "");
  for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded",
                           "application/jsonp", "text/plain; application/json"}) {
    EXPECT_EQ(verdict_on(type, false), "415 bad_content_type ") << type;
    EXPECT_EQ(verdict_on(type, true), "") << type;
    EXPECT_EQ(verdict_on(type, false, false), "") << type;
  }
}

TEST(Callers, NamesAndOriginsInOptionsAreChecked) {
  expect_error(ErrorKind::kUsage, "host_names", [] { CallerPolicy("http://a", ""); });
  expect_error(ErrorKind::kUsage, "origins", [] { CallerPolicy("", "a.example"); });
  expect_error(ErrorKind::kUsage, "origins", [] { CallerPolicy("", "https://a.example/"); });
}

TEST(Callers, WrongKeysAreThrottledAndRightOnesGoOn) {
  KeyThrottle throttle;
  KeyThrottle::Time now{};
  const ClientAddress here = address("10.0.0.1");
  throttle.note_right(here, "right", now);
  int wrong = 0;
  while (throttle.may_try(here, "guess", now) && wrong < 1000) {
    throttle.note_wrong(here, now);
    ++wrong;
  }
  EXPECT_EQ(wrong, 10);
  EXPECT_TRUE(throttle.may_try(here, "right", now));
  EXPECT_TRUE(throttle.may_try(address("10.0.0.2"), "guess", now));
  EXPECT_FALSE(throttle.may_try(here, "guess", now));
  now += std::chrono::seconds(7);
  EXPECT_TRUE(throttle.may_try(here, "guess", now));
  EXPECT_EQ(throttle.note_wrong(here, now), 2U) << "tries that were not looked at";
  EXPECT_FALSE(throttle.may_try(here, "guess", now));
  now += std::chrono::hours(1);
  wrong = 0;
  while (throttle.may_try(here, "guess", now) && wrong < 1000) {
    throttle.note_wrong(here, now);
    ++wrong;
  }
  EXPECT_EQ(wrong, 10) << "waiting longer does not allow more at once";
}

TEST(Callers, TheThrottleKnowsSoManyAddressesAndForgetsTheOldest) {
  KeyThrottle throttle;
  KeyThrottle::Time now{};
  for (std::size_t i = 0; i < KeyThrottle::kMostAddresses + 5; ++i) {
    ClientAddress client = address("10.0.0.0");
    client.bytes[14] = static_cast<std::uint8_t>(i >> 8);
    client.bytes[15] = static_cast<std::uint8_t>(i);
    throttle.note_wrong(client, now += std::chrono::microseconds(1));
  }
  EXPECT_EQ(throttle.address_count(), KeyThrottle::kMostAddresses);
}

}  // namespace
}  // namespace mcnb::callers_test
