"""`app`: what `granian gateway.app:app` serves."""

from gateway.granian_host import hosted
from gateway.settings import load_or_exit

app = hosted(load_or_exit())
