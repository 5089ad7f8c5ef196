// A prompt's causal attention: many queries, those of the last tokens, each over the keys up to its own.
//
// A task takes some queries of a key head and reads their keys in blocks (`flash_decode.h`). Keys above the diagonal
// and before every window are not read, and scores stay in the cache.
#pragma once

#include <algorithm>
#include <vector>

#include "attention.h"

namespace specextend {

constexpr int64_t kQueries = 32;  // of each head that shares the keys

// Queries q, of head h and node i at `h * by_head + i * by_node`, the last n of `total` cached rows -> out [n, heads *
// groups, dim]. dim is a multiple of 32. A query sees its own key and the `window` - 1 before it; 0: all before it.
template <typename T, typename Out>
void attend_causal(const T* q, int64_t by_head, int64_t by_node, int64_t heads, int64_t groups, int64_t n, int64_t dim,
                   const Cached<T>& cached, int64_t total, const Scoring& scoring, int64_t window, Out* out) {
  const int64_t pieces = (n + kQueries - 1) / kQueries, seen = total - n, reach = window > 0 ? window : total;
  Pool::shared().run(heads * pieces, [&](int64_t task, bool) {  // the longest first
    const int64_t h = task % heads, first = (pieces - 1 - task / heads) * kQueries;
    const int64_t count = std::min(kQueries, n - first), rows = groups * count;
    static thread_local std::vector<T> queries;
    static thread_local std::vector<float> sums;
    queries.resize(rows * dim);
    sums.resize(PartialSoftmax::size(rows, dim));
    for (int64_t row = 0; row < rows; ++row)
      std::copy_n(q + (h * groups + row / count) * by_head + (first + row % count) * by_node, dim, &queries[row * dim]);
    const PartialSoftmax gathered = PartialSoftmax::at(sums.data(), rows, dim);
    Reader<T>& reader = Reader<T>::of_thread(rows, dim, 0);
    reader.ask(queries.data(), scoring);
    reader.gather_in(gathered);
    reader.clear();
    const int64_t begin = std::max<int64_t>(0, seen + first + 1 - reach) / kBlock * kBlock;
    for (int64_t key = begin; key < seen + first + count; key += kBlock) {
      const Span<T> span = cached.span(0, h, key, std::min(kBlock, seen + first + count - key));
      if (key + kBlock <= seen + first && key >= seen + first + count - reach)
        reader.see(span, span.later());
      else
        reader.see_some(span, span.later(), [&](int64_t row) {
          const int64_t end = seen + first + row % count + 1 - key;
          return Range{end - reach, end};
        });
    }
    for (int64_t row = 0; row < rows; ++row) {
      const float share = 1 / sum_of(gathered.total_of(row));
      Out* const of_row = out + ((first + row % count) * heads * groups + h * groups + row / count) * dim;
      for (int64_t at = 0; at < dim; at += kLanes)
        Word<Out>::store(of_row + at, Word<float>::load(gathered.out + row * dim + at) * share);
    }
    release_tiles();
  });
}

}  // namespace specextend
