#include "planes_kernel.h"

namespace dhilgt::portable {

#include "planes_kernel.inc"

}  // namespace dhilgt::portable
