"""Fixed against synthesised curricula: `rods-env bench curricula`."""
