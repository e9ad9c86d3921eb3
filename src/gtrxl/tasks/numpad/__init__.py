"""Numpad and Grid Numpad: a hidden sequence of pads to find and repeat."""
