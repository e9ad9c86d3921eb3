"""A first-person world in JAX: cells with walls, objects in them, a body that walks and looks, and levels with rules."""
