"""What `outrider.lab.sandbox` starts: reads a job, limits this process, and runs the job's code.

It runs by its path, without Outrider, and with the standard library alone.
"""

import json
import os
import resource
import sys


def main() -> None:
    """Runs the code that stdin holds, and writes the token to the pipe if it ends by itself."""
    job = json.load(sys.stdin)
    for kind, limit in job["limits"]:
        resource.setrlimit(kind, (limit, limit))
    exec(compile(job["code"], "answer.py", "exec"), {"__name__": "answer"})
    os.write(job["pipe"], job["token"].encode())


if __name__ == "__main__":
    main()
