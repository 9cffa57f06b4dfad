#include <fmt/format.h>

#include <array>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/column_growth.h"
#include "mcnb/data/formats/samples_readers.h"
#include "mcnb/data/formats/text_reader.h"
#include "mcnb/data/sets/data_set_entries.h"

namespace mcnb {
namespace {

struct Attribute {
  std::string_view name;
  std::string_view values;
};

// The attributes and their values, in the order of agaricus-lepiota.names.
constexpr std::array<Attribute, 22> kAttributes = {{{"cap-shape", "bcxfks"},
                                                    {"cap-surface", "fgys"},
                                                    {"cap-color", "nbcgrpuewy"},
                                                    {"bruises", "tf"},
                                                    {"odor", "alcyfmnps"},
                                                    {"gill-attachment", "adfn"},
                                                    {"gill-spacing", "cwd"},
                                                    {"gill-size", "bn"},
                                                    {"gill-color", "knbhgropuewy"},
                                                    {"stalk-shape", "et"},
                                                    {"stalk-root", "bcuezr?"},
                                                    {"stalk-surface-above-ring", "fyks"},
                                                    {"stalk-surface-below-ring", "fyks"},
                                                    {"stalk-color-above-ring", "nbcgopewy"},
                                                    {"stalk-color-below-ring", "nbcgopewy"},
                                                    {"veil-type", "pu"},
                                                    {"veil-color", "nowy"},
                                                    {"ring-number", "not"},
                                                    {"ring-type", "ceflnpsz"},
                                                    {"spore-print-color", "knbhrouwy"},
                                                    {"population", "acnsvy"},
                                                    {"habitat", "glmpuwd"}}};
constexpr std::string_view kClasses = "ep";

constexpr std::size_t dimension() {
  std::size_t sum = 0;
  for (const Attribute& attribute : kAttributes) {
    sum += attribute.values.size();
  }
  return sum;
}
static_assert(dimension() == 126);

// The index of a field among its possible letters.
std::size_t index_among(std::string_view letters, std::string_view name, std::string_view field) {
  const std::size_t index = field.size() == 1 ? letters.find(field[0]) : std::string_view::npos;
  if (index == std::string_view::npos) {
    refuse_field(name, fmt::format("one of {}", fmt::join(letters, ", ")), field);
  }
  return index;
}

struct MushroomPart : TextPart {
  std::vector<float> values;
  std::vector<std::uint16_t> labels;

  void row(std::string_view line) {
    std::array<std::string_view, 1 + kAttributes.size()> fields;
    const std::size_t count = split(line, ",", fields);
    if (count != fields.size()) {
      refuse_column_count(fields.size(), count);
    }
    labels.push_back(
        static_cast<std::uint16_t>(index_among(kClasses, "class", trimmed(fields[0]))));
    std::size_t start = values.size();
    values.resize(start + dimension());
    for (std::size_t i = 0; i < kAttributes.size(); ++i) {
      const Attribute& attribute = kAttributes[i];
      values[start + index_among(attribute.values, attribute.name, trimmed(fields[i + 1]))] = 1.0F;
      start += attribute.values.size();
    }
  }

  void reset() {
    TextPart::reset();
    values.clear();
    labels.clear();
  }
};

}  // namespace

Samples read_mushroom(const Input& input, ThreadPool& threads) {
  TextReader text(input, threads);
  Samples samples;
  samples.dimension = dimension();
  samples.class_names = {"e", "p"};
  text.for_each_part(
      [] { return MushroomPart{}; },
      [&](std::span<const MushroomPart> parts) {
        for (const MushroomPart& part : parts) {
          make_room(samples.values, part.values.size(), text.expected_growth());
          samples.values.insert(samples.values.end(), part.values.begin(), part.values.end());
          samples.labels.insert(samples.labels.end(), part.labels.begin(), part.labels.end());
        }
      });
  if (samples.size() == 0) {
    throw Error(ErrorKind::kInput, text.name() + ": expected samples, found none");
  }
  samples.report = std::move(text.report());
  samples.report.rows = samples.size();
  return samples;
}

DataSet mushroom_data_set() {
  return {.name = "mushroom",
          .kind = DataKind::kSamples,
          .about = "mushrooms by 22 properties, edible or poisonous",
          .home = "https://archive.ics.uci.edu/dataset/73/mushroom",
          .licence = "CC BY 4.0",
          .folders = {"mushroom"},
          .forms = {{{{"agaricus-lepiota.data"}}}},
          .published = {.rows = 8'124, .classes = 2},
          .downloads = {{"https://archive.ics.uci.edu/static/public/73/mushroom.zip",
                         "",
                         {{"agaricus-lepiota.data",
                           "sha256:e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe"
                           "13ac360e"}},
                         ""}},
          .read_samples = [](const FoundFiles& files, ThreadPool& threads) {
            return read_mushroom(open_file(files, 0), threads);
          }};
}

}  // namespace mcnb
