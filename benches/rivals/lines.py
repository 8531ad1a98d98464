"""Answers the benchmark that started this program.

One JSON request per line comes on standard input, one JSON reply per line goes to standard output.
A reply has `error` where the request failed.
"""

import json
import os
import sys


def serve(answer):
    """Replies with `answer(state, request)` until there are no requests; `state` begins as `{}`."""
    # What libraries print must not stand between the replies.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    state = {}
    for line in sys.stdin:
        try:
            reply = answer(state, json.loads(line))
        except Exception as error:  # whatever goes wrong is the benchmark's to report
            text = str(error).splitlines()
            reply = {"error": f"{type(error).__name__}: {text[0] if text else 'no message'}"}
        print(json.dumps(reply), file=replies)
