// SPDX-License-Identifier: Apache-2.0
//
// Relations: two problems whose results have the same bits in every arithmetic that a contract can
// declare, or bits that differ by a power of two. No bound is involved, so a relation also shows what
// is wrong by less than a bound. fuzz/examine/RELATIONS.md has each exactness condition, why it is
// enough, and what the relation cannot see.

#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/examine/output_bits.h"
#include "fuzz/examine/result.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {

// Two problems, and what of their results must be the same. Rows that are ignored are not compared.
struct Related {
  OwnedProblem before, after;
  bool as_given = false;  // `before` is the case itself; otherwise it is made from the case
  // Where row or column i of `before` is in `after`; -1: it is left out. Empty: nothing moves.
  std::vector<int64_t> row_to, column_to;
  std::vector<bool> logprob;  // by row; empty: all. lse always is
  bool entropy = true, loss = true, grad_hidden = false;
  std::vector<int64_t> weight_columns;  // rows of grad_weight that are compared
  // The gradients of `after` are those of `before` times 2^exponent.
  int hidden_exponent = 0, weight_exponent = 0;
};

struct Relation {
  std::string_view name;       // "columns-permuted"
  std::string_view condition;  // a few words for the finding
  // Returns nullopt where the exactness condition does not hold, or a promise that it needs is missing.
  std::optional<Related> (*make)(const OwnedProblem& given, const Description& target, uint64_t seed);
};

std::span<const Relation> Relations();

// The relations in the order in which they are tried on a case: the first that applies is checked.
// `name` asks for one of them; if it is empty, the seed decides, and most seeds ask for none.
std::vector<const Relation*> RelationsToTry(uint64_t seed, std::string_view name);

// Runs a problem over poison 0 or 1.
struct Ran {
  RunOutcome outcome;
  OutputBits bits;
};
using RunProblem = std::function<Ran(const OwnedProblem& problem, int poison)>;

struct RelationChecked {
  int64_t compared = 0;  // elements; 0: the relation does not apply
  std::vector<Finding> findings;
};

struct RelationOptions {
  uint64_t seed = 0;
  bool same_shape = false;  // relations that change an extent do not apply
};

// `bits`: what the target gave for `given`. A difference is a finding of the relation if both problems,
// run again, give the same bits again; else it is one of determinism.
RelationChecked CheckRelation(const Relation& relation, const OwnedProblem& given,
                              const OutputBits& bits, const Description& target,
                              const RelationOptions& options, const RunProblem& run);

// --- The parts that make related problems (relation_*.cc).

std::optional<Related> RowsPermuted(const OwnedProblem&, const Description&, uint64_t seed);
std::optional<Related> ColumnsPermuted(const OwnedProblem&, const Description&, uint64_t seed);
std::optional<Related> ShardWithoutMass(const OwnedProblem&, const Description&, uint64_t seed);
std::optional<Related> FactorsScaled(const OwnedProblem&, const Description&, uint64_t seed);
std::optional<Related> TemperatureScaled(const OwnedProblem&, const Description&, uint64_t seed);
std::optional<Related> UpstreamScaled(const OwnedProblem&, const Description&, uint64_t seed);

// The case in a form whose values can be replaced: nothing is broadcast, ignored rows have the label
// -100, every other label is a column. Nullopt where there is no row, column or dimension.
std::optional<OwnedProblem> WithPlainRows(const OwnedProblem& given, uint64_t seed);

// Gives every element but zeros an exponent from `low` to low + span - 1, which a normal number must
// have room for. Sign and significand stay; what is not finite or subnormal becomes such a number, too.
void Fold(HostTensor* tensor, int low, int span);

// The temperature of a row; 1 where there is none.
float TemperatureOf(const OwnedProblem& problem, int64_t row);

// True if one of these steps is stored in fp16 where hidden has this dtype.
bool AnyHalf(std::initializer_list<oracle::StepDType> steps, kernel::DType hidden);

}  // namespace plumbline::fuzz
