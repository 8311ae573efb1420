"""Passes over written instructions: reuse of tiles, engines, order, strips, addresses."""
