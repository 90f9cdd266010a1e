#include <immintrin.h>

#include "tokens/kernel.h"

namespace dhilgt::avx2 {

#include "tokens/kernel.inc"

}  // namespace dhilgt::avx2
