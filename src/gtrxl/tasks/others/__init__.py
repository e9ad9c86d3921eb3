"""Tasks that others published, compiled by their authors' rules: card games of POPGym, and the T-maze of Ni et al."""
