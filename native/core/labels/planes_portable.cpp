#include "labels/planes_kernel.h"

namespace dhilgt::portable {

#include "labels/planes_widths.inc"

}  // namespace dhilgt::portable
