"""`python -m dhilgt COMMAND` and `torchrun ... -m dhilgt train`: the command line as a module."""

from dhilgt.cli.app import main

if __name__ == "__main__":
    main()
