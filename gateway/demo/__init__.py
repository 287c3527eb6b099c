"""`oncegate demo`: a real shop, a real gateway, and an assistant that repeats itself."""
