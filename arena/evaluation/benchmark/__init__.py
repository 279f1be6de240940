"""Benchmark suites: fixed evaluations whose results are submitted, verified and compared."""
