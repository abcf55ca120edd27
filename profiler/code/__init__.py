"""Give modules, source lines and instructions their weights and their texts."""
