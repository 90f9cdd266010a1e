#include "labels/planes_kernel.h"

namespace dhilgt::avx2 {

#include "labels/planes_widths.inc"

}  // namespace dhilgt::avx2
