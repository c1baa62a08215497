"""Logs and traces. OpenTelemetry is optional; only `tracing.py` knows it.

How a log line looks, and what it hides, is changed in `logs.py` alone. Begin with `tracing.py`.
"""
