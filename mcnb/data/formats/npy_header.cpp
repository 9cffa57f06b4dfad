#include "mcnb/data/formats/npy_header.h"

#include <fmt/core.h>

#include <array>
#include <charconv>

#include "mcnb/data/formats/text_fields.h"

namespace mcnb {
namespace {

// Reads the dictionary in the header, as Python writes it:
// {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }
class Dictionary {
 public:
  Dictionary(const BinaryReader& file, std::string_view text) : file_(file), rest_(text) {}

  NpyHeader read() {
    NpyHeader header;
    bool has_type = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = text();
      expect(':');
      if (key == "descr") {
        header.type = text();
        has_type = true;
      } else if (key == "fortran_order") {
        header.fortran_order = truth();
        has_order = true;
      } else if (key == "shape") {
        header.shape = shape();
        has_shape = true;
      } else {
        file_.refuse("header: expected descr, fortran_order and shape, found " + shown(key));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!has_type || !has_order || !has_shape) {
      file_.refuse("header: expected descr, fortran_order and shape, but one is missing");
    }
    skip_blanks();
    if (!rest_.empty()) {
      refuse("its end");
    }
    return header;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) {
      rest_.remove_prefix(1);
    }
  }

  bool take(char wanted) {
    skip_blanks();
    const bool found = rest_.starts_with(wanted);
    rest_.remove_prefix(found ? 1 : 0);
    return found;
  }

  void expect(char wanted) {
    if (!take(wanted)) {
      refuse(shown({&wanted, 1}));
    }
  }

  std::string text() {
    skip_blanks();
    const char quote = rest_.starts_with('"') ? '"' : '\'';
    const std::size_t end = rest_.starts_with(quote) ? rest_.find(quote, 1) : std::string::npos;
    if (end == std::string::npos) {
      refuse("a text in quotes (records are not supported)");
    }
    const std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool truth() {
    skip_blanks();
    const bool is_true = rest_.starts_with("True");
    if (!is_true && !rest_.starts_with("False")) {
      refuse("True or False");
    }
    rest_.remove_prefix(is_true ? 4 : 5);
    return is_true;
  }

  std::vector<std::uint64_t> shape() {
    std::vector<std::uint64_t> sizes;
    expect('(');
    while (!take(')')) {
      skip_blanks();
      std::uint64_t size = 0;
      const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc()) {
        refuse("a size");
      }
      rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
      sizes.push_back(size);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    file_.refuse(fmt::format("header: expected {}, found {}", expected, shown(rest_)));
  }

  const BinaryReader& file_;
  std::string_view rest_;
};

}  // namespace

bool is_npy(const Input& input) {
  std::string head(kNpyMagic.size(), '\0');
  head.resize(input.open()->read(head.data(), head.size()));
  return head == kNpyMagic;
}

NpyHeader read_npy_header(BinaryReader& file) {
  constexpr std::uint32_t kLongest = 1U << 20;
  std::array<std::uint8_t, 8> start;  // magic, major version, minor version
  file.read(start, "the header");
  if (!std::equal(kNpyMagic.begin(), kNpyMagic.end(), start.begin(),
                  [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; })) {
    file.refuse("expected a .npy file, found other bytes at its start");
  }
  const unsigned version = start[6];
  if (version < 1 || version > 3) {
    file.refuse(fmt::format("expected version 1, 2 or 3 of the format, found {}", version));
  }
  std::array<std::uint8_t, 4> length_bytes{};
  file.read(std::span(length_bytes).first(version == 1 ? 2 : 4), "the header");
  std::uint32_t length = 0;
  for (std::size_t i = length_bytes.size(); i-- > 0;) {
    length = length << 8 | length_bytes[i];
  }
  if (length > kLongest) {
    file.refuse(fmt::format("expected a header of at most {} bytes, found {}", kLongest, length));
  }
  std::vector<std::uint8_t> text(length);
  file.read(text, "the header");
  return Dictionary(file, {reinterpret_cast<const char*>(text.data()), text.size()}).read();
}

}  // namespace mcnb
