"""The player: a page that plays a session through a gateway, and shows which replica serves it."""
