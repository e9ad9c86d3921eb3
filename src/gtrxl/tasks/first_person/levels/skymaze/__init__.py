"""Levels of platforms in the sky."""
