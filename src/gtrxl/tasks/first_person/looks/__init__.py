"""What walls, floors and objects look like."""
