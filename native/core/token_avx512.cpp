#include <immintrin.h>

#include "token_kernel.h"

namespace dhilgt::avx512 {

#include "token_kernel.inc"

}  // namespace dhilgt::avx512
