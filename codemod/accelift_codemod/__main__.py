"""`python -m accelift_codemod`: the `accelift` command."""

from accelift_codemod.cli import main

if __name__ == "__main__":
    main()
