#pragma once

#include <cstddef>
#include <span>

namespace mcnb {

// A growing array of floats in pages of the operating system: aligned to pages, zero at first,
// grown without copying. Only pages that were written take memory.
class Slab {
 public:
  Slab() = default;
  ~Slab();
  Slab(const Slab& other);
  Slab(Slab&& other) noexcept;
  Slab& operator=(Slab other) noexcept;

  float* data() { return data_; }
  const float* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Makes the slab longer; pointers into it become invalid. Throws Error (kLimit) if the machine
  // has not enough memory.
  void grow(std::size_t size);

 private:
  float* data_ = nullptr;
  std::size_t size_ = 0;            // floats in use
  std::size_t reserved_bytes_ = 0;  // address space taken
};

}  // namespace mcnb
