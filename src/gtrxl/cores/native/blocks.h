// What acting and learning both know of a layer.
#pragma once

#include <cstdint>

namespace gtrxl {

constexpr float EPSILON = 1e-5f;  // of the norms

// Numbers of the gates, as in acting.py.
enum GateKind : int64_t { RESIDUAL, INPUT, OUTPUT, HIGHWAY, SIGTANH, GRU };

}  // namespace gtrxl
