"""One file per database."""
