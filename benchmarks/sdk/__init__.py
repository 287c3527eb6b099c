"""What `once` costs on a real database, and whether it holds in a race."""
