#include "mcnb/bandit/linear/sclub_clusters.h"

#include <algorithm>
#include <cmath>

namespace mcnb {
namespace {

std::span<const double> weights_of(const RidgeState& ridge) {
  return {ridge.weights().data(), ridge.dimension()};
}

// State is a LinearState or a LinearGroup.
template <class State>
double squared_distance_to(const WeightsThen& then, const State& state, const FeatureBlocks& all) {
  double sum = 0.0;
  std::span<const double> rest(then.values);
  std::size_t position = 0;
  for (const std::uint32_t block : then.blocks) {
    for (; position < state.block_count() && state.block(position) < block; ++position) {
      sum += squared_norm(weights_of(state.ridge(position)));
    }
    const std::span<const double> mine = rest.first(all.length(block));
    rest = rest.subspan(mine.size());
    if (position < state.block_count() && state.block(position) == block) {
      sum += squared_distance(mine, weights_of(state.ridge(position)));
      ++position;
    } else {
      sum += squared_norm(mine);
    }
  }
  for (; position < state.block_count(); ++position) {
    sum += squared_norm(weights_of(state.ridge(position)));
  }
  return sum;
}

// One member less has had so many rounds.
void forget_rounds(std::uint64_t rounds, SclubClusters::Cluster& cluster) {
  const auto found = cluster.with_rounds.find(rounds);
  if (--found->second == 0) {
    cluster.with_rounds.erase(found);
  }
}

}  // namespace

WeightsThen WeightsThen::of(const LinearGroup& group) {
  WeightsThen weights{.samples = group.sample_count()};
  for (std::size_t position = 0; position < group.block_count(); ++position) {
    const std::span<const double> values = weights_of(group.ridge(position));
    weights.blocks.push_back(group.block(position));
    weights.values.insert(weights.values.end(), values.begin(), values.end());
  }
  return weights;
}

double WeightsThen::squared_distance(const LinearState& state, const FeatureBlocks& all) const {
  return squared_distance_to(*this, state, all);
}

double WeightsThen::squared_distance(const LinearGroup& group, const FeatureBlocks& all) const {
  return squared_distance_to(*this, group, all);
}

void SclubClusters::add_together() {
  std::vector<UserId> newcomers;
  for (std::size_t user = members_.size(); user < users_.count(); ++user) {
    newcomers.push_back(UserId{static_cast<std::uint32_t>(user)});
  }
  members_.resize(users_.count());
  if (!newcomers.empty()) {
    add_cluster(newcomers);
  }
}

void SclubClusters::add_one_by_one() {
  for (std::size_t user = members_.size(); user < users_.count(); ++user) {
    members_.emplace_back();
    add_cluster({UserId{static_cast<std::uint32_t>(user)}});
  }
}

SclubClusters::Cluster& SclubClusters::add_cluster(const std::vector<UserId>& members) {
  Cluster& cluster = clusters_.emplace(next_number_, Cluster(users_)).first->second;
  for (const UserId user : members) {
    join(user, next_number_, cluster);
  }
  ++next_number_;
  cluster.state.join(rows_of(cluster));
  return cluster;
}

// The rows of the members that have samples.
std::vector<std::uint32_t> SclubClusters::rows_of(const Cluster& cluster) const {
  std::vector<std::uint32_t> rows;
  for (const UserId user : cluster.members) {
    if (const std::optional<std::uint32_t> row = users_.row(user)) {
      rows.push_back(*row);
    }
  }
  return rows;
}

void SclubClusters::join(UserId user, std::uint64_t number, Cluster& cluster) {
  Member& member = members_[index(user)];
  member.cluster = number;
  member.position = static_cast<std::uint32_t>(cluster.members.size());
  cluster.members.push_back(user);
  ++cluster.with_rounds[member.rounds];
  cluster.rounds += member.rounds;
}

void SclubClusters::leave(UserId user, Cluster& cluster) {
  const Member& member = members_[index(user)];
  const UserId last = cluster.members.back();
  cluster.members[member.position] = last;
  members_[index(last)].position = member.position;
  cluster.members.pop_back();
  forget_rounds(member.rounds, cluster);
  cluster.rounds -= member.rounds;
}

void SclubClusters::enter_phase(Cluster& cluster, std::uint32_t phase) {
  if (cluster.phase != phase) {
    cluster.phase = phase;
    cluster.checked = 0;
    cluster.old = WeightsThen::of(cluster.state);
  }
}

void SclubClusters::count_round(UserId user) {
  Member& member = members_[index(user)];
  Cluster& cluster = at(member.cluster);
  forget_rounds(member.rounds, cluster);
  ++member.rounds;
  ++cluster.with_rounds[member.rounds];
  ++cluster.rounds;
  if (member.checked_in != cluster.phase) {
    member.checked_in = cluster.phase;
    ++cluster.checked;
  }
}

std::uint64_t SclubClusters::split_off(UserId user) {
  Cluster& cluster = at(number_of(user));
  leave(user, cluster);
  --cluster.checked;
  const std::uint32_t row = *users_.row(user);
  cluster.state.leave({&row, 1}, [&] { return rows_of(cluster); });
  Cluster& alone = add_cluster({user});
  alone.phase = cluster.phase;
  alone.checked = 1;
  return number_of(user);
}

std::uint64_t SclubClusters::merge(std::uint64_t a, std::uint64_t b) {
  const std::size_t size_a = at(a).members.size();
  const std::size_t size_b = at(b).members.size();
  const std::uint64_t host = size_a == size_b ? std::min(a, b) : (size_a > size_b ? a : b);
  const std::uint64_t guest = host == a ? b : a;
  Cluster& cluster = at(host);
  const Cluster& other = at(guest);
  cluster.state.join(rows_of(other));
  for (const UserId user : other.members) {
    join(user, host, cluster);
  }
  cluster.checked = cluster.members.size();
  cluster.old = WeightsThen::of(cluster.state);
  clusters_.erase(guest);
  return host;
}

std::size_t SclubClusters::memory_bytes() const {
  constexpr std::size_t kTreeNode = 4 * sizeof(void*);
  std::size_t bytes = sizeof *this + members_.capacity() * sizeof members_[0];
  for (const auto& [number, cluster] : clusters_) {
    bytes += kTreeNode + sizeof number + sizeof cluster - sizeof cluster.state +
             cluster.state.memory_bytes() + cluster.members.capacity() * sizeof(UserId) +
             cluster.with_rounds.size() * (kTreeNode + 2 * sizeof(std::uint64_t)) +
             cluster.old.blocks.capacity() * sizeof(std::uint32_t) +
             cluster.old.values.capacity() * sizeof(double);
  }
  return bytes;
}

void SclubClusters::save(StateWriter& writer) const {
  writer.write(next_number_);
  for (const Member& member : members_) {
    writer.write(member.rounds);
    writer.write(member.checked_in);
  }
  writer.write(static_cast<std::uint64_t>(clusters_.size()));
  for (const auto& [number, cluster] : clusters_) {
    writer.write(number);
    writer.write(cluster.phase);
    writer.write_all(cluster.members);
    writer.write(cluster.old.samples);
    writer.write_all(cluster.old.blocks);
    writer.write_all(cluster.old.values);
    cluster.state.save(writer);
  }
}

void SclubClusters::load(StateReader& reader, std::uint64_t rewards, std::uint32_t phase) {
  next_number_ = reader.read<std::uint64_t>();
  clusters_.clear();
  load_members(reader, rewards, phase);
  const auto count = reader.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    load_cluster(reader, phase);
  }
  const auto is_nowhere = [](const Member& member) { return member.cluster == kNowhere; };
  if (std::ranges::any_of(members_, is_nowhere)) {
    reader.fail("a user is in no cluster");
  }
}

void SclubClusters::load_members(StateReader& reader, std::uint64_t rewards, std::uint32_t phase) {
  members_.clear();
  std::uint64_t rounds = 0;
  for (std::size_t user = 0; user < users_.count(); ++user) {
    Member& member = members_.emplace_back();
    member.rounds = reader.read<std::uint64_t>();
    member.checked_in = reader.read<std::uint32_t>();
    if (member.rounds > users_.sample_count(UserId{static_cast<std::uint32_t>(user)}) ||
        member.rounds > rewards - rounds || member.checked_in > phase ||
        (member.rounds > 0) != (member.checked_in > 0)) {
      reader.fail("a user has more rounds than samples, or was checked without a round");
    }
    rounds += member.rounds;
  }
  if (rounds != rewards) {
    reader.fail("the rounds of the users do not add up to the rewards");
  }
}

void SclubClusters::load_cluster(StateReader& reader, std::uint32_t phase) {
  const auto number = reader.read<std::uint64_t>();
  if (number >= next_number_ || (!clusters_.empty() && number <= clusters_.rbegin()->first)) {
    reader.fail("the clusters are not in their order");
  }
  Cluster& cluster = clusters_.emplace(number, Cluster(users_)).first->second;
  cluster.phase = reader.read<std::uint32_t>();
  for (const UserId user : reader.read_all<UserId>(users_.count())) {
    if (index(user) >= users_.count() || members_[index(user)].cluster != kNowhere) {
      reader.fail("a cluster has a member that it cannot have");
    }
    join(user, number, cluster);
    cluster.checked += members_[index(user)].checked_in == cluster.phase ? 1 : 0;
  }
  load_old_weights(reader, cluster.old);
  cluster.state.load(reader, rows_of(cluster));
  if (cluster.members.empty() || cluster.phase > phase) {
    reader.fail("a cluster is empty, or of a phase yet to come");
  }
}

void SclubClusters::load_old_weights(StateReader& reader, WeightsThen& old) const {
  old.samples = reader.read<std::uint64_t>();
  old.blocks = reader.read_all<std::uint32_t>(users_.blocks().size());
  std::size_t length = 0;
  for (std::size_t i = 0; i < old.blocks.size(); ++i) {
    if (old.blocks[i] >= users_.blocks().size() || (i > 0 && old.blocks[i] <= old.blocks[i - 1])) {
      reader.fail("the blocks of old weights are not in their order");
    }
    length += users_.blocks().length(old.blocks[i]);
  }
  old.values = reader.read_all<double>(length);
  if (old.values.size() != length ||
      !std::ranges::all_of(old.values, [](double value) { return std::isfinite(value); })) {
    reader.fail("old weights do not fit their blocks, or are not finite");
  }
}

}  // namespace mcnb
