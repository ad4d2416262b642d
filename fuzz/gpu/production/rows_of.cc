// SPDX-License-Identifier: Apache-2.0
#include "fuzz/gpu/production/rows_of.h"

#include <algorithm>
#include <cstring>

namespace plumbline::fuzz {

OwnedProblem RowsOf(const DeviceCase& device_case, const std::vector<int64_t>& rows) {
  OwnedProblem part = SelectRows(
      [&] {
        OwnedProblem all = device_case.rows();
        all.hidden.shape[1] = 0;  // its rows are read one by one
        return all;
      }(),
      rows);
  const kernel::Problem& problem = device_case.problem();
  part.hidden = HostTensor::Zeros(problem.hidden.dtype,
                                  {static_cast<int64_t>(rows.size()), problem.hidden_size()});
  const size_t line = part.hidden.bytes.size() / std::max<size_t>(rows.size(), 1);
  for (size_t k = 0; k < rows.size(); ++k) {
    const HostTensor row = device_case.ReadRows(problem.hidden, rows[k], 1);
    std::memcpy(part.hidden.bytes.data() + k * line, row.bytes.data(), line);
  }
  part.weight = device_case.ReadRows(problem.weight, 0, problem.vocab());
  return part;
}

int64_t CountedRows(const DeviceCase& device_case) {
  const OwnedProblem& all = device_case.rows();
  int64_t counted = 0;
  for (int64_t i = 0; i < all.rows(); ++i) counted += all.labels.GetInt(i) != all.ignore_index ? 1 : 0;
  return counted;
}

}  // namespace plumbline::fuzz
