"""What a recorded call costs to keep, and whether a large ledger is slower."""
