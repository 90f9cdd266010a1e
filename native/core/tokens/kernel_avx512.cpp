#include <immintrin.h>

#include "tokens/kernel.h"

namespace dhilgt::avx512 {

#include "tokens/kernel.inc"

}  // namespace dhilgt::avx512
