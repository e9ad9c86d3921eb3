"""Levels in front of a screen."""
