"""A package with nothing of its own: the parent of aliased modules."""
