// Requests with random damage, sent to the real service: it answers each of them or closes the
// connection, never with 500, and goes on serving.

#include <gtest/gtest.h>

#include <fmt/core.h>
#include <sys/socket.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "mcnb/base/random.h"
#include "tests/long_tests.h"
#include "tests/sanitizers.h"
#include "tests/serve/server_program.h"

namespace mcnb::mutated_requests_test {
namespace {

constexpr int kClients = 4;
const int kRequests =  // in all
    static_cast<int>(repeats("MCNB_REQUESTS", kThreadSanitized ? 400 : 2000));

std::string request(const std::string& method, const std::string& path, const std::string& body) {
  return fmt::format(
      "{} {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      method, path, body.size(), body);
}

// Valid requests of all kinds. Backups are left out: damaged names would fill the disk.
std::vector<std::string> valid_requests() {
  const std::string rank =
      R"({"eventId":"e1","userId":"ann","actions":[{"id":"a","features":[1,0,0.5]},)"
      R"({"id":"b","features":{"kind":"x","price":3.5}}],"excludedActions":["b"],)"
      R"("contextFeatures":[{"day":"monday"}],"deferActivation":true})";
  return {request("POST", "/v1/models/m/rank", rank),
          request("POST", "/v1/models/m/events/e1/reward", R"({"value":0.5,"rewardId":"once"})"),
          request("POST", "/v1/models/m/events/e1/activate", ""),
          request("GET", "/v1/models/m/events/e1", ""),
          request("POST", "/v1/models",
                  R"({"name":"other","dimension":3,"options":{"width":8},"epsilon":0.1})"),
          request("PATCH", "/v1/models/m", R"({"epsilon":0.2,"waitingSeconds":10})"),
          request("DELETE", "/v1/models/other", ""),
          request("DELETE", "/v1/models/m/users/ann", ""),
          request("POST", "/v1/models/m/snapshot", ""),
          request("GET", "/v1/models", ""),
          request("GET", "/metrics", ""),
          request("POST", "/v1/models/m/challengers",
                  R"({"name":"rival","policy":"linucb","options":{"alpha":0.2},)"
                  R"("weights":"clipped","mostWeight":5})"),
          request("DELETE", "/v1/models/m/challengers/rival", ""),
          request("POST", "/v1/models/m/promote", R"({"challenger":"rival","keepAs":"before"})"),
          request("POST", "/v1/models/m/try", rank),
          request("GET", "/v1/models/m/events", ""),
          request("GET", "/v1/models/m/users/ann/events", ""),
          request("GET", "/v1/models/m/users/ann", ""),
          request("GET", "/v1/models/m/events/e1/behind", ""),
          request("GET", "/v1/models/m/map", ""),
          request("GET", "/v1/models/m/settings", ""),
          request("GET", "/v1/models/m/series?resolution=10s&since=5", ""),
          request("GET", "/v1/series?resolution=1d", ""),
          request("GET", "/v1/nodes", ""),
          request("POST", "/v1/reload", ""),
          request("GET", "/openapi.json", ""),
          request("POST", "/personalizer/v1.0/rank", rank),
          request("POST", "/personalizer/v1.0/events/e1/reward", R"({"value":1})")};
}

std::string mutated(const std::vector<std::string>& valid, Rng& rng) {
  static const std::vector<std::string> pieces = {"1e999",
                                                  "-0",
                                                  "NaN",
                                                  "99999999999999999999",
                                                  "\"",
                                                  "[[[[[[[[",
                                                  "{\"a\":",
                                                  "\\ud800",
                                                  "\r\n",
                                                  "\n\n",
                                                  "null",
                                                  "Content-Length: 5\r\n",
                                                  "%00",
                                                  "..%2f",
                                                  std::string(1, '\0'),
                                                  "Transfer-Encoding: chunked\r\n",
                                                  "\xff\xfe",
                                                  "é",
                                                  "4096",
                                                  std::string(3000, 'A')};
  std::string text = valid[rng.below(valid.size())];
  for (std::uint64_t changes = 1 + rng.below(4); changes > 0 && !text.empty(); --changes) {
    const std::size_t at = rng.below(text.size());
    const std::size_t length = 1 + rng.below(std::min<std::size_t>(16, text.size() - at));
    switch (rng.below(7)) {
      case 0:
        text[at] = static_cast<char>(rng.below(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.insert(at, pieces[rng.below(pieces.size())]);
        break;
      case 4:
        text.replace(at, length, pieces[rng.below(pieces.size())]);
        break;
      case 5: {  // two requests, cut and joined
        const std::string& other = valid[rng.below(valid.size())];
        text = text.substr(0, at) + other.substr(rng.below(other.size()));
        break;
      }
      default:
        text.resize(at);
    }
  }
  return text;
}

// Whether the service can see the end of the request. Otherwise it waits for more, as it should.
bool is_whole(const std::string& text) {
  const std::size_t end = text.find("\r\n\r\n");
  const std::size_t length = text.find("Content-Length: ");
  return end != std::string::npos && length < end &&
         std::strtoull(text.c_str() + length + 16, nullptr, 10) <= text.size() - end - 4;
}

// What the service did with one request: a status, or 0 if there was no answer.
int send_damaged(std::uint16_t port, const std::string& text) {
  HttpClient http(port, "", std::chrono::seconds(2));
  try {
    http.send_raw(text);
    return is_whole(text) ? http.read_reply().status : 0;
  } catch (const ConnectionLost&) {
    return 0;
  }
}

TEST(MutatedRequests, TheServiceAnswersOrClosesTheConnectionAndGoesOn) {
  const TemporaryFolder folder;
  put_file(folder / "config.toml",
           "log_gigabytes = 0.05\n[models.m]\ndimension = 3\nmostUsers = 1000\n"
           "[models.m.options]\nwidth = 8\nmeta_steps = 2\n");
  ServerProgram server(folder / "data", {"--config", (folder / "config.toml").string()});
  const std::uint16_t port = server.port();
  const std::vector<std::string> valid = valid_requests();
  std::atomic<int> answered{0};
  std::atomic<bool> goes_on{true};
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < kRequests / kClients && goes_on; ++i) {
        Rng rng(test_seed(), Stream::kTest, static_cast<std::uint64_t>(i),
                static_cast<std::uint32_t>(client));
        const std::string text = mutated(valid, rng);
        const int status = send_damaged(port, text);
        answered += status > 0 ? 1 : 0;
        const bool is_fine = status == 0 || (status >= 200 && status < 600 && status != 500);
        if (!is_fine) {
          ADD_FAILURE() << "client " << client << ", request " << i << ": status " << status
                        << " to "
                        << nlohmann::json(text).dump(-1, ' ', true,
                                                     nlohmann::json::error_handler_t::replace);
        }
        if (!is_fine || (i % 1000 == 0 && HttpClient(port).get("/livez").status != 200)) {
          goes_on = false;
        }
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_TRUE(goes_on) << "the service no longer answers";
  EXPECT_GT(answered, kRequests / 4);
  EXPECT_EQ(HttpClient(port).get("/readyz").status, 200);
  const ProgramOutcome outcome = server.stop();
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
}

}  // namespace
}  // namespace mcnb::mutated_requests_test
