"""What things look like beyond walls and plain shapes: figures, the light of the day, what is painted over a picture."""
