// Attention of a few queries over many keys: those of a token, a tree, or a batch of tokens.
//
// Queries that share a key head are folded into rows over the same keys (grouped-query attention), and the keys are cut
// into parts (split-KV), of which a task takes some neighbouring ones. A part is read once, in blocks
// (`flash_decode.h`).
//
// Parts and blocks begin at multiples of their sizes, and the keys of a node and its ancestors take the lanes that they
// will have once cached. A node's result therefore equals plain decoding's bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "flash_decode.h"
#include "pool.h"

namespace specextend {

constexpr int64_t kPart = 256;  // keys

// Keys and values of some sequences: those of sequence b and head h begin `b * by_sequence + h * by_head` numbers after
// the first ones, and lie `by_row` apart.
template <typename T>
struct Cached {
  const T *keys, *values;
  int64_t by_sequence, by_head, by_row;

  Span<T> span(int64_t sequence, int64_t head, int64_t first, int64_t count) const {
    const int64_t at = sequence * by_sequence + head * by_head + first * by_row;
    return {keys + at, values + at, by_row, by_row, count};
  }
};

// Queries q [sequences, heads * groups, nodes, dim] over the cached rows: of sequence b the first `seen[b]`, which all
// of them see, and `own` rows after those, as `tree` [nodes, own] says, which is added to their scores. `from`
// [sequences, nodes] is the first row that a query sees, were a node's path cached behind its sequence; null: all are
// 0. `out` takes [sequences, nodes, heads * groups, dim]. dim is a multiple of 32.
// Every query sees at least one key.
template <typename T, typename Out>
void attend(const T* q, int64_t sequences, int64_t heads, int64_t groups, int64_t nodes, int64_t dim,
            const Cached<T>& cached, const int64_t* seen, int64_t own, const float* tree, const Paths& paths,
            const int64_t* from, const Scoring& scoring, Out* out) {
  const int64_t rows = groups * nodes, longest = *std::max_element(seen, seen + sequences);
  const int64_t full = longest / kPart;               // parts of cached keys alone, in the longest sequence
  const int64_t parts = (longest + own) / kPart + 1;  // a path may end in another part than it begins in
  const int64_t each = PartialSoftmax::size(rows, dim);
  static thread_local std::vector<float> space;
  space.resize(sequences * heads * parts * each);
  float* const all = space.data();
  const auto partial = [=](int64_t head, int64_t part) {
    return PartialSoftmax::at(all + (head * parts + part) * each, rows, dim);
  };
  const auto from_row = [=](int64_t b, int64_t node) { return from ? from[b * nodes + node] : 0; };
  // The first rows that any, and that every, query of a sequence sees.
  const auto first_rows = [=](int64_t b) {
    if (!from) return Range{0, 0};
    const auto [least, most] = std::minmax_element(from + b * nodes, from + (b + 1) * nodes);
    return Range{*least, *most};
  };
  // A part, before this thread probably reads part `next_part` of `next_head`.
  const auto read = [&](int64_t head, int64_t part, int64_t next_head, int64_t next_part) {
    const int64_t b = head / heads, h = head % heads, length = seen[b], end_part = length / kPart;
    const Range seen_from = first_rows(b);
    if (part > end_part || part < std::min(seen_from.from / kPart, end_part)) return;
    Reader<T>& reader = Reader<T>::of_thread(rows, dim, own);
    reader.ask(q + head * rows * dim, scoring);
    for (int64_t later = part < end_part ? part : parts - 1; later >= part; --later) {
      reader.gather_in(partial(head, later));
      reader.clear();
    }
    const int64_t end = std::min(length, (part + 1) * kPart);
    int64_t first = std::max(part * kPart, std::min(seen_from.from, end) / kBlock * kBlock);
    for (; first + kBlock <= end; first += kBlock) {
      const bool goes_on = first + kBlock < end;
      const Span<T> span = cached.span(b, h, first, kBlock);
      const Span<T> next = goes_on ? cached.span(b, h, first + kBlock, kBlock)
                                   : cached.span(next_head / heads, next_head % heads, next_part * kPart, kBlock);
      if (first >= seen_from.to)
        reader.see(span, next);
      else
        reader.see_some(span, next, [&](int64_t row) { return Range{from_row(b, row % nodes) - first, kBlock}; });
    }
    if (part == end_part)
      reader.see_end(
          cached.span(b, h, first, length - first), cached.span(b, h, length, own), paths, tree,
          [&](int64_t block) { return partial(head, (first / kBlock + block) / (kPart / kBlock)); },
          [&](int64_t node) { return from_row(b, node) - first; });
  };
  int64_t total = 0, begin = full;  // parts that are read, and the first one of any
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t hidden = std::min(first_rows(b).from, seen[b]) / kPart;
    total += heads * (seen[b] / kPart + 1 - hidden);
    begin = std::min(begin, hidden);
  }
  Pool& pool = Pool::shared();
  const int64_t each_task = std::max<int64_t>(1, total / (kTasks * pool.threads()));
  const int64_t tasks = (full - begin + each_task) / each_task;  // of a head
  pool.run(sequences * heads * tasks, [&](int64_t task, bool) {
    const int64_t head = task / tasks, first = begin + task % tasks * each_task;
    const int64_t last = std::min(first + each_task - 1, full);
    for (int64_t part = first; part < last; ++part) read(head, part, head, part + 1);
    const int64_t next = std::min(task + 1, sequences * heads * tasks - 1);
    read(head, last, next / tasks, begin + next % tasks * each_task);
    release_tiles();
  });

  const auto join = [&](int64_t i) {
    const int64_t head = i / rows, row = i % rows, b = head / heads;
    const int64_t first = from_row(b, row % nodes) / kPart;  // what is before may not have been read
    float top = kNegInf;
    for (int64_t part = first; part < parts; ++part) top = std::max(top, partial(head, part).top[row]);
    static thread_local std::vector<float> shares;
    static thread_local std::vector<const float*> gathers;
    shares.clear();
    gathers.clear();
    Floats total = {};
    for (int64_t part = first; part < parts; ++part) {
      const PartialSoftmax one = partial(head, part);
      if (one.top[row] == kNegInf) continue;  // its other fields are not set
      shares.push_back(std::exp(one.top[row] - top));
      gathers.push_back(one.out + row * dim);
      total = multiply_add(one.total_of(row), every(shares.back()), total);
    }
    const float whole = sum_of(total);
    const int64_t asked = head % heads * groups + row / nodes;
    Out* const to = out + ((b * nodes + row % nodes) * heads * groups + asked) * dim;
    for (int64_t at = 0; at < dim; at += kLanes) {
      Floats joined = {};
      for (std::size_t part = 0; part < shares.size(); ++part)
        joined = multiply_add(Word<float>::load(gathers[part] + at), every(shares[part]), joined);
      Word<Out>::store(to + at, joined / whole);
    }
  };
  const int64_t all_rows = sequences * heads * rows, threads = pool.threads();
  in_parts(all_rows, std::max<int64_t>(4, (all_rows + threads - 1) / threads), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) join(i);
  });
}

}  // namespace specextend
