"""What an operator can watch: metrics, readiness and traces.

A new metric or probe is added here alone and documented in `docs/operations.md`. Begin with `metrics.py`.
"""
