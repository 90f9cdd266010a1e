#include <immintrin.h>

#include "planes_kernel.h"

namespace dhilgt::avx512 {

#include "planes_kernel.inc"

}  // namespace dhilgt::avx512
