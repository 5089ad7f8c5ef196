// The target's choice at every node of a draft tree, by penalized logits (see `sampling.py`).
#pragma once

#include <algorithm>
#include <vector>

#include "simd.h"
#include "top_k.h"

namespace specextend {

// The place of a row's first largest number; of its first NaN, if it has one.
inline int64_t first_largest(const float* row, int64_t columns) {
  Floats most = every(kNegInf);
  Ints unordered = {};
  for (int64_t at = 0; at < columns; at += kLanes) {
    const Floats some = from_row(row, at, columns);
    most = maximum(some, most);
    unordered |= some != some;
  }
  if (any(unordered)) return std::find_if(row, row + columns, [](float x) { return x != x; }) - row;
  const Floats largest = every(largest_of(most));
  int64_t at = 0;
  while (!any(from_row(row, at, columns) == largest)) at += kLanes;
  return std::find(row + at, row + columns, largest[0]) - row;
}

// Row i of logits [rows, columns] belongs to node i of a tree whose root is the last of the `committed` tokens: a
// row's sequence is these, the node's ancestors but the root, and the node. Logits are changed, and restored.
inline void choose(float* logits, int64_t rows, int64_t columns, const int64_t* context, int64_t committed,
                   const int64_t* tokens, const int64_t* parents, float penalty, int64_t ngram, int64_t* chosen) {
  std::vector<int64_t> sequence(context, context + committed);
  std::vector<float> before;
  for (int64_t node = 0; node < rows; ++node, logits += columns) {
    sequence.resize(committed);
    for (int64_t at = node; at > 0; at = parents[at]) sequence.push_back(tokens[at]);
    std::reverse(sequence.begin() + committed, sequence.end());
    before.clear();
    for (int64_t token : sequence) before.push_back(logits[token]);
    const int64_t length = sequence.size();
    if (penalty != 1)
      for (int64_t i = 0; i < length; ++i) {
        const float more = before[i] * penalty, less = before[i] / penalty;
        logits[sequence[i]] = penalty > 1 ? std::min(more, less) : std::max(more, less);
      }
    if (ngram > 0)  // a token that would complete n tokens that the sequence has
      for (int64_t i = 0; i + ngram <= length; ++i)
        if (std::equal(sequence.end() - (ngram - 1), sequence.end(), sequence.begin() + i))
          logits[sequence[i + ngram - 1]] = kNegInf;
    chosen[node] = first_largest(logits, columns);
    for (int64_t i = 0; i < length; ++i) logits[sequence[i]] = before[i];
  }
}

}  // namespace specextend
