"""Entry of the program, also by `python -m specextend_cli`: ^C while its modules are imported ends it quietly."""

import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        from specextend_cli.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
