// Pictures through a whole ResNet (vision.py has the equations), and the gradient of its weights.
//
// N pictures of H x W pixels and C colours; a section is a convolution, a max-pool and two residual blocks of two convolutions.
// Pictures go through all layers F at a time (convolution.h), so that what they need stays in the caches, and are divided among
// the threads. Gradients of weights are summed over chunks of pictures whose number does not depend on the threads, then over the
// chunks: the same bits with any number of threads.

#include <vector>

#include "boundary.h"
#include "convolution.h"
#include "sizes.h"

namespace gtrxl {
namespace {

using Pictures = ffi::Buffer<ffi::U8>;

constexpr long MOST_CHUNKS = 32, FEW_CHUNKS = 8;
constexpr long MOST_OF_CHUNKS = 1L << 24;  // floats of gradients, in all chunks together

// What F pictures keep for the gradient, in planes: of each section what goes into its convolutions, and what goes into its pool.
// That of the first is made again, it is the largest and costs least.
struct KeptPlanes {
  struct OfSection {
    float *before_pool, *inner[LAYERS - 1], *end;
  };
  std::vector<OfSection> sections;

  static long floats(const Net& net) { return KeptPlanes().walk(nullptr, net); }
  KeptPlanes(float* at, const Net& net) { walk(at, net); }

 private:
  KeptPlanes() = default;
  long walk(float* at, const Net& net) {
    long total = 0;
    const auto take = [&](long n) {
      float* const taken = at == nullptr ? nullptr : at + total;
      total += round_up(n, LINE);
      return taken;
    };
    for (size_t s = 0; s < net.sections.size(); ++s) {
      const Section& section = net.sections[s];
      const long S = section.layers[0].out_wide * net.F;
      OfSection of;
      of.before_pool = s == 0 ? nullptr : take(section.before.pixels() * S);
      for (float*& plane : of.inner) plane = take(section.after.pixels() * S);
      of.end = s + 1 < net.sections.size() ? take(section.after.pixels() * S) : nullptr;
      sections.push_back(of);
    }
    return total;
  }
};

// Planes that a thread works in.
struct Space {
  float *picture, *before_pool, *streams[2], *columns, *by_column;
  float *d_before_pool, *d_inner;  // the gradient's alone

  static long floats(const Net& net) { return Space().walk(nullptr, net); }
  Space(float* at, const Net& net) { walk(at, net); }

 private:
  Space() = default;
  long walk(float* at, const Net& net) {
    long total = 0, before = 0, after = 0, line = 0;
    for (const Section& section : net.sections) {
      const long S = section.layers[0].out_wide * net.F;
      before = std::max(before, section.before.pixels() * S);
      // A section's gradient of its input has that input's channels.
      after = std::max({after, section.after.pixels() * S, section.before.pixels() * section.layers[0].in_wide * net.F});
      line = std::max(line, section.before.W * S);
    }
    const auto take = [&](float*& plane, long n) {
      plane = at == nullptr ? nullptr : at + total;
      total += round_up(n, LINE);
    };
    take(picture, net.sections[0].before.pixels() * net.colours * net.F);
    take(before_pool, before);
    for (float*& stream : streams) take(stream, after);
    take(columns, line);
    take(by_column, line);
    take(d_before_pool, before);
    take(d_inner, after);
    return total;
  }
};

// F pictures, or fewer and zeros, from bytes to numbers from 0 to 1.
template <int F>
void read_pictures(float* to, const uint8_t* pictures, long some, const Net& net) {
  struct Table {
    float of[256];
    Table() {
      for (int i = 0; i < 256; ++i) of[i] = static_cast<float>(i) / 255.0f;
    }
  };
  static const Table table;
  const Plane& plane = net.sections[0].before;
  const long C = net.colours, each = plane.H * plane.W * C;
  plane.clear_edges(to, C * F);
  for (long y = 0; y < plane.H; ++y) {
    float* line = to + plane.at(y, 0) * C * F;
    for (long f = 0; f < F; ++f) {
      const uint8_t* from = pictures + f * each + y * plane.W * C;
      for (long i = 0; i < plane.W * C; ++i) line[i * F + f] = f < some ? table.of[from[i]] : 0.0f;
    }
  }
}

struct Runner {
  const Net& net;
  const Packed& packed;

  Convolution convolution(size_t s, long l) const {
    const Layer& z = net.sections[s].layers[l];
    const long n = s * LAYERS + l;
    return {z.in_wide * net.F, z.out_wide * net.F, packed.kernels[n], packed.biases[n]};
  }
  Convolution mirrored(size_t s, long l) const {
    const Layer& z = net.sections[s].layers[l];
    return {z.out_wide * net.F, z.in_wide * net.F, packed.mirrored[s * LAYERS + l], nullptr};
  }

  // How many lines of a section's first convolution are made at a time: of pictures so many that they stay in the first cache until
  // they are pooled, of other planes, whose kernels are large, all.
  static long lines_at_once(size_t s, const Plane& plane, long S) {
    return s > 0 ? plane.H : std::max<long>(LINES, 4096 / (plane.W * S) / LINES * LINES);
  }

  // A few more lines of a convolution; returns how many are done then.
  template <int F>
  static long convolve_on(float* to, const float* x, const Plane& plane, const Convolution& by, long done, long band) {
    const long end = std::min(plane.H, done + band);
    convolve<F>(x, plane, by, {to}, {done, end});
    return end;
  }

  // F pictures that lie in space.picture; `out` [pictures, pixels, channels] is what the last section gives above zero, or null if
  // only what is kept is wanted.
  template <int F>
  void forward(float* out, long some, const KeptPlanes& kept, const Space& space) const {
    const float* x = space.picture;
    for (size_t s = 0; s < net.sections.size(); ++s) {
      const Section& section = net.sections[s];
      const Plane &before = section.before, &after = section.after;
      const KeptPlanes::OfSection& to = kept.sections[s];
      const long S = section.layers[0].out_wide * F;
      float* const before_pool = s == 0 ? space.before_pool : to.before_pool;
      const Windows windows(before, S);
      // Some lines at a time, which are still in the first cache when they are pooled.
      const Convolution first = convolution(s, 0);
      const long band = lines_at_once(s, before, S);
      for (long i = 0, done = 0; i < after.H; ++i) {
        while (done < windows.end(i)) done = convolve_on<F>(before_pool, x, before, first, done, band);
        windows.columns(space.columns, before_pool, i);
        windows.pool(space.streams[0], to.inner[0], space.columns, i);
      }
      after.clear_edges(to.inner[0], S);
      for (int block = 0; block < 2; ++block) {
        float *const within = to.inner[2 * block + 1], *const next = block == 0 ? to.inner[2] : nullptr;
        convolve<F>(to.inner[2 * block], after, convolution(s, 1 + 2 * block), {within, true});
        after.clear_edges(within, S);
        const bool last = block == 1 && s + 1 == net.sections.size();
        if (last && out == nullptr) break;
        float* const stream = block == 1 && !last ? to.end : space.streams[1 - block];
        convolve<F>(within, after, convolution(s, 2 + 2 * block), {stream, false, next, nullptr, space.streams[block]});
        if (next != nullptr) after.clear_edges(next, S);
        if (stream == to.end) after.clear_edges(stream, S);
      }
      x = to.end;
    }
    if (out != nullptr) write(out, space.streams[0], some, F);
  }

  // The last section's plane as JAX has it.
  void write(float* out, const float* from, long some, int F) const {
    const Plane& plane = net.last().after;
    const Layer& z = net.last().layers[0];
    for (long f = 0; f < some; ++f)
      for (long y = 0; y < plane.H; ++y)
        for (long x = 0; x < plane.W; ++x, out += z.out) {
          const float* pixel = from + plane.at(y, x) * z.out_wide * F + f;
          for (long c = 0; c < z.out; ++c) out[c] = pixel[c * F] < 0.0f ? 0.0f : pixel[c * F];
        }
  }

  // The gradient of that plane, from the one of `out`.
  void read_gradient(float* to, const float* d_out, const float* out, long some, int F) const {
    const Plane& plane = net.last().after;
    const Layer& z = net.last().layers[0];
    std::memset(to, 0, plane.pixels() * z.out_wide * F * sizeof(float));
    for (long f = 0; f < some; ++f)
      for (long y = 0; y < plane.H; ++y)
        for (long x = 0; x < plane.W; ++x, out += z.out, d_out += z.out) {
          float* pixel = to + plane.at(y, x) * z.out_wide * F + f;
          for (long c = 0; c < z.out; ++c) pixel[c * F] = out[c] > 0.0f ? d_out[c] : 0.0f;
        }
  }

  // Adds the gradients of F pictures in space.picture.
  template <int F>
  void backward(const Packed& to, const float* d_out, const float* out, long some, const KeptPlanes& kept, const Space& space) const {
    float *g = space.streams[0], *other = space.streams[1];
    read_gradient(g, d_out, out, some, F);
    for (size_t s = net.sections.size(); s-- > 0;) {
      const Section& section = net.sections[s];
      const Plane &before = section.before, &after = section.after;
      const KeptPlanes::OfSection& of = kept.sections[s];
      const long S = section.layers[0].out_wide * F, first = s * LAYERS;
      for (int block = 1; block >= 0; --block) {
        const float *outside = of.inner[2 * block], *within = of.inner[2 * block + 1];
        const long one = 1 + 2 * block, two = 2 + 2 * block;
        convolve_gradient<F>(within, g, after, S, S, to.kernels[first + two], to.biases[first + two]);
        convolve<F>(g, after, mirrored(s, two), {space.d_inner, false, nullptr, within});
        after.clear_edges(space.d_inner, S);
        convolve_gradient<F>(outside, space.d_inner, after, S, S, to.kernels[first + one], to.biases[first + one]);
        convolve<F>(space.d_inner, after, mirrored(s, one), {other, false, nullptr, outside, g});
        after.clear_edges(other, S);
        std::swap(g, other);
      }
      const float *x = s == 0 ? space.picture : kept.sections[s - 1].end, *before_pool = of.before_pool;
      const long in = section.layers[0].in_wide * F, band = lines_at_once(s, before, S);
      const Windows windows(before, S);
      if (s == 0) before_pool = space.before_pool;
      for (long i = 0, made = 0, done = 0; i < after.H; ++i) {
        while (s == 0 && made < windows.end(i)) made = convolve_on<F>(space.before_pool, x, before, convolution(s, 0), made, band);
        windows.columns(space.columns, before_pool, i);
        const long ready = windows.gradient(space.d_before_pool, before_pool, space.columns, space.by_column, g, i);
        if (ready - done < band && ready < before.H) continue;
        convolve_gradient<F>(x, space.d_before_pool, before, in, S, to.kernels[first], to.biases[first], {done, ready});
        done = ready;
      }
      if (s == 0) return;
      before.clear_edges(space.d_before_pool, S);
      convolve<F>(space.d_before_pool, before, mirrored(s, 0), {other});
      before.clear_edges(other, in);
      std::swap(g, other);
    }
  }
};

// Calls with F as a constant.
template <class Do>
void dispatch(int F, Do with) {
  if constexpr (VL >= 8)
    if (F == 2) return with(std::integral_constant<int, 2>{});
  if constexpr (VL >= 16)
    if (F == 4) return with(std::integral_constant<int, 4>{});
  with(std::integral_constant<int, 1>{});
}

// Sizes from the pictures [N, H, W, C] and the kernels' shapes; an error if they do not belong together.
ffi::ErrorOr<Net> net_of(const Pictures& pictures, const ffi::RemainingArgs& rest, int64_t threads,
                         std::vector<const float*>& weights) {
  const auto size = pictures.dimensions();
  if (size.size() != 4 || rest.size() == 0 || rest.size() % (2 * LAYERS) != 0) return ffi::Unexpected(wrong_shapes("torso"));
  Net net;
  net.N = size[0];
  net.colours = size[3];
  net.threads = threads;
  Plane plane{size[1], size[2]};
  long in = net.colours;
  for (size_t n = 0; n < rest.size(); n += 2) {
    auto kernel = rest.get<Floats>(n), bias = rest.get<Floats>(n + 1);
    if (kernel.has_error()) return ffi::Unexpected(kernel.error());
    if (bias.has_error()) return ffi::Unexpected(bias.error());
    if (bias->dimensions().size() != 1) return ffi::Unexpected(wrong_shapes("torso"));
    const long l = n / 2 % LAYERS, out = bias->dimensions()[0];
    if (!has_shape(*kernel, {3, 3, in, out}) || (l > 0 && in != out) || out < 1) return ffi::Unexpected(wrong_shapes("torso"));
    weights.push_back(kernel->typed_data());
    weights.push_back(bias->typed_data());
    if (l == 0) {
      net.sections.push_back(Section{plane, plane.half(), {}});
      plane = plane.half();
    }
    net.sections.back().layers[l] = Layer{in, out, 0, 0};
    in = out;
  }
  net.fill_up();
  return net;
}

// How many sums of so many floats there are: enough for the threads, few enough to be cheap beside what goes into them.
long chunks_of(long groups, long floats) {
  const long most = std::max(FEW_CHUNKS, std::min({MOST_CHUNKS, groups / 4, MOST_OF_CHUNKS / floats}));
  return std::max(1L, std::min(groups, most));
}

ffi::Error forward(Pictures pictures, ffi::RemainingArgs rest, Out out, Out kept, int64_t threads) {
  std::vector<const float*> weights;
  const auto found = net_of(pictures, rest, threads, weights);
  if (found.has_error()) return found.error();
  const Net& net = *found;
  const Plane& end = net.last().after;
  const long each = KeptPlanes::floats(net);
  const bool keep = kept->element_count() > 0;
  if (!has_shape(*out, {net.N, end.H, end.W, net.last().layers[0].out}) ||
      !has_shape(*kept, {keep ? net.groups() : 0, each}))
    return wrong_shapes("torso");
  if (keep) use_huge_pages(kept->typed_data(), kept->element_count());
  thread_local Workspace space;
  const Packed packed(space.get(Packed::floats(net, false)), net, false);
  pack(packed, weights, net);
  const Runner runner{net, packed};
  const uint8_t* from = pictures.typed_data();
  const long bytes = net.sections[0].before.H * net.sections[0].before.W * net.colours;
  Pool::get().parallel_for(net.groups(), net.threads, [&](int group) {
    thread_local Workspace planes, keeps;
    const Space at(planes.get(Space::floats(net)), net);
    const KeptPlanes to(keep ? kept->typed_data() + group * each : keeps.get(each), net);
    const long first = static_cast<long>(group) * net.F, some = std::min<long>(net.F, net.N - first);
    dispatch(net.F, [&](auto F) {
      read_pictures<decltype(F)::value>(at.picture, from + first * bytes, some, net);
      runner.forward<decltype(F)::value>(out->typed_data() + first * net.out_floats(), some, to, at);
    });
  });
  return ffi::Error::Success();
}

// Without what forward keeps (no rows), it is made again.
ffi::Error backward(Floats d_out, Floats out, Floats kept, Pictures pictures, ffi::RemainingArgs rest,
                    ffi::RemainingRets d_weights, int64_t threads) {
  std::vector<const float*> weights;
  const auto found = net_of(pictures, rest, threads, weights);
  if (found.has_error()) return found.error();
  const Net& net = *found;
  const Plane& end = net.last().after;
  const std::vector<long> shape{net.N, end.H, end.W, net.last().layers[0].out};
  const long each = KeptPlanes::floats(net), groups = net.groups();
  const bool keep = kept.element_count() > 0;
  if (!has_shape(d_out, shape) || !has_shape(out, shape) || d_weights.size() != weights.size() ||
      !has_shape(kept, {keep ? groups : 0, each}))
    return wrong_shapes("torso's gradient");
  std::vector<float*> gradients;
  for (size_t n = 0; n < d_weights.size(); ++n) {
    auto result = d_weights.get<Floats>(n);
    if (result.has_error()) return result.error();
    const Layer& z = net.sections[n / 2 / LAYERS].layers[n / 2 % LAYERS];
    const long floats = n % 2 == 1 ? z.out : 9 * z.in * z.out;
    if (static_cast<long>((*result)->element_count()) != floats) return wrong_shapes("torso's gradient");
    gradients.push_back((*result)->typed_data());
  }
  thread_local Workspace space, sums;
  const Packed packed(space.get(Packed::floats(net, true)), net, true);
  pack(packed, weights, net);
  const Runner runner{net, packed};
  const long size = Packed::floats(net, false);
  const long chunks = chunks_of(groups, size);
  float* const all = sums.get(chunks * size);
  std::vector<Packed> parts;
  for (long c = 0; c < chunks; ++c) parts.emplace_back(all + c * size, net, false);
  const uint8_t* from = pictures.typed_data();
  const long bytes = net.sections[0].before.H * net.sections[0].before.W * net.colours;
  Pool::get().parallel_for(chunks, net.threads, [&](int chunk) {
    thread_local Workspace planes, keeps;
    std::memset(all + chunk * size, 0, size * sizeof(float));
    const Space at(planes.get(Space::floats(net)), net);
    for (long group = groups * chunk / chunks; group < groups * (chunk + 1) / chunks; ++group) {
      const KeptPlanes kept_here(keep ? kept.typed_data() + group * each : keeps.get(each), net);
      const long first = group * net.F, some = std::min<long>(net.F, net.N - first);
      dispatch(net.F, [&](auto F) {
        read_pictures<decltype(F)::value>(at.picture, from + first * bytes, some, net);
        if (!keep) runner.forward<decltype(F)::value>(nullptr, some, kept_here, at);
        const long here = first * net.out_floats();
        runner.backward<decltype(F)::value>(parts[chunk], d_out.typed_data() + here, out.typed_data() + here, some, kept_here, at);
      });
    }
  });
  unpack(gradients, parts, net);
  return ffi::Error::Success();
}

}  // namespace
}  // namespace gtrxl

// For Python, which makes the array: its rows and their floats. `sizes` are pictures, height, width, colours, then the channels of
// each section.
extern "C" void gtrxl_torso_kept(const int64_t* sizes, int64_t sections, int64_t* rows, int64_t* floats) {
  gtrxl::Net net;
  net.N = sizes[0];
  net.colours = sizes[3];
  gtrxl::Plane plane{sizes[1], sizes[2]};
  long in = net.colours;
  for (long s = 0; s < sections; ++s, plane = plane.half()) {
    net.sections.push_back(gtrxl::Section{plane, plane.half(), {}});
    for (gtrxl::Layer& layer : net.sections.back().layers) {
      layer = gtrxl::Layer{in, sizes[4 + s], 0, 0};
      in = sizes[4 + s];
    }
  }
  net.fill_up();
  *rows = net.groups();
  *floats = gtrxl::KeptPlanes::floats(net);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(gtrxl_torso, gtrxl::forward,
                              ffi::Ffi::Bind()
                                  .Arg<gtrxl::Pictures>()
                                  .RemainingArgs()
                                  .Ret<gtrxl::Floats>()
                                  .Ret<gtrxl::Floats>()
                                  .Attr<int64_t>("threads"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(gtrxl_torso_backward, gtrxl::backward,
                              ffi::Ffi::Bind()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Floats>()
                                  .Arg<gtrxl::Pictures>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<int64_t>("threads"));
