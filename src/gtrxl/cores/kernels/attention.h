// Attention of segments to [memory, segment] with relative positions, forward and backward (attention.py has the equations).
//
// B streams, T queries, M memory slots, S = M + T keys, P = M + 1 distances (slot p of r is M - p steps back), H heads, K head
// width, I = H K. Inputs are laid out as the products with the weights leave them, so nothing is transposed outside.
//
// One head of one stream is a task. Its queries go in tiles; column j of a tile that begins at query t0 is key t0 + j. Query i
// of the tile has distance M + i - j to that key: it sees a range of columns that ends at M + i. The position score of slot p
// belongs in column i + p: position scores are key scores written with rows one longer.

#pragma once

#include <cmath>
#include <vector>

#include "layout.h"
#include "pool.h"
#include "vectors.h"

namespace gtrxl {

struct Sizes {
  long B, T, M, H, K, P, S, I;
  long Kp, Sp, Pp;  // K in whole vectors; keys and distances with room for the last vectors of a tile
  long rows, ld;    // of a tile of scores

  Sizes(long B, long T, long M, long H, long K) : B(B), T(T), M(M), H(H), K(K), P(M + 1), S(M + T), I(H * K) {
    Kp = round_up(K, VL);
    Sp = padded(S);
    Pp = padded(P);
    rows = std::min(T, M >= 192 ? 48L : 24L);
    ld = padded(M + rows);
  }
  long tile() const { return (rows + 1) * (ld + 1) + 4 * VL; }

 private:
  // Room for a vector more; not a multiple of 4096 bytes, which would put a column into one set of the cache.
  static long padded(long n) { return round_up(n + VL, 64) + VL; }
};

struct Inputs {
  const float *qkv, *memory, *r, *bias, *u, *v;
  const int32_t* horizon;
};

// x [n, K] at a stride, plus a bias and perhaps another vector, into rows of Kp floats.
inline void gather(float* to, const float* x, long n, long stride, const float* bias, const float* more, const Sizes& z) {
  constexpr long AHEAD = 12;  // rows lie pages apart, where the hardware does not prefetch
  for (long i = 0; i < n; ++i) {
    for (long k = 0; k < z.K && i + AHEAD < n; k += 16) __builtin_prefetch(x + (i + AHEAD) * stride + k);
    for (long k = 0; k < z.K; ++k) to[i * z.Kp + k] = x[i * stride + k] + bias[k] + (more ? more[k] : 0.0f);
    for (long k = z.K; k < z.Kp; ++k) to[i * z.Kp + k] = 0;
  }
}

// rows [n, Kp] to columns [K, ld], zeros behind them.
inline void transpose(float* to, const float* rows, long n, long ld, const Sizes& z) {
  for (long i = 0; i < n; i += VL)
    for (long k = 0; k < z.K; k += VL) {
      const long side = std::min<long>(VL, n - i), deep = std::min<long>(VL, z.K - k);
      vf square[VL];
#pragma GCC unroll 16
      for (int j = 0; j < VL; ++j) square[j] = load(rows + (i + std::min<long>(j, side - 1)) * z.Kp + k);
      transpose_square(square);
      for (long j = 0; j < deep; ++j) store(to + (k + j) * ld + i, square[j]);  // there is room for a vector behind the last
    }
  for (long k = 0; k < z.K; ++k) std::fill(to + k * ld + n, to + (k + 1) * ld, 0.0f);
}

// What one head of one stream needs in rows: keys or values, the memory's first.
inline void gather_keys(float* to, const Inputs& in, long b, long h, bool values, const Sizes& z) {
  const float* bias = in.bias + (values ? 2 : 1) * z.I + h * z.K;
  gather(to, in.memory + b * z.M * 2 * z.I + (values ? z.I : 0) + h * z.K, z.M, 2 * z.I, bias, nullptr, z);
  const float* own = in.qkv + b * z.T * 3 * z.I + (values ? 2 : 1) * z.I + h * z.K;
  gather(to + z.M * z.Kp, own, z.T, 3 * z.I, bias, nullptr, z);
}

// A tile of queries: its place, and the key columns and distances, both from j0 on, that any of its queries sees.
struct Tile {
  long t0, n, j0, width, key_columns, distances;
  Tile(const int32_t* horizon, long t0, const Sizes& z) : t0(t0), n(std::min(z.rows, z.T - t0)) {
    long farthest = 0;
    for (long i = 0; i < n; ++i) farthest = std::max<long>(farthest, horizon[t0 + i]);
    j0 = (z.M - farthest) / VL * VL;
    width = z.M + n;
    key_columns = width - j0;
    distances = z.P - j0;
  }
};

// Scores before the softmax, unscaled: (q + u) . k and (q + v) . r.
inline void compute_scores(float* s, const Tile& at, const float* qu, const float* qv, const float* keys_t, const float* r_t,
                  const Sizes& z) {
  product(at.n, round_up(at.key_columns, VL), z.K, qu, z.Kp, 1, keys_t + at.t0 + at.j0, z.Sp, s + at.j0, z.ld, false);
  product(at.n, round_up(at.distances, VL), z.K, qv, z.Kp, 1, r_t + at.j0, z.Pp, s + at.j0, z.ld + 1, true);
}

// The columns [first, last) that query i sees, and the whole vectors around them.
struct VisibleColumns {
  long first, last, from, to;
  VisibleColumns(long i, long horizon, const Tile& at, const Sizes& z)
      : first(z.M + i - horizon), last(z.M + i + 1), from(first / VL * VL), to(round_up(last, VL)) {}
  void fill_edges(float* row, float with) const {
    std::fill(row + from, row + first, with);
    std::fill(row + last, row + to, with);
  }
  void clear_outside(float* row, const Tile& at) const {
    std::fill(row + at.j0, row + first, 0.0f);
    std::fill(row + last, row + round_up(at.width, VL), 0.0f);
  }
};

// Of each query and head [B, H, T], for the gradient: the largest score, and one over the sum of the weights before they are
// divided by it. Not the logarithm of that sum on top of the largest score, in which it is lost where scores are large.
template <class Float>
struct Softmax {
  Float *max_score, *inverse_sum;
};

inline void forward_one(const Inputs& in, long b, long h, const float* r_t, float* attended, const Softmax<float>& softmax,
                        const Sizes& z) {
  thread_local Workspace keys_space, transposed_space, values_space, queries_space, scores_space;
  float* keys = keys_space.get(z.S * z.Kp);
  float* keys_t = transposed_space.get(z.K * z.Sp);
  float* values = values_space.get(z.S * z.Kp);
  float* qu = queries_space.get(3 * z.rows * z.Kp);
  float *qv = qu + z.rows * z.Kp, *y = qv + z.rows * z.Kp;
  float* s = scores_space.get(z.tile());
  gather_keys(keys, in, b, h, false, z);
  transpose(keys_t, keys, z.S, z.Sp, z);
  gather_keys(values, in, b, h, true, z);
  const int32_t* horizon = in.horizon + b * z.T;
  const float scale = 1.0f / std::sqrt(static_cast<float>(z.K));
  for (long t0 = 0; t0 < z.T; t0 += z.rows) {
    const Tile at(horizon, t0, z);
    const float* q = in.qkv + (b * z.T + t0) * 3 * z.I + h * z.K;
    gather(qu, q, at.n, 3 * z.I, in.bias + h * z.K, in.u + h * z.K, z);
    gather(qv, q, at.n, 3 * z.I, in.bias + h * z.K, in.v + h * z.K, z);
    compute_scores(s, at, qu, qv, keys_t, r_t, z);
    for (long i = 0; i < at.n; ++i) {
      float* row = s + i * z.ld;
      const VisibleColumns visible(i, horizon[t0 + i], at, z);
      visible.fill_edges(row, -INFINITY);
      vf maximum = splat(-INFINITY);
      for (long j = visible.from; j < visible.to; j += VL) maximum = vmax(maximum, load(row + j));
      const float max_score = max_lane(maximum);
      vf total = {};
      for (long j = visible.from; j < visible.to; j += VL) {
        const vf e = exponential((load(row + j) - max_score) * scale);
        total += e;
        store(row + j, e);
      }
      const float inverse_sum = 1.0f / sum(total);
      for (long j = visible.from; j < visible.to; j += VL) store(row + j, load(row + j) * inverse_sum);
      visible.clear_outside(row, at);
      const long query = (b * z.H + h) * z.T + t0 + i;
      softmax.max_score[query] = max_score;
      softmax.inverse_sum[query] = inverse_sum;
    }
    product(at.n, z.Kp, at.key_columns, s + at.j0, z.ld, 1, values + (t0 + at.j0) * z.Kp, z.Kp, y, z.Kp, false);
    for (long i = 0; i < at.n; ++i)
      std::copy(y + i * z.Kp, y + i * z.Kp + z.K, attended + (b * z.T + t0 + i) * z.I + h * z.K);
  }
}

// Sums over streams and steps that belong to one head: of r, and of the biases.
struct Sums {
  float *r, *u, *v, *bias_k, *bias_v;  // r [P, Kp], the others [Kp]
  static long floats(const Sizes& z) { return (z.P + 4) * z.Kp; }
  Sums(float* at, const Sizes& z) : r(at), u(at + z.P * z.Kp), v(u + z.Kp), bias_k(v + z.Kp), bias_v(bias_k + z.Kp) {}
};

inline void add_rows(float* to, const float* rows, long n, const Sizes& z) {
  for (long i = 0; i < n; ++i)
    for (long k = 0; k < z.Kp; k += VL) store(to + k, load(to + k) + load(rows + i * z.Kp + k));
}

struct Gradients {
  float *qkv, *memory;
};

inline void backward_one(const Inputs& in, const Softmax<const float>& softmax, const float* d_attended, long b, long h,
                         const float* r, const float* r_t, const Gradients& d, const Sums& sums, const Sizes& z) {
  thread_local Workspace keys_space, keys_t_space, values_t_space, queries_space;
  thread_local Workspace scores_space, d_scores_space, d_keys_space, d_values_space;
  float* keys = keys_space.get(z.S * z.Kp);
  float* keys_t = keys_t_space.get(z.K * z.Sp);
  float* values_t = values_t_space.get(z.K * z.Sp);
  float* d_keys = d_keys_space.get(z.S * z.Kp);
  float* d_values = d_values_space.get(z.S * z.Kp);
  float* qu = queries_space.get(5 * z.rows * z.Kp);
  float *qv = qu + z.rows * z.Kp, *dy = qv + z.rows * z.Kp, *d_qu = dy + z.rows * z.Kp, *d_qv = d_qu + z.rows * z.Kp;
  float *w = scores_space.get(z.tile()), *dw = d_scores_space.get(z.tile());
  gather_keys(keys, in, b, h, true, z);  // the values pass through the same space
  transpose(values_t, keys, z.S, z.Sp, z);
  gather_keys(keys, in, b, h, false, z);
  transpose(keys_t, keys, z.S, z.Sp, z);
  std::fill(d_keys, d_keys + z.S * z.Kp, 0.0f);
  std::fill(d_values, d_values + z.S * z.Kp, 0.0f);
  const std::vector<float> none(z.K, 0.0f);
  const int32_t* horizon = in.horizon + b * z.T;
  const float scale = 1.0f / std::sqrt(static_cast<float>(z.K));
  for (long t0 = 0; t0 < z.T; t0 += z.rows) {
    const Tile at(horizon, t0, z);
    const float* q = in.qkv + (b * z.T + t0) * 3 * z.I + h * z.K;
    gather(qu, q, at.n, 3 * z.I, in.bias + h * z.K, in.u + h * z.K, z);
    gather(qv, q, at.n, 3 * z.I, in.bias + h * z.K, in.v + h * z.K, z);
    gather(dy, d_attended + (b * z.T + t0) * z.I + h * z.K, at.n, z.I, none.data(), nullptr, z);
    compute_scores(w, at, qu, qv, keys_t, r_t, z);
    product(at.n, round_up(at.key_columns, VL), z.K, dy, z.Kp, 1, values_t + t0 + at.j0, z.Sp, dw + at.j0, z.ld, false);
    for (long i = 0; i < at.n; ++i) {
      // Softmax: dS = W (dW - sum_s W dW), with the same weights as forward. (attention.py says why not dY . Y for the sum.)
      float *row = w + i * z.ld, *d_row = dw + i * z.ld;
      const VisibleColumns visible(i, horizon[t0 + i], at, z);
      visible.fill_edges(row, -INFINITY);
      visible.fill_edges(d_row, 0.0f);
      const long query = (b * z.H + h) * z.T + t0 + i;
      const float max_score = softmax.max_score[query], inverse_sum = softmax.inverse_sum[query];
      vf total = {};
      for (long j = visible.from; j < visible.to; j += VL) {
        const vf weights = exponential((load(row + j) - max_score) * scale) * inverse_sum;
        total += weights * load(d_row + j);
        store(row + j, weights);
      }
      const float mean = sum(total);
      for (long j = visible.from; j < visible.to; j += VL) store(d_row + j, load(row + j) * (load(d_row + j) - mean) * scale);
      visible.clear_outside(row, at);
      visible.clear_outside(d_row, at);
    }
    const long first = (t0 + at.j0) * z.Kp;
    product(at.key_columns, z.Kp, at.n, w + at.j0, 1, z.ld, dy, z.Kp, d_values + first, z.Kp, true);
    product(at.key_columns, z.Kp, at.n, dw + at.j0, 1, z.ld, qu, z.Kp, d_keys + first, z.Kp, true);
    product(at.distances, z.Kp, at.n, dw + at.j0, 1, z.ld + 1, qv, z.Kp, sums.r + at.j0 * z.Kp, z.Kp, true);
    product(at.n, z.Kp, at.key_columns, dw + at.j0, z.ld, 1, keys + first, z.Kp, d_qu, z.Kp, false);
    product(at.n, z.Kp, at.distances, dw + at.j0, z.ld + 1, 1, r + at.j0 * z.Kp, z.Kp, d_qv, z.Kp, false);
    add_rows(sums.u, d_qu, at.n, z);
    add_rows(sums.v, d_qv, at.n, z);
    for (long i = 0; i < at.n; ++i) {
      float* to = d.qkv + (b * z.T + t0 + i) * 3 * z.I + h * z.K;
      for (long k = 0; k < z.K; ++k) to[k] = d_qu[i * z.Kp + k] + d_qv[i * z.Kp + k];
    }
  }
  add_rows(sums.bias_k, d_keys, z.S, z);
  add_rows(sums.bias_v, d_values, z.S, z);
  for (const bool value : {false, true}) {
    const float* from = value ? d_values : d_keys;
    float* to = d.memory + b * z.M * 2 * z.I + (value ? z.I : 0) + h * z.K;
    for (long s = 0; s < z.M; ++s) std::copy(from + s * z.Kp, from + s * z.Kp + z.K, to + s * 2 * z.I);
    to = d.qkv + b * z.T * 3 * z.I + (value ? 2 : 1) * z.I + h * z.K;
    for (long t = 0; t < z.T; ++t)
      std::copy(from + (z.M + t) * z.Kp, from + (z.M + t) * z.Kp + z.K, to + t * 3 * z.I);
  }
}

// Heads, and groups of streams where there are fewer heads than would keep the threads busy to the end.
struct Plan {
  long groups, tasks;
  Plan(const Sizes& z, long threads) : groups(std::min(z.B, std::max(1L, (8 * threads + z.H - 1) / z.H))), tasks(z.H * groups) {}
  long head(long task) const { return task / groups; }
  long begin(long task, const Sizes& z) const { return (task % groups) * z.B / groups; }
  long end(long task, const Sizes& z) const { return (task % groups + 1) * z.B / groups; }
};

inline void position_keys(float* rows, float* transposed, const Inputs& in, long h, const Sizes& z) {
  const std::vector<float> none(z.K, 0.0f);
  gather(rows, in.r + h * z.K, z.P, z.I, none.data(), nullptr, z);
  transpose(transposed, rows, z.P, z.Pp, z);
}

// Every head of every stream.
inline void attend_forward(const Inputs& in, float* attended, const Softmax<float>& softmax, int threads, const Sizes& z) {
  const Plan plan(z, threads);
  Pool::get().parallel_for(plan.tasks, threads, [&](int task) {
    thread_local Workspace rows_space, transposed_space;
    float *rows = rows_space.get(z.P * z.Kp), *transposed = transposed_space.get(z.K * z.Pp);
    const long h = plan.head(task);
    position_keys(rows, transposed, in, h, z);
    for (long b = plan.begin(task, z); b < plan.end(task, z); ++b) forward_one(in, b, h, transposed, attended, softmax, z);
  });
}

// d_r [P, I], d_bias [3 I], d_u and d_v [I].
inline void attend_backward(const Inputs& in, const Softmax<const float>& softmax, const float* d_attended, const Gradients& d,
                            float* d_r, float* d_bias, float* d_u, float* d_v, int threads, const Sizes& z) {
  const Plan plan(z, threads);
  thread_local Workspace partial_space;
  float* partial = partial_space.get(plan.tasks * Sums::floats(z));
  Pool::get().parallel_for(plan.tasks, threads, [&](int task) {
    thread_local Workspace rows_space, transposed_space;
    float *rows = rows_space.get(z.P * z.Kp), *transposed = transposed_space.get(z.K * z.Pp);
    const long h = plan.head(task);
    position_keys(rows, transposed, in, h, z);
    float* mine = partial + task * Sums::floats(z);
    std::fill(mine, mine + Sums::floats(z), 0.0f);
    const Sums sums(mine, z);
    for (long b = plan.begin(task, z); b < plan.end(task, z); ++b)
      backward_one(in, softmax, d_attended, b, h, rows, transposed, d, sums, z);
  });
  Pool::get().parallel_for(z.H, threads, [&](int h) {
    float* first = partial + h * plan.groups * Sums::floats(z);
    for (long g = 1; g < plan.groups; ++g) {
      const float* other = first + g * Sums::floats(z);
      for (long i = 0; i < Sums::floats(z); i += VL) store(first + i, load(first + i) + load(other + i));
    }
    const Sums sums(first, z);
    for (long p = 0; p < z.P; ++p) std::copy(sums.r + p * z.Kp, sums.r + p * z.Kp + z.K, d_r + p * z.I + h * z.K);
    for (long k = 0; k < z.K; ++k) {
      const long at = h * z.K + k;
      d_u[at] = sums.u[k];
      d_v[at] = sums.v[k];
      d_bias[at] = sums.u[k] + sums.v[k];
      d_bias[z.I + at] = sums.bias_k[k];
      d_bias[2 * z.I + at] = sums.bias_v[k];
    }
  });
}

}  // namespace gtrxl
