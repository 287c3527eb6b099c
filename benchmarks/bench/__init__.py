"""What a call costs: the gateway beside a plain proxy and the merchant itself, in one run."""
