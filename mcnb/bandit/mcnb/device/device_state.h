#pragma once

#include <cstddef>
#include <cstdint>

// What a device holds of M-CNB, as plain memory. The host makes and fills it (device_rounds.h), the
// kernels work on it (round_kernels.h).
namespace mcnb::device {

inline constexpr std::uint32_t kMostArmsAtOnce = 16;   // that one pass over the learners serves
inline constexpr std::uint32_t kUsersPerChunk = 1024;  // also draws
inline constexpr std::uint32_t kMostWidth = 256;       // hidden units that registers can hold
inline constexpr std::uint32_t kArmSlots = 2 * kMostArmsAtOnce;  // kernels take arms in tiles
inline constexpr std::uint32_t kFewChunks = 32;  // whose counts every block adds for itself

// When a kernel starts.
enum class Order {
  kAfter,   // after all kernels that were launched before
  kBeside,  // it may run at the same time as the one before it, which must be kAfter
};

// In a reference to an event: more than one learner remembers it. Only such events can be drawn by
// several members of a cluster.
inline constexpr std::uint32_t kSharedEvent = 0x80000000U;

// A user's list of references to events: refs[begin] .. refs[begin + size - 1].
struct History {
  std::uint64_t begin;
  std::uint32_t size;
  std::uint32_t capacity;
};

// What the members of one arm's cluster drew: the first of them that drew an event, and how many.
struct EventUse {
  std::uint32_t inverted_first;  // ~position; 0: nobody
  std::uint32_t count;
};

// An event that takes part in an adaptation, and how many members drew it.
struct CountedDraw {
  std::uint32_t event;
  std::uint32_t count;
};

// What a pass is about.
struct Task {
  std::uint32_t stamp;  // what the host waits for (State::stamps)
  std::uint32_t arms;
  std::uint32_t rows;                       // different learners of the arms
  float gap;                                // users agree if their estimates differ by at most this
  double rate;                              // of the meta-learner
  std::uint32_t learners[kMostArmsAtOnce];  // by arm
  std::uint32_t keys[kMostArmsAtOnce][2];   // of the random numbers of each arm's draws
  std::uint32_t row_learners[kMostArmsAtOnce];
};

// What is learned from a reward.
struct Lesson {
  std::uint32_t stamp;     // what the host waits for (State::stamps)
  std::uint32_t arm;       // of the pass whose cluster learns
  std::uint32_t served;    // the learner that the reward is for
  std::uint32_t is_alone;  // whether it learns alone
  std::uint32_t event;
  std::uint32_t moves_theta;
  float reward;
  float rate;  // of the user-learners
};

// What a pass has found out about an arm.
struct ArmTotals {
  std::uint32_t members;
  std::uint32_t participants;      // members with a history
  std::uint32_t draws;             // different events among those they drew
  std::uint32_t trained;           // how often the arm's learner has been trained
  std::uint32_t is_extraordinary;  // 1 if a drawn reward is beyond [-1, 1]
  float own;                       // the estimate of the arm's learner
};

// What a lesson needs.
struct LessonTotals {
  std::uint32_t members;  // learners that take the step
  std::uint32_t unused;
  std::uint64_t refs_needed;  // for longer histories
  std::uint64_t refs_used;
};

// Everything a kernel may read or write. Learner u has `stride` floats at learners + u * stride; an
// event has its features, then its reward, and takes event_stride floats. Arrays with a part for
// each arm have room for kMostArmsAtOnce arms or the largest pass so far.
struct State {
  std::uint32_t inputs;
  std::uint32_t width;
  std::uint32_t padded;  // width, rounded up to whole vectors of sixteen
  std::uint32_t users;
  std::uint32_t words;   // of 32 users
  std::uint32_t chunks;  // of kUsersPerChunk users
  std::uint32_t blocks;  // of kDrawsPerBlock draws, at most
  std::size_t stride;
  std::size_t event_stride;
  std::size_t event_capacity;

  float* learners;
  float* theta;
  History* histories;
  std::uint32_t* refs;
  std::uint64_t* refs_used;
  std::uint32_t* trained;
  std::uint32_t* has_history;  // a bit for each user
  float* events;

  const Task* task;
  const float* xs;      // [arm][input]
  const float* packed;  // [input][kMostArmsAtOnce], with room for a tile of arms behind them
  const Lesson* lesson;
  const float* lesson_x;

  std::uint32_t* masks;               // [arm][words]: who agrees
  std::uint32_t* chunk_members;       // [arm][chunks]; of many, soon those before the chunk
  std::uint32_t* chunk_participants;  // [arm][chunks]; likewise
  std::uint32_t* chunk_firsts;        // [arm][chunks], of draws
  std::uint32_t* drawn;               // [arm][users]: the reference that each participant drew
  EventUse* uses;                     // [arm][event_capacity]; of shared events, during a pass
  CountedDraw* draws;                 // [arm][users]: the different events, in order
  float* parts;                       // [arm][blocks][2 * padded], or of a step of Theta
  float* groups;                      // sums of parts, level by level
  float* more_groups;
  std::uint32_t* members;  // of a lesson

  ArmTotals* totals;  // [kArmSlots]
  LessonTotals* lesson_totals;
  float* moved;  // Theta after a step

  // Memory of the host, which the device reads or writes.
  const Task* given;           // the task, xs and packed
  std::uint32_t* stamps;       // [arm][slices of a sum]: that of the task or lesson in the end
  ArmTotals* found;            // [arm]: the totals, in the end
  float* adapted;              // [arm][2 * padded]: W_1 x and W_2 after the step
  float* rows;                 // [row][stride]: the arms' learners
  LessonTotals* found_lesson;  // the totals, in the end
  float* found_moved;          // Theta after a step
};

}  // namespace mcnb::device
