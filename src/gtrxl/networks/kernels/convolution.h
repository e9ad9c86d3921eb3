// 3x3 convolutions of one image that lies in the caches, their gradients, and max-pooling.
//
// An image is a row of pixels: a zero pixel stands between its lines, at the end of one and the beginning of the next, and lines
// of zeros above and below them. So the nine neighbours of a pixel are always there, at distances that do not depend on the
// pixel. A convolution may leave anything between the lines of what it writes: `clear_edges` makes the zeros afterwards.
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
// Pixels of a tile of a convolution, with so many vectors of channels: some in a row, zeros between lines among them, or LINES
// lines of a few. And rows of a tile of a kernel's gradient.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int LINES = 3, GRADIENT_ROWS = 8;
template <int NV>
constexpr int IN_A_ROW = NV == 1 ? 24 : 14;
template <int NV>
constexpr int IN_A_LINE = NV == 1 ? 8 : 4;
#else
constexpr int LINES = 3, GRADIENT_ROWS = 6;
template <int NV>
constexpr int IN_A_ROW = NV == 1 ? 12 : 6;
template <int NV>
constexpr int IN_A_LINE = NV == 1 ? 4 : 2;
#endif

// What becomes of the sums of a convolution: zero where `mask` is not above zero, then `skip` added. They go to `to`, or what is
// above zero of them, and that to `above` too. All lie alike.
struct Finish {
  float* to = nullptr;
  bool rectify = false;
  float* above = nullptr;
  const float *mask = nullptr, *skip = nullptr;

  // Calls with a function (place, sums) that has nothing left to decide. In line, or the sums would leave the registers.
  template <class Do>
  __attribute__((always_inline)) void decide(Do with) const {
    if (mask != nullptr && skip != nullptr)
      return with([this](long at, vf x) { store(to + at, load(skip + at) + (load(mask + at) > 0.0f ? x : vf{})); });
    if (mask != nullptr) return with([this](long at, vf x) { store(to + at, load(mask + at) > 0.0f ? x : vf{}); });
    if (rectify) return with([this](long at, vf x) { store(to + at, relu(x)); });
    if (skip == nullptr) return with([this](long at, vf x) { store(to + at, x); });
    if (above == nullptr) return with([this](long at, vf x) { store(to + at, load(skip + at) + x); });
    with([this](long at, vf x) {
      x += load(skip + at);
      store(to + at, x);
      store(above + at, relu(x));
    });
  }
};

// One convolution: kernels are packed [panel, 9, input channels, channels of the panel x F].
struct Convolution {
  long in, out;  // floats of a pixel: channels x F
  const float *kernel, *bias;
};

// Which lines of an image: from `begin` to before `end`.
struct Lines {
  long begin, end;
};

// R lines of P pixels by NV vectors. S: floats of an input pixel, 0 if known only at run time. `x` is the first input pixel's
// upper left neighbour.
template <int F, int S, int NV, int R, int P>
inline void convolve_tile(const float* x, const Plane& plane, const Convolution& by, const float* kernel, const float* bias,
                          long to, const Finish& finish) {
  const long pixel = S > 0 ? S : by.in, line = plane.line() * pixel, steps = 3 * pixel / F;
  vf s[R * P][NV];
#pragma GCC unroll 32
  for (int i = 0; i < R * P; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) s[i][j] = bias == nullptr ? vf{} : load(bias + j * VL);
  for (int dy = 0; dy < 3; ++dy, x += line) {
    const float* a = x;
#pragma GCC unroll 1
    for (long k = 0; k < steps; ++k, a += F, kernel += NV * VL) {
      asm("" : "+r"(a));  // or GCC keeps what it will read again in three steps, which costs more than reading it
      vf row[NV];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) row[j] = load(kernel + j * VL);
#pragma GCC unroll 32
      for (int i = 0; i < R * P; ++i) {
        const vf one = spread<F>(a + i / P * line + i % P * pixel);
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) s[i][j] += one * row[j];
      }
    }
  }
  finish.decide([&](auto how) __attribute__((always_inline)) {
#pragma GCC unroll 32
    for (int i = 0; i < R * P; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) how(to + (i / P * plane.line() + i % P) * by.out + j * VL, s[i][j]);
  });
}

// Tiles of R x P pixels over lines of `wide` pixels. The last ones are moved back over pixels that are done: they become the same
// again.
template <int F, int S, int NV, int R, int P>
void convolve_tiles(const float* x, const Plane& plane, const Convolution& by, long panel, const float* kernel,
                    const Finish& finish, const Lines& lines, long wide) {
  const float* bias = by.bias == nullptr ? nullptr : by.bias + panel;
  for (long y = lines.begin; y < lines.end; y += R)
    for (long i = 0; i < wide; i += P) {
      const long at = plane.at(std::min(y, lines.end - R), std::min(i, wide - P));
      convolve_tile<F, S, NV, R, P>(x + (at - plane.line() - 1) * by.in, plane, by, kernel, bias, at * by.out + panel, finish);
    }
}

template <int F, int S, int NV>
void convolve_panel(const float* x, const Plane& plane, const Convolution& by, long panel, const float* kernel,
                    const Finish& finish, const Lines& lines) {
  constexpr long ROW = IN_A_ROW<NV>, LINE = IN_A_LINE<NV>;
  const long high = lines.end - lines.begin, count = high * plane.line() - 1;
  const Lines one{lines.begin, lines.begin + 1};  // as if all pixels were in one line
  // With one vector every product is a load, and three lines have longer addresses.
  const long in_lines = round_up(high, LINES) * round_up(plane.W, LINE) * (NV == 1 ? 11 : 10), in_rows = 10 * round_up(count, ROW);
  if (high >= LINES && plane.W >= LINE && (in_lines <= in_rows || count < ROW))
    return convolve_tiles<F, S, NV, LINES, LINE>(x, plane, by, panel, kernel, finish, lines, plane.W);
  if (count >= ROW) return convolve_tiles<F, S, NV, 1, ROW>(x, plane, by, panel, kernel, finish, one, count);
  if (count >= 4) return convolve_tiles<F, 0, NV, 1, 4>(x, plane, by, panel, kernel, finish, one, count);
  convolve_tiles<F, 0, NV, 1, 1>(x, plane, by, panel, kernel, finish, one, count);
}

template <int F, int S>
void convolve_known(const float* x, const Plane& plane, const Convolution& by, const Finish& finish, const Lines& lines) {
  const float* kernel = by.kernel;
  for (long panel = 0; panel < by.out; panel += MOST_VECTORS * VL) {
    const bool both = by.out - panel >= 2 * VL;
    if (both) convolve_panel<F, S, 2>(x, plane, by, panel, kernel, finish, lines);
    else convolve_panel<F, S, 1>(x, plane, by, panel, kernel, finish, lines);
    kernel += 9 * by.in / F * (both ? 2 : 1) * VL;
  }
}

// The convolution of some lines. `finish` must not write what is read.
template <int F>
void convolve(const float* x, const Plane& plane, const Convolution& by, const Finish& finish, const Lines& lines) {
  if (by.in == 3 * F) return convolve_known<F, 3 * F>(x, plane, by, finish, lines);
  if (by.in == 16) return convolve_known<F, 16>(x, plane, by, finish, lines);
  if (by.in == 32) return convolve_known<F, 32>(x, plane, by, finish, lines);
  if constexpr (F == 1) {
    if (by.in == 64) return convolve_known<F, 64>(x, plane, by, finish, lines);
    if (by.in == 128) return convolve_known<F, 128>(x, plane, by, finish, lines);
  }
  convolve_known<F, 0>(x, plane, by, finish, lines);
}

template <int F>
void convolve(const float* x, const Plane& plane, const Convolution& by, const Finish& finish) {
  convolve<F>(x, plane, by, finish, {0, plane.H});
}

// Adds to MR rows of a kernel's gradient, NV vectors wide, what some lines give: `x` is the input that belongs to the first pixel.
template <int F, int NV, int MR>
inline void gradient_tile(const float* x, const Plane& plane, long in, const float* g, long out, long high, float* to) {
  vf s[MR][NV];
#pragma GCC unroll 32
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) s[i][j] = load(to + (i * NV + j) * VL);
  for (long y = 0; y < high; ++y, x += in, g += out)  // over the zeros between the lines
    for (long p = 0; p < plane.W; ++p, x += in, g += out) {
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
void gradient_panel(const float* x, const Plane& plane, long in, const float* g, long out, long high, float* to) {
  constexpr int ROWS = GRADIENT_ROWS * MOST_VECTORS / NV, OF_COLOURS = 9;
  const long rows = 3 * in / F;  // of the kernel, for each of its three lines
  for (int dy = 0; dy < 3; ++dy, x += plane.line() * in) {
    long k = 0;
    const auto tiles = [&](auto some) {
      constexpr int MR = decltype(some)::value;
      for (; k + MR <= rows; k += MR, to += MR * NV * VL) gradient_tile<F, NV, MR>(x + k * F, plane, in, g, out, high, to);
    };
    if (rows == OF_COLOURS) tiles(std::integral_constant<int, OF_COLOURS>{});
    tiles(std::integral_constant<int, ROWS>{});
    tiles(std::integral_constant<int, 3>{});
    tiles(std::integral_constant<int, 1>{});
  }
}

// Adds to a kernel's gradient, packed as the kernel, and to the bias's what some lines give: `g` is the gradient of what the
// convolution gave.
template <int F>
void convolve_gradient(const float* x, const float* g, const Plane& plane, long in, long out, float* to, float* to_bias,
                       const Lines& lines) {
  // So many lines that their pixels and gradients stay in the first cache.
  const long band = std::max({1L, 24 / plane.W, 6144 / ((in + out) * plane.W)});
  for (long y = lines.begin; y < lines.end; y += band) {
    const long high = std::min(band, lines.end - y), at = plane.at(y, 0);
    const float *first = x + (at - plane.line() - 1) * in, *grads = g + at * out;
    float* kernel = to;
    for (long panel = 0; panel < out; panel += MOST_VECTORS * VL) {
      const bool both = out - panel >= 2 * VL;
      if (both) gradient_panel<F, 2>(first, plane, in, grads + panel, out, high, kernel);
      else gradient_panel<F, 1>(first, plane, in, grads + panel, out, high, kernel);
      kernel += 9 * in / F * (both ? 2 : 1) * VL;
    }
    for (long c = 0; c < out; c += VL) {
      vf total = load(to_bias + c);
      for (long i = 0; i < high; ++i)
        for (long p = 0; p < plane.W; ++p) total += load(grads + (i * plane.line() + p) * out + c);
      store(to_bias + c, total);
    }
  }
}

template <int F>
void convolve_gradient(const float* x, const float* g, const Plane& plane, long in, long out, float* to, float* to_bias) {
  convolve_gradient<F>(x, g, plane, in, out, to, to_bias, {0, plane.H});
}

// The largest of 3x3 windows at every second place, first along columns, then along lines. What lies outside never wins; what is
// not a number always does.
inline vf larger(vf a, vf b) { return a != a ? a : vmax(a, b); }

// Of three places in a row the middle one is always inside.
class Windows {
 public:
  Windows(const Plane& plane, long S) : plane_(plane), S_(S), up_(plane.H % 2), left_(plane.W % 2) {}

  // Behind the last line of the image that line i of the result needs.
  long end(long i) const { return std::min(plane_.H, 2 * i - up_ + 3); }

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

  // Writes the gradient of the image that line i of the result gives, `g`; lines go in turn, because windows overlap. Equal ones
  // share, as jnp.maximum has it. Returns the first line of the image that is not done yet.
  long gradient(float* to, const float* x, const float* columns, float* by_column, const float* g, long i) const {
    const Plane half = plane_.half();
    for (long j = 0; j < half.W; ++j) {
      const long at = (2 * j - left_) * S_;
      const bool first = at >= 0, third = at + 2 * S_ < plane_.W * S_;
      for (long c = at; c < at + S_; c += VL)
        share(by_column + c, columns + c, columns + c + S_, columns + c + 2 * S_, S_, 2 * S_, first, third, j > 0,
              load(g + half.at(i, j) * S_ + c - at));
    }
    const float* lines[3];
    find_lines(lines, x, i);
    const long next = plane_.line() * S_;
    float* const middle = to + (lines[1] - x);
    for (long c = 0; c < plane_.W * S_; c += VL)
      share(middle - next + c, lines[1] - next + c, lines[1] + c, lines[1] + next + c, next, 2 * next, lines[0] != nullptr,
            lines[2] != nullptr, i > 0, load(by_column + c));
    return i + 1 < half.H ? 2 * (i + 1) - up_ : plane_.H;
  }

 private:
  void find_lines(const float** lines, const float* x, long i) const {
    for (int n = 0; n < 3; ++n) {
      const long y = 2 * i - up_ + n;
      lines[n] = y >= 0 && y < plane_.H ? x + plane_.at(y, 0) * S_ : nullptr;
    }
  }

  // g to the largest of three, max(max(a, b), c); the first or the third may be missing and is then below all. Shares go to `to`
  // and at two distances from it: the first is added, if a window before this one has been there.
  static inline void share(float* to, const float* pa, const float* pb, const float* pc, long second, long third, bool has_first,
                           bool has_third, bool add, vf g) {
    const vf below = splat(-__builtin_inff()), half = g * 0.5f, none = {};
    const vf a = has_first ? load(pa) : below, b = load(pb), c = has_third ? load(pc) : below, ab = larger(a, b);
    const vf of_ab = ab > c ? g : ab == c ? half : none, half_ab = of_ab * 0.5f;
    if (has_first) {
      const vf share_a = a > b ? of_ab : a == b ? half_ab : none;
      store(to, add ? load(to) + share_a : share_a);
    }
    store(to + second, b > a ? of_ab : a == b ? half_ab : none);
    if (has_third) store(to + third, c > ab ? g : c == ab ? half : none);
  }

  const Plane plane_;
  const long S_, up_, left_;
};

}  // namespace gtrxl
