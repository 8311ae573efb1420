"""Rewrites of a tensor program that suit this hardware, before anything is lowered."""
