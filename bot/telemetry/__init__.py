"""Metrics, readiness and traces, for operators.

A new metric or probe is added here alone and documented in `docs/operations.md`. Begin with `metrics.py`.
"""
