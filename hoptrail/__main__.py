"""`python -m hoptrail`: the same as the command."""

from hoptrail.cli import main

if __name__ == "__main__":
    main()
