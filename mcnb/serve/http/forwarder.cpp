#include "mcnb/serve/http/forwarder.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/http/identifiers.h"
#include "mcnb/serve/http/node_link.h"

namespace mcnb {
namespace {

using SteadyTime = std::chrono::steady_clock;
using Moment = SteadyTime::time_point;

// Fewer than a node accepts from one address (`connections_per_address`).
constexpr std::size_t kMostLinks = 128;
constexpr std::chrono::milliseconds kRetryPause{20};
constexpr int kLookMilliseconds = 10;   // for a node, while requests wait
constexpr int kIdleMilliseconds = 100;  // between two looks at the links otherwise
constexpr std::uint64_t kWakeId = 0;
constexpr const char* kStops = "the service stops";

// What a node says that got a forwarded request but does not serve.
bool is_not_owner(const HttpResponse& response) {
  return response.status == 503 &&
         response.body.find("\"code\":\"not_owner\"") != std::string::npos;
}

// Whether sending the request twice does the same as sending it once. Events and rewards have ids.
bool is_repeatable(const HttpRequest& request) {
  const std::string_view path(request.path);
  return request.method == "GET" || request.method == "HEAD" || path.ends_with("/rank") ||
         path.ends_with("/reward") || path.ends_with("/activate");
}

struct ForwardedRequest {
  HttpRequest request;
  std::string id;
  Moment deadline;  // for being sent
  Moment next_attempt;
  std::function<void()> done;
  std::optional<HttpPlan> here;
  HttpResponse response;

  HttpResponse result() const { return here ? here->finish() : response; }
};
using Waiting = std::shared_ptr<ForwardedRequest>;

}  // namespace

class Forwarder::Loop {
 public:
  Loop(Options options, FindRoute find_route, PlanHere plan_here);
  ~Loop();

  HttpPlan plan(const HttpRequest& request);
  bool idle() const { return open_.load() == 0; }
  void close();

 private:
  struct Link {
    std::unique_ptr<NodeLink> connection;
    Waiting request;  // null: none is under way
  };
  using Links = std::map<std::uint64_t, Link>;

  bool add(const Waiting& request);
  void wake() const;
  void run();
  bool take_in();
  void dispatch();
  void send(const std::shared_ptr<const Node>& node, const Waiting& request);
  void proceed(std::uint64_t id);
  void on_response(Link& link);
  void abandon_others(const Route& route);
  void give_up(Link& link);
  void finish(const Waiting& request);
  void fail(const Waiting& request, const char* why);

  const Options options_;
  FindRoute find_route_;
  PlanHere plan_here_;
  int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  int event_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::mutex mutex_;  // guards the next two
  std::vector<Waiting> inbox_;
  bool closed_ = false;
  std::atomic<std::size_t> open_{0};
  std::deque<Waiting> waiting_;
  Links links_;
  std::uint64_t next_id_ = kWakeId + 1;
  std::thread thread_;
};

Forwarder::Loop::Loop(Options options, FindRoute find_route, PlanHere plan_here)
    : options_(std::move(options)),
      find_route_(std::move(find_route)),
      plan_here_(std::move(plan_here)) {
  if (epoll_ < 0 || event_ < 0) {
    throw Error(ErrorKind::kSystem, "no file is left for the connections to other nodes");
  }
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u64 = kWakeId}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event);
  thread_ = std::thread([this] { run(); });
}

Forwarder::Loop::~Loop() {
  close();
  ::close(event_);
  ::close(epoll_);
}

void Forwarder::Loop::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

HttpPlan Forwarder::Loop::plan(const HttpRequest& request) {
  auto own = std::make_shared<ForwardedRequest>();
  own->request = request;
  own->id = random_id();
  const auto wait = std::chrono::duration<double>(options_.wait_seconds);
  own->deadline = SteadyTime::now() + std::chrono::duration_cast<SteadyTime::duration>(wait);
  const auto start = [this, own](std::function<void()> done) {
    own->done = std::move(done);
    return add(own);
  };
  return {start, [own] { return own->result(); }};
}

// Returns false if the forwarder is closed.
bool Forwarder::Loop::add(const Waiting& request) {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    request->response = error_response({ErrorCode::kOverloaded, kStops, ""});
    return false;
  }
  open_.fetch_add(1);
  inbox_.push_back(request);
  if (inbox_.size() == 1) {
    wake();
  }
  return true;
}

void Forwarder::Loop::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(::write(event_, &one, sizeof one));
}

void Forwarder::Loop::run() {
  std::array<epoll_event, 64> events;
  while (take_in()) {
    dispatch();
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                   waiting_.empty() ? kIdleMilliseconds : kLookMilliseconds);
    for (int i = 0; i < count; ++i) {
      if (events[static_cast<std::size_t>(i)].data.u64 != kWakeId) {
        proceed(events[static_cast<std::size_t>(i)].data.u64);
      }
    }
  }
  for (const auto& [id, link] : links_) {
    if (link.request) {
      fail(link.request, kStops);
    }
  }
  for (const Waiting& request : waiting_) {
    fail(request, kStops);
  }
}

// Returns false once the forwarder is closed.
bool Forwarder::Loop::take_in() {
  std::uint64_t count = 0;
  static_cast<void>(::read(event_, &count, sizeof count));
  const std::lock_guard lock(mutex_);
  waiting_.insert(waiting_.end(), inbox_.begin(), inbox_.end());
  inbox_.clear();
  return !closed_;
}

// Sends what waits, as far as there is a node that serves.
void Forwarder::Loop::dispatch() {
  const Route route = find_route_();
  abandon_others(route);
  const Moment now = SteadyTime::now();
  for (Waiting& request : std::exchange(waiting_, {})) {
    if (route.here) {
      request->here = plan_here_(request->request);
      if (!request->here->start || !request->here->start([this, request] { finish(request); })) {
        finish(request);
      }
    } else if (now > request->deadline) {
      fail(request, "no node serves the models at the moment");
    } else if (route.node && now >= request->next_attempt) {
      send(route.node, request);
    } else {
      waiting_.push_back(std::move(request));
    }
  }
}

void Forwarder::Loop::send(const std::shared_ptr<const Node>& node, const Waiting& request) {
  auto free = std::ranges::find_if(links_, [](const auto& link) { return !link.second.request; });
  try {
    if (free == links_.end()) {
      if (links_.size() >= kMostLinks) {
        waiting_.push_back(request);
        return;
      }
      const std::uint64_t id = next_id_++;
      free = links_.emplace(id, Link{std::make_unique<NodeLink>(node), nullptr}).first;
      epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u64 = id}};
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, free->second.connection->file(), &event);
    }
  } catch (const Error&) {
    request->next_attempt = SteadyTime::now() + kRetryPause;
    waiting_.push_back(request);
    return;
  }
  free->second.request = request;
  free->second.connection->send(
      forwarded_bytes(request->request, request->id, options_.name, *node));
  proceed(free->first);
}

void Forwarder::Loop::proceed(std::uint64_t id) {
  const auto found = links_.find(id);
  if (found == links_.end()) {
    return;
  }
  Link& link = found->second;
  const NodeLink::State state = link.connection->proceed();
  if (state == NodeLink::State::kAnswered) {
    on_response(link);
  } else if (state == NodeLink::State::kLost && link.request) {
    give_up(link);
  }
  if (!link.request && !link.connection->reusable()) {
    links_.erase(found);
  }
}

void Forwarder::Loop::on_response(Link& link) {
  const Waiting request = std::exchange(link.request, nullptr);
  request->response = link.connection->take_response();
  if (is_not_owner(request->response)) {
    request->next_attempt = SteadyTime::now() + kRetryPause;
    waiting_.push_back(request);
  } else {
    finish(request);
  }
}

// Ends the connections to nodes that no longer serve. If none is known, the last one may still
// answer.
void Forwarder::Loop::abandon_others(const Route& route) {
  if (!route.here && !route.node) {
    return;
  }
  for (auto link = links_.begin(); link != links_.end();) {
    if (!route.here && link->second.connection->node().instance == route.node->instance) {
      ++link;
      continue;
    }
    if (link->second.request) {
      give_up(link->second);
    }
    link = links_.erase(link);
  }
}

// A connection was lost before the response came.
void Forwarder::Loop::give_up(Link& link) {
  const Waiting request = std::exchange(link.request, nullptr);
  if (is_repeatable(request->request) || !link.connection->has_sent()) {
    request->next_attempt = SteadyTime::now() + kRetryPause;
    waiting_.push_back(request);
  } else {
    fail(request, "the node that serves the models was lost; the request may have been done");
  }
}

void Forwarder::Loop::fail(const Waiting& request, const char* why) {
  request->response = error_response({ErrorCode::kStorageFailed, why, ""});
  finish(request);
}

void Forwarder::Loop::finish(const Waiting& request) {
  open_.fetch_sub(1);
  request->done();
}

Forwarder::Forwarder(Options options, FindRoute find_route, PlanHere plan_here)
    : loop_(std::make_unique<Loop>(std::move(options), std::move(find_route),
                                   std::move(plan_here))) {}

Forwarder::~Forwarder() = default;

HttpPlan Forwarder::plan(const HttpRequest& request) { return loop_->plan(request); }

bool Forwarder::idle() const { return loop_->idle(); }

void Forwarder::close() { loop_->close(); }

}  // namespace mcnb
