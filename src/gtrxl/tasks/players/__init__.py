"""Scripted players: what a random policy and a perfect memory score."""
