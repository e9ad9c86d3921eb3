// Products of matrices beyond the caches, by all threads.
//
// The right matrix is copied, a block of its rows at a time, into panels as wide as a tile of vectors.h: all threads share them.
// A task takes a block of rows of the result, copies its part of the left matrix unless that is plain rows already, and goes
// through the panels. If the result has few rows, a panel is used too little to be worth sharing: then each thread copies the
// panels that it multiplies by, one at a time, while the next is prefetched. Every sum is taken in the same order in either way
// and with any number of threads.
#pragma once

#include <climits>
#include <cstring>

#include "pool.h"
#include "vectors.h"

namespace gtrxl {

constexpr long PANEL_WIDTH = WIDEST * VL;
constexpr long TILE_ROWS = 6;
constexpr long BLOCK_DEPTH = 576;  // rows of the right matrix in the panels at a time; a panel of them stays in the second cache
constexpr long BLOCK_ROWS = 192;   // rows of the result in a task; whole tiles

// The left matrix: its rows, or its columns if it is `transposed`, lie `ld` apart, in groups of `per` that lie `outer` apart.
// With `mean` and `factor`, x stands for (x - mean) * factor, one of each for every stored row; a factor of 0 makes zeros of all.
struct Left {
  const float* at;
  long ld;
  bool transposed = false;
  long per = LONG_MAX, outer = 0;
  const float *mean = nullptr, *factor = nullptr;

  const float* row(long i) const { return per == LONG_MAX ? at + i * ld : at + (i / per) * outer + (i % per) * ld; }
  bool is_plain() const { return !transposed && factor == nullptr && per == LONG_MAX; }

  // n floats of stored row i, from the one at `from`.
  void copy(float* to, long i, long from, long n) const {
    const float* x = row(i) + from;
    if (factor == nullptr) {
      std::memcpy(to, x, n * sizeof(float));
    } else if (factor[i] == 0) {
      std::memset(to, 0, n * sizeof(float));
    } else {
      const float shift = mean[i], by = factor[i];
      for (long k = 0; k < n; ++k) to[k] = (x[k] - shift) * by;
    }
  }
};

// The right matrix: its rows, or its columns if it is `transposed`, lie `ld` apart. With `scale`, stored row i is multiplied by
// scale[i].
struct Right {
  const float* at;
  long ld;
  bool transposed = false;
  const float* scale = nullptr;
};

// Rows p..p+deep and columns j..j+wide of b into a panel, zeros to the right of them.
inline void pack_panel(float* to, const Right& b, long p, long deep, long j, long wide) {
  constexpr long W = PANEL_WIDTH;
  if (!b.transposed) {
    for (long q = 0; q < deep; ++q) {
      const float* row = b.at + (p + q) * b.ld + j;
      const float by = b.scale == nullptr ? 1.0f : b.scale[p + q];
      if (wide == W) {
#pragma GCC unroll 4
        for (int v = 0; v < WIDEST; ++v) store(to + q * W + v * VL, load(row + v * VL) * by);
      } else {
        for (long i = 0; i < wide; ++i) to[q * W + i] = row[i] * by;
        std::fill(to + q * W + wide, to + (q + 1) * W, 0.0f);
      }
    }
    return;
  }
  for (long j0 = 0; j0 < W; j0 += VL)
    for (long q0 = 0; q0 < deep; q0 += VL) {
      const long rows = std::min<long>(VL, deep - q0), columns = std::min<long>(VL, wide - j0);
      const float* from = b.at + (j + j0) * b.ld + p + q0;
      float* at = to + q0 * W + j0;
      if (rows == VL && columns == VL) {
        vf square[VL];
#pragma GCC unroll 16
        for (int i = 0; i < VL; ++i) square[i] = load(from + i * b.ld);
        transpose_square(square);
        const vf by = b.scale == nullptr ? splat(1.0f) : load(b.scale + j + j0);
#pragma GCC unroll 16
        for (int i = 0; i < VL; ++i) store(at + i * W, square[i] * by);
      } else {
        for (long q = 0; q < rows; ++q)
          for (long i = 0; i < VL; ++i) {
            const float by = b.scale == nullptr || i >= columns ? 1.0f : b.scale[j + j0 + i];
            at[q * W + i] = i < columns ? from[i * b.ld + q] * by : 0.0f;
          }
      }
    }
}

// Rows q0..q1 of those p..p+deep of a transposed left matrix, where tiles of the result's m rows can read them. A cache line
// lies between tiles: at a power of two apart they would all go into one set of the cache.
constexpr long transposed_tile(long deep) { return TILE_ROWS * deep + 16; }

inline void pack_transposed(float* to, const Left& a, long m, long p, long deep, long q0, long q1) {
  constexpr long SOME = 16;  // rows that are copied together, so that what goes into a tile lies together
  thread_local Workspace space;
  float* lines = a.factor == nullptr ? nullptr : space.get(SOME * m);
  const float* from[SOME];
  for (long q = q0; q < q1; q += SOME) {
    const long some = std::min(SOME, q1 - q);
    for (long i = 0; i < some; ++i) {
      from[i] = a.factor == nullptr ? a.row(p + q + i) : lines + i * m;
      if (a.factor != nullptr) a.copy(lines + i * m, p + q + i, 0, m);
    }
    float* at = to + q * TILE_ROWS;
    long s = 0;
    for (; s + TILE_ROWS <= m; s += TILE_ROWS, at += transposed_tile(deep))
      for (long i = 0; i < some; ++i) std::memcpy(at + i * TILE_ROWS, from[i] + s, TILE_ROWS * sizeof(float));
    for (long i = 0; i < some; ++i)
      for (long t = s; t < m; ++t) at[i * TILE_ROWS + t - s] = from[i][t];
  }
}

// A block of the left matrix where tiles can read it: a[i, p] at `at` + i * row + p * column, for whole tiles of rows i.
struct Packed {
  const float* at;
  long row, column, tile;  // tile: from a tile of rows to the next

  Packed(const Left& a, const float* transposed, long i, long m, long p, long deep, Workspace& space) {
    if (a.transposed) {
      at = transposed + i / TILE_ROWS * transposed_tile(deep);
      row = 1;
      column = TILE_ROWS;
      tile = transposed_tile(deep);
    } else if (a.is_plain()) {
      at = a.at + i * a.ld + p;
      row = a.ld;
      column = 1;
      tile = TILE_ROWS * a.ld;
    } else {
      row = deep + VL;  // not a power of two here either
      column = 1;
      tile = TILE_ROWS * row;
      float* to = space.get(m * row);
      for (long s = 0; s < m; ++s) a.copy(to + s * row, i + s, p, deep);
      at = to;
    }
  }
};

template <int NV, class Fetch>
void panel_tiles(long m, long deep, const Packed& a, const float* panel, float* c, long ldc, bool add, Fetch& fetch) {
  const float* at = a.at;
  long i = 0;
  for (; i + TILE_ROWS <= m; i += TILE_ROWS, at += a.tile, c += TILE_ROWS * ldc)
    tile<TILE_ROWS, NV>(deep, at, a.row, a.column, panel, PANEL_WIDTH, c, ldc, add, fetch);
  if (i < m) last_rows<TILE_ROWS - 1, NV>(m - i, deep, at, a.row, a.column, panel, PANEL_WIDTH, c, ldc, add, fetch);
}

// c [m, wide] = (or +=) the block times a panel.
template <class Fetch = const NoPrefetch>
void panel_product(long m, long wide, long deep, const Packed& a, const float* panel, float* c, long ldc, bool add,
                   Fetch& fetch = NoPrefetch{}) {
  const auto into = [&](float* to, long ld, bool more) {
    switch ((wide + VL - 1) / VL) {
      case 1: return panel_tiles<1>(m, deep, a, panel, to, ld, more, fetch);
      case 2: return panel_tiles<2>(m, deep, a, panel, to, ld, more, fetch);
      case 3: return panel_tiles<(WIDEST > 2 ? 3 : 1)>(m, deep, a, panel, to, ld, more, fetch);
      default: return panel_tiles<WIDEST>(m, deep, a, panel, to, ld, more, fetch);
    }
  };
  if (wide % VL == 0) return into(c, ldc, add);
  float whole_vectors[BLOCK_ROWS * PANEL_WIDTH];  // then the columns that count are copied
  into(whole_vectors, PANEL_WIDTH, false);
  for (long i = 0; i < m; ++i)
    for (long j = 0; j < wide; ++j) c[i * ldc + j] = whole_vectors[i * PANEL_WIDTH + j] + (add ? c[i * ldc + j] : 0.0f);
}

// Prefetches the part of a matrix that will be copied into a panel, a cache line at a step.
struct PrefetchRows {
  static constexpr bool STREAMS = false;
  const char* at;
  long left, wide, jump, by;  // bytes: of this row, of a row, from the end of a row to the next; at a step

  // Rows p..p+deep and columns j..j+columns of b, in so many steps.
  PrefetchRows(const Right& b, long p, long deep, long j, long columns, long steps) {
    const long rows = b.transposed ? columns : deep;
    wide = 4 * (b.transposed ? deep : columns);
    at = reinterpret_cast<const char*>(b.transposed ? b.at + j * b.ld + p : b.at + p * b.ld + j);
    jump = 4 * b.ld - wide;
    left = wide;
    by = std::min<long>(Prefetch::LINE, (rows * wide + steps - 1) / steps);
  }
  void step() {
    __builtin_prefetch(at, 0, 2);
    at += by;
    left -= by;
    if (left <= 0) {
      at += jump + left;  // what is left is negative if the last step went too far
      left = wide;
    }
  }
};

// c [m, n] for few rows m: each thread packs the panels that it multiplies by, one at a time.
inline void multiply_few_rows(long m, long n, long k, long depth, const Left& a, const Right& b, float* c, long ldc, bool add,
                         int threads) {
  const long panels = (n + PANEL_WIDTH - 1) / PANEL_WIDTH, tasks = std::min<long>(threads, panels);
  const long steps = (m + TILE_ROWS - 1) / TILE_ROWS * depth;
  Pool::get().parallel_for(tasks, threads, [&](int task) {
    thread_local Workspace space, left_space;
    float* const packed = space.get(PANEL_WIDTH * depth);
    const long end = panels * (task + 1) / tasks;
    for (long j = panels * task / tasks; j < end; ++j) {
      const long column = j * PANEL_WIDTH, wide = std::min(PANEL_WIDTH, n - column);
      for (long p = 0; p < k; p += depth) {
        const long deep = std::min(depth, k - p);
        pack_panel(packed, b, p, deep, column, wide);
        const bool down = p + depth < k, on = j + 1 < end;
        const long next_p = down ? p + depth : 0, next_column = down || !on ? column : column + PANEL_WIDTH;
        PrefetchRows fetch(b, next_p, std::min(depth, k - next_p), next_column, std::min(PANEL_WIDTH, n - next_column), steps);
        const Packed left(a, nullptr, 0, m, p, deep, left_space);
        panel_product(m, wide, deep, left, packed, c + column, ldc, add || p > 0, fetch);
      }
    }
  });
}

// Floats of a result that is better kept out of the caches if nobody reads it soon.
constexpr long FAR = 1L << 17;

// c [m, n] = (or +=) a [m, k] b [k, n], rows of c at a stride. What is `not_read_soon` may bypass the caches.
inline void multiply(long m, long n, long k, const Left& a, const Right& b, float* c, long ldc, bool add, int threads,
                     bool not_read_soon = false) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (long i = 0; i < m && !add; ++i) std::fill(c + i * ldc, c + i * ldc + n, 0.0f);
    return;
  }
  if (static_cast<double>(m) * n * k < 3e5) threads = 1;
  thread_local Workspace panels_space, transposed_space;
  const long panels = (n + PANEL_WIDTH - 1) / PANEL_WIDTH;
  const long depth_blocks = (k + BLOCK_DEPTH - 1) / BLOCK_DEPTH, depth = round_up((k + depth_blocks - 1) / depth_blocks, VL);
  if (m <= BLOCK_ROWS && panels >= threads && a.is_plain()) return multiply_few_rows(m, n, k, depth, a, b, c, ldc, add, threads);
  float* packed = panels_space.get(panels * PANEL_WIDTH * depth);
  float* transposed = a.transposed ? transposed_space.get(round_up(m, TILE_ROWS) / TILE_ROWS * transposed_tile(depth)) : nullptr;
  const long row_blocks = std::max((m + BLOCK_ROWS - 1) / BLOCK_ROWS, std::min<long>(threads, (m + TILE_ROWS - 1) / TILE_ROWS));
  const long block = round_up((m + row_blocks - 1) / row_blocks, TILE_ROWS);
  // Tasks enough for all threads to be busy to the end.
  const long groups = threads == 1 ? 1 : std::min(panels, (6 * threads + row_blocks - 1) / row_blocks);
  const bool streams = not_read_soon && !add && k <= depth && m * n >= FAR && can_stream(c, n, ldc);
  const long rights = std::min(panels, 4L * threads), lefts = a.transposed ? 4L * threads : 0;
  for (long p = 0; p < k; p += depth) {
    const long deep = std::min(depth, k - p);
    Pool::get().parallel_for(rights + lefts, threads, [&](int task) {
      for (long j = panels * task / rights; task < rights && j < panels * (task + 1) / rights; ++j)
        pack_panel(packed + j * PANEL_WIDTH * deep, b, p, deep, j * PANEL_WIDTH, std::min(PANEL_WIDTH, n - j * PANEL_WIDTH));
      const long left = task - rights;
      if (left >= 0) pack_transposed(transposed, a, m, p, deep, deep * left / lefts, deep * (left + 1) / lefts);
    });
    Pool::get().parallel_for(row_blocks * groups, threads, [&](int task) {
      thread_local Workspace space;
      const long i = (task / groups) * block, rows = std::min(block, m - i), group = task % groups;
      if (rows <= 0) return;
      const Packed left(a, transposed, i, rows, p, deep, space);
      const auto through = [&](const auto& fetch) {
        for (long j = panels * group / groups; j < panels * (group + 1) / groups; ++j)
          panel_product(rows, std::min(PANEL_WIDTH, n - j * PANEL_WIDTH), deep, left, packed + j * PANEL_WIDTH * deep,
                        c + i * ldc + j * PANEL_WIDTH, ldc, add || p > 0, fetch);
      };
      if (streams) {
        through(StreamingStores{});
        finish_streams();
      } else {
        through(NoPrefetch{});
      }
    });
  }
}

}  // namespace gtrxl
