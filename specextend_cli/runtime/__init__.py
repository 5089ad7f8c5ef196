"""Loading and joining models: target, drafter, device, threads, native code."""
