#include "labels/planes_kernel.h"

namespace dhilgt::portable {

#include "labels/planes_kernel.inc"

}  // namespace dhilgt::portable
