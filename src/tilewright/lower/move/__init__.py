"""Data from one place and layout to another."""
