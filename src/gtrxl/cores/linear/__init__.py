"""Memories that are recurrences: linear ones of today, under the same contract as the LSTM and the transformers."""
