// Vectors of sixteen lanes of 32 bits; a lane holds two numbers in bfloat16 or one in float32.
#pragma once

#include <c10/util/BFloat16.h>
#include <immintrin.h>

#include <cstdint>

namespace specextend {

constexpr int64_t kLanes = 16;

template <typename T>
struct Word;

template <>
struct Word<float> {
  static constexpr int64_t numbers = 1;

  static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }

  static __m512 load(const float* from) { return _mm512_loadu_ps(from); }

  static void store(float* to, __m512 numbers) { _mm512_storeu_ps(to, numbers); }
};

template <>
struct Word<c10::BFloat16> {
  static constexpr int64_t numbers = 2;

  // Adds the products of both numbers of a lane to its sum, a float32.
  static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }

  static __m512 load(const c10::BFloat16* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }

  static void store(c10::BFloat16* to, __m512 numbers) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(numbers));
  }
};

inline __m512i every_lane(uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }

}  // namespace specextend
