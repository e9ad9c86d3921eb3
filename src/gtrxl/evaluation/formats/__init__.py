"""A trained agent as a file for others: one module for each format, and the catalogue of them."""
