"""Levels that are one or two rooms."""
