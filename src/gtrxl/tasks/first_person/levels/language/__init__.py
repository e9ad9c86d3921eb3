"""Levels with an instruction."""
