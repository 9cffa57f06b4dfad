#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace mcnb {

// Cuts a stream of bytes into pieces at points that the bytes themselves decide: a cut lies where a
// hash of the last 64 bytes has certain bits. If a few bytes of a long stream are changed, inserted
// or removed, only the pieces around them differ. (The rule is that of FastCDC: Xia et al., 2016.)
class PieceCutter {
 public:
  static constexpr std::size_t kLeast = std::size_t{4} << 10;  // bytes of a piece, but for the last
  static constexpr std::size_t kUsual = std::size_t{8} << 10;  // on average
  static constexpr std::size_t kMost = std::size_t{32} << 10;

  // Called with each piece, whose bytes are valid until it returns.
  using Take = std::function<void(std::string_view piece)>;

  explicit PieceCutter(Take take);

  // The next bytes of the stream. The pieces do not depend on how the stream is divided.
  void add(std::string_view bytes);
  // The stream is at its end.
  void finish();

 private:
  Take take_;
  std::string piece_;       // begun by earlier bytes
  std::uint64_t hash_ = 0;  // of its last bytes, beyond the first kLeast
};

}  // namespace mcnb
