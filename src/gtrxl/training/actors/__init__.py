"""Tasks that live outside the compiled program: actors step them, a learner learns from what they send."""
