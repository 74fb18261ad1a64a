"""The `lathe` command: python -m lathe."""

import sys

from ._lathe import _cli


def main():
    return _cli(["lathe", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
