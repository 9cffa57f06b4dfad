// Three real nodes on a real PostgreSQL primary with a synchronous standby. Nodes and servers are
// killed, paused, cut off and slowed down under load; then the histories of the clients are
// compared with the log.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>

#include "mcnb/serve/engine/model_host.h"
#include "tests/cluster/stream_proxy.h"
#include "tests/sanitizers.h"
#include "tests/serve/service_load.h"
#include "tests/storage/postgres_server.h"

namespace mcnb::cluster_test {
namespace {

using namespace service_load;
using namespace std::chrono_literals;
using cases::PostgresServer;
using cases::StreamProxy;
using SteadyTime = std::chrono::steady_clock;

const int kFaults = static_cast<int>(repeats("MCNB_CLUSTER_FAULTS", kSanitized ? 4 : 11));
constexpr std::size_t kNodes = 3;
constexpr std::size_t kWithClock = 2;  // the node whose clock steps
constexpr int kClients = 4;
constexpr std::size_t kProgress = 30;  // decisions between two faults
constexpr auto kPatience = 60s;        // for them
constexpr auto kPause = 2500ms;        // longer than a lease

// The database: a primary and its synchronous standby, each behind a proxy. What `url` names stays
// the same when they change their roles.
class Database {
 public:
  Database() {
    url_ = "postgresql://mcnb@/" + name_ + "?host=" + at(0).string() + "," + at(1).string();
    primary_ = std::make_unique<PostgresServer>();
    PostgresConnection(primary_->url("postgres")).run("CREATE DATABASE " + name_);
    front_[0] = std::make_unique<StreamProxy>(at(0), primary_->folder());
    add_standby();
  }

  const std::string& url() const { return url_; }
  // Without a proxy.
  std::string direct_url() const { return primary_->url(name_); }

  void crash() {
    primary_->stop(SIGQUIT);
    primary_->start();
  }
  // The primary dies for good, the standby takes its place and gets a new standby.
  void fail_over() {
    primary_->stop(SIGQUIT);
    standby_->promote();
    primary_ = std::move(standby_);
    primary_is_ = 1 - primary_is_;
    add_standby();
  }
  void stop_standby_for(std::chrono::milliseconds time) {
    standby_->stop(SIGINT);
    std::this_thread::sleep_for(time);
    standby_->start();
  }
  void cut() { front_[primary_is_]->cut(); }
  void slow_down_for(std::chrono::milliseconds time) {
    front_[primary_is_]->delay(100ms);
    std::this_thread::sleep_for(time);
    front_[primary_is_]->delay(0ms);
  }

 private:
  fs::path at(std::size_t i) {
    fs::create_directories(folder_ / std::to_string(i));
    return folder_ / std::to_string(i);
  }
  void add_standby() {
    primary_->wait_for_standby(false);
    standby_ = PostgresServer::standby_of(*primary_);
    const std::size_t other = 1 - primary_is_;
    front_[other] = nullptr;
    front_[other] = std::make_unique<StreamProxy>(at(other), standby_->folder());
    primary_->wait_for_standby(true);
  }

  const std::string name_ = "service";
  TemporaryFolder folder_;
  std::string url_;
  std::unique_ptr<PostgresServer> primary_;
  std::unique_ptr<PostgresServer> standby_;
  std::array<std::unique_ptr<StreamProxy>, 2> front_;
  std::size_t primary_is_ = 0;
};

// Sets the clock of a program to what a file says, again and again. Empty under sanitizers, which
// replace the same functions of the C library.
std::vector<std::string> stepped_clock(const fs::path& file) {
  constexpr const char* kFolder = "/usr/lib";
  if (kSanitized) {
    return {};
  }
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const fs::path library = entry.path() / "faketime" / "libfaketimeMT.so.1";
    if (fs::exists(library)) {
      return {"LD_PRELOAD=" + library.string(), "FAKETIME_TIMESTAMP_FILE=" + file.string(),
              "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"};
    }
  }
  throw std::runtime_error("faketime is not installed (see `packages`)");
}

// What the clients know, and where the nodes are.
struct Shared {
  std::array<std::atomic<std::uint16_t>, kNodes> ports{};
  std::atomic<bool> stopping{false};
  std::mutex mutex;  // guards what follows
  std::set<std::string> sent;
  std::map<std::string, std::string> answers;  // event -> body of the answer
  std::set<std::string> rewarded;
  SteadyTime::time_point last_answer = SteadyTime::now();
  SteadyTime::duration longest_gap{};

  std::size_t decisions() {
    const std::lock_guard lock(mutex);
    return answers.size();
  }
  double seconds_without_answer() {
    const std::lock_guard lock(mutex);
    return std::chrono::duration<double>(longest_gap).count();
  }
  void note_answer() {
    const auto now = SteadyTime::now();
    longest_gap = std::max(longest_gap, now - last_answer);
    last_answer = now;
  }
};

// A client that sends each request until it is answered, to one node after the other.
class Client {
 public:
  Client(Shared& shared, int number)
      : shared_(shared),
        number_(number),
        rng_(test_seed() + 71, Stream::kTest, static_cast<std::uint64_t>(number)) {}

  void run() {
    for (int i = 0; !shared_.stopping; ++i) {
      play(std::to_string(number_) + "-" + std::to_string(i));
    }
  }

 private:
  void play(const std::string& event) {
    const std::string user = "user-" + std::to_string(rng_.below(20));
    const std::string request = rank_request(event, user, rng_).dump();
    {
      const std::lock_guard lock(shared_.mutex);
      shared_.sent.insert(event);
    }
    const std::optional<std::string> answer = ask("rank", request);
    if (!answer) {
      return;
    }
    {
      const std::lock_guard lock(shared_.mutex);
      shared_.answers[event] = *answer;
      shared_.note_answer();
    }
    if (rng_.chance(0.2)) {
      const std::optional<std::string> again = ask("rank", request);
      ASSERT_TRUE(!again || *again == *answer) << *again << " after " << *answer;
    }
    const int times = rng_.chance(0.2) ? 2 : 1;
    for (int i = 0; i < times; ++i) {
      const auto rewarded =
          ask("events/" + event + "/reward", R"({"value": 0.5, "rewardId": "once"})");
      if (!rewarded) {
        return;
      }
      const std::string outcome = json::parse(*rewarded).at("outcome");
      ASSERT_TRUE(outcome == "duplicate" || (i == 0 && outcome == "learned")) << outcome;
      const std::lock_guard lock(shared_.mutex);
      shared_.rewarded.insert(event);
    }
  }

  // The body of the answer; nullopt if the test ends before there is one.
  std::optional<std::string> ask(const std::string& path, const std::string& body) {
    while (!shared_.stopping) {
      const std::size_t node = rng_.below(kNodes);
      const std::uint16_t port = shared_.ports[node];
      if (port == 0) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      if (!https_[node] || port_of_[node] != port) {
        https_[node] = std::make_unique<HttpClient>(port);
        port_of_[node] = port;
      }
      try {
        const HttpReply reply = https_[node]->post("/v1/models/small/" + path, body);
        if (reply.status == 200) {
          return reply.body;
        }
        EXPECT_EQ(reply.status, 503) << reply.body;
        std::this_thread::sleep_for(10ms);
      } catch (const ConnectionLost&) {
        https_[node] = nullptr;
        std::this_thread::sleep_for(5ms);
      }
    }
    return std::nullopt;
  }

  Shared& shared_;
  int number_;
  Rng rng_;
  std::array<std::unique_ptr<HttpClient>, kNodes> https_;
  std::array<std::uint16_t, kNodes> port_of_{};
};

class Cluster : public testing::Test {
 protected:
  Cluster() {
    put_file(folder / "config.toml", kSmallModel);
    put_file(folder / "clock", "+0");
  }

  void SetUp() override {
    const ProgramOutcome made = run_program({"serve", "--migrate", "--store", database.url()});
    ASSERT_EQ(made.status, 0) << made.errors;
    for (std::size_t i = 0; i < kNodes; ++i) {
      start(i);
    }
  }
  void start(std::size_t i) {
    const std::string name(1, static_cast<char>('a' + i));
    nodes[i] = std::make_unique<ServerProgram>(
        folder / ("node-" + name),
        std::vector<std::string>{"--store", database.url(), "--node", name, "--lease-seconds", "1",
                                 "--config", (folder / "config.toml").string(), "--threads", "1",
                                 "--preload-megabytes", i == 0 ? "100" : "0"},
        served_binary(),
        i == kWithClock ? stepped_clock(folder / "clock") : std::vector<std::string>());
    shared.ports[i] = nodes[i]->port();
  }
  void kill(std::size_t i) {
    nodes[i]->kill();
    shared.ports[i] = 0;
    nodes[i]->wait();
  }
  json directory(std::size_t i) {
    return json::parse(HttpClient(shared.ports[i]).get("/v1/nodes").body).at("nodes");
  }
  // The node that serves, as soon as one does.
  std::size_t owner() {
    for (;;) {
      for (std::size_t i = 0; i < kNodes; ++i) {
        for (const json& node : directory(i)) {
          if (node.at("owner") == true) {
            return static_cast<std::size_t>(node.at("name").get<std::string>()[0] - 'a');
          }
        }
      }
      std::this_thread::sleep_for(10ms);
    }
  }
  void begin_load() {
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([this, i] { Client(shared, i).run(); });
    }
  }
  // Waits until decisions are made again.
  void expect_progress() {
    const std::size_t before = shared.decisions();
    const auto deadline = SteadyTime::now() + kPatience;
    while (shared.decisions() < before + kProgress && SteadyTime::now() < deadline) {
      std::this_thread::sleep_for(5ms);
    }
    ASSERT_GE(shared.decisions(), before + kProgress) << "the service does not come back";
  }
  void end_load() {
    shared.stopping = true;
    for (std::thread& client : clients) {
      client.join();
    }
    clients.clear();
    for (std::size_t i = 0; i < kNodes; ++i) {
      const ProgramOutcome ended = nodes[i]->stop();
      EXPECT_EQ(ended.status, 0) << ended.errors;
    }
  }
  void check_history();

  TemporaryFolder folder;
  Database database;
  std::array<std::unique_ptr<ServerProgram>, kNodes> nodes;
  Shared shared;
  std::vector<std::thread> clients;
};

void Cluster::check_history() {
  const std::string store = database.direct_url();
  Logged logged;
  logged.read(store);  // a decision that is there twice fails here
  for (const auto& [event, answer] : shared.answers) {
    ASSERT_EQ(logged.decisions[event], json::parse(answer).at("rewardActionId")) << event;
  }
  for (const std::string& event : shared.rewarded) {
    ASSERT_EQ(logged.rewards[event], 1) << event;
  }
  for (const auto& [event, action] : logged.decisions) {
    ASSERT_TRUE(shared.sent.contains(event)) << event;
  }
  for (const auto& [event, count] : logged.rewards) {
    ASSERT_EQ(count, 1) << event;
  }
  ThreadPool threads(1);
  const std::unique_ptr<Storage> storage = open_storage(store, StorageAccess::kLook);
  ModelHost host(*storage, threads);
  host.recover();
  EXPECT_EQ(host.report("small").counts.learned, logged.rewards.size());
  EXPECT_EQ(host.report("small").counts.decisions, logged.decisions.size());
  expect_verified(store);
}

TEST_F(Cluster, NothingIsLostOrDoneTwiceWhateverFails) {
  begin_load();
  expect_progress();
  const auto pause = [&](std::size_t node) {
    nodes[node]->program().signal(SIGSTOP);
    std::this_thread::sleep_for(kPause);
    nodes[node]->program().signal(SIGCONT);
  };
  const auto restart = [&](std::size_t node) {
    kill(node);
    start(node);
  };
  const auto hand_over = [&](std::size_t node) {
    EXPECT_EQ(nodes[node]->stop().status, 0);
    shared.ports[node] = 0;
    start(node);
  };
  bool is_ahead = false;
  const auto step_clock = [&] {
    is_ahead = !is_ahead;
    put_file(folder / "clock", is_ahead ? "+7200" : "-7200");
    restart(kWithClock);
    for (int i = 0; i < 3 && owner() != kWithClock; ++i) {
      hand_over(owner());
    }
  };
  const std::vector<std::pair<const char*, std::function<void()>>> faults{
      {"the owner is killed", [&] { restart(owner()); }},
      {"the primary dies, the standby takes over", [&] { database.fail_over(); }},
      {"the owner is paused", [&] { pause(owner()); }},
      {"connections are cut", [&] { database.cut(); }},
      {"the owner hands over", [&] { hand_over(owner()); }},
      {"the primary crashes and comes back", [&] { database.crash(); }},
      {"another node is killed", [&] { restart((owner() + 1) % kNodes); }},
      {"the standby is away", [&] { database.stop_standby_for(1500ms); }},
      {"the database is slow", [&] { database.slow_down_for(1500ms); }},
      {"another node is paused", [&] { pause((owner() + 1) % kNodes); }},
      {"a clock steps, and its node serves", [&] { step_clock(); }},
  };
  Rng rng(test_seed() + 72, Stream::kTest);
  for (int i = 0; i < kFaults; ++i) {
    // Each kind once, then at random.
    const auto kind = static_cast<std::size_t>(i);
    const auto& [name, fault] = faults[kind < faults.size() ? kind : rng.below(faults.size())];
    SCOPED_TRACE(name);
    std::this_thread::sleep_for(std::chrono::milliseconds(rng.below(200)));
    shared.mutex.lock();
    shared.longest_gap = {};
    shared.mutex.unlock();
    fault();
    expect_progress();
    if (HasFailure()) {
      break;
    }
    RecordProperty(name, std::to_string(shared.seconds_without_answer()));
  }
  end_load();
  check_history();
}

}  // namespace
}  // namespace mcnb::cluster_test
