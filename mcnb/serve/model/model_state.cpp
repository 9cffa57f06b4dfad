#include "mcnb/serve/model/model_state.h"

#include <istream>
#include <ostream>
#include <streambuf>

namespace mcnb {
namespace {

// Appends what a stream writes to a string. Unlike a string stream it begins with room for about as
// much as will come: growing step by step would hold three copies at times.
class StringSink : public std::streambuf {
 public:
  explicit StringSink(std::size_t room) { bytes_.reserve(room); }
  std::string take() { return std::move(bytes_); }

 protected:
  int_type overflow(int_type c) override {
    bytes_.push_back(traits_type::to_char_type(c));
    return c;
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    bytes_.append(text, static_cast<std::size_t>(count));
    return count;
  }

 private:
  std::string bytes_;
};

template <class Write>
std::string bytes_of(const Model& model, Write write) {
  StringSink sink(model.memory_bytes());
  std::ostream out(&sink);
  write(out);
  return sink.take();
}

}  // namespace

std::string state_bytes(Model& model) {
  return bytes_of(model, [&](std::ostream& out) {
    StateWriter writer(out, "the state of a model", kModelState);
    model.save(writer);
    writer.finish();
  });
}

void write_snapshot(std::ostream& out, Model& model, std::uint64_t store_id) {
  StateWriter writer(out, "the snapshot of a model", kModelState);
  writer.write(store_id);
  model.save(writer);
  writer.finish();
}

std::string snapshot_bytes(Model& model, std::uint64_t store_id) {
  return bytes_of(model, [&](std::ostream& out) { write_snapshot(out, model, store_id); });
}

void load_snapshot(std::istream& in, const std::string& name, std::uint64_t store_id,
                   Model& model) {
  StateReader reader(in, name, kModelState);
  if (reader.read<std::uint64_t>() != store_id) {
    reader.fail("it belongs to another database");
  }
  model.load(reader);
  reader.finish();
}

}  // namespace mcnb
