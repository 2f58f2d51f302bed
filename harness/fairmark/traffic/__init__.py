"""Seeds to traffic: which sample is sent when, equal to LoadGen's."""
