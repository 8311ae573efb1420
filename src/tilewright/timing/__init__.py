"""Timing: engines with queues of their own, DMA, semaphores; latency and why. It knows no instruction by name."""
