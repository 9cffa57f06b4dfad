#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace mcnb {

// An array of numbers of which nearly all are zero: a page of zeros takes no memory.
template <class Number>
class PagedArray {
 public:
  PagedArray() = default;
  PagedArray(PagedArray&&) noexcept = default;
  PagedArray& operator=(PagedArray&&) noexcept = default;
  PagedArray(const PagedArray& other) {
    for (const auto& page : other.pages_) {
      pages_.push_back(page == nullptr ? nullptr : std::make_unique<Page>(*page));
    }
  }
  PagedArray& operator=(const PagedArray& other) { return *this = PagedArray(other); }
  ~PagedArray() = default;

  Number operator[](std::size_t index) const {
    const std::size_t page = index / kPage;
    return page < pages_.size() && pages_[page] != nullptr ? (*pages_[page])[index % kPage]
                                                           : Number{};
  }

  void set(std::size_t index, Number number) {
    const std::size_t page = index / kPage;
    if (page >= pages_.size()) {
      pages_.resize(page + 1);
    }
    if (pages_[page] == nullptr) {
      pages_[page] = std::make_unique<Page>();
    }
    (*pages_[page])[index % kPage] = number;
  }

  // Calls visit(index, number) for every number that is not zero, in ascending order of index.
  template <class Visit>
  void for_every(Visit visit) const {
    for (std::size_t page = 0; page < pages_.size(); ++page) {
      for (std::size_t i = 0; pages_[page] != nullptr && i < kPage; ++i) {
        if ((*pages_[page])[i] != Number{}) {
          visit(page * kPage + i, (*pages_[page])[i]);
        }
      }
    }
  }

  std::size_t memory_bytes() const {  // without sizeof *this
    std::size_t bytes = pages_.capacity() * sizeof pages_[0];
    for (const auto& page : pages_) {
      bytes += page == nullptr ? 0 : sizeof(Page);
    }
    return bytes;
  }

 private:
  static constexpr std::size_t kPage = 64;
  using Page = std::array<Number, kPage>;

  std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace mcnb
