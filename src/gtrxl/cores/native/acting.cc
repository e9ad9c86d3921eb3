// One step of B streams through a whole stack of layers (transformer.py has the contract).
//
// L layers, B streams, E inputs, D width, F MLP width, H heads, K head width, P = M + 1 ring slots. A name with a p behind it
// (Dp, Kp) is that width in whole groups of 16 floats; what is beyond the width is zero. Weights come packed (acting.py), matrices
// in panels of 64 columns, so that they are read from end to end.
//
// What a step reads of the past are the rows that the layers have seen, M itself after the first norm, and no keys or values:
// those would be twice as many bytes. A head's query goes through its key weights instead, q . (W x) = (W' q) . x, and the
// mixture of rows through its value weights. More is multiplied, but a row is read once for all heads, and the next rows come
// meanwhile.
//
// Small stacks live in the caches: each thread takes some of the streams through all layers. Large ones are read from memory:
// all threads take all streams together, each its part of every matrix and of the streams' pasts, and nothing is read twice.

#include <cmath>

#include "blocks.h"
#include "pool.h"
#include "vectors.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace gtrxl {
namespace {

constexpr long GROUP = 16;   // floats; a whole number of vectors on every machine
constexpr long PANEL = 64;   // columns
constexpr long LARGE = 2L << 20;  // floats of weights that are read faster by all threads together than by each

struct Stack {
  long L, B, E, D, F, H, K, P;  // E: inputs, before the embedding
  long Dp, Fp, Kp, Pp, I;  // I: all heads side by side, each Kp wide
  GateKind gate;
  bool norm_inputs;
};

struct Gate {
  const float *bias, *a, *b, *c, *d;  // as many of the matrices as the kind has
};

struct Layer {
  const float *scale_1, *offset_1, *scale_2, *offset_2, *bias_1, *bias_2, *u, *v;
  const float *q, *keys, *positions, *values, *out, *first, *second;
  Gate gate_1, gate_2;

  static const float* walk(Layer* layer, const float* at, const Stack& z) {
    const auto take = [&](const float*& field, long floats) {
      field = at;
      at += floats;
    };
    take(layer->scale_1, z.Dp);
    take(layer->offset_1, z.Dp);
    take(layer->scale_2, z.Dp);
    take(layer->offset_2, z.Dp);
    take(layer->bias_1, z.Fp);
    take(layer->bias_2, z.Dp);
    take(layer->u, z.I);
    take(layer->v, z.I);
    take(layer->q, z.D * z.I);
    take(layer->keys, z.H * z.K * z.Dp);
    take(layer->positions, z.H * z.K * z.Pp);
    take(layer->values, z.H * z.D * z.Kp);
    take(layer->out, z.I * z.Dp);
    take(layer->first, z.D * z.Fp);
    take(layer->second, z.F * z.Dp);
    for (Gate* gate : {&layer->gate_1, &layer->gate_2}) {
      const long square = z.D * z.Dp;
      take(gate->bias, z.Dp);
      switch (z.gate) {
        case RESIDUAL:
          break;
        case INPUT:
        case OUTPUT:
        case HIGHWAY:
          take(gate->a, square);
          break;
        case SIGTANH:
          take(gate->a, 2 * square);
          break;
        case GRU:
          take(gate->a, 2 * square);
          take(gate->b, square);
          take(gate->c, 2 * square);
          take(gate->d, square);
          break;
      }
    }
    return at;
  }

  static long floats(const Stack& z) {
    Layer layer;
    const float* const none = nullptr;
    return walk(&layer, none, z) - none;
  }
  // From where a layer begins to its first matrix.
  static long before_q(const Stack& z) {
    Layer layer;
    walk(&layer, nullptr, z);
    return layer.q - layer.scale_1;
  }
};

// Who works on some streams together, and which of them this is.
struct Member {
  int rank, team;
  Barrier* barrier;
  void meet() const { barrier->wait(); }
  // This member's part of n things.
  long begin(long n) const { return n * rank / team; }
  long end(long n) const { return n * (rank + 1) / team; }
};

constexpr long panels_of(long n) { return (n + PANEL - 1) / PANEL; }

// Panel p of c [m, n] = (or +=) a [m, k] w, rows of c at a stride. Meanwhile as much of what is read `then` comes in.
void panel(long p, long m, long n, long k, const float* a, long lda, const float* w, float* c, long ldc, bool add,
           const float* then) {
  const long columns = std::min(PANEL, n - p * PANEL);
  const float* const from = w + p * PANEL * k;
  const long tiles = (m + rows_of_tile<WIDEST>() - 1) / rows_of_tile<WIDEST>(), by = columns * 4 / tiles;
  if (by <= 2 * Ahead::LINE) {
    Ahead next{reinterpret_cast<const char*>(then), by};
    product(m, columns, k, a, lda, 1, from, columns, c + p * PANEL, ldc, add, next);
  } else {  // too little work: the matrix comes as fast as it can
    product(m, columns, k, a, lda, 1, from, columns, c + p * PANEL, ldc, add);
  }
}

// Where this member begins to read w, of n columns and k rows.
const float* start(const Member& me, const float* w, long n, long k) { return w + me.begin(panels_of(n)) * PANEL * k; }

// c [m, n] = (or +=) a [m, k] w, this member's panels of it, each finished by `each`(row, column) for all its vectors.
template <class Each>
void dense(const Member& me, long m, long n, long k, const float* a, long lda, const float* w, float* c, bool add,
           const float* then, Each each) {
  for (long p = me.begin(panels_of(n)), end = me.end(panels_of(n)); p < end; ++p) {
    panel(p, m, n, k, a, lda, w, c, n, add, p + 1 < end ? w + (p + 1) * PANEL * k : then);
    for (long i = 0; i < m; ++i)
      for (long d = p * PANEL; d < std::min((p + 1) * PANEL, n); d += VL) each(i, d);
  }
}

void normalise(float* to, const float* x, const float* scale, const float* offset, long m, const Stack& z) {
  const long whole = z.D / VL * VL;
  for (long i = 0; i < m; i += QUAD) {  // four rows at a time, so that none waits for another
    const float* row[QUAD];
    float mean[VL], factor[VL];
    vf part[QUAD];
    for (int j = 0; j < QUAD; ++j) row[j] = x + std::min(i + j, m - 1) * z.Dp;
    for (int j = 0; j < QUAD; ++j) {
      part[j] = vf{};
      for (long d = 0; d < whole; d += VL) part[j] += load(row[j] + d);
    }
    store(mean, sum_of_quads(sums_of_quads(part)));
    for (int j = 0; j < QUAD; ++j) {
      for (long d = whole; d < z.D; ++d) mean[j] += row[j][d];
      mean[j] /= z.D;
    }
    for (int j = 0; j < QUAD; ++j) {
      part[j] = vf{};
      for (long d = 0; d < whole; d += VL) part[j] += (load(row[j] + d) - mean[j]) * (load(row[j] + d) - mean[j]);
    }
    store(factor, sum_of_quads(sums_of_quads(part)));
    for (int j = 0; j < QUAD; ++j) {
      for (long d = whole; d < z.D; ++d) factor[j] += (row[j][d] - mean[j]) * (row[j][d] - mean[j]);
      factor[j] = 1.0f / std::sqrt(factor[j] / z.D + EPSILON);
    }
    for (int j = 0; j < QUAD && i + j < m; ++j)
      for (long d = 0; d < z.Dp; d += VL)
        store(to + (i + j) * z.Dp + d, (load(row[j] + d) - mean[j]) * factor[j] * load(scale + d) + load(offset + d));
  }
}

// each(row, column) for the vectors of this member's rows.
template <class Each>
void elementwise(const Member& me, long m, long width, Each each) {
  for (long i = me.begin(m); i < me.end(m); ++i)
    for (long d = 0; d < width; d += VL) each(i, d);
}

// How a member's share of the streams' pasts is cut: by streams, or each past among all if there are fewer streams than members.
constexpr long parts_of(int team, long m) { return m >= team ? 1 : team; }

// Heads as `dots` takes them, whole vectors of quads.
constexpr long padded_heads(long H) { return round_up(H, QUADS); }

// Memory for m streams that every member sees.
struct Shared {
  float *q, *look, *position, *mixed, *peak, *whole, *attended, *out, *hidden, *mlp, *rz, *g, *spare, *streams[2];
  long Hn, places;  // from one head's position scores to the next's

  // A head's scores by distance, farthest first, end at Pp and go on from the start, so that they run on whichever slot of the
  // ring is the first.
  static constexpr long places_of(const Stack& z) { return round_up(z.Pp + z.P + QUAD, GROUP); }
  static long floats(long m, int team, const Stack& z) {
    const long parts = parts_of(team, m), Hn = padded_heads(z.H);
    return GROUP + m * (2 * z.I + Hn * (z.Dp + places_of(z)) + parts * Hn * (z.Dp + 2 * QUAD) + 8 * z.Dp + z.Fp) + 3 * GROUP;
  }
  Shared(float* at, long m, int team, const Stack& z) {
    const long parts = parts_of(team, m);
    Hn = padded_heads(z.H);
    places = places_of(z);
    q = at;
    look = q + m * z.I;
    position = look + m * Hn * z.Dp;
    mixed = position + m * Hn * places;
    attended = mixed + m * parts * Hn * z.Dp;
    out = attended + m * z.I;
    hidden = out + m * z.Dp;
    mlp = hidden + m * z.Fp;
    rz = mlp + m * z.Dp;
    g = rz + m * 2 * z.Dp;
    spare = g + m * z.Dp;
    streams[0] = spare + m * z.Dp;
    streams[1] = streams[0] + m * z.Dp;
    peak = streams[1] + m * z.Dp;
    whole = peak + m * parts * Hn * QUAD;
  }
};

// `to` = x [m, Dp] joined with y [m, Dp]. All members are done with it at the end, and with x and y.
void join(const Member& me, const Gate& gate, float* to, const float* x, const float* y, const Shared& shared, long m,
          const Stack& z, const float* then) {
  const long w = z.Dp;
  const auto begin = [&](const float* matrix, long n) { return start(me, matrix, n, z.D); };
  const auto nothing = [](long, long) {};
  float *rz = shared.rz, *g = shared.g, *spare = shared.spare;
  switch (z.gate) {
    case RESIDUAL:
      elementwise(me, m, w, [&](long i, long d) { store(to + i * w + d, load(x + i * w + d) + load(y + i * w + d)); });
      break;
    case INPUT:
    case OUTPUT:
    case HIGHWAY:
      dense(me, m, w, z.D, x, w, gate.a, g, false, then, [&](long i, long d) {
        const vf xs = load(x + i * w + d), ys = load(y + i * w + d), a = load(g + i * w + d), b = load(gate.bias + d);
        vf joined;
        if (z.gate == INPUT) {
          joined = sigmoid(a) * xs + ys;
        } else if (z.gate == OUTPUT) {
          joined = xs + sigmoid(a - b) * ys;
        } else {
          const vf carry = sigmoid(a + b);
          joined = carry * xs + (1.0f - carry) * ys;
        }
        store(to + i * w + d, joined);
      });
      break;
    case SIGTANH:
      dense(me, m, 2 * w, z.D, y, w, gate.a, rz, false, then, nothing);
      me.meet();
      elementwise(me, m, w, [&](long i, long d) {
        const vf opening = load(rz + i * 2 * w + d) - load(gate.bias + d), content = load(rz + i * 2 * w + w + d);
        store(to + i * w + d, load(x + i * w + d) + sigmoid(opening) * tanh(content));
      });
      break;
    case GRU:
      dense(me, m, 2 * w, z.D, y, w, gate.a, rz, false, begin(gate.c, 2 * w), nothing);
      dense(me, m, 2 * w, z.D, x, w, gate.c, rz, true, begin(gate.b, w), [&](long i, long d) {
        const vf a = load(rz + i * 2 * w + d);
        if (d < w) store(spare + i * w + d, sigmoid(a) * load(x + i * w + d));
        else store(rz + i * 2 * w + d, sigmoid(a - load(gate.bias + d - w)));
      });
      dense(me, m, w, z.D, y, w, gate.b, g, false, begin(gate.d, w), nothing);
      me.meet();
      dense(me, m, w, z.D, spare, w, gate.d, g, true, then, [&](long i, long d) {
        const vf open = load(rz + i * 2 * w + w + d);
        store(to + i * w + d, (1.0f - open) * load(x + i * w + d) + open * tanh(load(g + i * w + d)));
      });
      break;
  }
  me.meet();
}

// Scores of n rows, all Dp wide, with the heads that lie side by side in a vector of `asked`, a quad of their width for each,
// GN vectors for every quad of a row: vector t * groups + g of the scores has rows 4 t to 4 t + 3 for each of its heads.
// SN of them at a time, of which there are ALL or only n.
template <int GN, int SN, bool ALL>
__attribute__((noinline)) void dots(vf* scores, const vf* asked, long groups, const float* rows, long n, long Dp, Ahead& next) {
  const auto row = [&](long j) { return rows + (ALL ? j : std::min(j, n - 1)) * Dp; };
  Ahead ahead = next;
  vf dot[GN][SN];
#pragma GCC unroll 2
  for (int g = 0; g < GN; ++g)
#pragma GCC unroll 16
    for (int j = 0; j < SN; ++j) dot[g][j] = vf{};
  for (long d = 0; d < Dp; d += GROUP)
#pragma GCC unroll 4
    for (int e = 0; e < GROUP; e += QUAD, asked += groups) {
      ahead.step();
#pragma GCC unroll 16
      for (int j = 0; j < SN; ++j) {
        const vf x = same_quads(row(j) + d + e);
#pragma GCC unroll 2
        for (int g = 0; g < GN; ++g) dot[g][j] += asked[g] * x;
      }
    }
#pragma GCC unroll 2
  for (int g = 0; g < GN; ++g)
#pragma GCC unroll 4
    for (int j = 0; j < SN; j += QUAD) scores[j / QUAD * groups + g] = sums_of_quads(dot[g] + j);
  next = ahead;
}

constexpr int rows_at_once(int GN) { return VL == 16 ? 16 / GN : QUAD; }

template <int GN>
void dots_of_all(vf* scores, const vf* asked, long groups, const float* rows, long n, long Dp, Ahead& next) {
  constexpr int SN = rows_at_once(GN);
  long s = 0;
  const auto at = [&] { return scores + s / QUAD * groups; };
  for (; n - s >= SN; s += SN) dots<GN, SN, true>(at(), asked, groups, rows + s * Dp, n - s, Dp, next);
  for (; n - s >= QUAD; s += QUAD) dots<GN, QUAD, true>(at(), asked, groups, rows + s * Dp, n - s, Dp, next);
  if (s < n) dots<GN, QUAD, false>(at(), asked, groups, rows + s * Dp, n - s, Dp, next);
}

struct Run {
  long first, last;
};

// What all heads of one stream see in some of its slots, so far: sums of rows with weights e^(score - peak), and of the weights.
// Heads lie side by side in vectors, a quad each: its peak four times, and four parts of its whole.
struct Sight {
  float *mixed, *peak, *whole;  // [Hn, Dp], [Hn, 4], [Hn, 4]
  long Hn, places;              // places: from one head's position scores to the next's
  const Stack& z;
  vf *asked, *scores;  // room for the queries, and for a tile's scores
  float* weights;

  static constexpr long lds(long n) { return round_up(n, QUAD) + QUAD; }

  void ask(const float* look) const {
    const long groups = Hn / QUADS;
    for (long d = 0; d < z.Dp; d += QUAD)
      for (long g = 0; g < groups; ++g) asked[d / QUAD * groups + g] = load_quads(look + g * QUADS * z.Dp + d, z.Dp);
  }

  void nothing() const {
    std::fill(mixed, mixed + Hn * z.Dp, 0.0f);
    std::fill(peak, peak + Hn * QUAD, -INFINITY);
    std::fill(whole, whole + Hn * QUAD, 0.0f);
  }

  // n more rows, the first ones of all if it is said. `then` are the rows, or whatever else, that are read next.
  void add(const float* rows, long n, const float* position, bool first, const float* then) const {
    const long H = z.H, Dp = z.Dp, groups = Hn / QUADS, blocks = (n + QUAD - 1) / QUAD;
    const float scale = 1.0f / std::sqrt(static_cast<float>(z.K));
    // As many bytes come in as these rows have, evenly over the steps of both products.
    constexpr int FEW = WIDEST > 2 ? 2 : WIDEST;
    const bool many = H > rows_of_tile<WIDEST>();
    const long steps = n * Dp / QUAD * (groups / 2) / rows_at_once(2) + n * Dp / QUAD * (groups % 2) / rows_at_once(1) +
                       n * round_up(Dp, (many ? FEW : WIDEST) * VL) / ((many ? FEW : WIDEST) * VL);
    Ahead next{reinterpret_cast<const char*>(then), std::min(2 * Ahead::LINE, (n * Dp * 4 + steps - 1) / steps)};
    long g = 0;
    for (; g + 2 <= groups; g += 2) dots_of_all<2>(scores + g, asked + g, groups, rows, n, Dp, next);
    if (g < groups) dots_of_all<1>(scores + g, asked + g, groups, rows, n, Dp, next);
    for (g = 0; g < groups; ++g) {
      const float* const places_of = position + g * QUADS * places;
      float* const weights_of = weights + g * QUADS * lds(n);
      vf top = all(-INFINITY), total = {};
      for (long t = 0; t < blocks; ++t) {
        vf& x = scores[t * groups + g];
        x = (x + load_quads(places_of + t * QUAD, places)) * scale;
        if (n - t * QUAD < QUAD) x = first_of_quads(n - t * QUAD) ? x : all(-INFINITY);
        top = larger(top, x);
      }
      top = largest_of_quads(top);
      if (!first) {
        const vf before = load(peak + g * VL);
        top = larger(top, before);
        const vf fade = exponential(before - top);
        total = load(whole + g * VL) * fade;
        for (long h = g * QUADS; h < std::min((g + 1) * QUADS, H); ++h)
          if (const float by = fade[(h - g * QUADS) * QUAD]; by != 1.0f)
            for (long d = 0; d < Dp; d += VL) store(mixed + h * Dp + d, load(mixed + h * Dp + d) * by);
      }
      for (long t = 0; t < blocks; ++t) {
        const vf e = exponential(scores[t * groups + g] - top);
        total += e;  // rows that are not there add e^-87
        store_quads(weights_of + t * QUAD, lds(n), e);
      }
      store(peak + g * VL, top);
      store(whole + g * VL, total);
    }
    if (many) product<FEW>(H, Dp, n, weights, lds(n), 1, rows, Dp, mixed, Dp, !first, next);
    else product(H, Dp, n, weights, lds(n), 1, rows, Dp, mixed, Dp, !first, next);
  }
};

struct Rings {
  float *inputs, *seen;  // [B, P, L, D] and [L, B, P, Dp]
  const int32_t* filled;
  const bool* reset;
  long cursor;
};

// What each head asks of the rows: queries through the key weights, and their scores by distance, farthest first. This member's
// panels of both.
struct Questions {
  const Layer& layer;
  const Stack& z;
  long by_rows, by_places, each;

  Questions(const Layer& layer, const Stack& z)
      : layer(layer), z(z), by_rows(panels_of(z.Dp)), by_places(panels_of(z.Pp)), each(by_rows + by_places) {}

  const float* at(long i) const {
    const long h = i / each, p = i % each;
    return p < by_rows ? layer.keys + h * z.K * z.Dp + p * PANEL * z.K
                       : layer.positions + h * z.K * z.Pp + (p - by_rows) * PANEL * z.K;
  }

  const float* start(const Member& me) const { return at(me.begin(z.H * each)); }

  void ask(const Member& me, long m, long cursor, const Shared& shared, const float* then) const {
    thread_local Room room;
    float* query = room.get(2 * m * z.Kp);
    long made = -1;
    for (long b = 0; b < m && me.rank == 0 && z.H < shared.Hn; ++b) {  // heads that only fill a vector up
      const long from = b * shared.Hn + z.H, to = (b + 1) * shared.Hn;
      std::fill(shared.look + from * z.Dp, shared.look + to * z.Dp, 0.0f);
      std::fill(shared.position + from * shared.places, shared.position + to * shared.places, 0.0f);
    }
    for (long i = me.begin(z.H * each), end = me.end(z.H * each); i < end; ++i) {
      const long h = i / each, p = i % each;
      if (h != made) {
        for (long b = 0; b < m; ++b)
          for (long k = 0; k < z.Kp; k += VL) {
            const vf q = load(shared.q + b * z.I + h * z.Kp + k);
            store(query + b * z.Kp + k, q + load(layer.u + h * z.Kp + k));
            store(query + (m + b) * z.Kp + k, q + load(layer.v + h * z.Kp + k));
          }
        made = h;
      }
      const float* const following = i + 1 < end ? at(i + 1) : then;
      if (p < by_rows) {
        panel(p, m, z.Dp, z.K, query, z.Kp, layer.keys + h * z.K * z.Dp, shared.look + h * z.Dp, shared.Hn * z.Dp, false,
              following);
        continue;
      }
      float* const position = shared.position + h * shared.places;
      const long stride = shared.Hn * shared.places, from = (p - by_rows) * PANEL;
      panel(p - by_rows, m, z.Pp, z.K, query + m * z.Kp, z.Kp, layer.positions + h * z.K * z.Pp, position, stride, false,
            following);
      // The start, as far as slots are nearer than the ring's last, comes behind the end too.
      const long first = std::max(from, z.Pp - z.P), last = std::min(from + PANEL, z.Pp - 1 - cursor);
      for (long b = 0; b < m && first < last; ++b)
        std::copy(position + b * stride + first, position + b * stride + last, position + b * stride + first + z.P);
    }
  }
};

// The pasts of streams from..from+m, in one layer; and this member's share of them.
struct Pasts {
  long l, from, m;
  const Rings& rings;
  const Stack& z;

  const float* rows(long b) const { return rings.seen + (l * z.B + from + b) * z.P * z.Dp; }
  const float* start(const Member& me) const {
    const long parts = parts_of(me.team, m);
    return rows(std::min(me.begin(m * parts) / parts, m - 1));
  }

  void attend(const Member& me, const Shared& shared, const float* then) const {
    thread_local Room room;
    const long about = std::clamp(round_up((32L << 10) / z.Dp, GROUP), GROUP, 256L);  // rows that stay in the second cache
    const long most = 2 * about, Hn = shared.Hn;
    float* const asked = room.get(Hn * (z.Dp + most + Sight::lds(most)));
    float *const scores = asked + Hn * z.Dp, *const weights = scores + Hn * most;
    const long parts = parts_of(me.team, m), cursor = rings.cursor;
    for (long at = me.begin(m * parts), end = me.end(m * parts); at < end; ++at) {
      const long b = at / parts, part = at % parts;
      const long low = z.P * part / parts, high = z.P * (part + 1) / parts;
      const Sight sight{shared.mixed + at * Hn * z.Dp, shared.peak + at * Hn * QUAD, shared.whole + at * Hn * QUAD,
                        Hn, shared.places, z, reinterpret_cast<vf*>(asked), reinterpret_cast<vf*>(scores), weights};
      sight.ask(shared.look + b * Hn * z.Dp);
      // It may see `horizon` slots before the cursor and the cursor's own, a run around the ring: two runs of slots, or all of
      // them in one. What is farthest is the slot after the cursor.
      const long horizon = rings.reset[from + b] ? 0 : rings.filled[from + b];
      const float* const position = shared.position + b * Hn * shared.places + z.Pp - 1 - cursor;  // that of slot 0
      const bool whole = horizon == z.P - 1;
      const Run runs[2] = {{whole ? 0 : std::max(0L, cursor - horizon), whole ? z.P : cursor + 1},
                           {whole ? z.P : z.P - std::max(0L, horizon - cursor), z.P}};
      bool first = true;
      for (const Run& run : runs) {
        // In tiles of the same size: while a small one passes, too little of the next could come in.
        const long begin = std::max(run.first, low), last = std::min(run.last, high), rows_of_run = std::max(0L, last - begin);
        const long tiles = std::max(1L, (rows_of_run + about / 2) / about), tile = (rows_of_run + tiles - 1) / tiles;
        for (long s = begin; s < last; s += tile) {
          const long n = std::min(tile, last - s);
          const float* const here = rows(b) + s * z.Dp;
          sight.add(here, n, position + s, first, s + n < last || at + 1 < end ? here + n * z.Dp : then);
          first = false;
        }
      }
      if (first) sight.nothing();
    }
  }
};

// What was seen through the value weights, this member's heads.
void tell(const Member& me, const Layer& layer, long m, const Shared& shared, const Stack& z, const float* then) {
  const long parts = parts_of(me.team, m), stride = parts * shared.Hn, panels = panels_of(z.Kp);
  for (long h = me.begin(z.H), end = me.end(z.H); h < end; ++h) {
    for (long b = 0; b < m && parts > 1; ++b) {  // parts come together in the first
      float *peak = shared.peak + (b * stride + h) * QUAD, *whole = shared.whole + (b * stride + h) * QUAD;
      float *mixed = shared.mixed + (b * stride + h) * z.Dp, top = peak[0];
      for (long i = 1; i < parts; ++i) top = std::max(top, peak[i * shared.Hn * QUAD]);
      for (long i = 0; i < parts; ++i) {
        const float weight = std::exp(peak[i * shared.Hn * QUAD] - top);
        for (long d = 0; d < z.Dp; d += VL)
          store(mixed + d, (i > 0 ? load(mixed + d) : vf{}) + weight * load(mixed + i * shared.Hn * z.Dp + d));
        for (long j = 0; j < QUAD; ++j) whole[j] = (i > 0 ? whole[j] : 0.0f) + weight * whole[i * shared.Hn * QUAD + j];
      }
    }
    const float* const w = layer.values + h * z.D * z.Kp;
    for (long p = 0; p < panels; ++p)
      panel(p, m, z.Kp, z.D, shared.mixed + h * z.Dp, stride * z.Dp, w, shared.attended + h * z.Kp, z.I, false,
            p + 1 < panels || h + 1 < end ? w + std::min((p + 1) * PANEL, z.Kp) * z.D : then);
    for (long b = 0; b < m; ++b) {
      const float* const whole = shared.whole + (b * stride + h) * QUAD;
      const float share = 1.0f / (whole[0] + whole[1] + whole[2] + whole[3]);
      float* const told = shared.attended + b * z.I + h * z.Kp;
      for (long k = 0; k < z.Kp; k += VL) store(told + k, load(told + k) * share);
    }
  }
}

// The embedding and all layers for the streams from..from+m, by the members of one team.
void act(const Member& me, long from, long m, const float* x, const float* embed, const float* weights, const Rings& rings,
         const Shared& shared, float* y, const Stack& z) {
  thread_local Room room;
  const long w = z.Dp;
  float *const normal = room.get(2 * m * w), *const other = normal + m * w;  // each member normalises for itself
  const auto begin = [&](const float* matrix, long n, long k) { return start(me, matrix, n, k); };
  float* const embedded = shared.streams[1];  // until the first layer's second gate
  dense(me, m, w, z.E, x + from * z.E, z.E, embed + w, embedded, false, begin(weights + Layer::before_q(z), z.I, z.D),
        [&](long i, long d) { store(embedded + i * w + d, load(embedded + i * w + d) + load(embed + d)); });
  me.meet();
  const float* stream = embedded;
  for (long l = 0; l < z.L; ++l) {
    Layer layer;
    const float* const after = Layer::walk(&layer, weights + l * Layer::floats(z), z);
    const float* const next_layer = l + 1 < z.L ? begin(after + Layer::before_q(z), z.I, z.D) : begin(embed + w, w, z.E);
    const auto of_gate = [&](const Gate& gate, const float* otherwise) {
      const long n = z.gate == GRU || z.gate == SIGTANH ? 2 * w : w;
      return z.gate == RESIDUAL ? otherwise : begin(gate.a, n, z.D);
    };
    const float *const first = begin(layer.first, z.Fp, z.D), *const second = begin(layer.second, w, z.F);
    const Questions questions(layer, z);
    const Pasts pasts{l, from, m, rings, z};
    const float* seen = stream;
    if (z.norm_inputs) {
      normalise(normal, stream, layer.scale_1, layer.offset_1, m, z);
      seen = normal;
    }
    for (long i = me.begin(m); i < me.end(m); ++i) {
      std::copy(stream + i * w, stream + i * w + z.D, rings.inputs + (((from + i) * z.P + rings.cursor) * z.L + l) * z.D);
      std::copy(seen + i * w, seen + (i + 1) * w, rings.seen + ((l * z.B + from + i) * z.P + rings.cursor) * w);
    }
    dense(me, m, z.I, z.D, seen, w, layer.q, shared.q, false, questions.start(me), [](long, long) {});
    me.meet();
    questions.ask(me, m, rings.cursor, shared, pasts.start(me));
    me.meet();
    pasts.attend(me, shared, layer.values + me.begin(z.H) * z.D * z.Kp);
    me.meet();
    tell(me, layer, m, shared, z, begin(layer.out, w, z.I));
    me.meet();
    const auto finished = [&](float* at, const float* bias, long width, bool rectify) {
      return [=](long i, long d) {
        vf value = load(at + i * width + d);
        if (bias != nullptr) value += load(bias + d);
        store(at + i * width + d, rectify ? larger(value, vf{}) : value);
      };
    };
    dense(me, m, w, z.I, shared.attended, z.I, layer.out, shared.out, false, of_gate(layer.gate_1, first),
          finished(shared.out, nullptr, w, z.norm_inputs));
    me.meet();
    join(me, layer.gate_1, shared.streams[0], stream, shared.out, shared, m, z, first);
    stream = shared.streams[0];
    const float *scale = z.norm_inputs ? layer.scale_2 : layer.scale_1, *offset = z.norm_inputs ? layer.offset_2 : layer.offset_1;
    normalise(normal, stream, scale, offset, m, z);
    if (!z.norm_inputs) stream = normal;
    dense(me, m, z.Fp, z.D, normal, w, layer.first, shared.hidden, false, second,
          finished(shared.hidden, layer.bias_1, z.Fp, true));
    me.meet();
    dense(me, m, w, z.F, shared.hidden, z.Fp, layer.second, shared.mlp, false, of_gate(layer.gate_2, next_layer),
          finished(shared.mlp, layer.bias_2, w, z.norm_inputs));
    me.meet();
    join(me, layer.gate_2, shared.streams[1], stream, shared.mlp, shared, m, z, next_layer);
    stream = shared.streams[1];
    if (!z.norm_inputs) {
      normalise(other, stream, layer.scale_2, layer.offset_2, m, z);
      stream = other;
    }
  }
  for (long i = me.begin(m); i < me.end(m); ++i) std::copy(stream + i * w, stream + i * w + z.D, y + (from + i) * z.D);
}

using Floats = ffi::Buffer<ffi::F32>;
using Ints = ffi::Buffer<ffi::S32>;
using Bools = ffi::Buffer<ffi::PRED>;

ffi::Error step(Floats x, Bools reset, Ints filled, Ints cursor, Floats weights, Floats inputs, Floats seen, Floats embed,
                int64_t gate, bool norm_inputs, int64_t heads, int64_t head_dim, int64_t mlp, int64_t threads,
                ffi::ResultBuffer<ffi::F32> y, ffi::ResultBuffer<ffi::F32> new_inputs, ffi::ResultBuffer<ffi::F32> new_seen) {
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
  z.I = z.H * z.Kp;
  z.gate = static_cast<GateKind>(gate);
  z.norm_inputs = norm_inputs;
  if (static_cast<long>(weights.element_count()) != z.L * Layer::floats(z) ||
      static_cast<long>(embed.element_count()) != (z.E + 1) * z.Dp)
    return ffi::Error::InvalidArgument("gtrxl's packed weights do not have the length that the sizes ask for");
  // The rings are written in place; XLA copies them beforehand if somebody else still needs them.
  if (inputs.typed_data() != new_inputs->typed_data())
    std::copy(inputs.typed_data(), inputs.typed_data() + inputs.element_count(), new_inputs->typed_data());
  if (seen.typed_data() != new_seen->typed_data())
    std::copy(seen.typed_data(), seen.typed_data() + seen.element_count(), new_seen->typed_data());
  const Rings rings{new_inputs->typed_data(), new_seen->typed_data(), filled.typed_data(), reset.typed_data(),
                    cursor.typed_data()[0]};
  thread_local Room room;
  const auto some = [&](const Member& me, float* at, long from, long m) {
    act(me, from, m, x.typed_data(), embed.typed_data(), weights.typed_data(), rings, Shared(at, m, me.team, z),
        y->typed_data(), z);
  };
  if (static_cast<long>(weights.element_count()) > LARGE && threads > 1) {
    const int most = std::min<int>(threads, Pool::get().size());
    float* const at = room.get(std::max(Shared::floats(z.B, most, z), Shared::floats(z.B, 1, z)));
    Barrier all(most);
    Pool::get().together(threads, [&](int rank, int team) {
      Barrier alone(1);
      some(Member{rank, team, team == 1 ? &alone : &all}, at, 0, z.B);
    });
  } else {
    const long groups = std::min<long>(z.B, threads);
    const long each = round_up(Shared::floats((z.B + groups - 1) / groups, 1, z), GROUP);
    float* const at = room.get(groups * each);
    Pool::get().each(groups, threads, [&](int group) {
      Barrier alone(1);
      const long from = z.B * group / groups, to = z.B * (group + 1) / groups;
      some(Member{0, 1, &alone}, at + group * each, from, to - from);
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
