// The library's C interface; `shared_library.py` reads it. Pointers are to memory of the caller, strides count
// numbers.
//
// `bf16` says of what format a model's numbers are: bfloat16 (1) or float32 (0). head_dim is a multiple of 32, the
// columns of every matrix are, and so are the rows of every matrix of four to eight bits of 16.
#pragma once

#include <stdint.h>

#define SX_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

// Of eight bits, a group of columns has one scale, one for each half, or scale and zero.
enum { kNone, kFourBit, kSixBit, kSixBitZero, kEightBit, kBFloat16, kFloat32 };

// A linear layer [rows, columns]; of four and eight bits as in `int4_matmul.h`.
typedef struct {
  int64_t kind, rows, columns;
  const void *weights, *scales;
  const void* bias;  // [rows] in the model's format, or null
} SxMatrix;

// A decoder layer: attention and a gated MLP (SiLU or GELU by tanh), each behind an RMS norm, or between two. Norms are
// null where there are none; their weights are float32.
typedef struct {
  SxMatrix q, k, v, o, gate, up, down;
  const float *attention_norm, *mlp_norm;  // [hidden]
  const float *q_norm, *k_norm;            // [head_dim]
  const float* state_norm;     // [hidden]: an EAGLE-3 layer reads the normed embedding beside the normed state
  int64_t residual_is_normed;  // of such a layer
  int64_t rotates;             // whether queries and keys are rotated (RoPE)
  float scale;                 // of products of queries and keys
  float cap;                   // scores become cap * tanh(score / cap); 0: they stay
  const float *attention_out, *mlp_out;  // [hidden]: norms of what is added to the states
  int64_t window;                        // positions that a query sees, its own included; 0: all
  int64_t table;                         // which of the step's cosines and sines rotate
  int64_t is_gelu;
} SxLayer;

// `exact`: rows that meet weights of four to eight bits are not rounded to eight bits.
typedef struct {
  int64_t bf16, exact, layers, hidden, heads, kv_heads, head_dim, rotated;
  float epsilon;  // of the norms
  // Of embeddings, of what attention and the MLP add to the states, and of logits; 1 in most models.
  float embedding_multiplier, residual_multiplier, logits_divisor;
  const SxLayer* layer;
  int64_t vocabulary;
  SxMatrix embedding;    // [vocabulary, hidden]
  SxMatrix joined;       // EAGLE-1's: embedding and state to a state
  SxMatrix fused;        // EAGLE-3's: states of the target's layers to a state
  const float* norm;     // the final one
  int64_t feeds_normed;  // of an EAGLE head: the states it gives are the normed ones
  SxMatrix head;
  float logits_cap;  // logits become cap * tanh(logit / cap); 0: they stay
} SxModel;

// One forward of few rows: of a tree's nodes (`sequences` 1), or of one token of each of several sequences (`rows` 1).
// Or of many, a prompt's, in causal order.
typedef struct {
  int64_t rows, sequences, is_prompt;
  const int64_t *tokens, *positions;  // [sequences * rows]
  const float *cos, *sin;             // [tables, turns, rotated]
  int64_t turns;
  const void* states;    // of an EAGLE head, [rows, hidden]
  const void* features;  // instead: what the model's `fused` makes states of, in its format
  // The cache: keys and values of layer l, sequence b, head h and row r at l * by_layer + b * by_sequence + h * by_head
  // + r * head_dim. The new rows are written behind `seen` committed ones and `earlier` ones of the same tree.
  void *keys, *values;
  int64_t by_layer, by_sequence, by_head;
  const int64_t* seen;  // [sequences]
  int64_t earlier;
  const uint8_t* tree;  // [rows, earlier + rows]: what a row sees of the tree; null: the earlier rows, and up to itself
  int64_t keep;         // rows whose logits are wanted, the last ones; with several sequences, all
  float* logits;        // [keep or sequences, rows of the head]
  void*
      features_given;  // [sequences * rows, feature_count * hidden], side by side: the inputs of the `feature_layers`,
  const int64_t* feature_layers;  // of which `layers` is the output of the final norm
  int64_t feature_count;
  void* after;           // [rows, hidden]: what an EAGLE head's next step reads; or null
  void* const* queries;  // [layers]: each [sequences, heads, rows, head_dim], or null
} SxStep;

SX_API void sx_threads(int64_t threads);
// 0, or 1 where nothing was computed: a token is none of the model's.
SX_API int64_t sx_forward(const SxModel* model, const SxStep* step);

// x [count, columns] times a matrix of four to eight bits -> out [count, rows], float32. `exact`: without rounding x.
SX_API void sx_int4_matmul(const SxMatrix* matrix, const float* x, int64_t count, int64_t exact, float* out);

// Rows of blocks of a type of GGUF's, [rows, columns], a multiple of 16, as codes and scales of a matrix. 0, or why
// there are none: another type (1), scales that are not finite (2).
SX_API int64_t sx_pack(int64_t type, const void* blocks, int64_t rows, int64_t columns, void* codes, void* scales);
// The weights of a matrix of four to eight bits in bfloat16 or float32 -> out [rows, columns].
SX_API void sx_unpack(const SxMatrix* matrix, int64_t bf16, void* out);
// Some of its rows -> out [count, columns].
SX_API void sx_unpack_rows(const SxMatrix* matrix, int64_t bf16, const int64_t* rows, int64_t count, void* out);

// The `width` largest of each row of logits [rows, columns], best first -> softmax and columns, both [rows, width].
SX_API void sx_top_k(const float* logits, int64_t rows, int64_t columns, int64_t width, float* shares, int64_t* ids);

// The largest penalized logit of each row of logits [rows, columns] -> chosen [rows]. Row i belongs to node i of a tree
// of tokens and parents [rows], whose root is the last token of the context [committed]. Logits are restored.
SX_API void sx_choose(float* logits, int64_t rows, int64_t columns, const int64_t* context, int64_t committed,
                      const int64_t* tokens, const int64_t* parents, float penalty, int64_t ngram, int64_t* chosen);

// q [heads * groups, nodes, dim] over cached [heads, total, dim], of which the last `own` rows are seen as `tree`
// [nodes, own] says -> out [nodes, heads * groups, dim].
SX_API void sx_attend(int64_t bf16, const void* q, int64_t heads, int64_t groups, int64_t nodes, int64_t dim,
                      const void* keys, const void* values, int64_t by_head, int64_t by_row, int64_t total, int64_t own,
                      const float* tree, float scale, void* out);

// q, of head h and node i at h * q_by_head + i * q_by_node, the last n of `total` cached rows, in causal order -> out
// [n, heads * groups, dim]. `cap` and `window` as in SxLayer.
SX_API void sx_attend_causal(int64_t bf16, const void* q, int64_t q_by_head, int64_t q_by_node, int64_t heads,
                             int64_t groups, int64_t n, int64_t dim, const void* keys, const void* values,
                             int64_t by_head, int64_t by_row, int64_t total, float scale, float cap, int64_t window,
                             void* out);

#ifdef __cplusplus
}
#endif
