"""How the outputs of a run are judged, repaired and delivered."""
