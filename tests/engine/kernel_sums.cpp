// Prints sums of what the kernels compute from fixed numbers, for comparison between instruction sets.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

#include "forward.h"
#include "prompt.h"
#include "top_k.h"

using namespace specextend;

uint64_t state = 1;

float number() {  // from -0.5 to 0.5
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return static_cast<float>(state >> 40) / (1 << 24) - .5f;
}

template <typename T>
std::vector<T> numbers(int64_t count) {
  std::vector<float> wide(count);
  for (float& x : wide) x = number();
  std::vector<T> out(count);
  narrow(wide.data(), count, out.data());
  return out;
}

template <typename T>
void print(const char* name, const std::vector<T>& computed) {
  std::vector<float> wide(computed.size());
  widen(computed.data(), static_cast<int64_t>(computed.size()), wide.data());
  double sum = 0, size = 0;
  for (float x : wide) sum += x, size += std::abs(x);
  printf("%s %.6g %.6g\n", name, sum, size);
}

template <typename T>
void attention(const char* name) {
  const int64_t heads = 3, capacity = 600, dim = 64, seen = 517, nodes = 5, prompt = 40;
  const auto keys = numbers<T>(heads * capacity * dim), values = numbers<T>(heads * capacity * dim),
             q = numbers<T>(9 * prompt * dim);
  std::vector<float> chain(nodes * nodes, kNegInf);
  for (int64_t i = 0; i < nodes; ++i) std::fill_n(&chain[i * nodes], i + 1, 0.f);
  const Paths paths(chain.data(), nodes, nodes);
  const Cached<T> cached = {keys.data(), values.data(), 0, capacity * dim, dim};
  std::vector<float> few(9 * nodes * dim);
  std::vector<T> many(9 * prompt * dim);
  const int64_t from[nodes] = {270, 200, 519, 0, 447};
  for (bool has_window : {false, true}) {
    const Scoring scoring = {.9f, has_window ? .7f : 0};
    attend<T, float>(q.data(), 1, heads, 3, nodes, dim, cached, &seen, nodes, chain.data(), paths,
                     has_window ? from : nullptr, scoring, few.data());
    print(name, few);
    attend_causal<T>(q.data(), prompt * dim, dim, heads, 3, prompt, dim, cached, seen, scoring, has_window ? 99 : 0,
                     many.data());
    print(name, many);
  }
}

// Blocks with scales that are small numbers, packed and unpacked.
template <typename Block>
void blocks(const char* name, int64_t kind, int64_t scale) {
  const int64_t rows = 32, columns = 512, count = rows * columns / Block::kNumbers;
  std::vector<uint8_t> bytes(count * Block::kBytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((number() + .5f) * 255);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t at : {scale, (scale + 2) % Block::kBytes}) bytes[i * Block::kBytes + at + 1] = 0x1c;
  std::vector<uint8_t> codes(rows * columns);
  std::vector<BFloat16> scales(rows * columns / 16);
  if (!pack_blocks<Block>(bytes.data(), rows, columns, codes.data(), scales.data())) printf("not finite\n");
  std::vector<float> full(rows * columns);
  unpack(SxMatrix{kind, rows, columns, codes.data(), scales.data(), nullptr}, full.data());
  print(name, full);
}

int main() {
#if defined(__AMX_TILE__)
  if (syscall(SYS_arch_prctl, 0x1023, 18)) return 1;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
#endif
  const int64_t rows = 96, columns = 192;
  std::vector<uint8_t> codes(rows * columns);
  for (uint8_t& code : codes) code = static_cast<uint8_t>((number() + .5f) * 255);
  const auto scales = numbers<BFloat16>(rows * columns / kGroup * 2);
  const auto weights = numbers<BFloat16>(rows * columns);
  for (int64_t count : {1, 3, 14}) {
    const auto x = numbers<float>(count * columns);
    std::vector<float> out(count * rows);
    Exact exact;
    exact.prepare(Rows::by_rows(x.data(), columns), count, columns);
    Rounded rounded;
    rounded.prepare(Rows::by_rows(x.data(), columns), count, columns);
    for (int64_t kind = kFourBit; kind <= kEightBit; ++kind)
      with_form(kind, [&]<typename Form>(Form) {
        const Sums sums = Sums::by_rows(out.data(), rows);
        times_tiles<Form>(exact, count, codes.data(), scales.data(), 0, rows / kTile, sums);
        print("packed", out);
        times_tiles<Form>(rounded, count, codes.data(), scales.data(), 0, rows / kTile, sums);
        print("packed, rounded", out);
      });
    Plain<BFloat16> plain;
    plain.prepare(Rows::by_rows(x.data(), columns), count, columns);
    times_dense(plain, count, weights.data(), 0, rows, Sums::by_rows(out.data(), rows));
    print("bfloat16", out);
  }
  blocks<Simple<false, true>>("Q4_1", kFourBit, 0);
  blocks<Simple<true, false>>("Q5_0", kSixBitZero, 0);
  blocks<Super<true>>("Q5_K", kSixBitZero, 0);
  blocks<Q6_K>("Q6_K", kSixBit, 208);
  attention<BFloat16>("attention in bfloat16");
  attention<float>("attention in float32");
  std::vector<float> some(16);
  for (int64_t i = 0; i < 16; ++i) some[i] = static_cast<float>(i * 9 - 70);
  std::vector<float> ones(16, 1), gated = some;
  gate_some(false, 16, gated.data(), ones.data());
  print("SiLU", gated);
  gate_some(true, 16, some.data(), ones.data());
  print("GELU", some);
  auto scores = numbers<float>(16);
  cap_all(scores.data(), 13, 5, 1);
  print("capped", scores);
  const auto logits = numbers<float>(4016);
  std::vector<float> shares(4 * 4);
  std::vector<int64_t> best(4 * 4);
  top_k(logits.data(), 4, 1001, 4, shares.data(), best.data());
  print("top-k", shares);
  print("columns", std::vector<float>(best.begin(), best.end()));
}
