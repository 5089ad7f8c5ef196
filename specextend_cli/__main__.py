"""Entry of the program, also by `python -m specextend_cli`: ^C while its modules are imported ends it quietly."""

import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        from specextend_cli.cli.main import main as run

        run()
    except KeyboardInterrupt:  # before signals are handled, or after
        sys.exit(130)


if __name__ == "__main__":
    main()
