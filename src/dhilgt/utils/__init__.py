"""Helpers of every layer: value checks, devices, memory, progress, worker processes."""
