"""Ground of different heights, and open country."""
