#include "mcnb/data/formats/picture.h"

#include <fmt/core.h>
#include <png.h>

namespace mcnb {

Picture decode_png(std::span<const std::uint8_t> file, std::uint32_t width, std::uint32_t height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  Picture picture;
  // libpng frees what it holds whenever one of the two calls fails, and at the end of the second.
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) {
    picture.fault = image.message;
    return picture;
  }
  if (image.width != width || image.height != height) {
    picture.fault =
        fmt::format("it has {} x {} pixels, not {} x {}", image.width, image.height, width, height);
    png_image_free(&image);
    return picture;
  }
  image.format = PNG_FORMAT_GRAY;
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr) == 0) {
    picture.pixels.clear();
    picture.fault = image.message;
  }
  return picture;
}

}  // namespace mcnb
