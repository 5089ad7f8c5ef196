"""Loading and joining models: target, drafter, device, threads, compiled code."""
