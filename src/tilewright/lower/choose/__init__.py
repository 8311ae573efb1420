"""Ways to write a group: what each is, which fit, and which is taken."""
