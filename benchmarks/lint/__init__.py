"""How fast names are judged, manifests read and looked through."""
