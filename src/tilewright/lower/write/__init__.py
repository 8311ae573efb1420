"""Writing tile IR: instructions, loops, views, and where values live."""
