"""Other people's tasks (Gymnasium, DeepMind Lab, JAX), their spaces as arrays and back; and ours for the trainers of others."""
