"""Tasks as pictures: one state, an episode as GIF, a sheet of levels."""
