#include "token_kernel.h"

namespace dhilgt::portable {

#include "token_kernel.inc"

}  // namespace dhilgt::portable
