#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/device/made_users.h"
#include "mcnb/bandit/mcnb/device/round_kernels.h"
#include "mcnb/bandit/mcnb/device/rounds.h"
#include "mcnb/base/check.h"

namespace mcnb::device {

// Rounds on an executor: CUDA's (cuda_rounds.cu), or plain loops, in the tests. An executor has
// memory (allocate, release, to_device, to_host, zero, copy), launches kernels (blocks, groups,
// threads, scan) and runs lists of launches (run), which it may keep as graphs.
template <class Executor>
class DeviceRounds final : public Rounds {
 public:
  DeviceRounds(Executor executor, const RoundSizes& sizes, std::span<const float> start)
      : executor_(std::move(executor)), sizes_(sizes) {
    const NetworkShape& shape = sizes.shape;
    state_.inputs = shape.inputs;
    state_.width = shape.width;
    state_.padded = static_cast<std::uint32_t>(shape.padded_width());
    state_.stride = (shape.parameter_count() + 3) / 4 * 4;
    state_.event_stride = (std::size_t{shape.inputs} + 1 + 3) / 4 * 4;
    state_.theta = make<float>(state_.stride, "Theta");
    state_.refs_used = make<std::uint64_t>(1, "histories");
    make_tasks();
    set_users(sizes.users);
    make_refs(sizes.users * kFirstEventsOfAUser);
    make_events(kFirstEvents);
    executor_.to_device(state_.theta, start.data(), start.size_bytes());
    executor_.threads(FillLearners{state_, state_.theta}, "start");
    executor_.wait();
  }

  ~DeviceRounds() override {
    for (const Held& held : held_) {
      executor_.release(held.memory);
    }
    for (void* memory : pinned_) {
      executor_.release_host(memory);
    }
  }
  DeviceRounds(const DeviceRounds&) = delete;
  DeviceRounds& operator=(const DeviceRounds&) = delete;

  std::vector<PassResult> pass(std::span<const PassArm> arms) override {
    check(!arms.empty() && arms.size() <= kMostArms, "a pass has 1 to 16 arms");
    make_arms(arms.size());
    write_task(arms);
    executor_.run({kPass, arms.size(), 0, generation_}, [&] { launch_pass(arms.size()); });
    executor_.wait_for(state_.stamps, arms.size() * slices_of({state_, false}), stamp_);
    arm_count_ = arms.size();
    return results();
  }

  std::span<const float> learner_of_pass(std::size_t arm) const override {
    check(arm < arm_count_, "the arm is of the last pass");
    return {state_.rows + row_of_[arm] * state_.stride, sizes_.shape.parameter_count()};
  }

  std::vector<UserId> members(std::size_t arm) override {
    check(arm < arm_count_, "the arm is of the last pass");
    std::vector<std::uint32_t> words(state_.words);
    executor_.to_host(words.data(), state_.masks + arm * state_.words, words.size() * 4);
    std::vector<UserId> found;
    for (std::uint32_t user = 0; user < state_.users; ++user) {
      if (has_bit(words.data(), user)) {
        found.push_back(UserId{user});
      }
    }
    return found;
  }

  LessonResult begin_lesson(std::size_t arm, bool alone, float reward) override {
    check(arm < arm_count_, "the arm is of the last pass");
    return begin(Lesson{.arm = static_cast<std::uint32_t>(arm),
                        .served = task_->learners[arm],
                        .is_alone = alone ? 1U : 0U,
                        .event = static_cast<std::uint32_t>(events_),
                        .reward = reward,
                        .rate = sizes_.rate},
                 {xs_ + arm * state_.inputs, state_.inputs}, true);
  }

  void begin_lesson(UserId learner, std::span<const float> x, float reward) override {
    begin(Lesson{.served = static_cast<std::uint32_t>(learner),
                 .is_alone = 1,
                 .event = static_cast<std::uint32_t>(events_),
                 .reward = reward,
                 .rate = sizes_.rate},
          x, false);
  }

  void finish_lesson() override {
    make_refs(lesson_totals_->refs_used + lesson_totals_->refs_needed);
    make_events(events_ + 1);
    executor_.run({kFinish, moves_theta_, 0, generation_}, [&] { launch_finish(); });
    ++events_;
    arm_count_ = 0;
  }

  std::vector<float> learner(UserId learner) override {
    std::vector<float> network(sizes_.shape.parameter_count());
    executor_.to_host(network.data(), state_.learners + index(learner) * state_.stride,
                      network.size() * sizeof(float));
    return network;
  }

  std::size_t user_count() const override { return state_.users; }
  std::size_t event_count() const override { return events_; }
  std::size_t memory_bytes() const override {
    std::size_t bytes = 0;
    for (const Held& held : held_) {
      bytes += held.bytes;
    }
    return bytes;
  }

  Contents download() override;
  void upload(const Contents& contents) override;
  void wait() override { executor_.wait(); }

  void make_users(std::uint32_t events_per_user, std::uint64_t seed, float scale) override {
    const std::size_t count = std::size_t{state_.users} * events_per_user;
    make_events(count);
    make_refs(count);
    executor_.threads(MakeLearners{state_, seed, scale}, "make");
    executor_.threads(MakeHistories{state_, seed, events_per_user}, "make");
    executor_.to_device(state_.refs_used, &count, sizeof count);
    executor_.wait();
    events_ = count;
    arm_count_ = 0;
  }

  void set_profiling(bool on) override { executor_.set_profiling(on); }
  std::vector<PartTime> part_times() override { return executor_.part_times(); }
  double seconds_to_read() override {
    return executor_.shortest_seconds([&] {
      executor_.threads(ReadLearners{state_, state_.moved}, "read");
    });
  }

 private:
  static constexpr std::size_t kFirstEventsOfAUser = 8;
  static constexpr std::size_t kFirstEvents = 4096;
  enum Run : std::uint64_t { kPass, kBegin, kFinish };

  struct Held {
    void* memory = nullptr;
    std::size_t bytes = 0;
  };

  template <class T>
  T* make(std::size_t count, const char* what) {
    held_.push_back({executor_.allocate(count * sizeof(T), what), count * sizeof(T)});
    executor_.zero(held_.back().memory, count * sizeof(T), what);
    ++generation_;
    return static_cast<T*>(held_.back().memory);
  }
  template <class T>
  T* make_host(std::size_t count) {
    pinned_.push_back(executor_.allocate_host(count * sizeof(T)));
    std::memset(pinned_.back(), 0, count * sizeof(T));
    return static_cast<T*>(pinned_.back());
  }
  template <class T>
  void drop(T*& memory) {
    std::erase_if(held_, [&](const Held& held) { return held.memory == memory; });
    if (memory != nullptr) {
      executor_.wait();
      executor_.release(memory);
    }
    memory = nullptr;
  }
  // More room for an array, whose first numbers stay.
  template <class T>
  void grow(T*& memory, std::size_t kept, std::size_t count, const char* what) {
    T* const larger = make<T>(count, what);
    if (kept > 0) {
      executor_.copy(larger, memory, kept * sizeof(T), what);
    }
    drop(memory);
    memory = larger;
  }

  // What goes to the device and what comes back, each in one piece.
  void make_tasks() {
    const std::size_t floats = kMostArms * state_.inputs;
    task_bytes_ = sizeof(Task) + (2 * floats + kArmSlots) * sizeof(float);
    char* const device = make<char>(task_bytes_, "tasks");
    task_ = make_host<Task>(1 + task_bytes_ / sizeof(Task));
    xs_ = reinterpret_cast<float*>(task_ + 1);
    packed_ = xs_ + floats;
    state_.task = reinterpret_cast<const Task*>(device);
    state_.xs = reinterpret_cast<const float*>(state_.task + 1);
    state_.packed = state_.xs + floats;

    // A lesson, its x and empty totals go to the device; the totals and Theta come back.
    lesson_bytes_ = (sizeof(Lesson) + state_.inputs * sizeof(float) + 7) / 8 * 8;
    const std::size_t whole = lesson_bytes_ + sizeof(LessonTotals) + state_.stride * sizeof(float);
    char* const lesson = make<char>(whole, "tasks");
    state_.lesson = reinterpret_cast<const Lesson*>(lesson);
    state_.lesson_x = reinterpret_cast<const float*>(state_.lesson + 1);
    state_.lesson_totals = reinterpret_cast<LessonTotals*>(lesson + lesson_bytes_);
    state_.moved = reinterpret_cast<float*>(state_.lesson_totals + 1);
    char* const host_lesson = make_host<char>(whole);
    lesson_ = reinterpret_cast<Lesson*>(host_lesson);
    lesson_totals_ = reinterpret_cast<LessonTotals*>(host_lesson + lesson_bytes_);
    moved_ = reinterpret_cast<float*>(lesson_totals_ + 1);

    state_.given = task_;
    state_.found_lesson = lesson_totals_;
    state_.found_moved = moved_;
    state_.stamps = make_host<std::uint32_t>(kMostArms * slices_of({state_, false}) +
                                             slices_of({state_, true}));
    state_.totals = make<ArmTotals>(kArmSlots, "results");
    state_.found = make_host<ArmTotals>(kMostArms);
    state_.adapted = make_host<float>(kMostArms * 2 * state_.padded);
    state_.rows = make_host<float>(kMostArms * state_.stride);
  }

  // Room for so many users, without anything about them.
  void set_users(std::size_t users) {
    drop(state_.learners);
    drop(state_.histories);
    drop(state_.trained);
    drop(state_.has_history);
    drop(state_.members);
    state_.users = static_cast<std::uint32_t>(users);
    state_.words = parts_of(state_.users, 32);
    state_.chunks = parts_of(state_.users, kUsersPerChunk);
    state_.blocks = parts_of(state_.users, kDrawsPerBlock);
    state_.learners = make<float>(state_.words * std::size_t{32} * state_.stride, "learners");
    state_.histories = make<History>(users, "histories");
    state_.trained = make<std::uint32_t>(users, "counts");
    state_.has_history = make<std::uint32_t>(state_.words, "histories");
    state_.members = make<std::uint32_t>(users, "clusters");
    arms_room_ = 0;
    arm_count_ = 0;
  }

  // Room for passes of so many arms.
  void make_arms(std::size_t arms) {
    if (arms <= arms_room_) {
      return;
    }
    for (std::uint32_t** memory :
         {&state_.masks, &state_.chunk_members, &state_.chunk_firsts, &state_.drawn}) {
      drop(*memory);
    }
    drop(state_.draws);
    drop(state_.parts);
    drop(state_.groups);
    drop(state_.more_groups);
    state_.masks = make<std::uint32_t>(arms * state_.words, "clusters");
    // The counts of members and participants are one piece, to be set to zero at once.
    state_.chunk_members = make<std::uint32_t>(2 * arms * state_.chunks, "clusters");
    state_.chunk_participants = state_.chunk_members + arms * state_.chunks;
    state_.chunk_firsts = make<std::uint32_t>(arms * state_.chunks, "draws");
    state_.drawn = make<std::uint32_t>(arms * state_.users, "draws");
    state_.draws = make<CountedDraw>(arms * state_.users, "draws");
    const std::size_t longest = std::max(arms * 2, std::size_t{state_.inputs} + 1) * state_.padded;
    const std::size_t groups = parts_of(state_.blocks, kDrawsPerBlock);
    state_.parts = make<float>(state_.blocks * longest, "sums");
    state_.groups = make<float>(groups * longest, "sums");
    state_.more_groups = make<float>(groups * longest, "sums");
    arms_room_ = arms;
    make_uses();
  }
  void make_uses() {
    drop(state_.uses);
    if (arms_room_ > 0) {
      state_.uses = make<EventUse>(arms_room_ * state_.event_capacity, "draws");
    }
  }

  void make_events(std::size_t count) {
    if (count <= state_.event_capacity) {
      return;
    }
    check(count < kSharedEvent, "references to events have 31 bits");
    const std::size_t room = events_ == 0 ? count : std::max(count, events_ + events_ / 4);
    grow(state_.events, events_ * state_.event_stride, room * state_.event_stride, "events");
    state_.event_capacity = room;
    make_uses();
  }

  void make_refs(std::size_t count) {
    if (count <= refs_room_) {
      return;
    }
    const std::size_t room = std::max(count, refs_room_ + refs_room_ / 2);
    grow(state_.refs, refs_room_, room, "histories");
    refs_room_ = room;
  }

  void write_task(std::span<const PassArm> arms) {
    *task_ = {.stamp = ++stamp_,
              .arms = static_cast<std::uint32_t>(arms.size()),
              .rows = 0,
              .gap = sizes_.gap,
              .rate = sizes_.meta_rate};
    for (std::size_t arm = 0; arm < arms.size(); ++arm) {
      const auto& [learner, key, x] = arms[arm];
      check(index(learner) < state_.users && x.size() == state_.inputs,
            "the arms fit the learners");
      task_->learners[arm] = static_cast<std::uint32_t>(learner);
      task_->keys[arm][0] = key[0];
      task_->keys[arm][1] = key[1];
      const std::uint32_t* const rows = task_->row_learners;
      row_of_[arm] = static_cast<std::uint32_t>(
          std::find(rows, rows + task_->rows, static_cast<std::uint32_t>(learner)) - rows);
      if (row_of_[arm] == task_->rows) {
        task_->row_learners[task_->rows++] = static_cast<std::uint32_t>(learner);
      }
      std::copy(x.begin(), x.end(), xs_ + arm * state_.inputs);
      for (std::uint32_t i = 0; i < state_.inputs; ++i) {
        packed_[i * kMostArmsAtOnce + arm] = x[i];
      }
    }
  }

  void launch_pass(std::size_t arms) {
    const auto count = static_cast<std::uint32_t>(arms);
    const auto words = static_cast<std::uint32_t>(task_bytes_ / sizeof(float));
    with_vectors([&](auto vectors) {
      constexpr int kVectors = decltype(vectors)::value;
      const OwnLearners<kVectors> own{state_, count, words};
      executor_.blocks(count, 1, own, "own learners", own.floats());
      executor_.template scan<kVectors>(state_, "scan");
      if (state_.chunks > kFewChunks) {
        executor_.blocks(count, 2, CountBefore{state_}, "count members");
      }
      executor_.blocks(count, state_.chunks, DrawEvents{state_}, "draw");
      executor_.blocks(count, state_.chunks, CountFirsts{state_}, "count");
      executor_.blocks(count, state_.chunks, ListDraws{state_}, "list");
      executor_.counted_blocks(AdaptToBlock<kVectors>{state_}, "adapt");
    });
    launch_sums({state_, false}, count, "sum");
  }

  std::vector<PassResult> results() const {
    std::vector<PassResult> all;
    for (std::size_t arm = 0; arm < arm_count_; ++arm) {
      const ArmTotals& totals = state_.found[arm];
      const float* adapted = state_.adapted + arm * 2 * state_.padded;
      all.push_back({.members = totals.members,
                     .participants = totals.participants,
                     .draws = totals.draws,
                     .trained = totals.trained,
                     .has_ordinary_rewards = totals.is_extraordinary == 0,
                     .own = totals.own,
                     .sums = {adapted, state_.padded},
                     .last = {adapted + state_.padded, state_.padded}});
    }
    return all;
  }

  LessonResult begin(const Lesson& lesson, std::span<const float> x, bool moves_theta) {
    make_arms(1);
    *lesson_ = lesson;
    *lesson_totals_ = {};
    lesson_->stamp = ++stamp_;
    lesson_->moves_theta = moves_theta ? 1 : 0;
    std::copy(x.begin(), x.end(), reinterpret_cast<float*>(lesson_ + 1));
    moves_theta_ = moves_theta;
    executor_.run({kBegin, moves_theta, 0, generation_}, [&] { launch_begin(); });
    if (moves_theta) {
      executor_.wait_for(state_.stamps, slices_of({state_, true}), stamp_);
    } else {
      executor_.wait();
    }
    return {lesson_totals_->members, {moved_, sizes_.shape.parameter_count()}};
  }

  void launch_begin() {
    char* const lesson = reinterpret_cast<char*>(const_cast<Lesson*>(state_.lesson));
    executor_.send(lesson, lesson_, lesson_bytes_ + sizeof(LessonTotals), "send the reward");
    executor_.blocks(1, state_.chunks, ListMembers{state_}, "members");
    if (!moves_theta_) {
      executor_.fetch(lesson_totals_, state_.lesson_totals, sizeof(LessonTotals),
                      "fetch the lesson's results");
      return;
    }
    with_vectors([&](auto vectors) {
      constexpr int kVectors = decltype(vectors)::value;
      executor_.counted_blocks(MoveByBlock<kVectors>{state_}, "moves of Theta", Order::kBeside);
    });
    launch_sums({state_, true}, 1, "sum of the moves");
  }

  // Adds the sums of blocks. A block of threads for each arm is quick with few of them.
  void launch_sums(const PartsOfArms& parts, std::uint32_t arms, const char* part) {
    constexpr std::uint32_t kFew = 512;
    std::uint32_t level = 0;
    for (std::uint32_t most = state_.blocks; most > kFew; most = parts_of(most, kDrawsPerBlock)) {
      executor_.threads(SumBlocks{parts, level++}, part);
    }
    executor_.blocks(arms, slices_of(parts), SumGroups{parts, level}, part);
  }

  void launch_finish() {
    with_vectors([&](auto vectors) {
      constexpr int kVectors = decltype(vectors)::value;
      executor_.template step<kVectors>(state_, "step");
    });
    executor_.threads(Remember<typename Executor::Atomics>{state_}, "remember", Order::kBeside);
  }

  // Calls action with the number of vectors that a hidden layer takes in registers.
  template <class Action>
  void with_vectors(Action action) {
    if (state_.padded <= 2 * kLanes) {
      action(std::integral_constant<int, 2>());
    } else if (state_.padded <= 7 * kLanes) {
      action(std::integral_constant<int, 7>());
    } else {
      action(std::integral_constant<int, 16>());
    }
  }

  Executor executor_;
  RoundSizes sizes_;
  State state_{};
  std::vector<Held> held_;        // on the device
  std::vector<void*> pinned_;     // on the host
  std::uint64_t generation_ = 0;  // changes when memory moves
  std::size_t arms_room_ = 0;
  std::size_t refs_room_ = 0;
  std::size_t events_ = 0;
  std::size_t arm_count_ = 0;  // of the last pass; 0: a learner has changed since
  bool moves_theta_ = false;
  std::uint32_t stamp_ = 0;  // of the last task or lesson
  std::uint32_t row_of_[kMostArms] = {};

  // Host memory that the device reads and writes.
  std::size_t task_bytes_ = 0;
  std::size_t lesson_bytes_ = 0;
  Task* task_ = nullptr;
  float* xs_ = nullptr;
  float* packed_ = nullptr;
  Lesson* lesson_ = nullptr;
  LessonTotals* lesson_totals_ = nullptr;
  float* moved_ = nullptr;
};

}  // namespace mcnb::device
