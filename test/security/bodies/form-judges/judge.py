"""Reads forms as werkzeug does: one JSON object a line in, one a line out."""

import base64
import io
import json
import sys

from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_options_header


def read(given):
    body = base64.b64decode(given["body"])
    mimetype, options = parse_options_header(given["type"])
    parser = FormDataParser(silent=False)
    # its requests have their media type in lower case
    _, form, _ = parser.parse(io.BytesIO(body), mimetype.lower(), len(body), options)
    return {
        name: [base64.b64encode(value.encode()).decode() for value in values]
        for name, values in form.lists()
        if isinstance(name, str)
    }


for line in sys.stdin:
    try:
        answer = {"fields": read(json.loads(line))}
    except Exception as error:
        answer = {"error": repr(error)}
    print(json.dumps(answer), flush=True)
