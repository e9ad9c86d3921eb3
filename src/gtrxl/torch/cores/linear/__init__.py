"""Cores whose memory is a recurrence, in PyTorch."""
