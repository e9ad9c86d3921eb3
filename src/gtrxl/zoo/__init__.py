"""Small trained agents that come with the package: agents/NAME.safetensors, and NAME.json, their card."""
