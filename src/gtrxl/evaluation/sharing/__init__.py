"""A trained agent for others to find: its page, and the way to Hugging Face and back."""
