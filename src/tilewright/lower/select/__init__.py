"""Which instructions compute what."""
