#include "mcnb/cli/progress.h"

#include <fmt/core.h>
#include <mcnb_code.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "mcnb/experiment/results/table_numbers.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

using Clock = std::chrono::steady_clock;

RunControl* interrupted_run = nullptr;

}  // namespace

InterruptHandler::InterruptHandler(RunControl& control) {
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");
  interrupted_run = &control;
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted_run->stop.store(true, std::memory_order_relaxed); };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, &before_);
  ::sigaction(SIGTERM, &action, &before_term_);
}

InterruptHandler::~InterruptHandler() {
  ::sigaction(SIGINT, &before_, nullptr);
  ::sigaction(SIGTERM, &before_term_, nullptr);
}

std::string this_program() {
  // AVX-512 and AVX2 give the same bits.
  const std::string target = kernels::simd_target();
  return fmt::format("{} {} {}", MCNB_VERSION, MCNB_CODE, target == "avx512" ? "avx2" : target);
}

std::string this_machine() {
  std::string processor = "unknown processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      processor = line.substr(colon + 2);
      break;
    }
  }
  return fmt::format("{}, {} threads, {}", processor, std::thread::hardware_concurrency(),
                     kernels::simd_target());
}

ProgressDisplay::ProgressDisplay(const RunControl& control, const ExperimentProgress& progress)
    : control_(control),
      progress_(progress),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      thread_([this] { watch(); }) {}

ProgressDisplay::~ProgressDisplay() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (terminal_) {
    show();
    fmt::print(stderr, "\n");
  }
}

void ProgressDisplay::watch() {
  const auto pause = terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(5000);
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, pause, [this] { return ended_; })) {
    show();
  }
}

namespace {

std::size_t terminal_width() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

// A bar and a text in fewer than `width` columns. In a narrow terminal the bar is shortened first.
std::string bar_line(double share, const std::string& text, std::size_t width) {
  constexpr std::size_t kLongestBar = 30;
  const std::size_t room = width > text.size() + 2 ? width - text.size() - 2 : 0;
  const std::size_t length = std::min(kLongestBar, room);
  std::string line;
  for (std::size_t i = 0; i < length; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) / static_cast<double>(length);
    line += middle <= share ? "█" : "░";
  }
  return line + (length > 0 ? " " : "") + text.substr(0, width - 1);
}

}  // namespace

void ProgressDisplay::show() const {
  const auto total = static_cast<double>(progress_.rounds_total.load());
  const auto done = static_cast<double>(control_.rounds_done.load());
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (total == 0.0 || done == 0.0) {
    return;
  }
  const double share = std::min(1.0, done / total);
  const std::string text =
      fmt::format("{:3.0f} %  {} of {} runs  {:.0f} rounds/s  {} left", 100.0 * share,
                  progress_.cells_done.load(), progress_.cells_total.load(), done / seconds,
                  duration_text((total - done) * seconds / done));
  if (!terminal_) {
    fmt::print(stderr, "{}\n", text);
    return;
  }
  fmt::print(stderr, "\r{}\x1b[K", bar_line(share, text, terminal_width()));
  std::fflush(stderr);
}

}  // namespace mcnb
