// Vectors of `kLanes` lanes of 32 bits: sixteen with AVX-512, eight with AVX2, four elsewhere.
//
// Everything is GCC's vector extension, which compilers lower to any instruction set, except what it has no word for:
// fused multiplication, and products of bytes and of numbers in bfloat16. A lane of `Ints` may hold two numbers in
// bfloat16, or one in float32, as `Word` says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace specextend {

#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
#elif defined(__AVX2__)
constexpr int64_t kLanes = 8;
#else
constexpr int64_t kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

struct BFloat16 {
  uint16_t bits;

  float wide() const {
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float number;
    std::memcpy(&number, &word, sizeof number);
    return number;
  }
};

template <typename To, typename From>
inline To bits_of(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <typename Vector>
inline Vector load_as(const void* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

inline Floats every(float number) { return number - Floats{}; }
inline Ints every(int32_t number) { return number - Ints{}; }

template <std::size_t... I>
constexpr Ints counted(std::index_sequence<I...>) {
  return Ints{static_cast<int32_t>(I)...};
}

// Ones where a lane is below `count`.
inline Ints below(int64_t count) {
  return counted(std::make_index_sequence<kLanes>()) < every(static_cast<int32_t>(count));
}

inline bool any(Ints mask) {
#if defined(__AVX512F__)
  return _mm512_cmpneq_epi32_mask((__m512i)mask, _mm512_setzero_si512()) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps((__m256)mask) != 0;
#else
  bool found = false;
  for (int64_t i = 0; i < kLanes; ++i) found |= mask[i] != 0;
  return found;
#endif
}

inline Floats multiply_add(Floats a, Floats b, Floats sum) {
#if defined(__AVX512F__)
  return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif defined(__FMA__)
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#elif defined(__ARM_NEON)
  return (Floats)vfmaq_f32((float32x4_t)sum, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + sum;
#endif
}

inline Floats maximum(Floats a, Floats b) { return a > b ? a : b; }
inline Ints maximum(Ints a, Ints b) { return a > b ? a : b; }

inline float sum_of(Floats x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)x);
#else
  float parts[kLanes];
  std::memcpy(parts, &x, sizeof parts);
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
#endif
}

inline int32_t sum_of(Ints x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_epi32((__m512i)x);
#else
  int32_t sum = 0;
  for (int64_t i = 0; i < kLanes; ++i) sum += x[i];
  return sum;
#endif
}

inline int32_t largest_of(Ints x) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_epi32((__m512i)x);
#else
  int32_t largest = x[0];
  for (int64_t i = 1; i < kLanes; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
#endif
}

// The largest lane; NaN if one is.
inline float largest_of(Floats x) {
  if (any(x != x)) return std::numeric_limits<float>::quiet_NaN();
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)x);
#else
  float largest = x[0];
  for (int64_t i = 1; i < kLanes; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
#endif
}

// The nearest whole numbers to x, of at most 2^22, ties to even.
inline Floats rounded(Floats x) {
  constexpr float middle = 12582912;  // 1.5 * 2^23: numbers beside it have no fraction
  return (x + middle) - middle;
}

// e^x for x <= 88, to a few parts in ten million near 0 and in a million far from it. NaN stays NaN. Below -87 it is at
// most what it is there. With AVX-512 the rest of -inf is NaN, which `vscalefps` by -inf turns into 0.
inline Floats exponential(Floats x) {
#if defined(__AVX512F__)
  const Floats scaled = x * 1.44269504f;
  const Floats whole = (Floats)_mm512_roundscale_ps((__m512)scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  const Floats scaled = (x < -87.f ? every(-87.f) : x) * 1.44269504f;
  const Floats whole = rounded(scaled);
#endif
  const Floats rest = scaled - whole;
  Floats sum = every(1.3276472e-3f);  // 2^rest, with the least relative error for a rest of at most a half
  for (float term : {9.67554146e-3f, 5.55071332e-2f, 2.40221199e-1f, 6.93146944e-1f, 1.f})
    sum = multiply_add(sum, rest, every(term));
#if defined(__AVX512F__)
  return (Floats)_mm512_scalef_ps((__m512)sum, (__m512)whole);
#else
  return sum * bits_of<Floats>((bits_of<Ints>(whole + 12582912.f) - 0x4b400000 + 127) << 23);
#endif
}

// x / (1 + e^-x)
inline Floats silu(Floats x) {
  const Floats negative = -x;
  return x / (1 + exponential(negative > 87.f ? every(87.f) : negative));
}

// x / (1 + e^-2u), u = sqrt(2 / pi) * (x + 0.044715 * x^3): GELU, approximated by tanh.
inline Floats gelu(Floats x) {
  const Floats negative = -1.5957691216f * (x + 0.044715f * x * x * x);
  return x / (1 + exponential(negative > 87.f ? every(87.f) : negative));
}

// To a few parts in ten million: near 0 by the polynomial of Cephes' `tanhf`. NaN stays NaN.
inline Floats tanh_of(Floats x) {
  const Floats square = x * x, size = x < 0 ? -x : x;
  Floats sum = every(-5.70498872745e-3f);
  for (float term : {2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f})
    sum = multiply_add(sum, square, every(term));
  const Floats near = multiply_add(sum * square, x, x);
  const Floats far = 1 - 2 / (1 + exponential(size > 40.f ? every(80.f) : 2 * size));
  return size < .625f ? near : x < 0 ? -far : far;
}

// Numbers to cap * tanh(scale * number / cap).
inline void cap_all(float* numbers, int64_t count, float scale, float cap) {
  const auto bend = [=](float* at) {
    const Floats bent = tanh_of(load_as<Floats>(at) * (scale / cap)) * cap;
    std::memcpy(at, &bent, sizeof bent);
  };
  int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) bend(numbers + at);
  float rest[kLanes] = {};
  std::copy(numbers + at, numbers + count, rest);
  bend(rest);
  std::copy_n(rest, count - at, numbers + at);
}

#if defined(__AVX512F__)
constexpr int64_t kRegisters = 32;
#elif defined(__AVX2__)
constexpr int64_t kRegisters = 16;
#else
constexpr int64_t kRegisters = 32;
#endif

// The same sum, which the compiler takes for another: else GCC adds in an order of its own, for which registers are
// few.
inline Ints settled(Ints sum) {
#if defined(__AVX2__)
  __asm__("" : "+v"(sum));
#endif
  return sum;
}

// Adds, in each lane, the products of four bytes `even` with four of `a`, and of `odd` with `b`. `even` and `odd` are 0
// to 63, `a` and `b` are -127 to 127: sums of four products fit 16 bits.
inline Ints add_products(Ints sum, Ints even, Ints a, Ints odd, Ints b) {
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
  const __m512i half = _mm512_dpbusd_epi32((__m512i)sum, (__m512i)even, (__m512i)a);
  return (Ints)_mm512_dpbusd_epi32(half, (__m512i)odd, (__m512i)b);
#elif defined(__AVX512BW__)
  const __m512i pairs =
      _mm512_add_epi16(_mm512_maddubs_epi16((__m512i)even, (__m512i)a), _mm512_maddubs_epi16((__m512i)odd, (__m512i)b));
  return settled(sum + (Ints)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#elif defined(__AVXVNNI__)
  const __m256i half = _mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)even, (__m256i)a);
  return (Ints)_mm256_dpbusd_avx_epi32(half, (__m256i)odd, (__m256i)b);
#elif defined(__AVX2__)
  const __m256i pairs =
      _mm256_add_epi16(_mm256_maddubs_epi16((__m256i)even, (__m256i)a), _mm256_maddubs_epi16((__m256i)odd, (__m256i)b));
  return settled(sum + (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#elif defined(__ARM_FEATURE_DOTPROD)
  return (Ints)vdotq_s32(vdotq_s32((int32x4_t)sum, (int8x16_t)even, (int8x16_t)a), (int8x16_t)odd, (int8x16_t)b);
#else
  int8_t e[4 * kLanes], o[4 * kLanes], x[4 * kLanes], y[4 * kLanes];
  std::memcpy(e, &even, sizeof e);
  std::memcpy(o, &odd, sizeof o);
  std::memcpy(x, &a, sizeof x);
  std::memcpy(y, &b, sizeof y);
  for (int64_t i = 0; i < 4 * kLanes; ++i) sum[i / 4] += e[i] * x[i] + o[i] * y[i];
  return sum;
#endif
}

// Sums of up to 32 products of bytes from 0 to 15 with others, and what they are in each lane: with AVX2 alone their
// halves are added last, since these sums fit 16 bits, too.
inline Ints add_small_products(Ints sum, Ints even, Ints a, Ints odd, Ints b) {
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__AVXVNNI__)
  const __m256i pairs =
      _mm256_add_epi16(_mm256_maddubs_epi16((__m256i)even, (__m256i)a), _mm256_maddubs_epi16((__m256i)odd, (__m256i)b));
  return settled((Ints)_mm256_add_epi16((__m256i)sum, pairs));
#else
  return add_products(sum, even, a, odd, b);
#endif
}

inline Ints whole_sums(Ints sum) {
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__AVXVNNI__)
  return (Ints)_mm256_madd_epi16((__m256i)sum, _mm256_set1_epi16(1));
#else
  return sum;
#endif
}

// As `add_products`, for `even` and `odd` from 0 to 255. Without VNNI sums of such products would not fit 16 bits.
inline Ints add_byte_products(Ints sum, Ints even, Ints a, Ints odd, Ints b) {
#if (defined(__AVX512VNNI__) && defined(__AVX512F__)) || defined(__AVXVNNI__)
  return add_products(sum, even, a, odd, b);
#else
  const Ints upper_even = bits_of<Ints>(bits_of<Words>(even) >> 4) & 0x0f0f0f0f;
  const Ints upper_odd = bits_of<Ints>(bits_of<Words>(odd) >> 4) & 0x0f0f0f0f;
  const Ints upper = add_products(Ints{}, upper_even, a, upper_odd, b);
  return add_products(sum + upper * 16, even & 0x0f0f0f0f, a, odd & 0x0f0f0f0f, b);
#endif
}

template <typename T>
struct Word;

template <>
struct Word<float> {
  static constexpr int64_t numbers = 1;

  static Floats multiply_add(Floats sum, Ints a, Ints b) {
    return specextend::multiply_add(bits_of<Floats>(a), bits_of<Floats>(b), sum);
  }

  static Floats load(const float* from) { return load_as<Floats>(from); }

  static void store(float* to, Floats numbers) { std::memcpy(to, &numbers, sizeof numbers); }
};

template <>
struct Word<BFloat16> {
  static constexpr int64_t numbers = 2;

  // Adds the products of both numbers of a lane to its sum, a float32.
  static Floats multiply_add(Floats sum, Ints a, Ints b) {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
    return (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    const Ints high = every(static_cast<int32_t>(0xffff0000));
    sum = specextend::multiply_add(bits_of<Floats>(a << 16), bits_of<Floats>(b << 16), sum);
    return specextend::multiply_add(bits_of<Floats>(a & high), bits_of<Floats>(b & high), sum);
#endif
  }

  static Floats load(const BFloat16* from) {
    return bits_of<Floats>(__builtin_convertvector(load_as<Halves>(from), Words) << 16);
  }

  // Rounds to nearest, ties to even.
  static void store(BFloat16* to, Floats numbers) {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh((__m512)numbers));
#else
    const Words bits = bits_of<Words>(numbers), even = bits + 0x7fff + (bits >> 16 & 1);
    const Words chosen = numbers == numbers ? even : bits | 0x400000;
    const Halves halves = __builtin_convertvector(chosen >> 16, Halves);
    std::memcpy(to, &halves, sizeof halves);
#endif
  }
};

inline Ints every_lane(uint32_t word) { return every(static_cast<int32_t>(word)); }

// One of two rows after their odd blocks of `step` lanes have changed places with even ones: the upper or the lower.
template <std::size_t step, bool upper, std::size_t... I>
inline Ints exchanged(Ints low, Ints high, std::index_sequence<I...>) {
  return __builtin_shufflevector(low, high, (I & step ? kLanes + I - (upper ? 0 : step) : I + (upper ? step : 0))...);
}

// Transposes `kLanes` rows of as many words.
template <std::size_t step = kLanes / 2>
inline void transpose(Ints rows[kLanes]) {
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLanes; ++i)
    if (!(i & step)) {
      const Ints low = rows[i], high = rows[i | step];
      rows[i] = exchanged<step, false>(low, high, std::make_index_sequence<kLanes>());
      rows[i | step] = exchanged<step, true>(low, high, std::make_index_sequence<kLanes>());
    }
  if constexpr (step > 1) transpose<step / 2>(rows);
}

}  // namespace specextend
