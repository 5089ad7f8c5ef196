// Attention of a few queries over many keys: those of a token, a tree, or a batch of tokens.
//
// Queries that share a key head are folded into rows over the same keys (grouped-query attention), and the keys are cut
// into parts, one task each (split-KV). A part is read once, in blocks (`flash_decode.h`).
//
// Parts and blocks begin at multiples of their sizes, and the keys of a node and its ancestors take the lanes that they
// will have once cached. A node's result therefore equals plain decoding's bit for bit.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "flash_decode.h"

namespace specextend {

constexpr int64_t kPart = 256;  // keys

template <typename T>
at::Tensor attend_of(const at::Tensor& q, const at::Tensor& own_keys, const at::Tensor& own_values,
                     const at::Tensor& keys, const at::Tensor& values, const at::Tensor& tree,
                     const std::optional<at::Tensor>& hidden, float scale) {
  const int64_t batch = q.size(0), heads = keys.size(1), nodes = q.size(2), dim = q.size(3);
  const int64_t seen = keys.size(2), own = own_keys.size(2);
  const int64_t groups = q.size(1) / heads, rows = groups * nodes;
  const int64_t full = seen / kPart;               // parts of cached keys alone, in the longest sequence
  const int64_t parts = (seen + own) / kPart + 1;  // a path may end in another part than it begins in
  const int64_t each = PartialSoftmax::size(rows, dim);
  const float* tree_mask = tree.const_data_ptr<float>();
  const Paths paths(tree_mask, nodes, own);
  std::vector<int64_t> lengths(batch, seen);
  for (int64_t b = 0; hidden && b < batch; ++b) {
    const T* hides = hidden->const_data_ptr<T>() + b * seen;
    lengths[b] = std::find_if(hides, hides + seen, [](T x) { return static_cast<float>(x) == kNegInf; }) - hides;
  }
  const at::Tensor folded = q.contiguous();  // [batch, heads, groups, nodes, dim]: rows of a head side by side
  const at::Tensor space = at::empty({batch * heads * parts * each}, q.options().dtype(at::kFloat));
  float* const all = space.mutable_data_ptr<float>();

  const auto partial = [&](int64_t head, int64_t part) {
    return PartialSoftmax::at(all + (head * parts + part) * each, rows, dim);
  };
  const auto span_of = [](const at::Tensor& k, const at::Tensor& v, int64_t b, int64_t h, int64_t first,
                          int64_t count) {
    return Span<T>{k.const_data_ptr<T>() + b * k.stride(0) + h * k.stride(1) + first * k.stride(2),
                   v.const_data_ptr<T>() + b * v.stride(0) + h * v.stride(1) + first * v.stride(2), k.stride(2),
                   v.stride(2), count};
  };
  at::parallel_for(0, batch * heads * (full + 1), 1, [&](int64_t begin, int64_t end) {
    Reader<T> reader(rows, dim, own);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t head = task / (full + 1), part = task % (full + 1), b = head / heads, h = head % heads;
      const int64_t length = lengths[b], end_part = length / kPart;
      if (part > end_part) continue;
      reader.ask(folded.const_data_ptr<T>() + head * rows * dim);
      for (int64_t later = part < end_part ? part : parts - 1; later >= part; --later) {
        reader.gather_in(partial(head, later));
        reader.clear();
      }
      int64_t first = part * kPart;
      for (const int64_t last = std::min(length, first + kPart); first + kBlock <= last; first += kBlock)
        reader.see(span_of(keys, values, b, h, first, kBlock), scale);
      if (part == end_part)
        reader.see_end(span_of(keys, values, b, h, first, length - first), span_of(own_keys, own_values, b, h, 0, own),
                       paths, tree_mask, scale,
                       [&](int64_t block) { return partial(head, (first / kBlock + block) / (kPart / kBlock)); });
    }
  });

  at::Tensor out = at::empty(q.sizes(), q.options());
  T* const to = out.mutable_data_ptr<T>();
  at::parallel_for(0, batch * heads * rows, kBlock, [&](int64_t begin, int64_t end) {
    std::vector<float> shares(parts);
    std::vector<const float*> gathers(parts);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / rows, row = i % rows;
      float top = kNegInf;
      for (int64_t part = 0; part < parts; ++part) top = std::max(top, partial(head, part).top[row]);
      __m512 total = _mm512_setzero_ps();
      int64_t count = 0;
      for (int64_t part = 0; part < parts; ++part) {
        const PartialSoftmax one = partial(head, part);
        if (one.top[row] == kNegInf) continue;  // its other fields are not set
        shares[count] = std::exp(one.top[row] - top);
        gathers[count] = one.out + row * dim;
        total = _mm512_fmadd_ps(one.total_of(row), _mm512_set1_ps(shares[count++]), total);
      }
      const __m512 whole = _mm512_set1_ps(_mm512_reduce_add_ps(total));
      for (int64_t at = 0; at < dim; at += kLanes) {
        __m512 joined = _mm512_setzero_ps();
        for (int64_t part = 0; part < count; ++part)
          joined = _mm512_fmadd_ps(_mm512_loadu_ps(gathers[part] + at), _mm512_set1_ps(shares[part]), joined);
        Word<T>::store(to + i * dim + at, _mm512_div_ps(joined, whole));
      }
    }
  });
  return out;
}

// q [b, H, n, d] over the cached keys and values [b, H_kv, seen, d] and the tree's own [b, H_kv, m, d] -> [b, H, n, d].
// `tree` [n, m] float32 is added to the scores of own keys; with `hidden` [b, 1, 1, seen], each sequence of a batch
// ends at its first -inf. d is a multiple of 32. Every row sees at least one key.
inline at::Tensor attend(const at::Tensor& q, const at::Tensor& own_keys, const at::Tensor& own_values,
                         const at::Tensor& keys, const at::Tensor& values, const at::Tensor& tree,
                         const std::optional<at::Tensor>& hidden, double scale) {
  TORCH_CHECK(q.dim() == 4 && q.size(3) % 32 == 0, "attend: q is [b, H, n, d], d a multiple of 32");
  const int64_t batch = q.size(0), heads = keys.size(1), dim = q.size(3), seen = keys.size(2);
  for (const at::Tensor* x : {&own_keys, &own_values, &keys, &values})
    TORCH_CHECK(x->dim() == 4 && x->size(0) == batch && x->size(1) == heads && x->size(3) == dim && x->stride(3) == 1 &&
                    x->scalar_type() == q.scalar_type(),
                "attend: keys and values are [b, H_kv, .., d] of the queries' type");
  TORCH_CHECK(heads > 0 && q.size(1) % heads == 0 && values.size(2) == seen && own_values.size(2) == own_keys.size(2),
              "attend: as many values as keys");
  TORCH_CHECK(tree.scalar_type() == at::kFloat && tree.is_contiguous() && tree.dim() == 2 &&
                  tree.size(0) == q.size(2) && tree.size(1) == own_keys.size(2),
              "attend: the tree's mask is float32 [n, m]");
  TORCH_CHECK(!hidden || (hidden->is_contiguous() && hidden->numel() == batch * seen &&
                          hidden->scalar_type() == q.scalar_type()),
              "attend: hidden is [b, 1, 1, seen]");
  const auto scaled = static_cast<float>(scale);
  if (q.scalar_type() == at::kBFloat16)
    return attend_of<c10::BFloat16>(q, own_keys, own_values, keys, values, tree, hidden, scaled);
  TORCH_CHECK(q.scalar_type() == at::kFloat, "attend: bfloat16 or float32");
  return attend_of<float>(q, own_keys, own_values, keys, values, tree, hidden, scaled);
}

}  // namespace specextend
