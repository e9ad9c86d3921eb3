"""Those who fight, and how they play by themselves."""
