// What comes from Python, checked before it is read.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "layout.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace gtrxl {

using Floats = ffi::Buffer<ffi::F32>;
using Ints = ffi::Buffer<ffi::S32>;
using Bools = ffi::Buffer<ffi::PRED>;
using Out = ffi::ResultBuffer<ffi::F32>;
using OutInts = ffi::ResultBuffer<ffi::S32>;

template <class Buffer>
bool has_shape(const Buffer& given, const std::vector<long>& shape) {
  const auto dimensions = given.dimensions();
  return dimensions.size() == shape.size() && std::equal(shape.begin(), shape.end(), dimensions.begin());
}

inline ffi::Error wrong_shapes(const char* call) {
  return ffi::Error::InvalidArgument(std::string("gtrxl's ") + call + " got arrays of other shapes than its sizes ask for");
}

}  // namespace gtrxl
