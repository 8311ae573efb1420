"""Schedules as data: how a program is cut into steps and how each is written; printed, read back, given by a user."""
