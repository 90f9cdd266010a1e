#include "planes_kernel.h"

namespace dhilgt::avx2 {

#include "planes_kernel.inc"

}  // namespace dhilgt::avx2
