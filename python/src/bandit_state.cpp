// Bandits in files and in pickles.

#include <sstream>
#include <utility>

#include "mcnb/bandit/saved_policy.h"
#include "mcnb/base/option_codec.h"
#include "mcnb/numeric/network_pool.h"
#include "python/src/bandit.h"

namespace mcnb::python {
namespace {

const StateHeader kBanditFile{.kind = "python-bandit", .version = 3};
constexpr std::uint64_t kLongestText = 1 << 16;
constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 40;
constexpr const char* kPickle = "a pickled bandit";

template <class T>
T read_limited(StateReader& reader, std::uint64_t most) {
  const auto value = reader.read<std::uint64_t>();
  if (value > most) {
    reader.fail("a number of the bandit is larger than it can be");
  }
  return static_cast<T>(value);
}

// Names are there from version 3 on.
std::vector<std::string> read_names(StateReader& reader) {
  std::vector<std::string> names;
  const std::uint64_t count = reader.version() < 3 ? 0 : reader.read_count(NetworkPool::kMaxUsers);
  for (std::uint64_t i = 0; i < count; ++i) {
    names.push_back(reader.read_string(kLongestText));
  }
  return names;
}

}  // namespace

void Bandit::write(StateWriter& writer) {
  writer.write_string(setup_.policy.name);
  write_options(writer, setup_.policy.options);
  for (const std::uint64_t number :
       {std::uint64_t{setup_.features}, std::uint64_t{setup_.users}, setup_.seed,
        std::uint64_t{setup_.threads}, std::uint64_t{setup_.block},
        std::uint64_t{setup_.user_feature_count}, next_round_}) {
    writer.write(number);
  }
  writer.write_all(setup_.user_features);
  writer.write(static_cast<std::uint64_t>(waiting_.size()));
  for (const Decision& decision : waiting_) {
    writer.write(decision.round);
    writer.write(decision.arm);
  }
  decided_.save(writer);
  writer.write_count(names_.names().size());
  for (const std::string& name : names_.names()) {
    writer.write_string(name);
  }
  model_->policy->save(writer);
}

std::unique_ptr<Bandit> Bandit::read_state(StateReader& reader, std::size_t threads,
                                           Device device) {
  BanditSetup setup;
  setup.policy.name = reader.read_string(kLongestText);
  setup.policy.label = setup.policy.name;
  setup.policy.options = read_options(reader);
  complete_options(setup.policy);
  setup.features = read_limited<std::uint32_t>(reader, NetworkShape::kMaxInputs);
  setup.users = read_limited<std::size_t>(reader, NetworkPool::kMaxUsers);
  setup.seed = reader.read<std::uint64_t>();
  setup.threads = read_limited<std::size_t>(reader, ThreadPool::kMaxThreads);
  setup.block = read_limited<std::uint32_t>(reader, NetworkShape::kMaxInputs);
  setup.user_feature_count = read_limited<std::size_t>(reader, NetworkShape::kMaxInputs);
  const auto next_round = reader.read<std::uint64_t>();
  setup.user_features = reader.read_all<float>(kMostNumbers);
  if (setup.features == 0 || setup.users == 0 ||
      setup.user_features.size() != setup.users * setup.user_feature_count) {
    reader.fail("the parts of the bandit do not fit together");
  }
  if (threads > 0) {
    setup.threads = threads;
  }
  setup.device = device;
  const auto waiting = read_limited<std::uint64_t>(reader, kMostNumbers);
  std::deque<Decision> decisions;
  for (std::uint64_t i = 0; i < waiting; ++i) {
    const auto round = reader.read<RoundId>();
    const auto arm = reader.read<ArmIndex>();
    if (index(arm) >= kMostArms) {
      reader.fail("a decision of the bandit chose an arm that cannot be");
    }
    decisions.push_back({round, arm});
  }
  auto bandit = std::unique_ptr<Bandit>(::new Bandit(setup));
  bandit->next_round_ = next_round;
  bandit->waiting_ = std::move(decisions);
  bandit->decided_.load(reader);
  bandit->names_ = LogUsers(read_names(reader));
  bandit->model_->policy->load(reader);
  bandit->users_ = bandit->model_->policy->user_count();
  if (bandit->names_.names().size() > bandit->users_) {
    reader.fail("more users have names than there are");
  }
  return bandit;
}

// A policy that `mcnb train` or the C++ library saved.
std::unique_ptr<Bandit> Bandit::from_policy_file(const std::string& path, std::size_t threads,
                                                 Device device) {
  ThreadPool one(1);
  SavedPolicy saved = load_saved_policy(path, one);
  BanditSetup setup{.policy = saved.spec,
                    .features = saved.setup.inputs,
                    .users = saved.setup.users,
                    .seed = saved.setup.seed,
                    .threads = threads == 0 ? 1 : threads,
                    .block = saved.setup.block_length,
                    .device = device};
  auto bandit = std::unique_ptr<Bandit>(::new Bandit(setup));
  bandit->model_->policy = load_policy_file(path, saved.spec,
                                            {.inputs = setup.features,
                                             .users = setup.users,
                                             .seed = setup.seed,
                                             .threads = &bandit->model_->threads,
                                             .user_features = {},
                                             .block_length = setup.block,
                                             .device = device});
  bandit->next_round_ = saved.memory.next_round;
  bandit->names_ = LogUsers(std::move(saved.memory.users));
  bandit->users_ = bandit->model_->policy->user_count();
  return bandit;
}

void Bandit::save(const std::string& path) {
  const BanditLock lock(mutex_);
  save_state_file(path, kBanditFile, [&](StateWriter& writer) { write(writer); });
}

std::unique_ptr<Bandit> Bandit::load(const std::string& path, std::size_t threads, Device device) {
  const py::gil_scoped_release release;
  if (is_policy_file(path)) {
    return from_policy_file(path, threads, device);
  }
  std::unique_ptr<Bandit> bandit;
  load_state_file(path, kBanditFile,
                  [&](StateReader& reader) { bandit = read_state(reader, threads, device); });
  return bandit;
}

std::string Bandit::bytes() {
  const BanditLock lock(mutex_);
  std::ostringstream out(std::ios::binary);
  StateWriter writer(out, kPickle, kBanditFile);
  write(writer);
  writer.finish();
  return std::move(out).str();
}

std::unique_ptr<Bandit> Bandit::from_bytes(const std::string& bytes, Device device) {
  const py::gil_scoped_release release;
  std::istringstream in(bytes, std::ios::binary);
  StateReader reader(in, kPickle, kBanditFile);
  std::unique_ptr<Bandit> bandit = read_state(reader, 0, device);
  reader.finish();
  return bandit;
}

}  // namespace mcnb::python
