// The parser of requests: what it refuses, and that the sizes of the pieces change nothing.

#include "mcnb/serve/http/request_parser.h"

#include <gtest/gtest.h>

#include "mcnb/base/random.h"
#include "tests/serve/http/hostile_requests.h"

namespace mcnb::request_parser_test {
namespace {

constexpr std::size_t kBody = 1 << 20;

// What a parser makes of bytes that come in pieces of the given size.
struct Parsed {
  RequestParser::State state = RequestParser::State::kHead;
  int status = 200;
  std::string body;
  std::size_t used = 0;

  bool operator==(const Parsed&) const = default;
};

Parsed parse(const std::string& bytes, std::size_t piece, std::size_t largest_body = kBody) {
  RequestParser parser(largest_body);
  Parsed parsed;
  std::size_t come = 0;
  while (parsed.used < bytes.size() && parser.state() != RequestParser::State::kComplete &&
         parser.state() != RequestParser::State::kRefused) {
    come = std::max(come, std::min(parsed.used + piece, bytes.size()));
    const std::size_t used =
        parser.read(std::string_view(bytes).substr(parsed.used, come - parsed.used));
    EXPECT_TRUE(used > 0 || parser.state() == RequestParser::State::kRefused);
    parsed.used += used;
  }
  parsed.state = parser.state();
  if (parsed.state == RequestParser::State::kRefused) {
    parsed.status = parser.refusal().status();
    EXPECT_FALSE(parser.refusal().message.empty());
  } else if (parsed.state == RequestParser::State::kComplete) {
    parsed.body = parser.take_body();
  }
  return parsed;
}

TEST(RequestParser, RefusesWhateverProxiesReadDifferently) {
  for (const HostileRequest& request : hostile_requests()) {
    SCOPED_TRACE(request.name);
    const Parsed parsed = parse(request.bytes, request.bytes.size());
    EXPECT_EQ(parsed.state, RequestParser::State::kRefused);
    EXPECT_EQ(parsed.status, request.status);
  }
}

TEST(RequestParser, ReadsWhatCanBeReadInOneWayOnly) {
  for (const HostileRequest& request : sound_requests()) {
    SCOPED_TRACE(request.name);
    const Parsed parsed = parse(request.bytes, request.bytes.size());
    EXPECT_EQ(parsed.state, RequestParser::State::kComplete);
    EXPECT_EQ(parsed.used, request.bytes.size());
    EXPECT_EQ(parsed.body,
              request.bytes.starts_with("POST") ? R"({"userId":"u","actions":[{"id":"a"}]})" : "");
  }
}

TEST(RequestParser, PiecesOfAnySizeGiveTheSame) {
  std::vector<HostileRequest> all = hostile_requests();
  for (const HostileRequest& request : sound_requests()) {
    all.push_back(request);
  }
  for (const HostileRequest& request : all) {
    SCOPED_TRACE(request.name);
    const Parsed whole = parse(request.bytes, request.bytes.size());
    for (const std::size_t piece : {1, 2, 3, 7}) {
      Parsed pieces = parse(request.bytes, piece);
      pieces.used = whole.state == RequestParser::State::kRefused ? whole.used : pieces.used;
      EXPECT_EQ(pieces, whole) << piece;
    }
  }
}

TEST(RequestParser, StopsAfterTheHeadAndAfterTheRequest) {
  const std::string head =
      "POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: Close\r\n\r\n";
  const std::string all = head + "helloGET / HTTP/1.1\r\n";
  RequestParser parser(kBody);
  EXPECT_FALSE(parser.has_begun());
  EXPECT_EQ(parser.read(all), head.size());
  EXPECT_TRUE(parser.has_begun());
  EXPECT_EQ(parser.state(), RequestParser::State::kBody);
  EXPECT_EQ(parser.head().method, "POST");
  EXPECT_EQ(parser.head().target, "/a?b");
  EXPECT_EQ(parser.head().header("host"), "h");
  EXPECT_EQ(parser.head().header("nothing"), "");
  EXPECT_FALSE(parser.head().keep_alive);
  EXPECT_EQ(parser.read(std::string_view(all).substr(head.size())), 5U);
  EXPECT_EQ(parser.state(), RequestParser::State::kComplete);
  EXPECT_EQ(parser.take_body(), "hello");
}

TEST(RequestParser, BodiesAreLimitedAsSoonAsTheirLengthIsKnown) {
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(parse(post + "Content-Length: 10\r\n\r\n0123456789", 99, 10).status, 200);
  const std::string longer = post + "Content-Length: 11\r\n\r\n";
  EXPECT_EQ(parse(longer, 99, 10).status, 413);
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n";
  EXPECT_EQ(parse(chunked + "4\r\n0123\r\n0\r\n\r\n", 99, 10).body, "0123450123");
  EXPECT_EQ(parse(chunked + "5\r\n", 99, 10).status, 413);
}

TEST(RequestParser, ConnectionsStayOpenAsTheVersionSays) {
  const auto keeps = [](const std::string& version, const std::string& header) {
    RequestParser parser(kBody);
    parser.read("GET / " + version + "\r\nHost: h\r\n" + header + "\r\n");
    EXPECT_EQ(parser.state(), RequestParser::State::kComplete);
    return parser.head().keep_alive;
  };
  EXPECT_TRUE(keeps("HTTP/1.1", ""));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: x, CLOSE\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", ""));
  EXPECT_TRUE(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: close\r\nConnection: keep-alive\r\n"));
}

TEST(RequestParser, AnyChangedByteIsRefusedOrReadInOneWay) {
  Rng rng(7, Stream::kTest);
  const std::vector<HostileRequest> seeds = sound_requests();
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = seeds[rng.below(seeds.size())].bytes;
    const auto changes = 1 + rng.below(3);
    for (std::uint64_t change = 0; change < changes; ++change) {
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    }
    Parsed whole = parse(bytes, bytes.size());
    Parsed pieces = parse(bytes, 1 + rng.below(9));
    if (whole.state == RequestParser::State::kRefused) {
      whole.used = pieces.used = 0;
    }
    ASSERT_EQ(pieces, whole) << bytes;
  }
}

}  // namespace
}  // namespace mcnb::request_parser_test
