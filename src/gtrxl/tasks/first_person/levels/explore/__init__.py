"""Levels in mazes."""
