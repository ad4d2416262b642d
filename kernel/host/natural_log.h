// SPDX-License-Identifier: Apache-2.0
//
// ln s from additions, multiplications and divisions of doubles alone, so that it has the same bits
// everywhere: the C library's log differs between machines and versions.
//
//   s = 2^k f with f in [sqrt(1/2), sqrt(2)),  w = (f - 1) / (f + 1),  ln s = k ln 2 + 2 atanh(w)
//
// with |w| <= 0.1716 and atanh's odd series cut after w^21: remainder below 2^-60 of the result.

#pragma once

namespace plumbline::kernel::host {

// Error at most 1.1 * 2^-24 relative; ln 1 is exactly +0, and the result is never negative for s >= 1.
// s is positive, +inf (gives +inf) or NaN (gives NaN).
float NaturalLog(float s);

}  // namespace plumbline::kernel::host
