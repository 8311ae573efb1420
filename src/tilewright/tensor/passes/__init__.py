"""Passes over tensor IR: each a list of rules or one walk, runnable alone."""
