// SPDX-License-Identifier: Apache-2.0
//
// Whether two stored findings of one target are two views of one cause. One error is a NaN at one
// extent, a wrong value at another, and suspect where it is small.

#pragma once

#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

// True if all of this holds; both are kept, and on the same target:
//
//   * The graver damages the output of the milder; of equally grave ones each that of the other. Where
//     one is about no output (a crash, a write outside), the problem of one shows the other. A status
//     that needs less than a wrong value, and whose own problem does not show it, is another cause.
//   * The problems of both, or their neighbours, show a common signature. A suspect or a relation that
//     breaks is expected of an output that is wrong, and needs none.
//   * Neither needs a residue of an extent that the other does not, by its own signature or by failing
//     in any way; nor does the graver need a range or one extent above 2 that the milder does not. A
//     suspect or a relation may need more.
//   * They need the same options and special values, or the milder's own problem shows more than itself
//     of what the graver shows.
//
// A finding without a rule for its extents was not shrunk. It is a view of another if it was not seen
// often enough for that and is a wrong or varying value of an output that the other makes wrong; or if
// there was no time for it, and it is a wrong value of an output that the other, no milder one, makes
// wrong: at its extents and options too, as far as the other was shrunk. A number that became infinite,
// with an extent that there was no time for, is a view of a wrong value of that output, which holds at
// its extents and options: too large a value.
bool SameCause(const Sighting& a, const Sighting& b);

}  // namespace plumbline::fuzz
