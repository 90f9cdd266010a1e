#include "base/simd.h"

#include <atomic>
#include <stdexcept>
#include <string>

namespace dhilgt {

Simd simd_supported() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return Simd::avx512;
  }
  if (__builtin_cpu_supports("avx2")) return Simd::avx2;
#endif
  return Simd::portable;
}

namespace {
std::atomic<Simd>& level_in_use() {
  static std::atomic<Simd> level{simd_supported()};
  return level;
}
}  // namespace

Simd simd_level() { return level_in_use().load(std::memory_order_relaxed); }

void set_simd_level(Simd level) {
  if (level > simd_supported()) {
    throw std::invalid_argument(std::string("this processor has no ") + simd_name(level));
  }
  level_in_use().store(level);
}

const char* simd_name(Simd level) {
  switch (level) {
    case Simd::avx512: return "avx512";
    case Simd::avx2: return "avx2";
    default: return "portable";
  }
}

}  // namespace dhilgt
