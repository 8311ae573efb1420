"""Measured profiles: read, set beside what is predicted, and made into figures of a target."""
