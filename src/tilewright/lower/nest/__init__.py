"""The loops of a group, and what is written in them."""
