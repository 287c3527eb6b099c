"""What linting a large file takes."""
