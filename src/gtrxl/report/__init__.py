"""Rows -> tables, figures, pages. Needs no JAX."""
