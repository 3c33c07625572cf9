"""Fetches the jars of the image's target `hadoop`.

    python jars.py FOLDER URL#sha256=HEX ...

Hadoop's clients for s3a://, abfss:// and gs:// are not part of PySpark. Only its digest makes a jar
the same in the next build, so one without is refused.
"""

import hashlib
import re
import sys
from pathlib import Path
from urllib.request import urlopen

_JAR = re.compile(
    r"(?P<url>(?:https|file)://\S+/(?P<name>[\w.+-]+\.jar))#sha256=(?P<digest>[0-9a-f]{64})"
)


def main(folder: str, *given: str) -> None:
    """Fetches each jar into a folder; ends with one line where one is not what was said."""
    if not given:
        sys.exit("no jars: give --build-arg JARS='URL#sha256=HEX ...', or build the target spark")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for one in given:
        jar = _JAR.fullmatch(one)
        if jar is None:
            form = "write it like https://HOST/NAME.jar#sha256=HEX"
            sys.exit(f"{one}: not a jar's address with its digest; {form}")
        with urlopen(jar["url"]) as answer:  # noqa: S310 -- https, or a file of the build
            content = answer.read()
        found = hashlib.sha256(content).hexdigest()
        if found != jar["digest"]:
            sys.exit(f"{jar['url']}: has the digest {found}, and not the one that was given")
        (place / jar["name"]).write_bytes(content)
        sys.stdout.write(f"{jar['name']}: {len(content)} bytes\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
