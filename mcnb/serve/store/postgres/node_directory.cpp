#include "mcnb/serve/store/postgres/node_directory.h"

#include <chrono>
#include <utility>

#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {
namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr double kRegistrations = 5.0;  // within the time after which a node counts as silent

}  // namespace

NodeDirectory::NodeDirectory(const std::string& url, Node self, double lease_seconds, Follow follow)
    : session_(url, false),
      lease_seconds_(lease_seconds),
      follow_(std::move(follow)),
      self_(std::move(self)) {
  session_.call("mcnb directory");
  keeper_ = std::thread([this] { keep(); });
}

NodeDirectory::~NodeDirectory() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  keeper_.join();
  try {
    session_.open().run("DELETE FROM mcnb.nodes WHERE instance = $1",
                        PostgresValues().text(self_.instance));
  } catch (const std::exception&) {
    // Its row is forgotten when it has been silent for long.
  }
}

void NodeDirectory::announce(const std::string& address) {
  {
    const std::lock_guard lock(mutex_);
    self_.address = address;
    announced_ = false;
  }
  wake_.notify_all();
}

void NodeDirectory::announce_leaving() {
  {
    const std::lock_guard lock(mutex_);
    self_.leaving = true;
    announced_ = false;
  }
  wake_.notify_all();
}

std::shared_ptr<const Node> NodeDirectory::owner() const {
  const std::lock_guard lock(mutex_);
  return owner_;
}

std::vector<Node> NodeDirectory::nodes() const {
  const std::lock_guard lock(mutex_);
  return nodes_;
}

void NodeDirectory::keep() {
  const auto renewal = std::chrono::duration<double>(lease_seconds_ / kRegistrations);
  std::chrono::steady_clock::time_point registered;
  bool failing = false;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool due = !announced_ || std::chrono::steady_clock::now() - registered >= renewal;
    announced_ = true;
    lock.unlock();
    try {
      if (due) {
        register_self(session_.open());
        registered = std::chrono::steady_clock::now();
      }
      look(session_.open());
      follow_owner();
      failing = false;
    } catch (const std::exception& error) {
      if (!failing) {
        log_warning("the directory of nodes cannot be read", {{"detail", error.what()}});
      }
      failing = true;
      registered = {};
    }
    lock.lock();
    wake_.wait_for(lock, kLook, [&] { return stopping_ || !announced_; });
  }
}

// Loads the models of an owner that is about to go, and says when this is done.
void NodeDirectory::follow_owner() {
  std::unique_lock lock(mutex_);
  const bool owner_leaves = owner_ && owner_->leaving;
  const std::int64_t epoch = epoch_;
  lock.unlock();
  const std::int64_t loaded = follow_(owner_leaves) && owner_leaves ? epoch : 0;
  lock.lock();
  announced_ = announced_ && loaded == loaded_;
  loaded_ = loaded;
}

void NodeDirectory::register_self(PostgresConnection& connection) {
  Node self;
  std::int64_t loaded = 0;
  {
    const std::lock_guard lock(mutex_);
    self = self_;
    loaded = loaded_;
  }
  connection.send(
      "INSERT INTO mcnb.nodes VALUES($1, $2, $3, clock_timestamp(), $4 <> 0, $5) ON CONFLICT "
      "(instance) DO UPDATE SET address = excluded.address, seen = excluded.seen, leaving = "
      "excluded.leaving, loaded = excluded.loaded",
      PostgresValues()
          .text(self.instance)
          .text(self.name)
          .text(self.address)
          .number(self.leaving ? 1 : 0)
          .number(loaded));
  connection.send("DELETE FROM mcnb.nodes WHERE seen < clock_timestamp() - interval '1 hour'");
  connection.finish();
}

void NodeDirectory::look(PostgresConnection& connection) {
  const PostgresRows rows = connection.run(
      "SELECT nodes.instance, nodes.name, address, leases.instance = nodes.instance AND "
      "heartbeats.expires > clock_timestamp(), (extract(epoch FROM clock_timestamp() - seen) * "
      "1000)::bigint, leaving, loaded = leases.epoch, leases.epoch FROM mcnb.nodes CROSS JOIN "
      "mcnb.leases JOIN mcnb.heartbeats ON "
      "heartbeats.name = leases.name WHERE leases.name = 'service' ORDER BY nodes.name, "
      "nodes.instance");
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    nodes.push_back({rows.text(i, 0), rows.text(i, 1), rows.text(i, 2), rows.number(i, 3) != 0,
                     rows.number(i, 4), rows.number(i, 5) != 0, rows.number(i, 6) != 0});
  }
  std::shared_ptr<const Node> owner;
  const std::lock_guard lock(mutex_);
  for (const Node& node : nodes) {
    if (node.owner && node.instance != self_.instance && !node.address.empty()) {
      const bool same = owner_ && owner_->instance == node.instance &&
                        owner_->address == node.address && owner_->leaving == node.leaving;
      owner = same ? owner_ : std::make_shared<const Node>(node);
    }
  }
  epoch_ = rows.empty() ? 0 : rows.number(0, 7);
  owner_ = std::move(owner);
  nodes_ = std::move(nodes);
}

}  // namespace mcnb
