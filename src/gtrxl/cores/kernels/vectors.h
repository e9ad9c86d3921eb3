// Vectors of floats as wide as the machine has them, and products of small matrices that lie in its caches.
//
// Written with the vector types of GCC and Clang, so that one text serves AVX-512, AVX2, SSE and NEON.
#pragma once

#include <algorithm>
#include <cstdint>

#if defined(__SSE__)
#include <immintrin.h>
#endif

namespace gtrxl {

#if defined(__AVX512F__)
constexpr int VL = 16;
constexpr int WIDEST = 4;  // vectors side by side in one tile of a product: 6 x 4 sums fill 24 of 32 registers
#elif defined(__AVX__)
constexpr int VL = 8;
constexpr int WIDEST = 2;
#elif defined(__aarch64__)
constexpr int VL = 4;
constexpr int WIDEST = 4;
#else
constexpr int VL = 4;
constexpr int WIDEST = 2;
#endif

typedef float vf __attribute__((vector_size(VL * 4)));
typedef int32_t vi __attribute__((vector_size(VL * 4)));
typedef float vf_anywhere __attribute__((vector_size(VL * 4), aligned(4), may_alias));

inline vf load(const float* p) { return *reinterpret_cast<const vf_anywhere*>(p); }
inline void store(float* p, vf x) { *reinterpret_cast<vf_anywhere*>(p) = x; }

// A streaming store of a whole aligned vector: it bypasses the caches, for what is not read soon. Other threads see it after
// `finish_streams`.
inline void stream(float* p, vf x) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, reinterpret_cast<__m512>(x));
#elif defined(__AVX__)
  _mm256_stream_ps(p, reinterpret_cast<__m256>(x));
#elif defined(__SSE__)
  _mm_stream_ps(p, reinterpret_cast<__m128>(x));
#else
  store(p, x);
#endif
}
inline void finish_streams() {
#if defined(__SSE__)
  _mm_sfence();
#endif
}
// Whether rows of n floats at a stride are whole aligned vectors.
inline bool can_stream(const float* p, long n, long stride) {
  return n % VL == 0 && stride % VL == 0 && reinterpret_cast<uintptr_t>(p) % sizeof(vf) == 0;
}

inline vf splat(float x) { return x - vf{}; }
// b where either is not a number: what may be none goes second, and is not lost. GCC makes two instructions of the plain
// expression.
inline vf vmax(vf a, vf b) {
#if defined(__AVX512F__)
  return reinterpret_cast<vf>(_mm512_max_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#else
  return a > b ? a : b;
#endif
}
inline vf vmin(vf a, vf b) {
#if defined(__AVX512F__)
  return reinterpret_cast<vf>(_mm512_min_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#else
  return a < b ? a : b;
#endif
}

// x with lanes i and i ^ n in each other's places; n is a power of two.
inline vf swap_lanes(vf x, int n) {
  vi from;
  for (int i = 0; i < VL; ++i) from[i] = i ^ n;
#if defined(__clang__)
  vf to;
  for (int i = 0; i < VL; ++i) to[i] = x[from[i]];
  return to;
#else
  return __builtin_shuffle(x, from);
#endif
}

inline float sum(vf x) {
#pragma GCC unroll 4
  for (int n = VL / 2; n > 0; n /= 2) x += swap_lanes(x, n);
  return x[0];
}

inline float max_lane(vf x) {
#pragma GCC unroll 4
  for (int n = VL / 2; n > 0; n /= 2) x = vmax(x, swap_lanes(x, n));
  return x[0];
}

// A vector as quads, four floats each.
constexpr int QUAD = 4;
constexpr int QUADS = VL / QUAD;

// The same four floats in every quad.
inline vf broadcast_quad(const float* p) {
#if defined(__AVX512F__)
  return reinterpret_cast<vf>(_mm512_broadcast_f32x4(_mm_loadu_ps(p)));
#elif defined(__AVX__)
  return reinterpret_cast<vf>(_mm256_broadcast_ps(reinterpret_cast<const __m128*>(p)));
#else
  return load(p);
#endif
}

// Quad i from p + i * stride, and there.
inline vf load_quads(const float* p, long stride) {
#if defined(__AVX512F__)
  __m512 x = _mm512_castps128_ps512(_mm_loadu_ps(p));
  x = _mm512_insertf32x4(x, _mm_loadu_ps(p + stride), 1);
  x = _mm512_insertf32x4(x, _mm_loadu_ps(p + 2 * stride), 2);
  return reinterpret_cast<vf>(_mm512_insertf32x4(x, _mm_loadu_ps(p + 3 * stride), 3));
#elif defined(__AVX__)
  return reinterpret_cast<vf>(_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + stride), 1));
#else
  return load(p);
#endif
}

inline void store_quads(float* p, long stride, vf x) {
#if defined(__AVX512F__)
  const __m512 y = reinterpret_cast<__m512>(x);
  _mm_storeu_ps(p, _mm512_castps512_ps128(y));
  _mm_storeu_ps(p + stride, _mm512_extractf32x4_ps(y, 1));
  _mm_storeu_ps(p + 2 * stride, _mm512_extractf32x4_ps(y, 2));
  _mm_storeu_ps(p + 3 * stride, _mm512_extractf32x4_ps(y, 3));
#elif defined(__AVX__)
  const __m256 y = reinterpret_cast<__m256>(x);
  _mm_storeu_ps(p, _mm256_castps256_ps128(y));
  _mm_storeu_ps(p + stride, _mm256_extractf128_ps(y, 1));
#else
  store(p, x);
#endif
}

// Sums of neighbours: each quad has two from a's, then two from b's.
inline vf sums_of_pairs(vf a, vf b) {
  vi even;
  for (int i = 0; i < VL; ++i) even[i] = i / QUAD * QUAD + i % 2 * 2 + (i % QUAD > 1 ? VL : 0);
  const vi odd = even + 1;
#if defined(__clang__)
  vf to;
  for (int i = 0; i < VL; ++i) to[i] = i % QUAD > 1 ? b[even[i] - VL] + b[odd[i] - VL] : a[even[i]] + a[odd[i]];
  return to;
#else
  return __builtin_shuffle(a, b, even) + __builtin_shuffle(a, b, odd);
#endif
}

// Lane j of each quad: the sum of that quad of vector j.
inline vf sums_of_quads(const vf* x) { return sums_of_pairs(sums_of_pairs(x[0], x[1]), sums_of_pairs(x[2], x[3])); }

// Sums over all quads, in each of them.
inline vf sum_of_quads(vf x) {
#pragma GCC unroll 4
  for (int n = VL / 2; n >= QUAD; n /= 2) x += swap_lanes(x, n);
  return x;
}

inline vf max_of_quads(vf x) {
  x = vmax(x, swap_lanes(x, 1));
  return vmax(x, swap_lanes(x, 2));
}

// True in lanes 0..n-1 of each quad.
inline vi first_of_quads(long n) {
  vi lane;
  for (int i = 0; i < VL; ++i) lane[i] = i % QUAD;
  return lane < static_cast<int32_t>(n);
}

inline vf relu(vf x) { return vmax(vf{}, x); }

// e^x to about one unit in the last place, for x up to 88; below -87 it stays at e^-87. Of what is not a number, not a number.
inline vf exponential(vf x) {
  x = vmin(splat(88.0f), vmax(splat(-87.0f), x));
  const vf shifted = x * 1.44269504088896341f + 12582912.0f;  // the nearest integer lands in the low bits of the mantissa
  const vf whole = shifted - 12582912.0f;
  const vf r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  vf y = splat(1.9875691500e-4f);
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1.0f;
  // Bits of something that is not a number, moved and added, may become one: x * 0 is zero for all others.
  return reinterpret_cast<vf>(reinterpret_cast<vi>(y) + (reinterpret_cast<vi>(shifted) << 23)) + x * 0.0f;
}

// 1 / x to about one unit in the last place, for x that are not tiny or huge.
inline vf reciprocal(vf x) {
#if defined(__AVX512F__)
  const vf near = reinterpret_cast<vf>(_mm512_rcp14_ps(reinterpret_cast<__m512>(x)));
  return near + near * (1.0f - x * near);
#else
  return 1.0f / x;
#endif
}

inline vf sigmoid(vf x) { return reciprocal(1.0f + exponential(-x)); }

inline vf tanh(vf x) {
  // By a polynomial near zero, where the quotient would lose figures.
  const vf small = x * x;
  vf near = splat(-5.70498872745e-3f);
  near = near * small + 2.06390887954e-2f;
  near = near * small - 5.37397155531e-2f;
  near = near * small + 1.33314422036e-1f;
  near = near * small - 3.33332819422e-1f;
  near = near * small * x + x;
  const vf far = 1.0f - 2.0f * reciprocal(1.0f + exponential(2.0f * x));
  return small < 0.390625f ? near : far;
}

// Transposes a square of VL vectors.
inline void transpose_square(vf (&x)[VL]) {
#if defined(__clang__)
  for (int i = 0; i < VL; ++i)
    for (int j = 0; j < i; ++j) {
      const float kept = x[i][j];
      x[i][j] = x[j][i];
      x[j][i] = kept;
    }
#else
  vi low, high;
  for (int i = 0; i < VL; ++i) {
    low[i] = i / 2 + (i % 2) * VL;
    high[i] = low[i] + VL / 2;
  }
  // Each round moves the bits of (row, column) one place round; after half of them the two have changed places.
#pragma GCC unroll 4
  for (int n = VL; n > 1; n /= 2) {
    vf y[VL];
#pragma GCC unroll 8
    for (int i = 0; i < VL / 2; ++i) {
      y[2 * i] = __builtin_shuffle(x[i], x[i + VL / 2], low);
      y[2 * i + 1] = __builtin_shuffle(x[i], x[i + VL / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < VL; ++i) x[i] = y[i];
  }
#endif
}

constexpr long round_up(long n, long to) { return (n + to - 1) / to * to; }

// What a product prefetches: memory that is read next, a little at every step of its innermost loop. And whether its result
// bypasses the caches.
struct NoPrefetch {
  static constexpr bool STREAMS = false;
  void step() const {}
};

struct StreamingStores {
  static constexpr bool STREAMS = true;
  void step() const {}
};

struct Prefetch {
  static constexpr bool STREAMS = false;
  static constexpr long LINE = 64;  // bytes
  const char* at;
  long by;  // bytes, two lines or less
  void step() {
    __builtin_prefetch(at, 0, 2);
    if (by > LINE) __builtin_prefetch(at + LINE, 0, 2);
    at += by;
  }
};

// MR rows by NV vectors of c (= or +=) a b: a[i, p] at a + i * ar + p * ac, rows of b and c at strides ldb and ldc.
template <int MR, int NV, class Fetch = const NoPrefetch>
void tile(long k, const float* a, long ar, long ac, const float* b, long ldb, float* c, long ldc, bool add,
          Fetch& fetch = NoPrefetch{}) {
  vf s[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) s[i][j] = add ? load(c + i * ldc + j * VL) : vf{};
  for (long p = 0; p < k; ++p, a += ac, b += ldb) {
    fetch.step();
    vf row[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) row[j] = load(b + j * VL);
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const vf x = splat(a[i * ar]);
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) s[i][j] += x * row[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j)
      if constexpr (Fetch::STREAMS) stream(c + i * ldc + j * VL, s[i][j]);
      else store(c + i * ldc + j * VL, s[i][j]);
}

template <int NV>
constexpr int rows_of_tile() {
  return NV == 1 ? 12 : WIDEST * 6 / NV;
}

template <int MR, int NV, class Fetch = const NoPrefetch>
void last_rows(long m, long k, const float* a, long ar, long ac, const float* b, long ldb, float* c, long ldc, bool add,
               Fetch& fetch = NoPrefetch{}) {
  if constexpr (MR > 0) {
    if (m == MR) return tile<MR, NV>(k, a, ar, ac, b, ldb, c, ldc, add, fetch);
    last_rows<MR - 1, NV>(m, k, a, ar, ac, b, ldb, c, ldc, add, fetch);
  }
}

template <int NV, class Fetch>
void columns(long m, long k, const float* a, long ar, long ac, const float* b, long ldb, float* c, long ldc, bool add,
             Fetch& fetch) {
  constexpr int MR = rows_of_tile<NV>();
  long i = 0;
  for (; i + MR <= m; i += MR) tile<MR, NV>(k, a + i * ar, ar, ac, b, ldb, c + i * ldc, ldc, add, fetch);
  if (i < m) last_rows<MR - 1, NV>(m - i, k, a + i * ar, ar, ac, b, ldb, c + i * ldc, ldc, add, fetch);
}

// c [m, n] = (or +=) a [m, k] b [k, n]; n counts whole vectors of floats, m and k are any. Tiles are MOST vectors wide.
template <int MOST = WIDEST, class Fetch = const NoPrefetch>
void product(long m, long n, long k, const float* a, long ar, long ac, const float* b, long ldb, float* c, long ldc, bool add,
             Fetch& fetch = NoPrefetch{}) {
  constexpr long DEEP = 128;  // rows of b that stay in the first cache while a passes
  if (k == 0 && !add)
    for (long i = 0; i < m; ++i) std::fill(c + i * ldc, c + i * ldc + n, 0.0f);
  for (long p = 0; p < k; p += DEEP) {
    const long deep = std::min(DEEP, k - p);
    const float *ap = a + p * ac, *bp = b + p * ldb;
    const bool more = add || p > 0;
    long j = 0;
    for (; j + MOST * VL <= n; j += MOST * VL) columns<MOST>(m, deep, ap, ar, ac, bp + j, ldb, c + j, ldc, more, fetch);
    const long left = (n - j) / VL;
    if (left == 3 && MOST > 3) columns<(MOST > 3 ? 3 : 1)>(m, deep, ap, ar, ac, bp + j, ldb, c + j, ldc, more, fetch);
    if (left == 2 && MOST > 2) columns<(MOST > 2 ? 2 : 1)>(m, deep, ap, ar, ac, bp + j, ldb, c + j, ldc, more, fetch);
    if (left == 1) columns<1>(m, deep, ap, ar, ac, bp + j, ldb, c + j, ldc, more, fetch);
  }
}

}  // namespace gtrxl
