"""What one does with a trained agent: play whole episodes for a score, draw one, export the weights."""
