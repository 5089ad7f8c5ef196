"""Entry of the program, also by `python -m specextend_cli`: ^C while its modules are imported ends it quietly."""

import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        if any(one.lower().endswith(".pdf") for one in sys.argv):
            from specextend_cli.documents.sandbox import WORKER, begun, start

            begun[WORKER] = start(WORKER, "specextend_cli.documents.pdf.read", "pypdfium2.raw")
        from specextend_cli.cli.main import main as run

        run()
    except KeyboardInterrupt:  # before signals are handled, or after
        sys.exit(130)


if __name__ == "__main__":
    main()
