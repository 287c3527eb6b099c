"""placeholder until wired"""


def main() -> int:
    return 0
