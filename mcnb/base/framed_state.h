#pragma once

#include <cstdint>
#include <functional>
#include <streambuf>
#include <string>
#include <string_view>

namespace mcnb {

// A saved state (state_file.h) is magic number, frames and their contents. What keeps the contents
// in another way takes the state apart with one of these, and puts it together with the other.

// Takes the bytes of a state that a StateWriter writes, and passes on the contents of its frames.
class StateContents : public std::streambuf {
 public:
  // Called with contents that are valid until it returns. What it throws is passed on, if the
  // stream lets exceptions of its buffer through.
  explicit StateContents(std::function<void(std::string_view contents)> take);

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* bytes, std::streamsize count) override;

 private:
  std::function<void(std::string_view contents)> take_;
  std::string begun_;           // part of the magic number or of a head
  bool in_head_ = false;        // the magic number is complete
  std::uint64_t contents_ = 0;  // bytes of the frame that are still to come
};

// Gives the bytes of the state that a StateWriter would have written.
class FramedState : public std::streambuf {
 public:
  // `next` returns contents that stay valid until the next call, in pieces of any size, and an
  // empty piece at the end. Reading passes on what it throws, as above.
  explicit FramedState(std::function<std::string_view()> next);

 protected:
  int_type underflow() override;

 private:
  std::function<std::string_view()> next_;
  std::string_view piece_;  // the rest of it
  std::string buffer_;
  std::uint64_t frames_ = 0;
  bool ended_ = false;
};

}  // namespace mcnb
