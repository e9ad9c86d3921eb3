// B segments of T steps through a whole stack of layers, and the gradient of that (block.py, gates.py and attention.py have the
// equations, transformer.py the contract).
//
// L layers, N = B T rows, D width, F MLP width, H heads, K head width, I = H K, M memory slots, P = M + 1 distances. Matrices
// lie as JAX has them. What a layer keeps for its gradient is what products gave, after the activation where there is one:
// sigmoid, tanh and ReLU have derivatives in terms of their results. The rest is computed again. Sums over rows go by chunks
// whose number does not depend on the threads.

#include <sys/mman.h>

#include <cmath>
#include <vector>

#include "attention.h"
#include "blocks.h"
#include "gemm.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace gtrxl {
namespace {

constexpr long CHUNKS = 16;
constexpr long LINE = 16;  // floats in a line of the cache

// How many arrays of width D a gate keeps, and how many weights it has.
constexpr long GATE_WIDTHS[] = {0, 1, 1, 1, 2, 3};
constexpr long GATE_WEIGHTS[] = {0, 1, 2, 2, 2, 4};

struct Stack {
  long L, B, T, D, F, H, K, M, P, I, N, G;  // G: D times the arrays a gate keeps
  GateKind gate;
  bool norm_inputs;
  int threads;
};

// Pointers to stacked weights, or to their gradients, of one layer.
template <class Float>
struct Weights {
  struct Gate {
    Float *w, *u_rz, *u_g, *bias;
  };
  Float *qkv, *r, *o, *u, *v, *first, *bias_1, *second, *bias_2, *scale_1, *offset_1, *scale_2, *offset_2;
  Gate gate_1, gate_2;

  static long count(const Stack& z) { return 13 + 2 * GATE_WEIGHTS[z.gate]; }

  Weights(const std::vector<Float*>& all, long l, const Stack& z) {
    size_t next = 0;
    const auto take = [&](Float*& field, long floats) { field = all[next++] + l * floats; };
    take(qkv, z.D * 3 * z.I);
    take(r, z.D * z.I);
    take(o, z.I * z.D);
    take(u, z.I);
    take(v, z.I);
    take(first, z.D * z.F);
    take(bias_1, z.F);
    take(second, z.F * z.D);
    take(bias_2, z.D);
    take(scale_1, z.D);
    take(offset_1, z.D);
    take(scale_2, z.D);
    take(offset_2, z.D);
    for (Gate* gate : {&gate_1, &gate_2}) {
      if (z.gate == RESIDUAL) continue;
      take(gate->w, z.D * z.D * (z.gate == GRU ? 3 : z.gate == SIGTANH ? 2 : 1));
      if (z.gate == GRU) {
        take(gate->u_rz, z.D * 2 * z.D);
        take(gate->u_g, z.D * z.D);
      }
      if (z.gate != INPUT) take(gate->bias, z.D);
    }
  }
};

using Given = Weights<const float>;
using Wanted = Weights<float>;

// What a layer keeps (learning.py counts it too). For `norm_inputs`, update_1 and update_2 are behind their ReLU.
template <class Float>
struct Kept {
  Float *qkv, *memory, *r, *bias, *attended, *lse, *update_1, *gate_1, *joined, *hidden, *update_2, *gate_2, *mean, *factor;

  Kept(Float* at, const Stack& z) { walk(at, z); }
  static long floats(const Stack& z) { return Kept(nullptr, z).end_; }

 private:
  void walk(Float* start, const Stack& z) {
    long at = 0;
    const auto take = [&](Float*& field, long n) {
      field = start == nullptr ? nullptr : start + at;
      at += round_up(n, LINE);
    };
    take(qkv, z.N * 3 * z.I);
    take(memory, z.B * z.M * 2 * z.I);
    take(r, z.P * z.I);
    take(bias, 3 * z.I);
    take(attended, z.N * z.I);
    take(lse, z.N * z.H);
    take(update_1, z.N * z.D);
    take(gate_1, z.N * z.G);
    take(joined, z.N * z.D);  // what gate_1 gives
    take(hidden, z.N * z.F);
    take(update_2, z.N * z.D);
    take(gate_2, z.N * z.G);
    take(mean, z.B * z.M);  // of the memory's rows
    take(factor, z.B * z.M);
    end_ = at;
  }
  long end_;
};

// Memory for one call. In large pages where there are any: the fewer faults, the sooner it is there.
void in_large_pages(float* at, size_t floats) {
#if defined(MADV_HUGEPAGE)
  constexpr uintptr_t PAGE = 4096;
  const uintptr_t from = (reinterpret_cast<uintptr_t>(at) + PAGE - 1) / PAGE * PAGE;
  const uintptr_t to = reinterpret_cast<uintptr_t>(at + floats) / PAGE * PAGE;
  if (to > from + (4UL << 20)) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#endif
}

class Scratch {
 public:
  explicit Scratch(long floats) : left_(floats), at_(room_.get(floats)) { in_large_pages(at_, floats); }
  float* take(long n) {
    n = round_up(n, LINE);
    float* const taken = at_;
    at_ += n;
    left_ -= n;
    if (left_ < 0) throw std::bad_alloc();
    return taken;
  }

 private:
  Room room_;
  long left_;
  float* at_;
};

// Rows of any width: all whole vectors, then what is left.
struct Whole {};
inline vf get(const float* p, Whole) { return load(p); }
inline void put(float* p, vf x, Whole) { store(p, x); }
inline vf get(const float* p, long n) {
  vf x = {};
  std::memcpy(&x, p, n * sizeof(float));
  return x;
}
inline void put(float* p, vf x, long n) { std::memcpy(p, &x, n * sizeof(float)); }
inline vf only(vf x, Whole) { return x; }
inline vf only(vf x, long n) {
  for (long i = n; i < VL; ++i) x[i] = 0;
  return x;
}

template <class Each>
inline void along(long n, Each each) {
  long d = 0;
  for (; d + VL <= n; d += VL) each(d, Whole{});
  if (d < n) each(d, n - d);
}

// each(chunk, first row, last row + 1), for chunks of n rows of some width.
template <class Each>
void by_rows(long n, long width, int threads, Each each) {
  const long chunks = std::min(CHUNKS, n);
  Pool::get().each(chunks, n * width < 8192 ? 1 : threads, [&](int c) { each(c, n * c / chunks, n * (c + 1) / chunks); });
}

// Sums over rows: a part for each chunk, brought together by whoever began them.
class RowSums {
 public:
  RowSums(long width) : width_(width), parts_(CHUNKS * width, 0.0f) {}
  float* part(long chunk) { return parts_.data() + chunk * width_; }
  // Columns from..from+n, times a sign.
  void give(float* to, long from, long n, float sign = 1) {
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
    along(D, [&](long d, auto n) { total += get(x + d, n); });
    mean = sum(total) / D;
    along(D, [&](long d, auto n) {
      const vf apart = only(get(x + d, n) - mean, n);
      squares += apart * apart;
    });
    factor = 1.0f / std::sqrt(sum(squares) / D + EPSILON);
  }
};

// Layer norm of rows; without a scale, zero mean and unit variance alone.
void normalise(float* to, const float* x, const float* scale, const float* offset, const Stack& z) {
  by_rows(z.N, z.D, z.threads, [&](long, long begin, long end) {
    for (long i = begin; i < end; ++i) {
      const float* row = x + i * z.D;
      const Moments m(row, z.D);
      along(z.D, [&](long d, auto n) {
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
  by_rows(z.N, 2 * D, z.threads, [&](long chunk, long begin, long end) {
    float* part = sums.part(chunk);
    for (long i = begin; i < end; ++i) {
      const float *row = x + i * D, *g = dy + i * D;
      const Moments m(row, D);
      vf total = {}, product = {};
      along(D, [&](long d, auto n) {
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
      along(D, [&](long d, auto n) {
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
    sums.give(d_scale, 0, D);
    sums.give(d_offset, D, D);
  }
}

// x = x + bias and ReLU, whichever is asked for.
void finish(float* x, long width, const float* bias, bool relu, const Stack& z) {
  if (bias == nullptr && !relu) return;
  by_rows(z.N, width, z.threads, [&](long, long begin, long end) {
    for (long i = begin; i < end; ++i)
      along(width, [&](long d, auto n) {
        vf y = get(x + i * width + d, n);
        if (bias != nullptr) y += get(bias + d, n);
        put(x + i * width + d, relu ? larger(y, vf{}) : y, n);
      });
  });
}

void finish_backward(float* dx, const float* y, long width, float* d_bias, bool relu, const Stack& z) {
  if (d_bias == nullptr && !relu) return;
  RowSums sums(width);
  by_rows(z.N, width, z.threads, [&](long chunk, long begin, long end) {
    float* part = sums.part(chunk);
    for (long i = begin; i < end; ++i)
      along(width, [&](long d, auto n) {
        vf g = get(dx + i * width + d, n);
        if (relu) {
          g = get(y + i * width + d, n) > 0.0f ? g : vf{};
          put(dx + i * width + d, g, n);
        }
        put(part + d, get(part + d, n) + g, n);
      });
  });
  if (d_bias != nullptr) sums.give(d_bias, 0, width);
}

// What a gate makes of stream x and update y, given what it keeps.
inline vf joined(GateKind kind, vf x, vf y, vf a, vf b, vf c) {
  switch (kind) {
    case INPUT: return a * x + y;
    case OUTPUT: return x + a * y;
    case HIGHWAY: return a * x + (1.0f - a) * y;
    case SIGTANH: return x + a * b;
    case GRU: return (1.0f - b) * x + b * c;
    default: return x + y;
  }
}

// A kind known when compiled, so that loops over elements have no branches.
template <class Do>
void for_kind(GateKind kind, Do each) {
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
inline vf join_at(const float* x, const float* y, const float* kept, long d, long D, N n) {
  const vf none = {};
  return joined(KIND, get(x + d, n), KIND == SIGTANH || KIND == GRU ? none : get(y + d, n),
                KIND == RESIDUAL ? none : get(kept + d, n),
                GATE_WIDTHS[KIND] > 1 ? get(kept + D + d, n) : none, GATE_WIDTHS[KIND] > 2 ? get(kept + 2 * D + d, n) : none);
}

// The gate again, from what it keeps.
void join_again(float* to, const float* x, const float* y, const float* kept, const Stack& z) {
  for_kind(z.gate, [&](auto kind) {
    by_rows(z.N, z.D, z.threads, [&](long, long begin, long end) {
      for (long i = begin; i < end; ++i)
        along(z.D, [&](long d, auto n) {
          put(to + i * z.D + d, join_at<decltype(kind)::value>(x + i * z.D, y + i * z.D, kept + i * z.G, d, z.D, n), n);
        });
    });
  });
}

void join(float* to, float* kept, const float* x, const float* y, const Given::Gate& gate, float* spare, const Stack& z) {
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
      by_rows(N, 4 * D, z.threads, [&](long, long begin, long end) {
        for (long i = begin; i < end; ++i)
          along(D, [&](long d, auto n) {
            float* at = kept + i * G + d;
            const vf r = sigmoid(get(at, n));
            put(at, r, n);
            put(spare + i * D + d, r * get(x + i * D + d, n), n);
          });
      });
      multiply(N, D, D, Left{spare, D}, Right{gate.u_g, D}, kept + 2 * D, G, true, z.threads);
      break;
  }
  for_kind(z.gate, [&](auto kind) {
    constexpr GateKind KIND = decltype(kind)::value;
    by_rows(N, 4 * D, z.threads, [&](long, long begin, long end) {
      for (long i = begin; i < end; ++i)
        along(D, [&](long d, auto n) {
          float* at = kept + i * G + d;
          if constexpr (KIND == INPUT) put(at, sigmoid(get(at, n)), n);
          if constexpr (KIND == OUTPUT || KIND == SIGTANH) put(at, sigmoid(get(at, n) - get(gate.bias + d, n)), n);
          if constexpr (KIND == HIGHWAY) put(at, sigmoid(get(at, n) + get(gate.bias + d, n)), n);
          if constexpr (KIND == SIGTANH) put(at + D, tanh(get(at + D, n)), n);
          if constexpr (KIND == GRU) {
            put(at + D, sigmoid(get(at + D, n) - get(gate.bias + d, n)), n);
            put(at + 2 * D, tanh(get(at + 2 * D, n)), n);
          }
          put(to + i * D + d, join_at<KIND>(x + i * D, y + i * D, kept + i * G, d, D, n), n);
        });
    });
  });
}

struct GateRooms {
  float *before, *spare, *reset;  // [N, G], [N, D] and [N, D]
};

// dx and dy from the gradient `out` of what the gate gave.
void join_backward(float* dx, float* dy, const float* out, const float* kept, const float* x, const float* y,
                   const Given::Gate& gate, const Wanted::Gate& d_gate, const GateRooms& rooms, const Stack& z) {
  const long D = z.D, N = z.N, G = z.G;
  float* before = rooms.before;  // gradients of what the activations took
  RowSums bias(D);
  for_kind(z.gate, [&](auto kind) {
    constexpr GateKind KIND = decltype(kind)::value;
    by_rows(N, 4 * D, z.threads, [&](long chunk, long begin, long end) {
      float* part = bias.part(chunk);
      for (long i = begin; i < end; ++i)
        along(D, [&](long d, auto n) {
          const long at = i * D + d;
          const vf g = get(out + at, n);
          const float* k = kept + i * G + d;
          float* b = before + i * G + d;
          if constexpr (KIND == RESIDUAL) {
            put(dx + at, g, n);
            put(dy + at, g, n);
          } else if constexpr (KIND == GRU) {
            const vf r = get(k, n), open = get(k + D, n), h = get(k + 2 * D, n), stream = get(x + at, n);
            const vf d_open = g * (h - stream) * open * (1.0f - open);
            put(b + D, d_open, n);
            put(b + 2 * D, g * open * (1.0f - h * h), n);
            put(dx + at, g * (1.0f - open), n);
            put(rooms.reset + at, r * stream, n);
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
      multiply(N, D, D, Left{before, D}, Right{gate.w, D, true}, dx, D, true, z.threads);
      multiply(D, D, N, Left{x, D, true}, Right{before, D}, d_gate.w, D, false, z.threads, true);
      break;
    case SIGTANH:
      multiply(N, D, 2 * D, Left{before, G}, Right{gate.w, 2 * D, true}, dy, D, false, z.threads);
      multiply(D, 2 * D, N, Left{y, D, true}, Right{before, G}, d_gate.w, 2 * D, false, z.threads, true);
      break;
    case GRU:
      multiply(N, D, D, Left{before + 2 * D, G}, Right{gate.u_g, D, true}, rooms.spare, D, false, z.threads);
      by_rows(N, 4 * D, z.threads, [&](long, long begin, long end) {
        for (long i = begin; i < end; ++i)
          along(D, [&](long d, auto n) {
            const long at = i * D + d;
            const vf r = get(kept + i * G + d, n), g = get(rooms.spare + at, n);
            put(before + i * G + d, g * get(x + at, n) * r * (1.0f - r), n);
            put(dx + at, get(dx + at, n) + g * r, n);
          });
      });
      multiply(N, D, 2 * D, Left{before, G}, Right{gate.u_rz, 2 * D, true}, dx, D, true, z.threads);
      multiply(N, D, 3 * D, Left{before, G}, Right{gate.w, 3 * D, true}, dy, D, false, z.threads);
      multiply(D, 3 * D, N, Left{y, D, true}, Right{before, G}, d_gate.w, 3 * D, false, z.threads, true);
      multiply(D, 2 * D, N, Left{x, D, true}, Right{before, G}, d_gate.u_rz, 2 * D, false, z.threads, true);
      multiply(D, D, N, Left{rooms.reset, D, true}, Right{before + 2 * D, G}, d_gate.u_g, D, false, z.threads, true);
      break;
  }
  if (z.gate != INPUT) bias.give(d_gate.bias, 0, D, z.gate == HIGHWAY ? 1.0f : -1.0f);
}

// The norm's scale s and offset o go into the weights behind it: (s n + o) W = n (s W) + o W. This is o W.
void fold_bias(float* bias, const Given& w, const Stack& z) {
  const long wide = 3 * z.I, blocks = std::max(1L, std::min(8L, wide / 64));
  Pool::get().each(blocks, z.D * wide < 65536 ? 1 : z.threads, [&](int block) {
    const long from = wide * block / blocks / VL * VL, to = block + 1 < blocks ? wide * (block + 1) / blocks / VL * VL : wide;
    std::fill(bias + from, bias + to, 0.0f);
    for (long d = 0; d < z.D; ++d)
      along(to - from, [&](long j, auto n) {
        put(bias + from + j, get(bias + from + j, n) + w.offset_1[d] * get(w.qkv + d * wide + from + j, n), n);
      });
  });
}

// From the gradient of s W, `folded`, and that of o W.
void fold_backward(const Wanted& to, const float* folded, const float* d_bias, const Given& w, const Stack& z) {
  const long wide = 3 * z.I;
  const bool streams = z.D * wide >= FAR && can_stream(to.qkv, wide, wide);
  by_rows(z.D, wide, z.threads, [&](long, long begin, long end) {
    for (long d = begin; d < end; ++d) {
      vf scale = {}, offset = {};
      along(wide, [&](long j, auto n) {
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

// The stored inputs of layer l, as the attention sees them.
Left remembered(const float* memory, long l, const float* mean, const float* factor, bool turned, const Stack& z) {
  return Left{memory + l * z.M * z.D, z.D, turned, z.M, z.L * z.M * z.D, mean, factor};
}

void measure_memory(const Kept<float>& kept, const float* memory, const int32_t* filled, long l, const Stack& z) {
  const Left rows = remembered(memory, l, nullptr, nullptr, false, z);
  by_rows(z.B * z.M, z.D, z.threads, [&](long, long begin, long end) {
    for (long i = begin; i < end; ++i) {
      kept.mean[i] = 0;
      kept.factor[i] = i % z.M >= z.M - filled[i / z.M];  // slots that hold nothing are read as zeros
      if (z.norm_inputs && kept.factor[i] > 0) {
        const Moments m(rows.row(i), z.D);
        kept.mean[i] = m.mean;
        kept.factor[i] = m.factor;
      }
    }
  });
}

struct Shared {
  const float *memory, *code;  // code: farthest distance first
  const int32_t *filled, *horizon;
};

void layer_forward(float* to, const float* x, long l, const Kept<float>& kept, const Given& w, const Shared& shared,
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
  measure_memory(kept, shared.memory, shared.filled, l, z);
  const Left memory = remembered(shared.memory, l, kept.mean, kept.factor, false, z);
  multiply(z.B * z.M, 2 * I, D, memory, Right{w.qkv + I, 3 * I, false, scale_1}, kept.memory, 2 * I, false, z.threads);
  multiply(z.P, I, D, Left{shared.code, D}, Right{w.r, I}, kept.r, I, false, z.threads);
  const Inputs in{kept.qkv, kept.memory, kept.r, kept.bias, w.u, w.v, shared.horizon};
  attend_forward(in, kept.attended, kept.lse, z.threads, Sizes(z.B, z.T, z.M, z.H, z.K));
  multiply(N, D, I, Left{kept.attended, I}, Right{w.o, D}, kept.update_1, D, false, z.threads);
  finish(kept.update_1, D, nullptr, z.norm_inputs, z);
  join(kept.joined, kept.gate_1, x, kept.update_1, w.gate_1, spare, z);
  normalise(normal, kept.joined, z.norm_inputs ? w.scale_2 : w.scale_1, z.norm_inputs ? w.offset_2 : w.offset_1, z);
  multiply(N, F, D, Left{normal, D}, Right{w.first, F}, kept.hidden, F, false, z.threads);
  finish(kept.hidden, F, w.bias_1, true, z);
  multiply(N, D, F, Left{kept.hidden, F}, Right{w.second, D}, kept.update_2, D, false, z.threads);
  finish(kept.update_2, D, w.bias_2, z.norm_inputs, z);
  join(to, kept.gate_2, z.norm_inputs ? kept.joined : normal, kept.update_2, w.gate_2, spare, z);
  if (!z.norm_inputs) normalise(to, to, w.scale_2, w.offset_2, z);
}

struct BackwardRooms {
  float *update, *normal, *spare, *before, *hidden, *qkv, *memory, *attended, *d_folded, *r, *bias;

  static long floats(const Stack& z) {
    BackwardRooms rooms;
    return rooms.walk([](long n) { return static_cast<float*>(nullptr); }, z);
  }
  BackwardRooms(Scratch& scratch, const Stack& z) {
    walk([&](long n) { return scratch.take(n); }, z);
  }

 private:
  BackwardRooms() = default;
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
    take(before, z.N * z.G);
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

// dx from the gradient `out` of what the layer gave, which does not survive.
void layer_backward(float* dx, float* out, const float* x, long l, const Kept<const float>& kept, const Given& w, const Wanted& d,
                    const Shared& shared, const BackwardRooms& rooms, const Stack& z) {
  const long N = z.N, D = z.D, I = z.I, F = z.F;
  const GateRooms gate_rooms{rooms.before, rooms.spare, rooms.attended};
  // The MLP's input: the norm of what gate_1 gave. In TrXL it is the stream as well.
  const float *scale = z.norm_inputs ? w.scale_2 : w.scale_1, *offset = z.norm_inputs ? w.offset_2 : w.offset_1;
  normalise(rooms.normal, kept.joined, scale, offset, z);
  const float* stream = z.norm_inputs ? kept.joined : rooms.normal;
  if (!z.norm_inputs) {
    join_again(rooms.spare, stream, kept.update_2, kept.gate_2, z);
    normalise_backward(out, false, rooms.spare, out, w.scale_2, d.scale_2, d.offset_2, z);
  }
  join_backward(dx, rooms.update, out, kept.gate_2, stream, kept.update_2, w.gate_2, d.gate_2, gate_rooms, z);
  finish_backward(rooms.update, kept.update_2, D, d.bias_2, z.norm_inputs, z);
  multiply(F, D, N, Left{kept.hidden, F, true}, Right{rooms.update, D}, d.second, D, false, z.threads, true);
  multiply(N, F, D, Left{rooms.update, D}, Right{w.second, D, true}, rooms.hidden, F, false, z.threads);
  finish_backward(rooms.hidden, kept.hidden, F, d.bias_1, true, z);
  multiply(D, F, N, Left{rooms.normal, D, true}, Right{rooms.hidden, F}, d.first, F, false, z.threads, true);
  if (z.norm_inputs) {
    multiply(N, D, F, Left{rooms.hidden, F}, Right{w.first, F, true}, rooms.update, D, false, z.threads);
    normalise_backward(dx, true, kept.joined, rooms.update, w.scale_2, d.scale_2, d.offset_2, z);
  } else {
    multiply(N, D, F, Left{rooms.hidden, F}, Right{w.first, F, true}, dx, D, true, z.threads);
    normalise_backward(dx, false, kept.joined, dx, w.scale_1, d.scale_1, d.offset_1, z);
  }
  std::swap(dx, out);
  join_backward(dx, rooms.update, out, kept.gate_1, x, kept.update_1, w.gate_1, d.gate_1, gate_rooms, z);
  finish_backward(rooms.update, kept.update_1, D, nullptr, z.norm_inputs, z);
  multiply(I, D, N, Left{kept.attended, I, true}, Right{rooms.update, D}, d.o, D, false, z.threads, true);
  multiply(N, I, D, Left{rooms.update, D}, Right{w.o, D, true}, rooms.attended, I, false, z.threads);
  const Inputs in{kept.qkv, kept.memory, kept.r, kept.bias, w.u, w.v, shared.horizon};
  attend_backward(in, kept.attended, kept.lse, rooms.attended, Gradients{rooms.qkv, rooms.memory}, rooms.r, rooms.bias, d.u, d.v,
                  z.threads, Sizes(z.B, z.T, z.M, z.H, z.K));
  multiply(D, I, z.P, Left{shared.code, D, true}, Right{rooms.r, I}, d.r, I, false, z.threads, true);
  const float* seen = x;
  float* d_qkv = d.qkv;
  if (z.norm_inputs) {
    normalise(rooms.normal, x, nullptr, nullptr, z);
    seen = rooms.normal;
    d_qkv = rooms.d_folded;
  }
  multiply(D, 3 * I, N, Left{seen, D, true}, Right{rooms.qkv, 3 * I}, d_qkv, 3 * I, false, z.threads);
  const Left memory = remembered(shared.memory, l, kept.mean, kept.factor, true, z);
  multiply(D, 2 * I, z.B * z.M, memory, Right{rooms.memory, 2 * I}, d_qkv + I, 3 * I, true, z.threads);
  if (z.norm_inputs) {
    fold_backward(d, rooms.d_folded, rooms.bias, w, z);
    multiply(N, D, 3 * I, Left{rooms.qkv, 3 * I}, Right{w.qkv, 3 * I, true, w.scale_1}, rooms.update, D, false, z.threads);
    normalise_backward(dx, true, x, rooms.update, nullptr, nullptr, nullptr, z);
  } else {
    multiply(N, D, 3 * I, Left{rooms.qkv, 3 * I}, Right{w.qkv, 3 * I, true}, dx, D, true, z.threads);
  }
  // Two gates: the result lies where `out` lay when the layer began.
}

using Floats = ffi::Buffer<ffi::F32>;
using Ints = ffi::Buffer<ffi::S32>;
using Out = ffi::ResultBuffer<ffi::F32>;

Stack stack_of(const Floats& embedded, const Floats& memory, int64_t gate, bool norm_inputs, int64_t heads, int64_t head_dim,
               int64_t mlp, int64_t threads) {
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
  z.G = GATE_WIDTHS[z.gate] * z.D;
  z.norm_inputs = norm_inputs;
  z.threads = threads;
  return z;
}

ffi::ErrorOr<std::vector<const float*>> weights_of(const ffi::RemainingArgs& rest, const Stack& z) {
  std::vector<const float*> all;
  for (size_t i = 0; i < rest.size(); ++i) {
    auto given = rest.get<Floats>(i);
    if (given.has_error()) return ffi::Unexpected(given.error());
    all.push_back(given->typed_data());
  }
  if (static_cast<long>(all.size()) != Given::count(z))
    return ffi::Unexpected(ffi::Error::InvalidArgument("gtrxl's unroll got another number of weights than its gates have"));
  return all;
}

// `kept` has a row for each layer, or no row if nobody wants the gradient.
ffi::Error forward(Floats embedded, Floats memory, Ints filled, Ints horizon, Floats code, ffi::RemainingArgs rest, Out y,
                   Out inputs, Out kept, int64_t gate, bool norm_inputs, int64_t heads, int64_t head_dim, int64_t mlp,
                   int64_t threads) {
  const Stack z = stack_of(embedded, memory, gate, norm_inputs, heads, head_dim, mlp, threads);
  const auto weights = weights_of(rest, z);
  if (weights.has_error()) return weights.error();
  const Shared shared{memory.typed_data(), code.typed_data(), filled.typed_data(), horizon.typed_data()};
  const long each = Kept<float>::floats(z), rows = z.N * z.D;
  const bool keep = kept->element_count() > 0;
  if (keep && static_cast<long>(kept->element_count()) != z.L * each)
    return ffi::Error::InvalidArgument("gtrxl's unroll was given another room for what it keeps than the sizes ask for");
  Scratch scratch(2 * rows + 2 * LINE + (keep ? 0 : each));
  float *normal = scratch.take(rows), *spare = scratch.take(rows);
  float* const room = keep ? kept->typed_data() : scratch.take(each);
  if (keep) in_large_pages(room, kept->element_count());
  float* const layers = inputs->typed_data();
  in_large_pages(layers, inputs->element_count());
  std::copy(embedded.typed_data(), embedded.typed_data() + rows, layers);
  for (long l = 0; l < z.L; ++l) {
    float* to = l + 1 < z.L ? layers + (l + 1) * rows : y->typed_data();
    layer_forward(to, layers + l * rows, l, Kept<float>(room + (keep ? l * each : 0), z), Given(*weights, l, z), shared, normal,
                  spare, z);
  }
  return ffi::Error::Success();
}

ffi::Error backward(Floats dy, Floats inputs, Floats kept, Floats memory, Ints horizon, Floats code, ffi::RemainingArgs rest,
                    Out d_embedded, ffi::RemainingRets wanted, int64_t gate, bool norm_inputs, int64_t heads, int64_t head_dim,
                    int64_t mlp, int64_t threads) {
  const Stack z = stack_of(dy, memory, gate, norm_inputs, heads, head_dim, mlp, threads);
  const auto weights = weights_of(rest, z);
  if (weights.has_error()) return weights.error();
  std::vector<float*> gradients;
  for (size_t i = 0; i < wanted.size(); ++i) {
    auto result = wanted.get<Floats>(i);
    if (result.has_error()) return result.error();
    gradients.push_back((*result)->typed_data());
    in_large_pages(gradients.back(), (*result)->element_count());
  }
  const long each = Kept<float>::floats(z), rows = z.N * z.D;
  if (static_cast<long>(gradients.size()) != Given::count(z) || static_cast<long>(kept.element_count()) != z.L * each)
    return ffi::Error::InvalidArgument("gtrxl's unroll got other sizes for its gradient than it kept");
  const Shared shared{memory.typed_data(), code.typed_data(), nullptr, horizon.typed_data()};
  Scratch scratch(BackwardRooms::floats(z) + rows + LINE);
  const BackwardRooms rooms(scratch, z);
  float *d = d_embedded->typed_data(), *other = scratch.take(rows);
  std::copy(dy.typed_data(), dy.typed_data() + rows, d);
  for (long l = z.L; l-- > 0;)
    layer_backward(other, d, inputs.typed_data() + l * rows, l, Kept<const float>(kept.typed_data() + l * each, z),
                   Given(*weights, l, z), Wanted(gradients, l, z), shared, rooms, z);
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
