"""A chaos kit for a merchant's endpoint: `plan` says what is tried, `player` plays it, the reports tell it."""
