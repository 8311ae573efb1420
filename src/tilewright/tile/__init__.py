"""Tile IR: buffers, views, loops and the instruction table."""
