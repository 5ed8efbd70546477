"""Scenarios at work: drives sessions through a gateway, plays the timeline, and judges what was seen."""
