#include "mcnb/bandit/hierarchical/user_lift.h"

#include <algorithm>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/base/check.h"

namespace mcnb {

using Eigen::Index;
using Eigen::VectorXd;

bool UserLift::exists(const FeatureMap& map) {
  const std::span<const FeatureGroup> groups = map.groups();
  return std::ranges::all_of(groups.subspan(map.own_size()),
                             [](FeatureGroup group) { return group == FeatureGroup::kUser; });
}

UserLift::UserLift(const FeatureMap& map, std::span<const float> user)
    : own_(static_cast<Index>(map.own_size())), leading_(0), user_(user) {
  check(exists(map), "the shared features are those of the user times own ones");
  if (!user.empty()) {
    leading_ = (static_cast<Index>(map.shared_size()) - own_) / static_cast<Index>(user.size());
  }
}

void UserLift::add_lifted(const RowMatrix& own, RowMatrix& shared) const {
  for (Index i = 0; i < own_; ++i) {
    shared.row(i).segment(i, own_ - i) += own.row(i).segment(i, own_ - i);
  }
  if (user_.empty()) {
    return;
  }
  // The leading columns of the symmetric matrix.
  RowMatrix leading = own.leftCols(leading_);
  for (Index i = 0; i < leading_; ++i) {
    leading.col(i).tail(own_ - i) = own.row(i).tail(own_ - i).transpose();
  }
  for (std::size_t k = 0; k < user_.size(); ++k) {
    if (user_[k] == 0.0F) {
      continue;
    }
    shared.block(0, begin_of(k), own_, leading_) += number(k) * leading;
    for (std::size_t other = k; other < user_.size(); ++other) {
      shared.block(begin_of(k), begin_of(other), leading_, leading_) +=
          (number(k) * number(other)) * leading.topRows(leading_);
    }
  }
}

void UserLift::add_lifted(const VectorXd& own, VectorXd& shared) const {
  shared.head(own_) += own;
  for (std::size_t k = 0; k < user_.size(); ++k) {
    shared.segment(begin_of(k), leading_) += number(k) * own.head(leading_);
  }
}

void UserLift::subtract_lifted(const Eigen::Ref<const VectorXd>& own,
                               Eigen::Ref<VectorXd> shared) const {
  shared.head(own_) -= own;
  for (std::size_t k = 0; k < user_.size(); ++k) {
    shared.segment(begin_of(k), leading_) -= number(k) * own.head(leading_);
  }
}

Eigen::MatrixXd UserLift::expanded(const RowMatrix& own) const {
  Eigen::MatrixXd shared(own.rows(), own_ + signed_size(user_.size()) * leading_);
  shared.leftCols(own_) = own;
  for (std::size_t k = 0; k < user_.size(); ++k) {
    shared.middleCols(begin_of(k), leading_) = number(k) * own.leftCols(leading_);
  }
  return shared;
}

const RowMatrix& UserLift::restricted(const RowMatrix& shared, RowMatrix& room) const {
  if (user_.empty()) {
    return shared;
  }
  room = shared.topLeftCorner(own_, own_);
  RowMatrix cross = RowMatrix::Zero(leading_, own_);
  RowMatrix corner = RowMatrix::Zero(leading_, leading_);
  for (std::size_t k = 0; k < user_.size(); ++k) {
    if (user_[k] == 0.0F) {
      continue;
    }
    cross += number(k) * shared.block(begin_of(k), 0, leading_, own_);
    for (std::size_t other = 0; other < user_.size(); ++other) {
      corner += (number(k) * number(other)) *
                shared.block(begin_of(k), begin_of(other), leading_, leading_);
    }
  }
  room.topRows(leading_) += cross;
  room.leftCols(leading_) += cross.transpose();
  room.topLeftCorner(leading_, leading_) += corner;
  return room;
}

VectorXd UserLift::restricted(const VectorXd& shared) const {
  VectorXd own = shared.head(own_);
  for (std::size_t k = 0; k < user_.size(); ++k) {
    own.head(leading_) += number(k) * shared.segment(begin_of(k), leading_);
  }
  return own;
}

std::size_t sample_size(const FeatureMap& map) {
  return UserLift::exists(map) ? map.own_size() : map.shared_size();
}

void expand_samples(const FeatureMap& map, const RewardHistory& history,
                    std::span<const float> user, RowMatrix& out) {
  make_room(out, history.arm_count(), sample_size(map));
  const bool own_alone = UserLift::exists(map);
  for (std::size_t j = 0; j < history.arm_count(); ++j) {
    double* const to = out.row(signed_size(j)).data();
    if (own_alone) {
      map.expand_own(history.arm(j), to);
    } else {
      map.expand(history.arm(j), user, to);
    }
  }
}

}  // namespace mcnb
