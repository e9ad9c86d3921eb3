"""Levels with opponents that shoot."""
