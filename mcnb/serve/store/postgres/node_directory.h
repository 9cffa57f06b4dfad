#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mcnb/serve/nodes.h"
#include "mcnb/serve/store/postgres/session.h"

namespace mcnb {

// The nodes of a PostgreSQL store: says that this one is there, and knows the others. A thread
// looks at the database several times a second. Everything here is safe from any thread.
class NodeDirectory {
 public:
  // Told whether the owner, another node, is about to go; returns whether this node has loaded its
  // models. Called several times a second by the thread of the directory.
  using Follow = std::function<bool(bool owner_leaves)>;

  // `self`: instance and name. Others count this node as silent after `lease_seconds`.
  NodeDirectory(const std::string& url, Node self, double lease_seconds, Follow follow);
  // Takes this node out of the directory.
  ~NodeDirectory();
  NodeDirectory(const NodeDirectory&) = delete;
  NodeDirectory& operator=(const NodeDirectory&) = delete;

  // Where other nodes reach this one from now on.
  void announce(const std::string& address);
  // This node is the owner and is about to go.
  void announce_leaving();
  // The node that holds the lease, as it was known last; nullptr if none does, or it is this one,
  // or it cannot be reached.
  std::shared_ptr<const Node> owner() const;
  // All that were heard of lately, in the order of their names. Empty before the first look.
  std::vector<Node> nodes() const;

 private:
  void keep();
  void register_self(PostgresConnection& connection);
  void look(PostgresConnection& connection);
  void follow_owner();

  PostgresSession session_;
  const double lease_seconds_;
  const Follow follow_;
  mutable std::mutex mutex_;  // guards what follows
  Node self_;
  bool announced_ = false;   // the database has what this node says of itself
  std::int64_t loaded_ = 0;  // the epoch of the owner whose models this node has loaded; 0: none
  std::int64_t epoch_ = 0;   // of the present owner
  std::shared_ptr<const Node> owner_;
  std::vector<Node> nodes_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread keeper_;
};

}  // namespace mcnb
