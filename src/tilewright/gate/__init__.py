"""The gate of a test run: kernels that really ran are counted, and a run in which none did, or in which one was refused
while its test passed, fails.

`tally` counts by test, `lines` measures which lines of kernels ran, `branches` finds host code that asks whether it is
simulated, `budgets` holds tests to times and sizes, `summary` prints, `hooks` is what pytest calls.
"""
