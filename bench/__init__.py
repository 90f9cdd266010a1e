"""Benchmarks: every figure the documentation states is made by one of these."""
