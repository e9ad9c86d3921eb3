"""Levels in open country."""
