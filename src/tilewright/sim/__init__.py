"""The machine: memories with per-element state, and the step that executes an instruction."""
