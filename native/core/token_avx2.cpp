#include <immintrin.h>

#include "token_kernel.h"

namespace dhilgt::avx2 {

#include "token_kernel.inc"

}  // namespace dhilgt::avx2
