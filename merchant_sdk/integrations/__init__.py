"""One thin file per framework; importing one imports that framework. The SDK itself needs none of them."""
