"""Tasks for people, in a browser."""
