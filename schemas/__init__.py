"""JSON Schemas shipped with fairmark; read with importlib.resources."""
