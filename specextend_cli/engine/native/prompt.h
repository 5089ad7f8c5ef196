// A prompt's causal attention: many queries, those of the last tokens, each over the keys up to its own.
//
// A task takes some queries of a key head and reads their keys in blocks (`flash_decode.h`). Keys above the diagonal
// are not read, and scores stay in the cache.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "flash_decode.h"

namespace specextend {

constexpr int64_t kQueries = 32;  // of each head that shares the keys

template <typename T>
at::Tensor attend_causal_of(const at::Tensor& q, const at::Tensor& own_keys, const at::Tensor& own_values,
                            const at::Tensor& keys, const at::Tensor& values, float scale) {
  const int64_t heads = keys.size(1), groups = q.size(1) / heads, n = q.size(2), dim = q.size(3);
  const at::Tensor out = at::empty({1, n, q.size(1), dim}, q.options());
  const T* const asked = q.const_data_ptr<T>();
  T* const to = out.mutable_data_ptr<T>();
  const int64_t pieces = (n + kQueries - 1) / kQueries;
  const auto span = [](const at::Tensor& k, const at::Tensor& v, int64_t h, int64_t first, int64_t end) {
    return Span<T>{k.const_data_ptr<T>() + h * k.stride(1) + first * k.stride(2),
                   v.const_data_ptr<T>() + h * v.stride(1) + first * v.stride(2), k.stride(2), v.stride(2),
                   std::min(end - first, kBlock)};
  };
  // Idle threads take the next task, the longest first. The range has one call per thread; one call could do all tasks.
  std::atomic<int64_t> begun = 0;
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
    for (int64_t task; (task = begun++) < heads * pieces;) {
      const int64_t h = task % heads, first = (pieces - 1 - task / heads) * kQueries;
      const int64_t count = std::min(kQueries, n - first), rows = groups * count;
      std::vector<T> queries(rows * dim);
      for (int64_t row = 0; row < rows; ++row)
        std::copy_n(asked + (h * groups + row / count) * q.stride(1) + (first + row % count) * q.stride(2), dim,
                    &queries[row * dim]);
      std::vector<float> sums(PartialSoftmax::size(rows, dim));
      const PartialSoftmax gathered = PartialSoftmax::at(sums.data(), rows, dim);
      Reader<T> reader(rows, dim, 0);
      reader.ask(queries.data());
      reader.gather_in(gathered);
      reader.clear();
      for (int64_t key = 0; key < keys.size(2); key += kBlock)
        reader.see(span(keys, values, h, key, keys.size(2)), scale);
      for (int64_t key = 0; key < first + count; key += kBlock)
        reader.see_first(span(own_keys, own_values, h, key, first + count), scale,
                         [&](int64_t row) { return first + row % count + 1 - key; });
      for (int64_t row = 0; row < rows; ++row) {
        const float share = 1 / _mm512_reduce_add_ps(gathered.total_of(row));
        T* const of_row = to + ((first + row % count) * q.size(1) + h * groups + row / count) * dim;
        for (int64_t at = 0; at < dim; ++at) of_row[at] = gathered.out[row * dim + at] * share;
      }
    }
  });
  return out;
}

// q [1, H, n, d] over the cached keys and values [1, H_kv, seen, d] and the queries' own [1, H_kv, n, d], of which each
// sees those up to its own -> [1, n, H, d]. d is a multiple of 32.
inline at::Tensor attend_causal(const at::Tensor& q, const at::Tensor& own_keys, const at::Tensor& own_values,
                                const at::Tensor& keys, const at::Tensor& values, double scale) {
  TORCH_CHECK(q.dim() == 4 && q.size(0) == 1 && q.size(3) % 32 == 0,
              "attend_causal: q is [1, H, n, d], d a multiple of 32");
  for (const at::Tensor* x : {&own_keys, &own_values, &keys, &values})
    TORCH_CHECK(x->dim() == 4 && x->size(0) == 1 && x->size(1) == keys.size(1) && x->size(3) == q.size(3) &&
                    x->stride(3) == 1 && x->scalar_type() == q.scalar_type(),
                "attend_causal: keys and values are [1, H_kv, .., d] of the queries' type");
  TORCH_CHECK(keys.size(1) > 0 && q.size(1) % keys.size(1) == 0 && values.size(2) == keys.size(2) &&
                  own_keys.size(2) == q.size(2) && own_values.size(2) == q.size(2),
              "attend_causal: as many values as keys, and as many own ones as queries");
  const auto scaled = static_cast<float>(scale);
  const at::Tensor rows = q.stride(3) == 1 ? q : q.contiguous();
  if (q.scalar_type() == at::kBFloat16)
    return attend_causal_of<c10::BFloat16>(rows, own_keys, own_values, keys, values, scaled);
  TORCH_CHECK(q.scalar_type() == at::kFloat, "attend_causal: bfloat16 or float32");
  return attend_causal_of<float>(rows, own_keys, own_values, keys, values, scaled);
}

}  // namespace specextend
