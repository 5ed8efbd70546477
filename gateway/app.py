"""`app`: what `granian gateway.app:app` serves.

The server's half and the web framework are imported once it is known that this process may serve: a refusal
does not wait for them.
"""

from gateway.settings import load_or_exit, runtime_or_exit

_settings = load_or_exit()
_runtime = runtime_or_exit(_settings)

from gateway.granian_host import hosted  # noqa: E402

app = hosted(_settings, _runtime)
