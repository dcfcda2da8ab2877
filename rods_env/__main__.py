"""`python -m rods_env`: the command, where its script is not on the path."""

from rods_env.cli import main

if __name__ == "__main__":
    main()
