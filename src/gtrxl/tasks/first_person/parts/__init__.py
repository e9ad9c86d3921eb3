"""Parts that some levels are made of: suites of rooms, doors with keys, names of things, opponents, open country."""
