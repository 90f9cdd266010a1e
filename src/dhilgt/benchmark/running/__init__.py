"""Running a comparison: its cells, its processes, its result lines."""
