"""Experiments as data: settings, budgets and seeds, and what runs them."""
