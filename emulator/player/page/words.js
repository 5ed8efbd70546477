// What codes mean, for people.

const CLOSES = {
  1000: "the session ended in order",
  1001: "the other side goes away, or nothing was said for too long",
  1002: "the other side saw a break of the WebSocket protocol",
  1003: "the first message was not the one that opens a session",
  1005: "the connection was closed without a code",
  1006: "the connection broke, or nobody listens there",
  1007: "a message was not text as it should be",
  1008: "the session was refused or ended by a rule",
  1009: "a message was too big",
  1011: "the server could not go on",
  1012: "the gateway restarts: connect again",
  1013: "no place is free now: try again later",
};

const REASONS = {
  no_healthy_replica: "no replica is healthy",
  queue_full: "too many wait for a place already",
  queue_timeout: "no place came free in time",
  replica_lost: "the replica was lost, and no other could go on",
  upstream_refused: "the replicas refuse this client",
  slow_consumer: "this page did not read fast enough",
  idle_timeout: "nothing was said for too long",
  ping_timeout: "no sign of life came in time",
  gateway_restarting: "the gateway restarts: connect again",
  session_timeout: "the client was silent for too long",
  session_rejected: "the replica is full",
  segment_cap: "the session has all the segments that it may have",
  internal_error: "the gateway has a defect: see its log",
};

export function closeInWords(code, reason) {
  const said = REASONS[reason] ?? CLOSES[code] ?? "a code of an application's own";
  return `${said} (code ${code}${reason ? `, ${reason}` : ""})`;
}

export function errorInWords(message) {
  const again = message.retryable ? "it may work when tried again" : "trying again will not help";
  return `${message.message ?? "an error"} (${message.code}; ${again})`;
}

// A WebSocket address from what somebody typed, or null.
export function gatewayAddress(text) {
  let url;
  try {
    url = new URL(text.trim());
  } catch {
    return null;
  }
  if (url.protocol === "http:") url.protocol = "ws:";
  if (url.protocol === "https:") url.protocol = "wss:";
  if (!["ws:", "wss:"].includes(url.protocol) || !url.hostname) return null;
  url.hash = "";
  return url.href;
}
