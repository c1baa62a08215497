"""Logs and traces. OpenTelemetry is optional; only `otel.py` knows it."""
