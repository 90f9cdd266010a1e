"""Settings that must be there before anything is imported."""

import os
from pathlib import Path

# Without a GPU the fused kernels run in Triton's interpreter; Triton reads this as it is imported.
if not Path("/proc/driver/nvidia").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
