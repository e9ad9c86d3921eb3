// Sizes of a ResNet, and its weights in the order in which convolution.h reads them.
#pragma once

#include <vector>

#include "convolution.h"
#include "layout.h"

namespace gtrxl {

constexpr long LAYERS = 5;  // of a section, each a kernel and a bias

// Channels go up to whole vectors of F pictures.
struct Layer {
  long in, out;           // channels
  long in_wide, out_wide;  // the same, filled up

  long floats(int F) const { return 9 * in_wide * out_wide * F; }
};

struct Section {
  Plane before, after;  // the pool
  Layer layers[LAYERS];
};

struct Net {
  long N, colours;
  int F, threads;
  std::vector<Section> sections;

  // F, so that the vectors are full with the fewest channels, and what follows from it.
  void fill_up() {
    long least = VL;
    for (const Section& section : sections) least = std::min(least, section.layers[0].out);
    F = 1;
    while (2 * F <= std::min(4, VL / 4) && 2 * F * least <= VL && 2 * F <= N) F *= 2;
    for (size_t s = 0; s < sections.size(); ++s)
      for (long l = 0; l < LAYERS; ++l) {
        Layer& layer = sections[s].layers[l];
        layer.in_wide = s == 0 && l == 0 ? layer.in : round_up(layer.in * F, VL) / F;
        layer.out_wide = round_up(layer.out * F, VL) / F;
      }
  }
  long groups() const { return (N + F - 1) / F; }
  const Section& last() const { return sections.back(); }
  long out_floats() const { return last().after.H * last().after.W * last().layers[0].out; }
};

// Weights as the loops read them, or gradients of weights.
struct Packed {
  std::vector<float*> kernels, biases, mirrored;

  // For all layers in turn, with the kernels of the gradient too or without.
  static long floats(const Net& net, bool with_mirrored) {
    long total = 0;
    for (const Section& section : net.sections)
      for (const Layer& layer : section.layers)
        total += round_up(layer.floats(net.F), LINE) * (with_mirrored ? 2 : 1) + round_up(layer.out_wide * net.F, LINE);
    return total;
  }
  Packed(float* at, const Net& net, bool with_mirrored) {
    for (const Section& section : net.sections)
      for (const Layer& layer : section.layers) {
        const long kernel = round_up(layer.floats(net.F), LINE);
        kernels.push_back(at);
        if (with_mirrored) mirrored.push_back(at += kernel);
        biases.push_back(at += kernel);
        at += round_up(layer.out_wide * net.F, LINE);
      }
  }
};

// each(to, panel's first channel, number of channels): where the rows of a packed kernel begin, for each panel.
template <class Each>
void for_panels(long rows, long wide, int F, Each each) {
  const long floats = wide * F;
  for (long panel = 0, at = 0; panel < floats; panel += MOST_VECTORS * VL) {
    const long some = std::min<long>(MOST_VECTORS * VL, floats - panel);
    each(at, panel / F, some / F);
    at += rows * some;
  }
}

// A kernel [9, in, out] as convolve() reads it.
inline void pack_kernel(float* to, const float* kernel, const Layer& z, int F) {
  for_panels(9 * z.in_wide, z.out_wide, F, [&](long at, long first, long some) {
    for (long k = 0; k < 9 * z.in_wide; ++k) {
      const long tap = k / z.in_wide, i = k % z.in_wide;
      float* row = to + at + k * some * F;
      if (F == 1 && i < z.in && first + some <= z.out) {
        std::memcpy(row, kernel + (tap * z.in + i) * z.out + first, some * sizeof(float));
        continue;
      }
      for (long o = 0; o < some; ++o) {
        const float value = i < z.in && first + o < z.out ? kernel[(tap * z.in + i) * z.out + first + o] : 0.0f;
        for (int f = 0; f < F; ++f) row[o * F + f] = value;
      }
    }
  });
}

// The kernel by which the gradient of the output becomes that of the input: mirrored, its channels exchanged.
inline void pack_mirrored(float* to, const float* kernel, const Layer& z, int F) {
  for_panels(9 * z.out_wide, z.in_wide, F, [&](long at, long first, long some) {
    for (long k = 0; k < 9 * z.out_wide; ++k) {
      const long tap = 8 - k / z.out_wide, o = k % z.out_wide;
      float* row = to + at + k * some * F;
      for (long i = 0; i < some; ++i) {
        const float value = o < z.out && first + i < z.in ? kernel[(tap * z.in + first + i) * z.out + o] : 0.0f;
        for (int f = 0; f < F; ++f) row[i * F + f] = value;
      }
    }
  });
}

inline void pack(const Packed& to, const std::vector<const float*>& weights, const Net& net) {
  const long layers = net.sections.size() * LAYERS;
  Pool::get().parallel_for(layers, net.threads, [&](int l) {
    const Layer& layer = net.sections[l / LAYERS].layers[l % LAYERS];
    pack_kernel(to.kernels[l], weights[2 * l], layer, net.F);
    if (!to.mirrored.empty() && l > 0) pack_mirrored(to.mirrored[l], weights[2 * l], layer, net.F);
    for (long o = 0; o < layer.out_wide; ++o)
      for (int f = 0; f < net.F; ++f) to.biases[l][o * net.F + f] = o < layer.out ? weights[2 * l + 1][o] : 0.0f;
  });
}

// Sums of chunks into gradients as JAX has them.
inline void unpack(const std::vector<float*>& to, const std::vector<Packed>& chunks, const Net& net) {
  const int F = net.F;
  Pool::get().parallel_for(to.size(), net.threads, [&](int n) {
    const long l = n / 2;
    const Layer& z = net.sections[l / LAYERS].layers[l % LAYERS];
    const bool bias = n % 2 == 1;
    const long size = bias ? round_up(z.out_wide * F, LINE) : z.floats(F);
    float* total = bias ? chunks[0].biases[l] : chunks[0].kernels[l];
    for (size_t c = 1; c < chunks.size(); ++c) {
      const float* more = bias ? chunks[c].biases[l] : chunks[c].kernels[l];
      for (long i = 0; i < size; ++i) total[i] += more[i];
    }
    const auto lanes = [&](const float* at) {
      float x = at[0];
      for (int f = 1; f < F; ++f) x += at[f];
      return x;
    };
    if (bias) {
      for (long o = 0; o < z.out; ++o) to[n][o] = lanes(total + o * F);
      return;
    }
    for_panels(9 * z.in_wide, z.out_wide, F, [&](long at, long first, long some) {
      for (long k = 0; k < 9 * z.in_wide; ++k) {
        const long tap = k / z.in_wide, i = k % z.in_wide;
        for (long o = 0; o < some && i < z.in && first + o < z.out; ++o)
          to[n][(tap * z.in + i) * z.out + first + o] = lanes(total + at + (k * some + o) * F);
      }
    });
  });
}

}  // namespace gtrxl
