#include <immintrin.h>

#include "labels/planes_kernel.h"

namespace dhilgt::avx512 {

#include "labels/planes_widths.inc"

}  // namespace dhilgt::avx512
