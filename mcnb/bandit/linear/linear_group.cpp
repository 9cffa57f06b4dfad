#include "mcnb/bandit/linear/linear_group.h"

#include <algorithm>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kMostSamples = std::uint64_t{1} << 62;  // sums of two do not overflow

// Calls visit(parts of one block) for every block. Requires parts sorted by block.
template <class Part, class Visit>
void for_every_block(const std::vector<Part>& parts, Visit visit) {
  for (std::size_t begin = 0; begin < parts.size();) {
    std::size_t end = begin + 1;
    while (end < parts.size() && parts[end].block == parts[begin].block) {
      ++end;
    }
    visit(std::span(parts).subspan(begin, end - begin));
    begin = end;
  }
}

}  // namespace

std::size_t LinearGroup::position_of(std::uint32_t block) const {
  const auto found = std::ranges::lower_bound(entries_, block, {}, &Entry::block);
  return static_cast<std::size_t>(found - entries_.begin());
}

const RidgeState* LinearGroup::find(std::uint32_t block) const {
  const std::size_t position = position_of(block);
  return position < entries_.size() && entries_[position].block == block
             ? &ridge_of(entries_[position])
             : nullptr;
}

RidgePrediction LinearGroup::predict(const Features& features) const {
  const std::optional<std::uint32_t> block = users_->blocks().find(features);
  return mcnb::predict(block ? find(*block) : nullptr, features.values, users_->lambda());
}

LinearGroup::Entry& LinearGroup::entry_to_change(std::uint32_t block) {
  const std::size_t position = position_of(block);
  if (position == entries_.size() || entries_[position].block != block) {
    entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(position), {.block = block});
  }
  return entries_[position];
}

const RidgeState& LinearGroup::ridge_of(const Entry& entry) const {
  return entry.ridge ? *entry.ridge : ridge_of(Part{entry.block, entry.mixed_rows});
}

const RidgeState& LinearGroup::ridge_of(const Part& part) const {
  const RidgeState* const ridge = users_->state(part.row).find(part.block);
  check(ridge != nullptr, "a member has the samples that its group counts");
  return *ridge;
}

// All blocks of these rows, sorted by block, then by row.
std::vector<LinearGroup::Part> LinearGroup::parts_of(std::span<const std::uint32_t> rows) const {
  std::vector<Part> parts;
  for (const std::uint32_t row : rows) {
    const LinearState& state = users_->state(row);
    for (std::size_t position = 0; position < state.block_count(); ++position) {
      parts.push_back({state.block(position), row});
    }
  }
  std::ranges::stable_sort(parts, {}, &Part::block);
  return parts;
}

// Counts new holders of a block.
void LinearGroup::count_in(Entry& entry, std::span<const Part> parts) {
  for (const Part& part : parts) {
    const std::uint64_t samples = ridge_of(part).sample_count();
    ++entry.holders;
    entry.mixed_rows ^= part.row;
    entry.samples += samples;
    samples_ += samples;
  }
}

void LinearGroup::add(std::uint32_t row, std::uint32_t block, std::span<const float> features,
                      double reward) {
  const Part part{block, row};
  Entry& entry = entry_to_change(block);
  if (ridge_of(part).sample_count() == 1) {  // its first sample on this block
    if (entry.holders == 1) {
      entry.ridge = ridge_of(entry);
    }
    count_in(entry, {&part, 1});
  } else {
    ++entry.samples;
    ++samples_;
  }
  if (entry.ridge) {
    entry.ridge->add(features, reward);
  }
}

void LinearGroup::join(std::span<const std::uint32_t> rows) {
  for_every_block(parts_of(rows), [&](std::span<const Part> parts) {
    Entry& entry = entry_to_change(parts.front().block);
    std::vector<const RidgeState*> ridges;
    if (entry.holders == 1) {
      ridges.push_back(&ridge_of(entry));
    }
    for (const Part& part : parts) {
      ridges.push_back(&ridge_of(part));
    }
    count_in(entry, parts);
    if (entry.holders > 1) {
      if (!entry.ridge) {
        entry.ridge.emplace(ridges.front()->dimension(), users_->lambda());
      }
      entry.ridge->merge(ridges);
    }
  });
}

void LinearGroup::merge_anew(Entry& entry, std::span<const std::uint32_t> rows) const {
  std::vector<const RidgeState*> ridges;
  for (const std::uint32_t row : rows) {
    if (const RidgeState* ridge = users_->state(row).find(entry.block)) {
      ridges.push_back(ridge);
    }
  }
  check(ridges.size() == entry.holders, "those who stay are all that a group has left");
  entry.ridge.emplace(ridges.front()->dimension(), users_->lambda());
  entry.ridge->merge(ridges);
  entry.removed = 0;
}

void LinearGroup::leave(std::span<const std::uint32_t> rows,
                        const std::function<std::vector<std::uint32_t>()>& staying) {
  std::optional<std::vector<std::uint32_t>> stayed;
  for_every_block(parts_of(rows), [&](std::span<const Part> parts) {
    const std::size_t position = position_of(parts.front().block);
    check(position < entries_.size() && entries_[position].block == parts.front().block &&
              parts.size() <= entries_[position].holders,
          "members that leave a group are in it");
    Entry& entry = entries_[position];
    std::vector<const RidgeState*> ridges;
    std::uint64_t given_up = 0;
    for (const Part& part : parts) {
      ridges.push_back(&ridge_of(part));
      given_up += ridges.back()->sample_count();
      --entry.holders;
      entry.mixed_rows ^= part.row;
    }
    entry.samples -= given_up;
    samples_ -= given_up;
    if (entry.holders == 0) {
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(position));
    } else if (entry.holders == 1) {
      entry.ridge.reset();
      entry.removed = 0;
    } else if (entry.removed + given_up <= entry.samples) {
      entry.ridge->remove(ridges);
      entry.removed += given_up;
    } else {
      if (!stayed) {
        stayed = staying();
      }
      merge_anew(entry, *stayed);
    }
  });
}

std::size_t LinearGroup::memory_bytes() const {
  std::size_t bytes = sizeof *this + entries_.capacity() * sizeof entries_[0];
  for (const Entry& entry : entries_) {
    if (entry.ridge) {
      bytes += entry.ridge->memory_bytes() - sizeof *entry.ridge;
    }
  }
  return bytes;
}

// Saves only what cannot be recomputed from the members.
void LinearGroup::save(StateWriter& writer) const {
  for (const Entry& entry : entries_) {
    if (entry.ridge) {
      writer.write(entry.removed);
      entry.ridge->save(writer);
    }
  }
}

void LinearGroup::load(StateReader& reader, std::span<const std::uint32_t> rows) {
  entries_.clear();
  samples_ = 0;
  for_every_block(parts_of(rows), [&](std::span<const Part> parts) {
    for (const Part& part : parts) {
      if (ridge_of(part).sample_count() > kMostSamples - samples_) {
        reader.fail("a group has an impossible number of samples");
      }
      count_in(entry_to_change(part.block), {&part, 1});
    }
    Entry& entry = entries_.back();
    if (entry.holders > 1) {
      entry.removed = reader.read<std::uint64_t>();
      entry.ridge = RidgeState::load(reader);
      if (entry.removed > kMostSamples || entry.ridge->sample_count() != entry.samples ||
          entry.ridge->dimension() != users_->blocks().length(entry.block) ||
          entry.ridge->lambda() != users_->lambda()) {
        reader.fail("a group's state is not that of its members");
      }
    }
  });
}

}  // namespace mcnb
