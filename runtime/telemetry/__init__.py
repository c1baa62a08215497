"""Logs and traces. OpenTelemetry is optional; only `tracing.py` knows it.

How a log line looks is changed here alone, and what it hides in `logs.py`. Begin with `tracing.py`.
"""
