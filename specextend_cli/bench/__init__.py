"""Honest measurements: workloads, methods side by side, statistics, reports."""
