"""Programs that put the gateway to work on real input and measure it: `make replay`, `make bench`."""
