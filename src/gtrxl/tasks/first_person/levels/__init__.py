"""The first-person tasks: Memory Maze and re-created DMLab-30 levels."""
