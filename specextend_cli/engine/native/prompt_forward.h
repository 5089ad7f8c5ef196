// The forward of a prompt's chunk: many rows.
//
// Between attention and attention each row goes its own way. A task therefore takes a block of rows from one to the
// next, and what it computes stays in its core's cache. A block's products are those of few rows (`forward.h`), so they
// are rounded alike, but with AMX, which multiplies bfloat16 quicker; only attention is the prompt's (`prompt.h`).
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "forward.h"
#include "prompt.h"

namespace specextend {

constexpr int64_t kBlockRows = 96;  // at most; small matrices do not care, large ones are read once a block

template <typename T>
void read_prompt(const SxModel& model, const SxStep& step) {
  Pool& pool = Pool::shared();
  const int64_t rows = step.rows, hidden = model.hidden, width = model.heads * model.head_dim;
  const int64_t threads = pool.threads(), turns = (rows + threads * kBlockRows - 1) / (threads * kBlockRows);
  const int64_t each = (rows + threads * turns - 1) / (threads * turns), blocks = (rows + each - 1) / each;
  std::vector<std::vector<float>> states(blocks);
  std::vector<T> asked(rows * width);
  std::vector<float> attended(rows * width), kept(step.keep * hidden);
  const bool by_tiles = kHasTiles && std::is_same_v<T, BFloat16> && !model.exact;
  const Arithmetic arithmetic = by_tiles ? Arithmetic::kTiled : Forward<T>::few(model);
  const auto queries = [&](int64_t layer) {
    return step.queries[layer] != nullptr ? static_cast<T*>(step.queries[layer]) : asked.data();
  };
  for (int64_t layer = 0; layer <= model.layers; ++layer) {
    pool.run(blocks, [&](int64_t block, bool) {
      const int64_t first = block * each, count = std::min(each, rows - first);
      Forward<T>& forward = Forward<T>::of_thread();
      forward.take(model, step, first, count, arithmetic);
      forward.exchange(states[block]);
      if (layer == 0)
        forward.begin();
      else
        forward.finish(model.layer[layer - 1], attended.data() + first * width);
      if (layer < model.layers) {
        forward.ask(layer, queries(layer));
      } else {
        const float* const normed = forward.end();
        for (int64_t row = std::max(first, rows - step.keep); row < first + count; ++row)
          std::copy_n(normed + (row - first) * hidden, hidden, &kept[(row - rows + step.keep) * hidden]);
      }
      forward.exchange(states[block]);
      release_tiles();
    });
    if (layer == model.layers) break;
    const Cached<T> cached = {static_cast<const T*>(step.keys) + layer * step.by_layer,
                              static_cast<const T*>(step.values) + layer * step.by_layer, 0, step.by_head,
                              model.head_dim};
    const SxLayer& of_layer = model.layer[layer];
    attend_causal(queries(layer), rows * model.head_dim, model.head_dim, model.kv_heads, model.heads / model.kv_heads,
                  rows, model.head_dim, cached, *step.seen + step.earlier + rows, {of_layer.scale, of_layer.cap},
                  of_layer.window, attended.data());
  }
  Forward<T>& forward = Forward<T>::of_thread();
  forward.take(model, step, 0, step.keep, Forward<T>::few(model));
  forward.logits({Rows::by_rows(kept.data(), hidden), step.keep, hidden});
}

}  // namespace specextend
