"""How fast names are judged and manifests looked through."""
