"""Benchmarks: each compares Tally with a peer or a physical limit in the same run. None is a test."""
