#pragma once

#include <cstddef>
#include <span>

namespace mcnb {

// A growing array of floats straight from the operating system: aligned to pages, zero at first,
// grown without copying, and costing memory only where it has been written.
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

  // Makes the slab longer; pointers into it are lost. Throws Error (kLimit) when the machine has
  // no room.
  void grow(std::size_t size);

 private:
  float* data_ = nullptr;
  std::size_t size_ = 0;            // floats in use
  std::size_t reserved_bytes_ = 0;  // address space taken
};

}  // namespace mcnb
