// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/fields.h"

namespace plumbline::fuzz {
namespace {

template <class Number>
std::string Range(std::string_view what, Number least, Number most) {
  return std::string(what) + " in [" + Json(least).Dump() + ", " + Json(most).Dump() + "]";
}

}  // namespace

void FieldVisitor::operator()(std::string_view key, int64_t& value, int64_t least, int64_t most) {
  (*this)(key, value);
  if (value < least || value > most) Wrong(key, Range("an integer", least, most));
}

void FieldVisitor::operator()(std::string_view key, int& value, int least, int most) {
  int64_t wide = value;
  (*this)(key, wide, least, most);
  if (reading()) value = static_cast<int>(wide);
}

void FieldVisitor::operator()(std::string_view key, double& value, double least, double most) {
  (*this)(key, value);
  // Written so that a NaN is out of every range.
  if (!(value >= least && value <= most)) Wrong(key, Range("a number", least, most));
}

}  // namespace plumbline::fuzz
