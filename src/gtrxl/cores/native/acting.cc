// One step of B streams through a whole stack of layers, against rings of keys and values (transformer.py has the contract).
//
// L layers, B streams, D width, F MLP width, H heads, K head width, I = H K, P = M + 1 ring slots. A name with a p behind it
// (Dp, Kp) is that width in whole groups of 16 floats; what is beyond the width is zero. Weights come packed (acting.py), matrices
// in panels of 64 columns, so that they are read from end to end.
//
// Small stacks live in the caches: each thread takes some of the streams through all layers. Large ones are read from memory:
// all threads take all streams together, each its part of every matrix and of the heads, and no weight is read twice.

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
  long L, B, D, F, H, K, P, I;
  long Dp, Fp, Kp, Pp, Qp;  // Qp: queries, keys and values side by side
  GateKind gate;
  bool norm_inputs;
};

struct Gate {
  const float *bias, *a, *b, *c, *d;  // as many of the matrices as the kind has
};

struct Layer {
  const float *scale_1, *offset_1, *scale_2, *offset_2, *bias_1, *bias_2, *u, *v, *qkv, *positions, *out, *first, *second;
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
    take(layer->u, z.H * z.Kp);
    take(layer->v, z.H * z.Kp);
    take(layer->qkv, z.D * z.Qp);
    take(layer->positions, z.H * z.K * z.Pp);
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

// c [m, n] = (or +=) a [m, k] w, this member's panels of it.
void dense(const Member& me, long m, long n, long k, const float* a, long lda, const float* w, float* c, bool add) {
  const long panels = (n + PANEL - 1) / PANEL;
  for (long p = me.begin(panels); p < me.end(panels); ++p) {
    const long columns = std::min(PANEL, n - p * PANEL);
    product(m, columns, k, a, lda, 1, w + p * PANEL * k, columns, c + p * PANEL, n, add);
  }
}

void normalise(float* to, const float* x, const float* scale, const float* offset, long m, const Stack& z) {
  const long whole = z.D / VL * VL;
  for (long i = 0; i < m; ++i) {
    const float* row = x + i * z.Dp;
    vf total = {}, squares = {};
    for (long d = 0; d < whole; d += VL) total += load(row + d);
    float mean = sum(total), variance = 0;
    for (long d = whole; d < z.D; ++d) mean += row[d];
    mean /= z.D;
    for (long d = 0; d < whole; d += VL) squares += (load(row + d) - mean) * (load(row + d) - mean);
    for (long d = whole; d < z.D; ++d) variance += (row[d] - mean) * (row[d] - mean);
    variance = (variance + sum(squares)) / z.D;
    const float factor = 1.0f / std::sqrt(variance + EPSILON);
    for (long d = 0; d < z.Dp; d += VL)
      store(to + i * z.Dp + d, (load(row + d) - mean) * factor * load(scale + d) + load(offset + d));
  }
}

template <class Each>
void elementwise(long m, long width, Each each) {
  for (long i = 0; i < m; ++i)
    for (long d = 0; d < width; d += VL) each(i, d);
}

void relu(float* x, long m, long width) {
  elementwise(m, width, [&](long i, long d) { store(x + i * width + d, larger(load(x + i * width + d), vf{})); });
}

// Memory for m streams that every member sees.
struct Shared {
  float *qkv, *attended, *out, *hidden, *mlp, *rz, *g;
  static long floats(long m, const Stack& z) { return m * (z.Qp + z.H * z.K + GROUP + 2 * z.Dp + z.Fp + 3 * z.Dp); }
  Shared(float* at, long m, const Stack& z) {
    qkv = at;
    attended = qkv + m * z.Qp;
    out = attended + round_up(m * z.I, GROUP);
    hidden = out + m * z.Dp;
    mlp = hidden + m * z.Fp;
    rz = mlp + m * z.Dp;
    g = rz + m * 2 * z.Dp;
  }
};

// stream [m, Dp] joined with update [m, Dp]; each member computes all of the result. A product goes to `shared` in parts, and is
// read after a meeting; the next product into the same place comes after another one.
void join(const Member& me, const Gate& gate, float* stream, const float* update, float* spare, const Shared& shared, long m,
          const Stack& z) {
  const long w = z.Dp;
  switch (z.gate) {
    case RESIDUAL:
      elementwise(m, w, [&](long i, long d) { store(stream + i * w + d, load(stream + i * w + d) + load(update + i * w + d)); });
      break;
    case INPUT:
    case OUTPUT:
    case HIGHWAY:
      dense(me, m, w, z.D, stream, w, gate.a, shared.g, false);
      me.meet();
      elementwise(m, w, [&](long i, long d) {
        const vf x = load(stream + i * w + d), y = load(update + i * w + d), a = load(shared.g + i * w + d);
        const vf b = load(gate.bias + d);
        vf to;
        if (z.gate == INPUT) {
          to = sigmoid(a) * x + y;
        } else if (z.gate == OUTPUT) {
          to = x + sigmoid(a - b) * y;
        } else {
          const vf carry = sigmoid(a + b);
          to = carry * x + (1.0f - carry) * y;
        }
        store(stream + i * w + d, to);
      });
      break;
    case SIGTANH:
      dense(me, m, 2 * w, z.D, update, w, gate.a, shared.rz, false);
      me.meet();
      elementwise(m, w, [&](long i, long d) {
        const vf opening = load(shared.rz + i * 2 * w + d) - load(gate.bias + d), content = load(shared.rz + i * 2 * w + w + d);
        store(stream + i * w + d, load(stream + i * w + d) + sigmoid(opening) * tanh(content));
      });
      break;
    case GRU:
      dense(me, m, 2 * w, z.D, update, w, gate.a, shared.rz, false);
      dense(me, m, 2 * w, z.D, stream, w, gate.c, shared.rz, true);
      dense(me, m, w, z.D, update, w, gate.b, shared.g, false);
      me.meet();
      elementwise(m, w, [&](long i, long d) {
        store(spare + i * w + d, sigmoid(load(shared.rz + i * 2 * w + d)) * load(stream + i * w + d));
      });
      dense(me, m, w, z.D, spare, w, gate.d, shared.g, true);
      me.meet();
      elementwise(m, w, [&](long i, long d) {
        const vf x = load(stream + i * w + d), open = sigmoid(load(shared.rz + i * 2 * w + w + d) - load(gate.bias + d));
        store(stream + i * w + d, (1.0f - open) * x + open * tanh(load(shared.g + i * w + d)));
      });
      break;
  }
}

// Lane i of the result is the sum of vector i.
inline vf sums(vf (&of)[VL]) {
#if defined(__clang__)
  vf to;
  for (int i = 0; i < VL; ++i) to[i] = sum(of[i]);
  return to;
#else
  vi even, odd;
  for (int i = 0; i < VL; ++i) {
    even[i] = 2 * i;
    odd[i] = 2 * i + 1;
  }
#pragma GCC unroll 4
  for (int n = VL; n > 1; n /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i)
      of[i] = __builtin_shuffle(of[2 * i], of[2 * i + 1], even) + __builtin_shuffle(of[2 * i], of[2 * i + 1], odd);
  return of[0];
#endif
}

// q . keys[s] for the slots from first to last, into scores[s]; the vectors around them may be written as well.
template <int N>
void contents(float* scores, const float* q, const float* keys, long first, long last, long Kp) {
  const int vectors = N > 0 ? N : static_cast<int>(Kp / VL);
  for (long s = first; s < last; s += VL) {
    vf dots[VL];
    const long rows = std::min<long>(VL, last - s);
    if (rows == VL) {
#pragma GCC unroll 16
      for (int i = 0; i < VL; ++i) {
        vf dot = load(q) * load(keys + (s + i) * Kp);
        for (int j = 1; j < vectors; ++j) dot += load(q + j * VL) * load(keys + (s + i) * Kp + j * VL);
        dots[i] = dot;
      }
    } else {
      for (int i = 0; i < VL; ++i) {
        dots[i] = vf{};
        for (int j = 0; j < vectors && i < rows; ++j) dots[i] += load(q + j * VL) * load(keys + (s + i) * Kp + j * VL);
      }
    }
    store(scores + s, sums(dots));
  }
}

// to [Kp] += sum of weights[s] values[s] over the slots from first to last.
template <int N>
void mixture(float* to, const float* weights, const float* values, long first, long last, long Kp) {
  for (long k = 0; k < Kp; k += N * VL) {
    vf s[4][N];
    for (int r = 0; r < 4; ++r)
      for (int j = 0; j < N; ++j) s[r][j] = vf{};
    long at = first;
    for (; at + 4 <= last; at += 4)
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) s[r][j] += weights[at + r] * load(values + (at + r) * Kp + k + j * VL);
    for (; at < last; ++at)
      for (int j = 0; j < N; ++j) s[0][j] += weights[at] * load(values + at * Kp + k + j * VL);
    for (int j = 0; j < N; ++j) store(to + k + j * VL, load(to + k + j * VL) + (s[0][j] + s[1][j]) + (s[2][j] + s[3][j]));
  }
}

struct Run {
  long first, last;
};

// The query of one head of one stream against its rings. `position` holds its scores by distance, farthest first.
void look(float* to, const float* q, const float* position, const float* keys, const float* values, float* scores, long cursor,
          long horizon, const Stack& z) {
  // What it may see: `horizon` slots before the cursor and its own, a run around the ring; and where in `position` slot 0
  // lies.
  const Run runs[2] = {{std::max(0L, cursor - horizon), cursor + 1}, {z.P - std::max(0L, horizon - cursor), z.P}};
  const long shifts[2] = {z.P - 1 - cursor, -cursor - 1};
  const float scale = 1.0f / std::sqrt(static_cast<float>(z.K));
  float peak = -INFINITY, whole = 0;
  float* row[2] = {scores, scores + z.P + 4 * VL};
  for (int r = 0; r < 2; ++r) {
    const auto [first, last] = runs[r];
    if (first >= last) continue;
    if (z.Kp == VL) contents<1>(row[r], q, keys, first, last, z.Kp);
    else if (z.Kp == 4 * VL) contents<4>(row[r], q, keys, first, last, z.Kp);
    else contents<0>(row[r], q, keys, first, last, z.Kp);
    vf most = all(-INFINITY);
    for (long s = first; s < last; s += VL) {
      vf x = (load(row[r] + s) + load(position + shifts[r] + s)) * scale;
      if (last - s < VL)
        for (long i = last - s; i < VL; ++i) x[i] = -INFINITY;
      most = larger(most, x);
      store(row[r] + s, x);
    }
    peak = std::max(peak, largest(most));
  }
  std::fill(to, to + z.Kp, 0.0f);
  for (int r = 0; r < 2; ++r) {
    const auto [first, last] = runs[r];
    if (first >= last) continue;
    vf total = {};
    for (long s = first; s < last; s += VL) {
      const vf e = exponential(load(row[r] + s) - peak);
      total += e;
      store(row[r] + s, e);
    }
    whole += sum(total);  // slots that are not there add e^-87
    if (z.Kp % (4 * VL) == 0) mixture<4>(to, row[r], values, first, last, z.Kp);
    else mixture<1>(to, row[r], values, first, last, z.Kp);
  }
  const float share = 1.0f / whole;
  for (long k = 0; k < z.Kp; k += VL) store(to + k, load(to + k) * share);
}

struct Rings {
  float *inputs, *keys_values;  // [B, P, L, D] and [L, B, H, 2, P, Kp]
  const int32_t* filled;
  const bool* reset;
  long cursor;
};

// This member's heads of streams from..from+m: writes their keys and values, attends.
void attend(const Member& me, const Layer& layer, long l, long from, long m, const Shared& shared, const Rings& rings,
            const Stack& z) {
  thread_local Room room;
  const long scores = 2 * (z.P + 4 * VL) + VL;
  float* qv = room.get(m * z.Kp + m * z.Pp + 2 * z.Kp + scores + 4 * GROUP);
  float* position = qv + m * z.Kp + GROUP;  // a vector before it may be read
  float* qu = position + m * z.Pp + GROUP;
  float* to = qu + z.Kp;
  float* score = to + z.Kp;
  const long pairs = z.H * m, end = me.end(pairs);
  for (long at = me.begin(pairs); at < end;) {
    const long h = at / m, b0 = at % m, b1 = std::min(m, b0 + end - at);
    for (long b = b0; b < b1; ++b) {
      const float* q = shared.qkv + b * z.Qp + h * z.K;
      for (long k = 0; k < z.K; ++k) qv[b * z.Kp + k] = q[k] + layer.v[h * z.Kp + k];
    }
    product(b1 - b0, z.Pp, z.K, qv + b0 * z.Kp, z.Kp, 1, layer.positions + h * z.K * z.Pp, z.Pp, position + b0 * z.Pp, z.Pp,
            false);
    for (long b = b0; b < b1; ++b) {
      const float* q = shared.qkv + b * z.Qp + h * z.K;
      for (long k = 0; k < z.K; ++k) qu[k] = q[k] + layer.u[h * z.Kp + k];
      std::fill(qu + z.K, qu + z.Kp, 0.0f);
      float* keys = rings.keys_values + ((l * z.B + from + b) * z.H + h) * 2 * z.P * z.Kp;
      float* values = keys + z.P * z.Kp;
      std::copy(q + z.I, q + z.I + z.K, keys + rings.cursor * z.Kp);
      std::copy(q + 2 * z.I, q + 2 * z.I + z.K, values + rings.cursor * z.Kp);
      const long horizon = rings.reset[from + b] ? 0 : rings.filled[from + b];
      look(to, qu, position + b * z.Pp, keys, values, score, rings.cursor, horizon, z);
      std::copy(to, to + z.K, shared.attended + b * z.I + h * z.K);
    }
    at += b1 - b0;
  }
}

// All layers for the streams from..from+m, by the members of one team.
void act(const Member& me, long from, long m, const float* x, const float* weights, const Rings& rings, const Shared& shared,
         float* y, const Stack& z) {
  thread_local Room room;
  const long w = z.Dp;
  float* stream = room.get(4 * m * w + m * z.Fp);
  float *normal = stream + m * w, *update = normal + m * w, *spare = update + m * w, *hidden = spare + m * w;
  for (long i = 0; i < m; ++i) {
    std::copy(x + (from + i) * z.D, x + (from + i + 1) * z.D, stream + i * w);
    std::fill(stream + i * w + z.D, stream + (i + 1) * w, 0.0f);
  }
  for (long l = 0; l < z.L; ++l) {
    Layer layer;
    Layer::walk(&layer, weights + l * Layer::floats(z), z);
    for (long i = me.begin(m); i < me.end(m); ++i)
      std::copy(stream + i * w, stream + i * w + z.D, rings.inputs + (((from + i) * z.P + rings.cursor) * z.L + l) * z.D);
    const float* seen = stream;
    if (z.norm_inputs) {
      normalise(normal, stream, layer.scale_1, layer.offset_1, m, z);
      seen = normal;
    }
    dense(me, m, z.Qp, z.D, seen, w, layer.qkv, shared.qkv, false);
    me.meet();
    attend(me, layer, l, from, m, shared, rings, z);
    me.meet();
    dense(me, m, w, z.I, shared.attended, z.I, layer.out, shared.out, false);
    me.meet();
    std::copy(shared.out, shared.out + m * w, update);
    if (z.norm_inputs) relu(update, m, w);
    join(me, layer.gate_1, stream, update, spare, shared, m, z);
    const float *scale = z.norm_inputs ? layer.scale_2 : layer.scale_1, *offset = z.norm_inputs ? layer.offset_2 : layer.offset_1;
    normalise(normal, stream, scale, offset, m, z);
    if (!z.norm_inputs) std::copy(normal, normal + m * w, stream);
    dense(me, m, z.Fp, z.D, normal, w, layer.first, shared.hidden, false);
    me.meet();
    elementwise(m, z.Fp, [&](long i, long f) {
      store(hidden + i * z.Fp + f, larger(load(shared.hidden + i * z.Fp + f) + load(layer.bias_1 + f), vf{}));
    });
    dense(me, m, w, z.F, hidden, z.Fp, layer.second, shared.mlp, false);
    me.meet();
    elementwise(m, w, [&](long i, long d) {
      const vf value = load(shared.mlp + i * w + d) + load(layer.bias_2 + d);
      store(update + i * w + d, z.norm_inputs ? larger(value, vf{}) : value);
    });
    join(me, layer.gate_2, stream, update, spare, shared, m, z);
    if (!z.norm_inputs) {
      normalise(normal, stream, layer.scale_2, layer.offset_2, m, z);
      std::copy(normal, normal + m * w, stream);
    }
  }
  for (long i = me.begin(m); i < me.end(m); ++i) std::copy(stream + i * w, stream + i * w + z.D, y + (from + i) * z.D);
}

using Floats = ffi::Buffer<ffi::F32>;
using Ints = ffi::Buffer<ffi::S32>;
using Bools = ffi::Buffer<ffi::PRED>;

ffi::Error step(Floats x, Bools reset, Ints filled, Ints cursor, Floats weights, Floats inputs, Floats keys_values, int64_t gate,
                bool norm_inputs, int64_t head_dim, int64_t mlp, int64_t threads, ffi::ResultBuffer<ffi::F32> y,
                ffi::ResultBuffer<ffi::F32> new_inputs, ffi::ResultBuffer<ffi::F32> new_keys_values) {
  Stack z;
  z.L = keys_values.dimensions()[0];
  z.B = keys_values.dimensions()[1];
  z.H = keys_values.dimensions()[2];
  z.P = keys_values.dimensions()[4];
  z.Kp = keys_values.dimensions()[5];
  z.D = x.dimensions()[1];
  z.K = head_dim;
  z.F = mlp;
  z.I = z.H * z.K;
  z.Dp = round_up(z.D, GROUP);
  z.Fp = round_up(z.F, GROUP);
  z.Pp = round_up(z.P, GROUP);
  z.Qp = round_up(3 * z.I, GROUP);
  z.gate = static_cast<GateKind>(gate);
  z.norm_inputs = norm_inputs;
  if (static_cast<long>(weights.element_count()) != z.L * Layer::floats(z))
    return ffi::Error::InvalidArgument("gtrxl's packed weights do not have the length that the sizes ask for");
  // The rings are written in place; XLA copies them beforehand if somebody else still needs them.
  if (inputs.typed_data() != new_inputs->typed_data())
    std::copy(inputs.typed_data(), inputs.typed_data() + inputs.element_count(), new_inputs->typed_data());
  if (keys_values.typed_data() != new_keys_values->typed_data())
    std::copy(keys_values.typed_data(), keys_values.typed_data() + keys_values.element_count(), new_keys_values->typed_data());
  const Rings rings{new_inputs->typed_data(), new_keys_values->typed_data(), filled.typed_data(), reset.typed_data(),
                    cursor.typed_data()[0]};
  thread_local Room room;
  float* const all_shared = room.get(Shared::floats(z.B, z));
  const auto some = [&](const Member& me, long from, long m) {
    const Shared shared(all_shared + Shared::floats(from, z), m, z);
    act(me, from, m, x.typed_data(), weights.typed_data(), rings, shared, y->typed_data(), z);
  };
  if (static_cast<long>(weights.element_count()) > LARGE && threads > 1) {
    Barrier all(std::min<int>(threads, Pool::get().size()));
    Pool::get().together(threads, [&](int rank, int team) {
      Barrier alone(1);
      some(Member{rank, team, team == 1 ? &alone : &all}, 0, z.B);
    });
  } else {
    const long groups = std::min<long>(z.B, threads);
    Pool::get().each(groups, threads, [&](int group) {
      Barrier alone(1);
      const long from = z.B * group / groups, to = z.B * (group + 1) / groups;
      some(Member{0, 1, &alone}, from, to - from);
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
                                  .Attr<int64_t>("gate")
                                  .Attr<bool>("norm_inputs")
                                  .Attr<int64_t>("head_dim")
                                  .Attr<int64_t>("mlp")
                                  .Attr<int64_t>("threads")
                                  .Ret<gtrxl::Floats>()
                                  .Ret<gtrxl::Floats>()
                                  .Ret<gtrxl::Floats>());
