// Which build of the hot loops runs: the widest the machine has, or a narrower one on request.
#pragma once

namespace dhilgt {

enum class Simd { portable = 0, avx2 = 1, avx512 = 2 };

Simd simd_supported();       // what this processor can run
Simd simd_level();           // what is in use
void set_simd_level(Simd);   // for tests and `doctor`; throws std::invalid_argument if unsupported
const char* simd_name(Simd);

}  // namespace dhilgt
