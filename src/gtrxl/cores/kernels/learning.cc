// B segments of T steps through a whole stack of layers, and the gradient of that (block.py, gates.py and attention.py have the
// equations, transformer.py the contract).
//
// L layers, N = B T rows, D width, F MLP width, H heads, K head width, I = H K, M memory slots, P = M + 1 distances. Matrices
// lie as JAX has them. What a layer keeps for its gradient is what products gave, after the activation where there is one:
// sigmoid, tanh and ReLU have derivatives in terms of their results. The rest is computed again. Sums over rows go by chunks
// whose number does not depend on the threads.

#include <cmath>
#include <vector>

#include "attention.h"
#include "boundary.h"
#include "gemm.h"

namespace gtrxl {
namespace {

constexpr long CHUNKS = 16;

struct Stack {
  long L, B, T, D, F, H, K, M, P, I, N, G;  // G: D times the arrays a gate keeps
  GateKind gate;
  bool norm_inputs;
  int threads;
};

using ConstWeights = Weights<const float>;
using WeightGradients = Weights<float>;

class Scratch {
 public:
  explicit Scratch(long floats) : left_(floats), at_(space_.get(floats)) { use_huge_pages(at_, floats); }
  float* take(long n) {
    n = round_up(n, LINE);
    float* const taken = at_;
    at_ += n;
    left_ -= n;
    if (left_ < 0) throw std::bad_alloc();
    return taken;
  }

 private:
  Workspace space_;
  long left_;
  float* at_;
};

// Rows of any width: full vectors, then the tail of n floats.
struct FullVector {};
inline vf get(const float* p, FullVector) { return load(p); }
inline void put(float* p, vf x, FullVector) { store(p, x); }
inline vf get(const float* p, long n) {
  vf x = {};
  std::memcpy(&x, p, n * sizeof(float));
  return x;
}
inline void put(float* p, vf x, long n) { std::memcpy(p, &x, n * sizeof(float)); }
inline vf zero_tail(vf x, FullVector) { return x; }
inline vf zero_tail(vf x, long n) {
  for (long i = n; i < VL; ++i) x[i] = 0;
  return x;
}

template <class Each>
inline void for_vectors(long n, Each each) {
  long d = 0;
  for (; d + VL <= n; d += VL) each(d, FullVector{});
  if (d < n) each(d, n - d);
}

// each(chunk, first row, last row + 1), for chunks of n rows of some width.
template <class Each>
void for_row_chunks(long n, long width, int threads, Each each) {
  const long chunks = std::min(CHUNKS, n);
  Pool::get().parallel_for(chunks, n * width < 8192 ? 1 : threads, [&](int c) { each(c, n * c / chunks, n * (c + 1) / chunks); });
}

// Sums over rows: a partial sum for each chunk, then reduced.
class RowSums {
 public:
  RowSums(long width) : width_(width), parts_(CHUNKS * width, 0.0f) {}
  float* part(long chunk) { return parts_.data() + chunk * width_; }
  // Columns from..from+n, times a sign.
  void reduce_into(float* to, long from, long n, float sign = 1) {
    for (long d = 0; d < n; ++d) to[d] = 0;
    for (long c = 0; c < CHUNKS; ++c)
      for (long d = 0; d < n; ++d) to[d] += sign * parts_[c * width_ + from + d];
  }

 private:
  long width_;
  std::vector<float> parts_;
};

struct Moments {
  float mean, factor;
  Moments(const float* x, long D) {
    vf total = {}, squares = {};
    for_vectors(D, [&](long d, auto n) { total += get(x + d, n); });
    mean = sum(total) / D;
    for_vectors(D, [&](long d, auto n) {
      const vf apart = zero_tail(get(x + d, n) - mean, n);
      squares += apart * apart;
    });
    factor = 1.0f / std::sqrt(sum(squares) / D + EPSILON);
  }
};

// Whether n numbers are finite, and their sum as well.
inline bool can_be_added(const float* x, long n) {
  vf total = {};
  for_vectors(n, [&](long d, auto tail) { total += get(x + d, tail); });
  return std::isfinite(sum(total));
}

// Layer norm of rows; without a scale, zero mean and unit variance alone.
void normalise(float* to, const float* x, const float* scale, const float* offset, const Stack& z) {
  for_row_chunks(z.N, z.D, z.threads, [&](long, long begin, long end) {
    for (long i = begin; i < end; ++i) {
      const float* row = x + i * z.D;
      const Moments m(row, z.D);
      for_vectors(z.D, [&](long d, auto n) {
        vf y = (get(row + d, n) - m.mean) * m.factor;
        if (scale != nullptr) y = y * get(scale + d, n) + get(offset + d, n);
        put(to + i * z.D + d, y, n);
      });
    }
  });
}

// dx (= or +=) the gradient of the norm's input x, from dy, that of its output.
void normalise_backward(float* dx, bool add, const float* x, const float* dy, const float* scale, float* d_scale, float* d_offset,
                        const Stack& z) {
  const long D = z.D;
  RowSums sums(scale == nullptr ? 0 : 2 * D);
  for_row_chunks(z.N, 2 * D, z.threads, [&](long chunk, long begin, long end) {
    float* part = sums.part(chunk);
    for (long i = begin; i < end; ++i) {
      const float *row = x + i * D, *g = dy + i * D;
      const Moments m(row, D);
      vf total = {}, product = {};
      for_vectors(D, [&](long d, auto n) {
        const vf normal = (get(row + d, n) - m.mean) * m.factor;
        vf dn = get(g + d, n);
        if (scale != nullptr) {
          put(part + d, get(part + d, n) + dn * normal, n);
          put(part + D + d, get(part + D + d, n) + dn, n);
          dn *= get(scale + d, n);
        }
        total += dn;
        product += dn * normal;
      });
      const float a = sum(total) / D, b = sum(product) / D;
      for_vectors(D, [&](long d, auto n) {
        const vf normal = (get(row + d, n) - m.mean) * m.factor;
        vf dn = get(g + d, n);
        if (scale != nullptr) dn *= get(scale + d, n);
        vf to = m.factor * (dn - a - normal * b);
        if (add) to += get(dx + i * D + d, n);
        put(dx + i * D + d, to, n);
      });
    }
  });
  if (scale != nullptr) {
    sums.reduce_into(d_scale, 0, D);
    sums.reduce_into(d_offset, D, D);
  }
}

// x = relu(x + bias), either of them optional.
void add_bias_and_relu(float* x, long width, const float* bias, bool rectify, const Stack& z) {
  if (bias == nullptr && !rectify) return;
  for_row_chunks(z.N, width, z.threads, [&](long, long begin, long end) {
    for (long i = begin; i < end; ++i)
      for_vectors(width, [&](long d, auto n) {
        vf y = get(x + i * width + d, n);
        if (bias != nullptr) y += get(bias + d, n);
        put(x + i * width + d, rectify ? relu(y) : y, n);
      });
  });
}

void bias_and_relu_backward(float* dx, const float* y, long width, float* d_bias, bool relu, const Stack& z) {
  if (d_bias == nullptr && !relu) return;
  RowSums sums(width);
  for_row_chunks(z.N, width, z.threads, [&](long chunk, long begin, long end) {
    float* part = sums.part(chunk);
    for (long i = begin; i < end; ++i)
      for_vectors(width, [&](long d, auto n) {
        vf g = get(dx + i * width + d, n);
        if (relu) {
          g = get(y + i * width + d, n) > 0.0f ? g : vf{};
          put(dx + i * width + d, g, n);
        }
        put(part + d, get(part + d, n) + g, n);
      });
  });
  if (d_bias != nullptr) sums.reduce_into(d_bias, 0, width);
}

// The gate's output from stream x, update y and what it keeps.
inline vf gate_formula(GateKind kind, vf x, vf y, vf a, vf b, vf c) {
  switch (kind) {
    case INPUT: return a * x + y;
    case OUTPUT: return x + a * y;
    case HIGHWAY: return a * x + (1.0f - a) * y;
    case SIGTANH: return x + a * b;
    case GRU: return (1.0f - b) * x + b * c;
    default: return x + y;
  }
}

// Calls with the kind as a compile-time constant, so that loops over elements have no branches.
template <class Do>
void dispatch_kind(GateKind kind, Do each) {
  switch (kind) {
    case RESIDUAL: return each(std::integral_constant<GateKind, RESIDUAL>{});
    case INPUT: return each(std::integral_constant<GateKind, INPUT>{});
    case OUTPUT: return each(std::integral_constant<GateKind, OUTPUT>{});
    case HIGHWAY: return each(std::integral_constant<GateKind, HIGHWAY>{});
    case SIGTANH: return each(std::integral_constant<GateKind, SIGTANH>{});
    case GRU: return each(std::integral_constant<GateKind, GRU>{});
  }
}

template <GateKind KIND, class N>
inline vf gate_at(const float* x, const float* y, const float* kept, long d, long D, N n) {
  const vf none = {};
  return gate_formula(KIND, get(x + d, n), KIND == SIGTANH || KIND == GRU ? none : get(y + d, n),
                KIND == RESIDUAL ? none : get(kept + d, n),
                GATE_KEPT[KIND] > 1 ? get(kept + D + d, n) : none, GATE_KEPT[KIND] > 2 ? get(kept + 2 * D + d, n) : none);
}

// The gate's output once more, from what it keeps.
void gate_from_kept(float* to, const float* x, const float* y, const float* kept, const Stack& z) {
  dispatch_kind(z.gate, [&](auto kind) {
    for_row_chunks(z.N, z.D, z.threads, [&](long, long begin, long end) {
      for (long i = begin; i < end; ++i)
        for_vectors(z.D, [&](long d, auto n) {
          put(to + i * z.D + d, gate_at<decltype(kind)::value>(x + i * z.D, y + i * z.D, kept + i * z.G, d, z.D, n), n);
        });
    });
  });
}

void apply_gate(float* to, float* kept, const float* x, const float* y, const ConstWeights::Gate& gate, float* spare,
                const Stack& z) {
  const long D = z.D, N = z.N, G = z.G;
  switch (z.gate) {
    case RESIDUAL:
      break;
    case INPUT:
    case OUTPUT:
    case HIGHWAY:
      multiply(N, D, D, Left{x, D}, Right{gate.w, D}, kept, D, false, z.threads);
      break;
    case SIGTANH:
      multiply(N, 2 * D, D, Left{y, D}, Right{gate.w, 2 * D}, kept, G, false, z.threads);
      break;
    case GRU:
      multiply(N, 3 * D, D, Left{y, D}, Right{gate.w, 3 * D}, kept, G, false, z.threads);
      multiply(N, 2 * D, D, Left{x, D}, Right{gate.u_rz, 2 * D}, kept, G, true, z.threads);
      for_row_chunks(N, 4 * D, z.threads, [&](long, long begin, long end) {
        for (long i = begin; i < end; ++i)
          for_vectors(D, [&](long d, auto n) {
            float* at = kept + i * G + d;
            const vf r = sigmoid(get(at, n));
            put(at, r, n);
            put(spare + i * D + d, r * get(x + i * D + d, n), n);
          });
      });
      multiply(N, D, D, Left{spare, D}, Right{gate.u_g, D}, kept + 2 * D, G, true, z.threads);
      break;
  }
  dispatch_kind(z.gate, [&](auto kind) {
    constexpr GateKind KIND = decltype(kind)::value;
    for_row_chunks(N, 4 * D, z.threads, [&](long, long begin, long end) {
      for (long i = begin; i < end; ++i)
        for_vectors(D, [&](long d, auto n) {
          float* at = kept + i * G + d;
          if constexpr (KIND == INPUT) put(at, sigmoid(get(at, n)), n);
          if constexpr (KIND == OUTPUT || KIND == SIGTANH) put(at, sigmoid(get(at, n) - get(gate.bias + d, n)), n);
          if constexpr (KIND == HIGHWAY) put(at, sigmoid(get(at, n) + get(gate.bias + d, n)), n);
          if constexpr (KIND == SIGTANH) put(at + D, tanh(get(at + D, n)), n);
          if constexpr (KIND == GRU) {
            put(at + D, sigmoid(get(at + D, n) - get(gate.bias + d, n)), n);
            put(at + 2 * D, tanh(get(at + 2 * D, n)), n);
          }
          put(to + i * D + d, gate_at<KIND>(x + i * D, y + i * D, kept + i * G, d, D, n), n);
        });
    });
  });
}

struct GateSpace {
  float *d_pre, *spare, *reset;  // [N, G], [N, D] and [N, D]
};

// dx and dy from the gradient `out` of what the gate gave.
void gate_backward(float* dx, float* dy, const float* out, const float* kept, const float* x, const float* y,
                   const ConstWeights::Gate& gate, const WeightGradients::Gate& d_gate, const GateSpace& space, const Stack& z) {
  const long D = z.D, N = z.N, G = z.G;
  float* d_pre = space.d_pre;  // gradients of the pre-activations
  RowSums bias(D);
  dispatch_kind(z.gate, [&](auto kind) {
    constexpr GateKind KIND = decltype(kind)::value;
    for_row_chunks(N, 4 * D, z.threads, [&](long chunk, long begin, long end) {
      float* part = bias.part(chunk);
      for (long i = begin; i < end; ++i)
        for_vectors(D, [&](long d, auto n) {
          const long at = i * D + d;
          const vf g = get(out + at, n);
          const float* k = kept + i * G + d;
          float* b = d_pre + i * G + d;
          if constexpr (KIND == RESIDUAL) {
            put(dx + at, g, n);
            put(dy + at, g, n);
          } else if constexpr (KIND == GRU) {
            const vf r = get(k, n), open = get(k + D, n), h = get(k + 2 * D, n), stream = get(x + at, n);
            const vf d_open = g * (h - stream) * open * (1.0f - open);
            put(b + D, d_open, n);
            put(b + 2 * D, g * open * (1.0f - h * h), n);
            put(dx + at, g * (1.0f - open), n);
            put(space.reset + at, r * stream, n);
            put(part + d, get(part + d, n) + d_open, n);
          } else if constexpr (KIND == SIGTANH) {
            const vf open = get(k, n), h = get(k + D, n), d_open = g * h * open * (1.0f - open);
            put(b, d_open, n);
            put(b + D, g * open * (1.0f - h * h), n);
            put(dx + at, g, n);
            put(part + d, get(part + d, n) + d_open, n);
          } else {
            const vf a = get(k, n), stream = get(x + at, n), update = get(y + at, n);
            const vf by = KIND == INPUT ? stream : KIND == OUTPUT ? update : stream - update;
            const vf d_open = g * by * a * (1.0f - a);
            put(b, d_open, n);
            put(dx + at, KIND == OUTPUT ? g : g * a, n);
            put(dy + at, KIND == INPUT ? g : KIND == OUTPUT ? g * a : g * (1.0f - a), n);
            put(part + d, get(part + d, n) + d_open, n);
          }
        });
    });
  });
  switch (z.gate) {
    case RESIDUAL:
      return;
    case INPUT:
    case OUTPUT:
    case HIGHWAY:
      multiply(N, D, D, Left{d_pre, D}, Right{gate.w, D, true}, dx, D, true, z.threads);
      multiply(D, D, N, Left{x, D, true}, Right{d_pre, D}, d_gate.w, D, false, z.threads, true);
      break;
    case SIGTANH:
      multiply(N, D, 2 * D, Left{d_pre, G}, Right{gate.w, 2 * D, true}, dy, D, false, z.threads);
      multiply(D, 2 * D, N, Left{y, D, true}, Right{d_pre, G}, d_gate.w, 2 * D, false, z.threads, true);
      break;
    case GRU:
      multiply(N, D, D, Left{d_pre + 2 * D, G}, Right{gate.u_g, D, true}, space.spare, D, false, z.threads);
      for_row_chunks(N, 4 * D, z.threads, [&](long, long begin, long end) {
        for (long i = begin; i < end; ++i)
          for_vectors(D, [&](long d, auto n) {
            const long at = i * D + d;
            const vf r = get(kept + i * G + d, n), g = get(space.spare + at, n);
            put(d_pre + i * G + d, g * get(x + at, n) * r * (1.0f - r), n);
            put(dx + at, get(dx + at, n) + g * r, n);
          });
      });
      multiply(N, D, 2 * D, Left{d_pre, G}, Right{gate.u_rz, 2 * D, true}, dx, D, true, z.threads);
      multiply(N, D, 3 * D, Left{d_pre, G}, Right{gate.w, 3 * D, true}, dy, D, false, z.threads);
      multiply(D, 3 * D, N, Left{y, D, true}, Right{d_pre, G}, d_gate.w, 3 * D, false, z.threads, true);
      multiply(D, 2 * D, N, Left{x, D, true}, Right{d_pre, G}, d_gate.u_rz, 2 * D, false, z.threads, true);
      multiply(D, D, N, Left{space.reset, D, true}, Right{d_pre + 2 * D, G}, d_gate.u_g, D, false, z.threads, true);
      break;
  }
  if (z.gate != INPUT) bias.reduce_into(d_gate.bias, 0, D, z.gate == HIGHWAY ? 1.0f : -1.0f);
}

// The norm's scale s and offset o go into the weights behind it: (s n + o) W = n (s W) + o W. This is o W.
void fold_bias(float* bias, const ConstWeights& w, const Stack& z) {
  const long wide = 3 * z.I, blocks = std::max(1L, std::min(8L, wide / 64));
  Pool::get().parallel_for(blocks, z.D * wide < 65536 ? 1 : z.threads, [&](int block) {
    const long from = wide * block / blocks / VL * VL, to = block + 1 < blocks ? wide * (block + 1) / blocks / VL * VL : wide;
    std::fill(bias + from, bias + to, 0.0f);
    for (long d = 0; d < z.D; ++d)
      for_vectors(to - from, [&](long j, auto n) {
        put(bias + from + j, get(bias + from + j, n) + w.offset_1[d] * get(w.qkv + d * wide + from + j, n), n);
      });
  });
}

// The gradients of W, s and o from that of s W, `folded`, and that of o W.
void fold_backward(const WeightGradients& to, const float* folded, const float* d_bias, const ConstWeights& w, const Stack& z) {
  const long wide = 3 * z.I;
  const bool streams = z.D * wide >= FAR && can_stream(to.qkv, wide, wide);
  for_row_chunks(z.D, wide, z.threads, [&](long, long begin, long end) {
    for (long d = begin; d < end; ++d) {
      vf scale = {}, offset = {};
      for_vectors(wide, [&](long j, auto n) {
        const vf g = get(folded + d * wide + j, n), weight = get(w.qkv + d * wide + j, n), b = get(d_bias + j, n);
        scale += g * weight;
        offset += b * weight;
        const vf here = w.scale_1[d] * g + w.offset_1[d] * b;
        if (streams) stream(to.qkv + d * wide + j, here);
        else put(to.qkv + d * wide + j, here, n);
      });
      to.scale_1[d] = sum(scale);
      to.offset_1[d] = sum(offset);
    }
    if (streams) finish_streams();
  });
}

// The memory of layer l, normalised by `mean` and `factor`.
Left memory_rows(const float* memory, long l, const float* mean, const float* factor, bool transposed, const Stack& z) {
  return Left{memory + l * z.M * z.D, z.D, transposed, z.M, z.L * z.M * z.D, mean, factor};
}

void memory_moments(const Kept<float>& kept, const float* memory, const int32_t* filled, long l, const Stack& z) {
  const Left rows = memory_rows(memory, l, nullptr, nullptr, false, z);
  for_row_chunks(z.B * z.M, z.D, z.threads, [&](long, long begin, long end) {
    for (long i = begin; i < end; ++i) {
      kept.mean[i] = 0;
      kept.factor[i] = i % z.M >= z.M - filled[i / z.M];  // slots that hold nothing are read as zeros
      if (kept.factor[i] == 0) continue;
      if (z.norm_inputs) {
        const Moments m(rows.row(i), z.D);
        kept.mean[i] = m.mean;
        kept.factor[i] = m.factor;
      }
      if (z.norm_inputs ? !std::isfinite(kept.mean[i]) : !can_be_added(rows.row(i), z.D)) {
        kept.mean[i] = NAN;  // spoilt, see below: read as zeros too
        kept.factor[i] = 0;
      }
    }
  });
}

// What layers.py calls spoilt: rows that are not finite are computed with as zeros and marked, and so is all that sees one. There
// are marks of the rows that go into each layer, and of those that the last one gives. A spoilt row of the memory has no mean.

void clean_rows(float* x, int32_t* spoilt, const Stack& z) {
  for_row_chunks(z.N, z.D, z.threads, [&](long, long begin, long end) {
    for (long i = begin; i < end; ++i) {
      if (spoilt[i] == 0) spoilt[i] = !can_be_added(x + i * z.D, z.D);
      if (spoilt[i] != 0) std::fill(x + i * z.D, x + (i + 1) * z.D, 0.0f);
    }
  });
}

// Marks every step that sees a marked row. Slots that hold nothing are not marked.
void mark_what_sees(int32_t* to, const int32_t* spoilt, const float* memory_mean, const int32_t* horizon, const Stack& z) {
  for (long b = 0; b < z.B; ++b) {
    long newest = -1;
    for (long s = 0; s < z.M; ++s)
      if (std::isnan(memory_mean[b * z.M + s])) newest = s;
    for (long i = b * z.T, at = z.M; i < (b + 1) * z.T; ++i, ++at) {
      if (spoilt[i] != 0) newest = at;
      to[i] = newest >= at - horizon[i];
    }
  }
}

// each(number) of the rows that are marked: hardly ever any.
template <class Each>
void for_spoilt(float* x, const int32_t* spoilt, const Stack& z, Each each) {
  for (long i = 0; i < z.N; ++i)
    for (long d = 0; d < z.D && spoilt[i] != 0; ++d) each(x[i * z.D + d]);
}

struct Shared {
  const float *memory, *code;  // code: farthest distance first
  const int32_t *filled, *horizon;
};

void layer_forward(float* to, const float* x, long l, const Kept<float>& kept, const ConstWeights& w, const Shared& shared,
                   float* normal, float* spare, const Stack& z) {
  const long N = z.N, D = z.D, I = z.I, F = z.F;
  const float *seen = x, *scale_1 = z.norm_inputs ? w.scale_1 : nullptr;
  if (z.norm_inputs) {
    normalise(normal, x, nullptr, nullptr, z);
    fold_bias(kept.bias, w, z);
    seen = normal;
  } else {
    std::fill(kept.bias, kept.bias + 3 * I, 0.0f);
  }
  multiply(N, 3 * I, D, Left{seen, D}, Right{w.qkv, 3 * I, false, scale_1}, kept.qkv, 3 * I, false, z.threads);
  memory_moments(kept, shared.memory, shared.filled, l, z);
  const Left memory = memory_rows(shared.memory, l, kept.mean, kept.factor, false, z);
  multiply(z.B * z.M, 2 * I, D, memory, Right{w.qkv + I, 3 * I, false, scale_1}, kept.memory, 2 * I, false, z.threads);
  multiply(z.P, I, D, Left{shared.code, D}, Right{w.r, I}, kept.r, I, false, z.threads);
  const Inputs in{kept.qkv, kept.memory, kept.r, kept.bias, w.u, w.v, shared.horizon};
  attend_forward(in, kept.attended, {kept.max_score, kept.inverse_sum}, z.threads, Sizes(z.B, z.T, z.M, z.H, z.K));
  multiply(N, D, I, Left{kept.attended, I}, Right{w.o, D}, kept.update_1, D, false, z.threads);
  add_bias_and_relu(kept.update_1, D, nullptr, z.norm_inputs, z);
  apply_gate(kept.after_1, kept.gate_1, x, kept.update_1, w.gate_1, spare, z);
  normalise(normal, kept.after_1, z.norm_inputs ? w.scale_2 : w.scale_1, z.norm_inputs ? w.offset_2 : w.offset_1, z);
  multiply(N, F, D, Left{normal, D}, Right{w.first, F}, kept.hidden, F, false, z.threads);
  add_bias_and_relu(kept.hidden, F, w.bias_1, true, z);
  multiply(N, D, F, Left{kept.hidden, F}, Right{w.second, D}, kept.update_2, D, false, z.threads);
  add_bias_and_relu(kept.update_2, D, w.bias_2, z.norm_inputs, z);
  apply_gate(to, kept.gate_2, z.norm_inputs ? kept.after_1 : normal, kept.update_2, w.gate_2, spare, z);
  if (!z.norm_inputs) normalise(to, to, w.scale_2, w.offset_2, z);
}

struct BackwardSpace {
  float *update, *normal, *spare, *d_pre, *hidden, *qkv, *memory, *attended, *d_folded, *r, *bias;

  static long floats(const Stack& z) {
    BackwardSpace space;
    return space.walk([](long n) { return static_cast<float*>(nullptr); }, z);
  }
  BackwardSpace(Scratch& scratch, const Stack& z) {
    walk([&](long n) { return scratch.take(n); }, z);
  }

 private:
  BackwardSpace() = default;
  template <class Take>
  long walk(Take from, const Stack& z) {
    long total = 0;
    const auto take = [&](float*& field, long n) {
      field = from(n);
      total += round_up(n, LINE);
    };
    take(update, z.N * z.D);
    take(normal, z.N * z.D);
    take(spare, z.N * z.D);
    take(d_pre, z.N * z.G);
    take(hidden, z.N * z.F);
    take(qkv, z.N * 3 * z.I);
    take(memory, z.B * z.M * 2 * z.I);
    take(attended, z.N * std::max(z.I, z.D));  // the gates use it as well
    take(d_folded, z.D * 3 * z.I);
    take(r, z.P * z.I);
    take(bias, 3 * z.I);
    return total;
  }
};

// dx from the gradient `out` of the layer's output, which is overwritten.
void layer_backward(float* dx, float* out, const float* x, long l, const Kept<const float>& kept, const ConstWeights& w,
                    const WeightGradients& d, const Shared& shared, const BackwardSpace& space, const Stack& z) {
  const long N = z.N, D = z.D, I = z.I, F = z.F;
  const GateSpace gate_space{space.d_pre, space.spare, space.attended};
  // The MLP's input: the norm of what gate_1 gave. In TrXL it is the stream as well.
  const float *scale = z.norm_inputs ? w.scale_2 : w.scale_1, *offset = z.norm_inputs ? w.offset_2 : w.offset_1;
  normalise(space.normal, kept.after_1, scale, offset, z);
  const float* stream = z.norm_inputs ? kept.after_1 : space.normal;
  if (!z.norm_inputs) {
    gate_from_kept(space.spare, stream, kept.update_2, kept.gate_2, z);
    normalise_backward(out, false, space.spare, out, w.scale_2, d.scale_2, d.offset_2, z);
  }
  gate_backward(dx, space.update, out, kept.gate_2, stream, kept.update_2, w.gate_2, d.gate_2, gate_space, z);
  bias_and_relu_backward(space.update, kept.update_2, D, d.bias_2, z.norm_inputs, z);
  multiply(F, D, N, Left{kept.hidden, F, true}, Right{space.update, D}, d.second, D, false, z.threads, true);
  multiply(N, F, D, Left{space.update, D}, Right{w.second, D, true}, space.hidden, F, false, z.threads);
  bias_and_relu_backward(space.hidden, kept.hidden, F, d.bias_1, true, z);
  multiply(D, F, N, Left{space.normal, D, true}, Right{space.hidden, F}, d.first, F, false, z.threads, true);
  if (z.norm_inputs) {
    multiply(N, D, F, Left{space.hidden, F}, Right{w.first, F, true}, space.update, D, false, z.threads);
    normalise_backward(dx, true, kept.after_1, space.update, w.scale_2, d.scale_2, d.offset_2, z);
  } else {
    multiply(N, D, F, Left{space.hidden, F}, Right{w.first, F, true}, dx, D, true, z.threads);
    normalise_backward(dx, false, kept.after_1, dx, w.scale_1, d.scale_1, d.offset_1, z);
  }
  std::swap(dx, out);
  gate_backward(dx, space.update, out, kept.gate_1, x, kept.update_1, w.gate_1, d.gate_1, gate_space, z);
  bias_and_relu_backward(space.update, kept.update_1, D, nullptr, z.norm_inputs, z);
  multiply(I, D, N, Left{kept.attended, I, true}, Right{space.update, D}, d.o, D, false, z.threads, true);
  multiply(N, I, D, Left{space.update, D}, Right{w.o, D, true}, space.attended, I, false, z.threads);
  const Inputs in{kept.qkv, kept.memory, kept.r, kept.bias, w.u, w.v, shared.horizon};
  attend_backward(in, {kept.max_score, kept.inverse_sum}, space.attended, Gradients{space.qkv, space.memory}, space.r, space.bias,
                  d.u, d.v, z.threads, Sizes(z.B, z.T, z.M, z.H, z.K));
  multiply(D, I, z.P, Left{shared.code, D, true}, Right{space.r, I}, d.r, I, false, z.threads, true);
  const float* seen = x;
  float* d_qkv = d.qkv;
  if (z.norm_inputs) {
    normalise(space.normal, x, nullptr, nullptr, z);
    seen = space.normal;
    d_qkv = space.d_folded;
  }
  multiply(D, 3 * I, N, Left{seen, D, true}, Right{space.qkv, 3 * I}, d_qkv, 3 * I, false, z.threads);
  const Left memory = memory_rows(shared.memory, l, kept.mean, kept.factor, true, z);
  multiply(D, 2 * I, z.B * z.M, memory, Right{space.memory, 2 * I}, d_qkv + I, 3 * I, true, z.threads);
  if (z.norm_inputs) {
    fold_backward(d, space.d_folded, space.bias, w, z);
    multiply(N, D, 3 * I, Left{space.qkv, 3 * I}, Right{w.qkv, 3 * I, true, w.scale_1}, space.update, D, false, z.threads);
    normalise_backward(dx, true, x, space.update, nullptr, nullptr, nullptr, z);
  } else {
    multiply(N, D, 3 * I, Left{space.qkv, 3 * I}, Right{w.qkv, 3 * I, true}, dx, D, true, z.threads);
  }
  // Two gates: the result lies where `out` lay when the layer began.
}

// `embedded` and `memory` say the sizes that all other arrays must have.
ffi::ErrorOr<Stack> stack_of(const Floats& embedded, const Floats& memory, int64_t gate, bool norm_inputs, int64_t heads,
                             int64_t head_dim, int64_t mlp, int64_t threads) {
  if (embedded.dimensions().size() != 3 || memory.dimensions().size() != 4 || gate < 0 || gate >= GATES)
    return ffi::Unexpected(wrong_shapes("unroll"));
  Stack z;
  z.B = embedded.dimensions()[0];
  z.T = embedded.dimensions()[1];
  z.D = embedded.dimensions()[2];
  z.L = memory.dimensions()[1];
  z.M = memory.dimensions()[2];
  z.H = heads;
  z.K = head_dim;
  z.F = mlp;
  z.P = z.M + 1;
  z.I = z.H * z.K;
  z.N = z.B * z.T;
  z.gate = static_cast<GateKind>(gate);
  z.G = GATE_KEPT[z.gate] * z.D;
  z.norm_inputs = norm_inputs;
  z.threads = threads;
  if (!has_shape(memory, {z.B, z.L, z.M, z.D})) return ffi::Unexpected(wrong_shapes("unroll"));
  return z;
}

ffi::ErrorOr<std::vector<const float*>> weights_of(const ffi::RemainingArgs& rest, const Stack& z) {
  const auto shapes = ConstWeights::shapes(z);
  std::vector<const float*> all;
  for (size_t i = 0; i < rest.size() && rest.size() == shapes.size(); ++i) {
    auto given = rest.get<Floats>(i);
    if (given.has_error()) return ffi::Unexpected(given.error());
    if (has_shape(*given, shapes[i])) all.push_back(given->typed_data());
  }
  if (all.size() != shapes.size()) return ffi::Unexpected(wrong_shapes("unroll"));
  return all;
}

// `kept` has a row for each layer, or no row if nobody wants the gradient.
ffi::Error forward(Floats embedded, Floats memory, Ints filled, Ints horizon, Floats code, ffi::RemainingArgs rest, Out y,
                   Out inputs, Out kept, OutInts spoilt, int64_t gate, bool norm_inputs, int64_t heads, int64_t head_dim,
                   int64_t mlp, int64_t threads) {
  const auto stack = stack_of(embedded, memory, gate, norm_inputs, heads, head_dim, mlp, threads);
  if (stack.has_error()) return stack.error();
  const Stack z = *stack;
  if (!has_shape(filled, {z.B}) || !has_shape(horizon, {z.B, z.T}) || !has_shape(code, {z.P, z.D}) ||
      !has_shape(*y, {z.B, z.T, z.D}) || !has_shape(*inputs, {z.L, z.B, z.T, z.D}) ||
      !has_shape(*spoilt, {z.L + 1, z.B, z.T}))
    return wrong_shapes("unroll");
  const auto weights = weights_of(rest, z);
  if (weights.has_error()) return weights.error();
  const Shared shared{memory.typed_data(), code.typed_data(), filled.typed_data(), horizon.typed_data()};
  const long each = Kept<float>::floats(z), rows = z.N * z.D;
  const bool keep = kept->element_count() > 0;
  if (!has_shape(*kept, {keep ? z.L : 0, each})) return wrong_shapes("unroll");
  Scratch scratch(2 * rows + 2 * LINE + (keep ? 0 : each));
  float *normal = scratch.take(rows), *spare = scratch.take(rows);
  float* const room = keep ? kept->typed_data() : scratch.take(each);
  if (keep) use_huge_pages(room, kept->element_count());
  float* const layers = inputs->typed_data();
  use_huge_pages(layers, inputs->element_count());
  std::copy(embedded.typed_data(), embedded.typed_data() + rows, layers);
  const auto not_a_number = [](float& x) { x = NAN; };
  int32_t* marks = spoilt->typed_data();
  std::fill(marks, marks + z.N, 0);
  for (long l = 0; l < z.L; ++l, marks += z.N) {
    float *const x = layers + l * rows, *const to = l + 1 < z.L ? x + rows : y->typed_data();
    const Kept<float> of_layer(room + (keep ? l * each : 0), z);
    clean_rows(x, marks, z);
    layer_forward(to, x, l, of_layer, ConstWeights(*weights, l, z), shared, normal, spare, z);
    mark_what_sees(marks + z.N, marks, of_layer.mean, shared.horizon, z);
    for_spoilt(x, marks, z, not_a_number);
  }
  for_spoilt(y->typed_data(), marks, z, not_a_number);
  return ffi::Error::Success();
}

ffi::Error backward(Floats dy, Floats inputs, Floats kept, Ints spoilt, Floats memory, Ints horizon, Floats code,
                    ffi::RemainingArgs rest, Out d_embedded, ffi::RemainingRets d_weights, int64_t gate, bool norm_inputs,
                    int64_t heads, int64_t head_dim, int64_t mlp, int64_t threads) {
  const auto stack = stack_of(dy, memory, gate, norm_inputs, heads, head_dim, mlp, threads);
  if (stack.has_error()) return stack.error();
  const Stack z = *stack;
  const long each = Kept<float>::floats(z), rows = z.N * z.D;
  if (!has_shape(horizon, {z.B, z.T}) || !has_shape(code, {z.P, z.D}) || !has_shape(inputs, {z.L, z.B, z.T, z.D}) ||
      !has_shape(kept, {z.L, each}) || !has_shape(spoilt, {z.L + 1, z.B, z.T}) || !has_shape(*d_embedded, {z.B, z.T, z.D}))
    return wrong_shapes("gradient");
  const auto weights = weights_of(rest, z);
  if (weights.has_error()) return weights.error();
  const auto shapes = ConstWeights::shapes(z);
  std::vector<float*> gradients;
  for (size_t i = 0; i < d_weights.size(); ++i) {
    auto result = d_weights.get<Floats>(i);
    if (result.has_error()) return result.error();
    if (i >= shapes.size() || !has_shape(**result, shapes[i])) return wrong_shapes("gradient");
    gradients.push_back((*result)->typed_data());
    use_huge_pages(gradients.back(), (*result)->element_count());
  }
  if (gradients.size() != shapes.size()) return wrong_shapes("gradient");
  const Shared shared{memory.typed_data(), code.typed_data(), nullptr, horizon.typed_data()};
  Scratch scratch(BackwardSpace::floats(z) + rows + LINE);
  const BackwardSpace space(scratch, z);
  float *d = d_embedded->typed_data(), *other = scratch.take(rows);
  std::copy(dy.typed_data(), dy.typed_data() + rows, d);
  const auto beyond = [](float& x) { x *= BEYOND; };
  const int32_t* marks = spoilt.typed_data() + z.L * z.N;
  for_spoilt(d, marks, z, beyond);
  for (long l = z.L; l-- > 0;) {
    marks -= z.N;
    const float* x = inputs.typed_data() + l * rows;
    std::vector<float> cleaned;
    if (std::any_of(marks, marks + z.N, [](int32_t mark) { return mark != 0; })) {
      cleaned.assign(x, x + rows);
      for_spoilt(cleaned.data(), marks, z, [](float& x) { x = 0; });
      x = cleaned.data();
    }
    layer_backward(other, d, x, l, Kept<const float>(kept.typed_data() + l * each, z), ConstWeights(*weights, l, z),
                   WeightGradients(gradients, l, z), shared, space, z);
    for_spoilt(d, marks, z, beyond);
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace gtrxl

XLA_FFI_DEFINE_HANDLER_SYMBOL(gtrxl_unroll, gtrxl::forward,
                              ffi::Ffi::Bind()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Ints>()
                                  .Arg<gtrxl::Ints>()
                                  .Arg<gtrxl::Floats>()
                                  .RemainingArgs()
                                  .Ret<gtrxl::Floats>()
                                  .Ret<gtrxl::Floats>()
                                  .Ret<gtrxl::Floats>()
                                  .Ret<gtrxl::Ints>()
                                  .Attr<int64_t>("gate")
                                  .Attr<bool>("norm_inputs")
                                  .Attr<int64_t>("heads")
                                  .Attr<int64_t>("head_dim")
                                  .Attr<int64_t>("mlp")
                                  .Attr<int64_t>("threads"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(gtrxl_unroll_backward, gtrxl::backward,
                              ffi::Ffi::Bind()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Ints>()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Ints>()
                                  .Arg<gtrxl::Floats>()
                                  .RemainingArgs()
                                  .Ret<gtrxl::Floats>()
                                  .RemainingRets()
                                  .Attr<int64_t>("gate")
                                  .Attr<bool>("norm_inputs")
                                  .Attr<int64_t>("heads")
                                  .Attr<int64_t>("head_dim")
                                  .Attr<int64_t>("mlp")
                                  .Attr<int64_t>("threads"));
