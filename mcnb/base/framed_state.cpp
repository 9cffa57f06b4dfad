#include "mcnb/base/framed_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "mcnb/base/state_frames.h"

namespace mcnb {

StateContents::StateContents(std::function<void(std::string_view contents)> take)
    : take_(std::move(take)) {}

StateContents::int_type StateContents::overflow(int_type c) {
  const char byte = traits_type::to_char_type(c);
  xsputn(&byte, 1);
  return c;
}

std::streamsize StateContents::xsputn(const char* bytes, std::streamsize count) {
  std::string_view left(bytes, static_cast<std::size_t>(count));
  while (!left.empty()) {
    if (contents_ > 0) {
      const std::string_view part = left.substr(0, contents_);
      take_(part);
      contents_ -= part.size();
      left.remove_prefix(part.size());
      continue;
    }
    const std::size_t whole = in_head_ ? sizeof(state_frames::Head) : sizeof state_frames::kMagic;
    const std::string_view part = left.substr(0, whole - begun_.size());
    begun_ += part;
    left.remove_prefix(part.size());
    if (begun_.size() == whole) {
      if (in_head_) {
        state_frames::Head head;
        std::memcpy(&head, begun_.data(), sizeof head);
        contents_ = head.bytes;
      }
      in_head_ = true;
      begun_.clear();
    }
  }
  return count;
}

FramedState::FramedState(std::function<std::string_view()> next)
    : next_(std::move(next)), buffer_(state_frames::kMagic, sizeof state_frames::kMagic) {
  setg(buffer_.data(), buffer_.data(), buffer_.data() + buffer_.size());
}

// Makes the next frame; an empty one is the last.
FramedState::int_type FramedState::underflow() {
  if (ended_) {
    return traits_type::eof();
  }
  buffer_.resize(sizeof(state_frames::Head));
  while (buffer_.size() < sizeof(state_frames::Head) + state_frames::kMostBytes) {
    if (piece_.empty() && (piece_ = next_()).empty()) {
      break;
    }
    const std::string_view part =
        piece_.substr(0, sizeof(state_frames::Head) + state_frames::kMostBytes - buffer_.size());
    buffer_ += part;
    piece_.remove_prefix(part.size());
  }
  const std::string_view frame = std::string_view(buffer_).substr(sizeof(state_frames::Head));
  const state_frames::Head head{frame.size(), state_frames::checksum(frame, frames_++)};
  ended_ = frame.empty();
  std::memcpy(buffer_.data(), &head, sizeof head);
  setg(buffer_.data(), buffer_.data(), buffer_.data() + buffer_.size());
  return traits_type::to_int_type(buffer_[0]);
}

}  // namespace mcnb
