#include "mcnb/numeric/slab.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kSmallGranule = std::size_t{64} << 10;
// Large pages make address translation cheap, but a slab of a few networks would take up to two
// million bytes that it does not use.
constexpr std::size_t kFewestLargePages = 4;

std::size_t physical_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Slab::~Slab() {
  if (data_ != nullptr) {
    ::munmap(data_, reserved_bytes_);
  }
}

Slab::Slab(const Slab& other) {
  if (other.size_ > 0) {
    grow(other.size_);
    std::memcpy(data_, other.data_, size_ * sizeof(float));
  }
}

Slab::Slab(Slab&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      reserved_bytes_(std::exchange(other.reserved_bytes_, 0)) {}

Slab& Slab::operator=(Slab other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(reserved_bytes_, other.reserved_bytes_);
  return *this;
}

void Slab::grow(std::size_t size) {
  check(size >= size_, "a slab only grows");
  const std::size_t physical = physical_bytes();
  if (size > physical / sizeof(float)) {
    throw Error(ErrorKind::kLimit,
                fmt::format("networks: {:.1f} GiB of parameters, but this machine has {:.1f} GiB",
                            static_cast<double>(size) * sizeof(float) / 0x1p30,
                            static_cast<double>(physical) / 0x1p30));
  }
  const std::size_t needed = size * sizeof(float);
  if (needed > reserved_bytes_) {
    // Pages that were never touched cost nothing, so a large reserve makes moves rare.
    const std::size_t wanted = std::max(needed, std::min(2 * reserved_bytes_, physical));
    const bool large = needed >= kFewestLargePages * kLargePage;
    const std::size_t granule = large ? kLargePage : kSmallGranule;
    const std::size_t bytes = (wanted + granule - 1) / granule * granule;
    void* memory = data_ == nullptr ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                                    : ::mremap(data_, reserved_bytes_, bytes, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) {
      throw Error(ErrorKind::kLimit,
                  fmt::format("networks: the system has no room for {:.1f} GiB of parameters",
                              static_cast<double>(bytes) / 0x1p30));
    }
    data_ = static_cast<float*>(memory);
    reserved_bytes_ = bytes;
    if (large) {
      ::madvise(data_, reserved_bytes_, MADV_HUGEPAGE);  // the system may ignore this hint
    }
  }
  size_ = size;
}

}  // namespace mcnb
