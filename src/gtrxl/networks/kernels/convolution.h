// 3x3 convolutions of one image that lies in the caches, their gradients, and max-pooling.
//
// An image is a row of pixels: a zero pixel stands between its lines, at the end of one and the beginning of the next, and lines
// of zeros above and below them. So the nine neighbours of a pixel are always there, at distances that do not depend on the
// pixel, and a convolution is one loop over the row of pixels. What it writes between the lines is cleared afterwards.
//
// F images lie side by side: a pixel is [channels, F]. With few channels that fills the vectors. A weight is then repeated F
// times, and F inputs are broadcast together.
#pragma once

#include <cstring>

#include "pool.h"
#include "vectors.h"

namespace gtrxl {

// Sizes of an image of H lines of W pixels in this form.
struct Plane {
  long H, W;
  long line() const { return W + 1; }                    // pixels from a line to the next
  long pixels() const { return (H + 2) * line() + 1; }   // all, zeros too
  long first() const { return line() + 1; }              // the first pixel of the first line
  long last() const { return H * line() + W; }           // the last one of the last line
  long count() const { return H * line() - 1; }          // from the first to the last, with the zeros between
  long at(long y, long x) const { return (y + 1) * line() + 1 + x; }
  Plane half() const { return {(H + 1) / 2, (W + 1) / 2}; }

  // Writes the zeros; a pixel has S floats.
  void clear_edges(float* image, long S) const {
    std::memset(image, 0, first() * S * sizeof(float));
    for (long y = 1; y < H; ++y) std::memset(image + (y + 1) * line() * S, 0, S * sizeof(float));
    std::memset(image + (last() + 1) * S, 0, (pixels() - last() - 1) * S * sizeof(float));
  }
};

template <int F>
inline vf spread(const float* p) {
  if constexpr (F == 1) return splat(*p);
#if defined(__AVX512F__)
  if constexpr (F == 2) {
    double both;
    std::memcpy(&both, p, sizeof(both));
    return reinterpret_cast<vf>(_mm512_set1_pd(both));
  }
#elif defined(__AVX__)
  if constexpr (F == 2) return reinterpret_cast<vf>(_mm256_broadcast_sd(reinterpret_cast<const double*>(p)));
#endif
  if constexpr (F == 4) return broadcast_quad(p);
  vf x;
  for (int i = 0; i < VL; ++i) x[i] = p[i % F];
  return x;
}

constexpr int MOST_VECTORS = 2;
// Pixels of a tile, with so many vectors of channels. Two numbers: that which wastes less is taken.
#if defined(__AVX512F__) || defined(__aarch64__)
template <int NV>
constexpr int WIDE_TILE = NV == 1 ? 24 : 14;
template <int NV>
constexpr int NARROW_TILE = NV == 1 ? 14 : 12;
constexpr int GRADIENT_ROWS = 8;
#else
template <int NV>
constexpr int WIDE_TILE = NV == 1 ? 12 : 6;
template <int NV>
constexpr int NARROW_TILE = NV == 1 ? 10 : 5;
constexpr int GRADIENT_ROWS = 6;
#endif

// What becomes of the sums of a convolution: zero where `mask` is not above zero, then `skip` added. They go to `to`, or what is
// above zero of them, and that to `above` too. All lie alike.
struct Finish {
  float* to = nullptr;
  bool rectify = false;
  float* above = nullptr;
  const float *mask = nullptr, *skip = nullptr;

  void operator()(long at, vf x) const {
    if (mask != nullptr) x = load(mask + at) > 0.0f ? x : vf{};
    if (skip != nullptr) x += load(skip + at);
    if (to != nullptr) store(to + at, rectify ? relu(x) : x);
    if (above != nullptr) store(above + at, relu(x));
  }
};

// One convolution: kernels are packed [panel, 9, input channels, channels of the panel x F].
struct Convolution {
  long in, out;  // floats of a pixel: channels x F
  const float *kernel, *bias;
};

// MR pixels by NV vectors. S: floats of an input pixel, 0 if known only at run time. `x` is the first input pixel's upper left
// neighbour.
template <int F, int S, int NV, int MR>
inline void convolve_tile(const float* x, long in, long line, const float* kernel, const float* bias, long to, long out,
                          const Finish& finish) {
  const long pixel = S > 0 ? S : in, steps = 3 * pixel / F;
  vf s[MR][NV];
#pragma GCC unroll 32
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) s[i][j] = bias == nullptr ? vf{} : load(bias + j * VL);
  for (int dy = 0; dy < 3; ++dy, x += line * pixel) {
    const float* a = x;
    for (long k = 0; k < steps; ++k, a += F, kernel += NV * VL) {
      vf row[NV];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) row[j] = load(kernel + j * VL);
#pragma GCC unroll 32
      for (int i = 0; i < MR; ++i) {
        const vf one = spread<F>(a + i * pixel);
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) s[i][j] += one * row[j];
      }
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) finish(to + i * out + j * VL, s[i][j]);
}

template <int F, int S, int NV, int MR>
void convolve_tiles(const float* x, const Plane& plane, const Convolution& by, long panel, const float* kernel,
                    const Finish& finish, long from, long count) {
  const float* bias = by.bias == nullptr ? nullptr : by.bias + panel;
  for (long p = 0; p < count; p += MR) {
    // The last tile is moved back over pixels that are done: they become the same again.
    const long at = from + std::min(p, count - MR);
    convolve_tile<F, S, NV, MR>(x + (at - plane.line() - 1) * by.in, by.in, plane.line(), kernel, bias, at * by.out + panel,
                                by.out, finish);
  }
}

template <int F, int S, int NV>
void convolve_panel(const float* x, const Plane& plane, const Convolution& by, long panel, const float* kernel,
                    const Finish& finish, long from, long count) {
  constexpr long WIDE = WIDE_TILE<NV>, NARROW = NARROW_TILE<NV>;
  if (count < NARROW) {
    if (count < 4) return convolve_tiles<F, 0, NV, 1>(x, plane, by, panel, kernel, finish, from, count);
    return convolve_tiles<F, 0, NV, 4>(x, plane, by, panel, kernel, finish, from, count);
  }
  if (count < WIDE || round_up(count, NARROW) < round_up(count, WIDE))
    return convolve_tiles<F, S, NV, NARROW>(x, plane, by, panel, kernel, finish, from, count);
  convolve_tiles<F, S, NV, WIDE>(x, plane, by, panel, kernel, finish, from, count);
}

// The convolution of `count` pixels from the one at `from`. `finish` must not write what is read.
template <int F, int S>
void convolve_known(const float* x, const Plane& plane, const Convolution& by, const Finish& finish, long from, long count) {
  const float* kernel = by.kernel;
  for (long panel = 0; panel < by.out; panel += MOST_VECTORS * VL) {
    const bool both = by.out - panel >= 2 * VL;
    if (both) convolve_panel<F, S, 2>(x, plane, by, panel, kernel, finish, from, count);
    else convolve_panel<F, S, 1>(x, plane, by, panel, kernel, finish, from, count);
    kernel += 9 * by.in / F * (both ? 2 : 1) * VL;
  }
}

template <int F>
void convolve(const float* x, const Plane& plane, const Convolution& by, const Finish& finish, long from, long count) {
  if (by.in == 3 * F) return convolve_known<F, 3 * F>(x, plane, by, finish, from, count);
  if (by.in == 16) return convolve_known<F, 16>(x, plane, by, finish, from, count);
  if (by.in == 32) return convolve_known<F, 32>(x, plane, by, finish, from, count);
  if constexpr (F == 1) {
    if (by.in == 64) return convolve_known<F, 64>(x, plane, by, finish, from, count);
    if (by.in == 128) return convolve_known<F, 128>(x, plane, by, finish, from, count);
  }
  convolve_known<F, 0>(x, plane, by, finish, from, count);
}

template <int F>
void convolve(const float* x, const Plane& plane, const Convolution& by, const Finish& finish) {
  convolve<F>(x, plane, by, finish, plane.first(), plane.count());
}

// Adds to MR rows of a kernel's gradient, NV vectors wide, what `count` pixels give: `x` is the input that belongs to the first.
template <int F, int NV, int MR>
inline void gradient_tile(const float* x, long in, const float* g, long out, long count, float* to) {
  vf s[MR][NV];
#pragma GCC unroll 32
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) s[i][j] = load(to + (i * NV + j) * VL);
  for (long p = 0; p < count; ++p, x += in, g += out) {
    vf row[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) row[j] = load(g + j * VL);
#pragma GCC unroll 32
    for (int i = 0; i < MR; ++i) {
      const vf one = spread<F>(x + i * F);
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) s[i][j] += one * row[j];
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) store(to + (i * NV + j) * VL, s[i][j]);
}

template <int F, int NV>
void gradient_panel(const float* x, long in, long line, const float* g, long out, long count, float* to) {
  constexpr int ROWS = GRADIENT_ROWS * MOST_VECTORS / NV;
  const long rows = 3 * in / F;  // of the kernel, for each of its three lines
  for (int dy = 0; dy < 3; ++dy, x += line * in) {
    long k = 0;
    for (; k + ROWS <= rows; k += ROWS, to += ROWS * NV * VL) gradient_tile<F, NV, ROWS>(x + k * F, in, g, out, count, to);
    for (; k + 3 <= rows; k += 3, to += 3 * NV * VL) gradient_tile<F, NV, 3>(x + k * F, in, g, out, count, to);
    for (; k < rows; ++k, to += NV * VL) gradient_tile<F, NV, 1>(x + k * F, in, g, out, count, to);
  }
}

// Adds to a kernel's gradient, packed as the kernel, and to the bias's what `count` pixels from the one at `from` give: `g` is the
// gradient of what the convolution gave, zero between the lines.
template <int F>
void convolve_gradient(const float* x, const float* g, const Plane& plane, long in, long out, float* to, float* to_bias,
                       long from, long count) {
  // So many pixels that they and their gradients stay in the first cache.
  const long band = std::max(32L, 6144 / (in + out));
  for (long p = 0; p < count; p += band) {
    const long some = std::min(band, count - p), at = from + p;
    const float *first = x + (at - plane.line() - 1) * in, *grads = g + at * out;
    float* kernel = to;
    for (long panel = 0; panel < out; panel += MOST_VECTORS * VL) {
      const bool both = out - panel >= 2 * VL;
      if (both) gradient_panel<F, 2>(first, in, plane.line(), grads + panel, out, some, kernel);
      else gradient_panel<F, 1>(first, in, plane.line(), grads + panel, out, some, kernel);
      kernel += 9 * in / F * (both ? 2 : 1) * VL;
    }
    for (long c = 0; c < out; c += VL) {
      vf total = load(to_bias + c);
      for (long i = 0; i < some; ++i) total += load(grads + i * out + c);
      store(to_bias + c, total);
    }
  }
}

template <int F>
void convolve_gradient(const float* x, const float* g, const Plane& plane, long in, long out, float* to, float* to_bias) {
  convolve_gradient<F>(x, g, plane, in, out, to, to_bias, plane.first(), plane.count());
}

// The largest of 3x3 windows at every second place, first along columns, then along lines. What lies outside never wins; what is
// not a number always does.
inline vf larger(vf a, vf b) { return a != a ? a : vmax(a, b); }

// Of three places in a row the middle one is always inside.
class Windows {
 public:
  Windows(const Plane& plane, long S) : plane_(plane), S_(S), up_(plane.H % 2), left_(plane.W % 2) {}

  // The largest of each column of three lines, for line i of the result.
  void columns(float* to, const float* x, long i) const {
    const float* lines[3];
    find_lines(lines, x, i);
    for (long c = 0; c < plane_.W * S_; c += VL) {
      vf most = load(lines[1] + c);
      if (lines[0] != nullptr) most = larger(load(lines[0] + c), most);
      if (lines[2] != nullptr) most = larger(most, load(lines[2] + c));
      store(to + c, most);
    }
  }

  // Line i of the result to `to`, what is above zero of it to `above`; `columns` as above.
  void pool(float* to, float* above, const float* columns, long i) const {
    const Plane half = plane_.half();
    for (long j = 0; j < half.W; ++j) {
      const long x = 2 * j - left_, at = half.at(i, j) * S_;
      for (long c = 0; c < S_; c += VL) {
        vf most = load(columns + (x + 1) * S_ + c);
        if (x >= 0) most = larger(load(columns + x * S_ + c), most);
        if (x + 2 < plane_.W) most = larger(most, load(columns + (x + 2) * S_ + c));
        store(to + at + c, most);
        store(above + at + c, relu(most));
      }
    }
  }

  // Adds to the gradient of the image what that of line i of the result gives. Equal ones share, as jnp.maximum has it.
  void gradient(float* to, const float* x, const float* columns, float* by_column, const float* g, long i) const {
    const Plane half = plane_.half();
    std::memset(by_column, 0, plane_.W * S_ * sizeof(float));
    for (long j = 0; j < half.W; ++j) {
      const long at = 2 * j - left_;
      const long places[3] = {at >= 0 ? at : -1, at + 1 < plane_.W ? at + 1 : -1, at + 2 < plane_.W ? at + 2 : -1};
      for (long c = 0; c < S_; c += VL) {
        const float* values[3];
        float* shares[3];
        for (int n = 0; n < 3; ++n) {
          values[n] = places[n] < 0 ? nullptr : columns + places[n] * S_ + c;
          shares[n] = places[n] < 0 ? nullptr : by_column + places[n] * S_ + c;
        }
        share(shares, values, load(g + half.at(i, j) * S_ + c));
      }
    }
    const float* lines[3];
    find_lines(lines, x, i);
    for (long c = 0; c < plane_.W * S_; c += VL) {
      const float* values[3];
      float* shares[3];
      for (int n = 0; n < 3; ++n) {
        values[n] = lines[n] == nullptr ? nullptr : lines[n] + c;
        shares[n] = lines[n] == nullptr ? nullptr : to + (lines[n] - x) + c;
      }
      share(shares, values, load(by_column + c));
    }
  }

 private:
  void find_lines(const float** lines, const float* x, long i) const {
    for (int n = 0; n < 3; ++n) {
      const long y = 2 * i - up_ + n;
      lines[n] = y >= 0 && y < plane_.H ? x + plane_.at(y, 0) * S_ : nullptr;
    }
  }

  // g to the largest of three, max(max(a, b), c); those that are missing are below all.
  static void share(float* const* to, const float* const* values, vf g) {
    const vf below = splat(-__builtin_inff());
    const vf a = values[0] == nullptr ? below : load(values[0]), b = values[1] == nullptr ? below : load(values[1]);
    const vf c = values[2] == nullptr ? below : load(values[2]), ab = larger(a, b);
    const vf half = g * 0.5f, none = {};
    const vf of_ab = ab > c ? g : ab == c ? half : none, half_ab = of_ab * 0.5f;
    if (values[0] != nullptr) store(to[0], load(to[0]) + (a > b ? of_ab : a == b ? half_ab : none));
    if (values[1] != nullptr) store(to[1], load(to[1]) + (b > a ? of_ab : a == b ? half_ab : none));
    if (values[2] != nullptr) store(to[2], load(to[2]) + (c > ab ? g : c == ab ? half : none));
  }

  const Plane plane_;
  const long S_, up_, left_;
};

}  // namespace gtrxl
