// The instruction set of the hot loops: the widest the processor supports, or a narrower one on request.
#pragma once

namespace dhilgt {

enum class Simd { portable = 0, avx2 = 1, avx512 = 2 };

Simd simd_supported();       // the widest this processor supports
Simd simd_level();           // the one in use
void set_simd_level(Simd);   // for tests and `doctor`; throws std::invalid_argument if unsupported
const char* simd_name(Simd);

}  // namespace dhilgt
