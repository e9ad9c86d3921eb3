// One step of B streams through a whole stack of layers (transformer.py has the contract).
//
// L layers, B streams, E inputs, D width, F MLP width, H heads, K head width, P = M + 1 ring slots. A name with a p behind it
// (Dp, Kp) is that width in whole groups of floats (GROUP); the rest is zero. Weights are packed (acting.py, layout.h),
// matrices in panels of PANEL columns, so that they are read from end to end.
//
// Attention reads the memory's rows (after the first norm, where that stands before attention), and no cached keys or values,
// which would be twice as many bytes. A head's query goes through its key weights instead, q . (W x) = (W' q) . x, and the
// weighted sum of rows through its value weights. That is more arithmetic, but a row is read once for all heads, while the next
// are prefetched.
//
// Small stacks fit into the caches: each thread takes some of the streams through all layers. Large ones are read from memory:
// all threads work on all streams, each on its part of every matrix and of the memories, and nothing is read twice.

#include <cmath>

#include "boundary.h"
#include "pool.h"
#include "vectors.h"

namespace gtrxl {
namespace {

constexpr long LARGE = 2L << 20;  // floats of weights; above it all threads work as one team

struct Stack {
  long L, B, E, D, F, H, K, P;  // E: inputs, before the embedding
  long Dp, Fp, Kp, Pp, Ip;  // Ip: all heads side by side, each Kp wide
  GateKind gate;
  bool norm_inputs;
};

using Layer = PackedLayer;
using Gate = PackedLayer::Gate;

// Floats from the beginning of a layer to its first matrix.
long before_queries(const Stack& z) {
  const Layer layer(nullptr, z);
  return layer.queries - layer.scale_1;
}

// One thread of a team that works on the same streams.
struct Worker {
  int rank, team;
  Barrier* barrier;
  void sync() const { barrier->wait(); }
  // This worker's part of n things.
  long begin(long n) const { return n * rank / team; }
  long end(long n) const { return n * (rank + 1) / team; }
};

constexpr long panels_of(long n) { return (n + PANEL - 1) / PANEL; }

// Panel p of c [m, n] = (or +=) a [m, k] w, rows of c at a stride. As many bytes are prefetched
// from `prefetch`, which is read next.
void panel(long p, long m, long n, long k, const float* a, long lda, const float* w, float* c, long ldc, bool add,
           const float* prefetch) {
  const long columns = std::min(PANEL, n - p * PANEL);
  const float* const from = w + p * PANEL * k;
  const long tiles = (m + rows_of_tile<WIDEST>() - 1) / rows_of_tile<WIDEST>(), by = columns * 4 / tiles;
  if (by <= 2 * Prefetch::LINE) {
    Prefetch fetch{reinterpret_cast<const char*>(prefetch), by};
    product(m, columns, k, a, lda, 1, from, columns, c + p * PANEL, ldc, add, fetch);
  } else {  // too little work to hide a prefetch
    product(m, columns, k, a, lda, 1, from, columns, c + p * PANEL, ldc, add);
  }
}

// Where this worker begins to read w, of n columns and k rows.
const float* start(const Worker& me, const float* w, long n, long k) { return w + me.begin(panels_of(n)) * PANEL * k; }

// c [m, n] = (or +=) a [m, k] w, this worker's panels of it; then the epilogue `each`(row, column) for all their vectors.
template <class Each>
void dense(const Worker& me, long m, long n, long k, const float* a, long lda, const float* w, float* c, bool add,
           const float* prefetch, Each each) {
  for (long p = me.begin(panels_of(n)), end = me.end(panels_of(n)); p < end; ++p) {
    panel(p, m, n, k, a, lda, w, c, n, add, p + 1 < end ? w + (p + 1) * PANEL * k : prefetch);
    for (long i = 0; i < m; ++i)
      for (long d = p * PANEL; d < std::min((p + 1) * PANEL, n); d += VL) each(i, d);
  }
}

void normalise(float* to, const float* x, const float* scale, const float* offset, long m, const Stack& z) {
  const long full_vectors = z.D / VL * VL;
  for (long i = 0; i < m; i += QUAD) {  // four rows at a time, so that none waits for another
    const float* row[QUAD];
    float mean[VL], factor[VL];
    vf part[QUAD];
    for (int j = 0; j < QUAD; ++j) row[j] = x + std::min(i + j, m - 1) * z.Dp;
    for (int j = 0; j < QUAD; ++j) {
      part[j] = vf{};
      for (long d = 0; d < full_vectors; d += VL) part[j] += load(row[j] + d);
    }
    store(mean, sum_of_quads(sums_of_quads(part)));
    for (int j = 0; j < QUAD; ++j) {
      for (long d = full_vectors; d < z.D; ++d) mean[j] += row[j][d];
      mean[j] /= z.D;
    }
    for (int j = 0; j < QUAD; ++j) {
      part[j] = vf{};
      for (long d = 0; d < full_vectors; d += VL) part[j] += (load(row[j] + d) - mean[j]) * (load(row[j] + d) - mean[j]);
    }
    store(factor, sum_of_quads(sums_of_quads(part)));
    for (int j = 0; j < QUAD; ++j) {
      for (long d = full_vectors; d < z.D; ++d) factor[j] += (row[j][d] - mean[j]) * (row[j][d] - mean[j]);
      factor[j] = 1.0f / std::sqrt(factor[j] / z.D + EPSILON);
    }
    for (int j = 0; j < QUAD && i + j < m; ++j) {
      float* const at = to + (i + j) * z.Dp;
      for (long d = 0; d < z.Dp; d += VL)
        store(at + d, (load(row[j] + d) - mean[j]) * factor[j] * load(scale + d) + load(offset + d));
      std::fill(at + z.D, at + z.Dp, 0.0f);  // an infinite number times the zeros of a matrix is none, and may stand there
    }
  }
}

// each(row, column) for the vectors of this worker's rows.
template <class Each>
void elementwise(const Worker& me, long m, long width, Each each) {
  for (long i = me.begin(m); i < me.end(m); ++i)
    for (long d = 0; d < width; d += VL) each(i, d);
}

// Into how many parts a stream's memory is cut: workers take whole streams, or with fewer streams than workers a part of each.
constexpr long parts_of(int team, long m) { return m >= team ? 1 : team; }

// The number of heads filled up to whole vectors of quads, as `dots` takes them.
constexpr long padded_heads(long H) { return round_up(H, QUADS); }

// Workspace for m streams that the whole team shares.
struct Shared {
  float *q, *row_queries, *position_scores, *row_sums, *max_score, *exp_sum;
  float *attended, *out, *hidden, *mlp, *rz, *g, *spare, *streams[2];
  long Hn, position_stride;  // from one head's position scores to the next's

  // A head's position scores, farthest distance first, end at Pp and are repeated from the start: so the scores of successive
  // slots are contiguous, wherever in the ring the cursor is.
  static constexpr long position_stride_of(const Stack& z) { return round_up(z.Pp + z.P + QUAD, GROUP); }
  static long floats(long m, int team, const Stack& z) {
    const long parts = parts_of(team, m), Hn = padded_heads(z.H);
    const long heads = Hn * (z.Dp + position_stride_of(z)) + parts * Hn * (z.Dp + 2 * QUAD);
    return GROUP + m * (2 * z.Ip + heads + 8 * z.Dp + z.Fp) + 3 * GROUP;
  }
  Shared(float* at, long m, int team, const Stack& z) {
    const long parts = parts_of(team, m);
    Hn = padded_heads(z.H);
    position_stride = position_stride_of(z);
    q = at;
    row_queries = q + m * z.Ip;
    position_scores = row_queries + m * Hn * z.Dp;
    row_sums = position_scores + m * Hn * position_stride;
    attended = row_sums + m * parts * Hn * z.Dp;
    out = attended + m * z.Ip;
    hidden = out + m * z.Dp;
    mlp = hidden + m * z.Fp;
    rz = mlp + m * z.Dp;
    g = rz + m * 2 * z.Dp;
    spare = g + m * z.Dp;
    streams[0] = spare + m * z.Dp;
    streams[1] = streams[0] + m * z.Dp;
    max_score = streams[1] + m * z.Dp;
    exp_sum = max_score + m * parts * Hn * QUAD;
  }
};

// `to` = gate(skip = x [m, Dp], update = y [m, Dp]). The whole team is done with it, and with x and y, on return.
void apply_gate(const Worker& me, const Gate& gate, float* to, const float* x, const float* y, const Shared& shared, long m,
          const Stack& z, const float* prefetch) {
  const long w = z.Dp;
  const auto begin = [&](const float* matrix, long n) { return start(me, matrix, n, z.D); };
  const auto no_epilogue = [](long, long) {};
  float *rz = shared.rz, *g = shared.g, *spare = shared.spare;
  switch (z.gate) {
    case RESIDUAL:
      elementwise(me, m, w, [&](long i, long d) { store(to + i * w + d, load(x + i * w + d) + load(y + i * w + d)); });
      break;
    case INPUT:
    case OUTPUT:
    case HIGHWAY:
      dense(me, m, w, z.D, x, w, gate.w, g, false, prefetch, [&](long i, long d) {
        const vf xs = load(x + i * w + d), ys = load(y + i * w + d), a = load(g + i * w + d), b = load(gate.bias + d);
        vf result;
        if (z.gate == INPUT) {
          result = sigmoid(a) * xs + ys;
        } else if (z.gate == OUTPUT) {
          result = xs + sigmoid(a - b) * ys;
        } else {
          const vf carry = sigmoid(a + b);
          result = carry * xs + (1.0f - carry) * ys;
        }
        store(to + i * w + d, result);
      });
      break;
    case SIGTANH:
      dense(me, m, 2 * w, z.D, y, w, gate.w, rz, false, prefetch, no_epilogue);
      me.sync();
      elementwise(me, m, w, [&](long i, long d) {
        const vf opening = load(rz + i * 2 * w + d) - load(gate.bias + d), content = load(rz + i * 2 * w + w + d);
        store(to + i * w + d, load(x + i * w + d) + sigmoid(opening) * tanh(content));
      });
      break;
    case GRU:
      dense(me, m, 2 * w, z.D, y, w, gate.w, rz, false, begin(gate.u_rz, 2 * w), no_epilogue);
      dense(me, m, 2 * w, z.D, x, w, gate.u_rz, rz, true, begin(gate.w_g, w), [&](long i, long d) {
        const vf a = load(rz + i * 2 * w + d);
        if (d < w) store(spare + i * w + d, sigmoid(a) * load(x + i * w + d));
        else store(rz + i * 2 * w + d, sigmoid(a - load(gate.bias + d - w)));
      });
      dense(me, m, w, z.D, y, w, gate.w_g, g, false, begin(gate.u_g, w), no_epilogue);
      me.sync();
      dense(me, m, w, z.D, spare, w, gate.u_g, g, true, prefetch, [&](long i, long d) {
        const vf open = load(rz + i * 2 * w + w + d);
        store(to + i * w + d, (1.0f - open) * load(x + i * w + d) + open * tanh(load(g + i * w + d)));
      });
      break;
  }
  me.sync();
}

// Dot products of n rows, Dp wide, with the queries of the heads. `quad_queries` has GN vectors for every quad of a row, in which
// the same quad of several heads lies side by side; vector t * groups + g of the scores has rows 4 t to 4 t + 3 for each of its
// heads. SN rows at a time, of which there are ALL or only n.
template <int GN, int SN, bool ALL>
__attribute__((noinline)) void dots(vf* scores, const vf* quad_queries, long groups, const float* rows, long n, long Dp,
                                    Prefetch& fetch) {
  const auto row = [&](long j) { return rows + (ALL ? j : std::min(j, n - 1)) * Dp; };
  Prefetch ahead = fetch;
  vf dot[GN][SN];
#pragma GCC unroll 2
  for (int g = 0; g < GN; ++g)
#pragma GCC unroll 16
    for (int j = 0; j < SN; ++j) dot[g][j] = vf{};
  for (long d = 0; d < Dp; d += GROUP)
#pragma GCC unroll 4
    for (int e = 0; e < GROUP; e += QUAD, quad_queries += groups) {
      ahead.step();
#pragma GCC unroll 16
      for (int j = 0; j < SN; ++j) {
        const vf x = broadcast_quad(row(j) + d + e);
#pragma GCC unroll 2
        for (int g = 0; g < GN; ++g) dot[g][j] += quad_queries[g] * x;
      }
    }
#pragma GCC unroll 2
  for (int g = 0; g < GN; ++g)
#pragma GCC unroll 4
    for (int j = 0; j < SN; j += QUAD) scores[j / QUAD * groups + g] = sums_of_quads(dot[g] + j);
  fetch = ahead;
}

constexpr int rows_at_once(int GN) { return VL == 16 ? 16 / GN : QUAD; }

template <int GN>
void dots_of_all(vf* scores, const vf* quad_queries, long groups, const float* rows, long n, long Dp, Prefetch& fetch) {
  constexpr int SN = rows_at_once(GN);
  long s = 0;
  const auto at = [&] { return scores + s / QUAD * groups; };
  for (; n - s >= SN; s += SN) dots<GN, SN, true>(at(), quad_queries, groups, rows + s * Dp, n - s, Dp, fetch);
  for (; n - s >= QUAD; s += QUAD) dots<GN, QUAD, true>(at(), quad_queries, groups, rows + s * Dp, n - s, Dp, fetch);
  if (s < n) dots<GN, QUAD, false>(at(), quad_queries, groups, rows + s * Dp, n - s, Dp, fetch);
}

struct SlotRange {
  long first, last;
};

// The attention of all heads of one stream to some of its slots, by an online softmax: sums of rows with weights
// e^(score - max_score), and sums of the weights, rescaled when a larger score comes. Heads lie side by side in vectors, a quad
// each: its max_score four times, and four partial sums in exp_sum.
struct OnlineSoftmax {
  float *row_sums, *max_score, *exp_sum;  // [Hn, Dp], [Hn, 4], [Hn, 4]
  long Hn, position_stride;
  const Stack& z;
  vf *quad_queries, *scores;  // workspace: the queries, and a tile's scores
  float* weights;

  static constexpr long lds(long n) { return round_up(n, QUAD) + QUAD; }

  void load_queries(const float* row_queries) const {
    const long groups = Hn / QUADS;
    for (long d = 0; d < z.Dp; d += QUAD)
      for (long g = 0; g < groups; ++g)
        quad_queries[d / QUAD * groups + g] = load_quads(row_queries + g * QUADS * z.Dp + d, z.Dp);
  }

  void clear() const {
    std::fill(row_sums, row_sums + Hn * z.Dp, 0.0f);
    std::fill(max_score, max_score + Hn * QUAD, -INFINITY);
    std::fill(exp_sum, exp_sum + Hn * QUAD, 0.0f);
  }

  // n more rows, or the `first` ones. What is read next is prefetched from `prefetch`.
  void add_rows(const float* rows, long n, const float* position_scores, bool first, const float* prefetch) const {
    const long H = z.H, Dp = z.Dp, groups = Hn / QUADS, blocks = (n + QUAD - 1) / QUAD;
    const float scale = 1.0f / std::sqrt(static_cast<float>(z.K));
    // As many bytes are prefetched as these rows have, evenly over the steps of both products.
    constexpr int FEW = WIDEST > 2 ? 2 : WIDEST;
    const bool many = H > rows_of_tile<WIDEST>();
    const long steps = n * Dp / QUAD * (groups / 2) / rows_at_once(2) + n * Dp / QUAD * (groups % 2) / rows_at_once(1) +
                       n * round_up(Dp, (many ? FEW : WIDEST) * VL) / ((many ? FEW : WIDEST) * VL);
    Prefetch fetch{reinterpret_cast<const char*>(prefetch), std::min(2 * Prefetch::LINE, (n * Dp * 4 + steps - 1) / steps)};
    long g = 0;
    for (; g + 2 <= groups; g += 2) dots_of_all<2>(scores + g, quad_queries + g, groups, rows, n, Dp, fetch);
    if (g < groups) dots_of_all<1>(scores + g, quad_queries + g, groups, rows, n, Dp, fetch);
    for (g = 0; g < groups; ++g) {
      const float* const group_positions = position_scores + g * QUADS * position_stride;
      float* const group_weights = weights + g * QUADS * lds(n);
      vf top = splat(-INFINITY), total = {};
      for (long t = 0; t < blocks; ++t) {
        vf& x = scores[t * groups + g];
        x = (x + load_quads(group_positions + t * QUAD, position_stride)) * scale;
        if (n - t * QUAD < QUAD) x = first_of_quads(n - t * QUAD) ? x : splat(-INFINITY);
        top = vmax(top, x);
      }
      top = max_of_quads(top);
      if (!first) {
        const vf before = load(max_score + g * VL);
        top = vmax(top, before);
        const vf rescale = exponential(before - top);
        total = load(exp_sum + g * VL) * rescale;
        for (long h = g * QUADS; h < std::min((g + 1) * QUADS, H); ++h)
          if (const float by = rescale[(h - g * QUADS) * QUAD]; by != 1.0f)
            for (long d = 0; d < Dp; d += VL) store(row_sums + h * Dp + d, load(row_sums + h * Dp + d) * by);
      }
      for (long t = 0; t < blocks; ++t) {
        const vf e = exponential(scores[t * groups + g] - top);
        total += e;  // rows beyond n add e^-87
        store_quads(group_weights + t * QUAD, lds(n), e);
      }
      store(max_score + g * VL, top);
      store(exp_sum + g * VL, total);
    }
    if (many) product<FEW>(H, Dp, n, weights, lds(n), 1, rows, Dp, row_sums, Dp, !first, fetch);
    else product(H, Dp, n, weights, lds(n), 1, rows, Dp, row_sums, Dp, !first, fetch);
  }
};

struct Rings {
  float *inputs, *seen;  // [B, P, L, D] and [L, B, P, Dp]
  const int32_t* filled;
  const bool* reset;
  long cursor;
};

// The queries of each head through its key weights (`row_queries`), and their position scores, farthest distance first: this
// worker's panels of both products.
struct Projections {
  const Layer& layer;
  const Stack& z;
  long key_panels, position_panels, panels_of_head;

  Projections(const Layer& layer, const Stack& z)
      : layer(layer),
        z(z),
        key_panels(panels_of(z.Dp)),
        position_panels(panels_of(z.Pp)),
        panels_of_head(key_panels + position_panels) {}

  const float* at(long i) const {
    const long h = i / panels_of_head, p = i % panels_of_head;
    return p < key_panels ? layer.keys + h * z.K * z.Dp + p * PANEL * z.K
                          : layer.positions + h * z.K * z.Pp + (p - key_panels) * PANEL * z.K;
  }

  const float* start(const Worker& me) const { return at(me.begin(z.H * panels_of_head)); }

  void project(const Worker& me, long m, long cursor, const Shared& shared, const float* prefetch) const {
    thread_local Workspace space;
    float* query = space.get(2 * m * z.Kp);
    long made = -1;
    for (long b = 0; b < m && me.rank == 0 && z.H < shared.Hn; ++b) {  // heads that only fill up a vector
      const long from = b * shared.Hn + z.H, to = (b + 1) * shared.Hn;
      std::fill(shared.row_queries + from * z.Dp, shared.row_queries + to * z.Dp, 0.0f);
      float* const positions = shared.position_scores;
      std::fill(positions + from * shared.position_stride, positions + to * shared.position_stride, 0.0f);
    }
    for (long i = me.begin(z.H * panels_of_head), end = me.end(z.H * panels_of_head); i < end; ++i) {
      const long h = i / panels_of_head, p = i % panels_of_head;
      if (h != made) {
        for (long b = 0; b < m; ++b)
          for (long k = 0; k < z.Kp; k += VL) {
            const vf q = load(shared.q + b * z.Ip + h * z.Kp + k);
            store(query + b * z.Kp + k, q + load(layer.u + h * z.Kp + k));
            store(query + (m + b) * z.Kp + k, q + load(layer.v + h * z.Kp + k));
          }
        made = h;
      }
      const float* const following = i + 1 < end ? at(i + 1) : prefetch;
      if (p < key_panels) {
        panel(p, m, z.Dp, z.K, query, z.Kp, layer.keys + h * z.K * z.Dp, shared.row_queries + h * z.Dp, shared.Hn * z.Dp, false,
              following);
        continue;
      }
      float* const position_scores = shared.position_scores + h * shared.position_stride;
      const long stride = shared.Hn * shared.position_stride, from = (p - key_panels) * PANEL;
      const float* const position_keys = layer.positions + h * z.K * z.Pp;
      panel(p - key_panels, m, z.Pp, z.K, query + m * z.Kp, z.Kp, position_keys, position_scores, stride, false,
            following);
      // The start is repeated behind the end, as far as slots are nearer than the ring's last.
      const long first = std::max(from, z.Pp - z.P), last = std::min(from + PANEL, z.Pp - 1 - cursor);
      for (long b = 0; b < m && first < last; ++b) {
        float* const of_stream = position_scores + b * stride;
        std::copy(of_stream + first, of_stream + last, of_stream + first + z.P);
      }
    }
  }
};

// The memories of streams from..from+m in one layer, and this worker's part of them.
struct Memories {
  long l, from, m;
  const Rings& rings;
  const Stack& z;

  const float* rows(long b) const { return rings.seen + (l * z.B + from + b) * z.P * z.Dp; }
  const float* start(const Worker& me) const {
    const long parts = parts_of(me.team, m);
    return rows(std::min(me.begin(m * parts) / parts, m - 1));
  }

  void attend(const Worker& me, const Shared& shared, const float* prefetch) const {
    thread_local Workspace space;
    const long about = std::clamp(round_up((32L << 10) / z.Dp, GROUP), GROUP, 256L);  // rows that stay in the second cache
    const long most = 2 * about, Hn = shared.Hn;
    float* const quad_queries = space.get(Hn * (z.Dp + most + OnlineSoftmax::lds(most)));
    float *const scores = quad_queries + Hn * z.Dp, *const weights = scores + Hn * most;
    const long parts = parts_of(me.team, m), cursor = rings.cursor;
    for (long at = me.begin(m * parts), end = me.end(m * parts); at < end; ++at) {
      const long b = at / parts, part = at % parts;
      const long low = z.P * part / parts, high = z.P * (part + 1) / parts;
      const OnlineSoftmax softmax{shared.row_sums + at * Hn * z.Dp,
                                  shared.max_score + at * Hn * QUAD,
                                  shared.exp_sum + at * Hn * QUAD,
                                  Hn,
                                  shared.position_stride,
                                  z,
                                  reinterpret_cast<vf*>(quad_queries),
                                  reinterpret_cast<vf*>(scores),
                                  weights};
      softmax.load_queries(shared.row_queries + b * Hn * z.Dp);
      // Visible are the cursor's own slot and `horizon` slots before it around the ring: two ranges of slots, or all of them in
      // one. The farthest is the slot after the cursor.
      const long horizon = rings.reset[from + b] ? 0 : rings.filled[from + b];
      const float* const of_stream = shared.position_scores + b * Hn * shared.position_stride;
      const float* const position_scores = of_stream + z.Pp - 1 - cursor;  // that of slot 0
      const bool sees_all = horizon == z.P - 1;
      const SlotRange runs[2] = {{sees_all ? 0 : std::max(0L, cursor - horizon), sees_all ? z.P : cursor + 1},
                           {sees_all ? z.P : z.P - std::max(0L, horizon - cursor), z.P}};
      bool first = true;
      for (const SlotRange& run : runs) {
        // In tiles of the same size: a small one would leave too little time to prefetch the next.
        const long begin = std::max(run.first, low), last = std::min(run.last, high), rows_of_run = std::max(0L, last - begin);
        const long tiles = std::max(1L, (rows_of_run + about / 2) / about), tile = (rows_of_run + tiles - 1) / tiles;
        for (long s = begin; s < last; s += tile) {
          const long n = std::min(tile, last - s);
          const float* const here = rows(b) + s * z.Dp;
          softmax.add_rows(here, n, position_scores + s, first, s + n < last || at + 1 < end ? here + n * z.Dp : prefetch);
          first = false;
        }
      }
      if (first) softmax.clear();
    }
  }
};

// The weighted sums of rows through the value weights, this worker's heads.
void project_values(const Worker& me, const Layer& layer, long m, const Shared& shared, const Stack& z, const float* prefetch) {
  const long parts = parts_of(me.team, m), stride = parts * shared.Hn, panels = panels_of(z.Kp);
  for (long h = me.begin(z.H), end = me.end(z.H); h < end; ++h) {
    for (long b = 0; b < m && parts > 1; ++b) {  // the parts of a memory are merged in the first
      float *max_score = shared.max_score + (b * stride + h) * QUAD, *exp_sum = shared.exp_sum + (b * stride + h) * QUAD;
      float *row_sums = shared.row_sums + (b * stride + h) * z.Dp, top = max_score[0];
      for (long i = 1; i < parts; ++i) top = std::max(top, max_score[i * shared.Hn * QUAD]);
      for (long i = 0; i < parts; ++i) {
        const float weight = std::exp(max_score[i * shared.Hn * QUAD] - top);
        for (long d = 0; d < z.Dp; d += VL)
          store(row_sums + d, (i > 0 ? load(row_sums + d) : vf{}) + weight * load(row_sums + i * shared.Hn * z.Dp + d));
        for (long j = 0; j < QUAD; ++j) exp_sum[j] = (i > 0 ? exp_sum[j] : 0.0f) + weight * exp_sum[i * shared.Hn * QUAD + j];
      }
    }
    const float* const w = layer.values + h * z.D * z.Kp;
    for (long p = 0; p < panels; ++p)
      panel(p, m, z.Kp, z.D, shared.row_sums + h * z.Dp, stride * z.Dp, w, shared.attended + h * z.Kp, z.Ip, false,
            p + 1 < panels || h + 1 < end ? w + std::min((p + 1) * PANEL, z.Kp) * z.D : prefetch);
    for (long b = 0; b < m; ++b) {
      const float* const exp_sum = shared.exp_sum + (b * stride + h) * QUAD;
      const float inverse_sum = 1.0f / (exp_sum[0] + exp_sum[1] + exp_sum[2] + exp_sum[3]);
      float* const head_output = shared.attended + b * z.Ip + h * z.Kp;
      for (long k = 0; k < z.Kp; k += VL) store(head_output + k, load(head_output + k) * inverse_sum);
    }
  }
}

// The embedding and all layers for the streams from..from+m, by one team.
void act(const Worker& me, long from, long m, const float* x, const float* embed, const float* weights, const Rings& rings,
         const Shared& shared, float* y, const Stack& z) {
  thread_local Workspace space;
  const long w = z.Dp;
  float *const normal = space.get(2 * m * w), *const other = normal + m * w;  // each worker normalises for itself
  const auto begin = [&](const float* matrix, long n, long k) { return start(me, matrix, n, k); };
  float* const embedded = shared.streams[1];  // until the first layer's second gate
  dense(me, m, w, z.E, x + from * z.E, z.E, embed + w, embedded, false, begin(weights + before_queries(z), z.Ip, z.D),
        [&](long i, long d) { store(embedded + i * w + d, load(embedded + i * w + d) + load(embed + d)); });
  me.sync();
  const float* stream = embedded;
  for (long l = 0; l < z.L; ++l) {
    const Layer layer(weights + l * Layer::floats(z), z);
    const float* const next_layer = l + 1 < z.L ? begin(layer.end + before_queries(z), z.Ip, z.D) : begin(embed + w, w, z.E);
    const auto first_gate_matrix = [&](const Gate& gate, const float* otherwise) {
      const long n = z.gate == GRU || z.gate == SIGTANH ? 2 * w : w;
      return z.gate == RESIDUAL ? otherwise : begin(gate.w, n, z.D);
    };
    const float *const first = begin(layer.first, z.Fp, z.D), *const second = begin(layer.second, w, z.F);
    const Projections projections(layer, z);
    const Memories memories{l, from, m, rings, z};
    const float* seen = stream;
    if (z.norm_inputs) {
      normalise(normal, stream, layer.scale_1, layer.offset_1, m, z);
      seen = normal;
    }
    for (long i = me.begin(m); i < me.end(m); ++i) {
      std::copy(stream + i * w, stream + i * w + z.D, rings.inputs + (((from + i) * z.P + rings.cursor) * z.L + l) * z.D);
      std::copy(seen + i * w, seen + (i + 1) * w, rings.seen + ((l * z.B + from + i) * z.P + rings.cursor) * w);
    }
    dense(me, m, z.Ip, z.D, seen, w, layer.queries, shared.q, false, projections.start(me), [](long, long) {});
    me.sync();
    projections.project(me, m, rings.cursor, shared, memories.start(me));
    me.sync();
    memories.attend(me, shared, layer.values + me.begin(z.H) * z.D * z.Kp);
    me.sync();
    project_values(me, layer, m, shared, z, begin(layer.out, w, z.Ip));
    me.sync();
    const auto epilogue = [&](float* at, const float* bias, long width, bool rectify) {
      return [=](long i, long d) {
        vf value = load(at + i * width + d);
        if (bias != nullptr) value += load(bias + d);
        store(at + i * width + d, rectify ? relu(value) : value);
      };
    };
    dense(me, m, w, z.Ip, shared.attended, z.Ip, layer.out, shared.out, false, first_gate_matrix(layer.gate_1, first),
          epilogue(shared.out, nullptr, w, z.norm_inputs));
    me.sync();
    apply_gate(me, layer.gate_1, shared.streams[0], stream, shared.out, shared, m, z, first);
    stream = shared.streams[0];
    const float *scale = z.norm_inputs ? layer.scale_2 : layer.scale_1, *offset = z.norm_inputs ? layer.offset_2 : layer.offset_1;
    normalise(normal, stream, scale, offset, m, z);
    if (!z.norm_inputs) stream = normal;
    dense(me, m, z.Fp, z.D, normal, w, layer.first, shared.hidden, false, second,
          epilogue(shared.hidden, layer.bias_1, z.Fp, true));
    me.sync();
    dense(me, m, w, z.F, shared.hidden, z.Fp, layer.second, shared.mlp, false, first_gate_matrix(layer.gate_2, next_layer),
          epilogue(shared.mlp, layer.bias_2, w, z.norm_inputs));
    me.sync();
    apply_gate(me, layer.gate_2, shared.streams[1], stream, shared.mlp, shared, m, z, next_layer);
    stream = shared.streams[1];
    if (!z.norm_inputs) {
      normalise(other, stream, layer.scale_2, layer.offset_2, m, z);
      stream = other;
    }
  }
  for (long i = me.begin(m); i < me.end(m); ++i) std::copy(stream + i * w, stream + i * w + z.D, y + (from + i) * z.D);
}

// `seen` and `inputs` say the sizes that the others must have.
ffi::Error step(Floats x, Bools reset, Ints filled, Ints cursor, Floats weights, Floats inputs, Floats seen, Floats embed,
                int64_t gate, bool norm_inputs, int64_t heads, int64_t head_dim, int64_t mlp, int64_t threads, Out y,
                Out new_inputs, Out new_seen) {
  if (x.dimensions().size() != 2 || inputs.dimensions().size() != 4 || seen.dimensions().size() != 4) return wrong_shapes("step");
  Stack z;
  z.L = seen.dimensions()[0];
  z.B = seen.dimensions()[1];
  z.P = seen.dimensions()[2];
  z.Dp = seen.dimensions()[3];
  z.D = inputs.dimensions()[3];
  z.E = x.dimensions()[1];
  z.H = heads;
  z.K = head_dim;
  z.F = mlp;
  z.Fp = round_up(z.F, GROUP);
  z.Kp = round_up(z.K, GROUP);
  z.Pp = round_up(z.P, GROUP);
  z.Ip = z.H * z.Kp;
  z.gate = static_cast<GateKind>(gate);
  z.norm_inputs = norm_inputs;
  if (gate < 0 || gate >= GATES || z.Dp != round_up(z.D, GROUP) || !has_shape(x, {z.B, z.E}) || !has_shape(reset, {z.B}) ||
      !has_shape(filled, {z.B}) || !has_shape(cursor, {1}) || !has_shape(weights, {z.L, Layer::floats(z)}) ||
      !has_shape(inputs, {z.B, z.P, z.L, z.D}) || !has_shape(embed, {(z.E + 1) * z.Dp}))
    return wrong_shapes("step");
  // The rings are written in place; XLA copies them beforehand if somebody else still needs them.
  if (inputs.typed_data() != new_inputs->typed_data())
    std::copy(inputs.typed_data(), inputs.typed_data() + inputs.element_count(), new_inputs->typed_data());
  if (seen.typed_data() != new_seen->typed_data())
    std::copy(seen.typed_data(), seen.typed_data() + seen.element_count(), new_seen->typed_data());
  const Rings rings{new_inputs->typed_data(), new_seen->typed_data(), filled.typed_data(), reset.typed_data(),
                    cursor.typed_data()[0]};
  thread_local Workspace space;
  const auto some = [&](const Worker& me, float* at, long from, long m) {
    act(me, from, m, x.typed_data(), embed.typed_data(), weights.typed_data(), rings, Shared(at, m, me.team, z),
        y->typed_data(), z);
  };
  if (static_cast<long>(weights.element_count()) > LARGE && threads > 1) {
    const int most = std::min<int>(threads, Pool::get().size());
    float* const at = space.get(std::max(Shared::floats(z.B, most, z), Shared::floats(z.B, 1, z)));
    Barrier all(most);
    Pool::get().run_team(threads, [&](int rank, int team) {
      Barrier alone(1);
      some(Worker{rank, team, team == 1 ? &alone : &all}, at, 0, z.B);
    });
  } else {
    const long groups = std::min<long>(z.B, threads);
    const long each = round_up(Shared::floats((z.B + groups - 1) / groups, 1, z), GROUP);
    float* const at = space.get(groups * each);
    Pool::get().parallel_for(groups, threads, [&](int group) {
      Barrier alone(1);
      const long from = z.B * group / groups, to = z.B * (group + 1) / groups;
      some(Worker{0, 1, &alone}, at + group * each, from, to - from);
    });
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace gtrxl

XLA_FFI_DEFINE_HANDLER_SYMBOL(gtrxl_act, gtrxl::step,
                              ffi::Ffi::Bind()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Bools>()
                                  .Arg<gtrxl::Ints>()
                                  .Arg<gtrxl::Ints>()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Floats>()
                                  .Attr<int64_t>("gate")
                                  .Attr<bool>("norm_inputs")
                                  .Attr<int64_t>("heads")
                                  .Attr<int64_t>("head_dim")
                                  .Attr<int64_t>("mlp")
                                  .Attr<int64_t>("threads")
                                  .Ret<gtrxl::Floats>()
                                  .Ret<gtrxl::Floats>()
                                  .Ret<gtrxl::Floats>());
