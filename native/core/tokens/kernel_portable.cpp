#include "tokens/kernel.h"

namespace dhilgt::portable {

#include "tokens/kernel.inc"

}  // namespace dhilgt::portable
