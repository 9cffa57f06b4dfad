#pragma once

#include <condition_variable>
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
  // `self`: instance and name. Others count this node as silent after `lease_seconds`.
  NodeDirectory(const std::string& url, Node self, double lease_seconds);
  // Takes this node out of the directory.
  ~NodeDirectory();
  NodeDirectory(const NodeDirectory&) = delete;
  NodeDirectory& operator=(const NodeDirectory&) = delete;

  // Where other nodes reach this one from now on.
  void announce(const std::string& address);
  // The node that holds the lease, as it was known last; nullptr if none does, or it is this one,
  // or it cannot be reached.
  std::shared_ptr<const Node> owner() const;
  // All that were heard of lately, in the order of their names. Empty before the first look.
  std::vector<Node> nodes() const;

 private:
  void keep();
  void register_self(PostgresConnection& connection);
  void look(PostgresConnection& connection);

  PostgresSession session_;
  const double lease_seconds_;
  mutable std::mutex mutex_;  // guards what follows
  Node self_;
  bool announced_ = false;  // the database has the address
  std::shared_ptr<const Node> owner_;
  std::vector<Node> nodes_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread keeper_;
};

}  // namespace mcnb
