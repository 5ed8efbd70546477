// The emulator behind the gateway: its replicas, their states, and which of them has a session of ours.

export class Farm {
  // `changed` is called after every change; `serving` with the name of the replica that took up our session.
  constructor(clientId, { changed, serving }) {
    this.replicas = new Map();
    this.clientId = clientId;
    this.changed = changed;
    this.serving = serving;
  }

  // Follows the emulator's log from now on.
  async follow() {
    const farm = await this.call("GET", "/farm");
    if (!farm) return;
    this.take(farm.replicas);
    const kinds = "kind=message_received&kind=state_changed";
    const stream = new EventSource(`/events/stream?after=${farm.last_event}&${kinds}`);
    stream.addEventListener("message_received", ({ data }) => {
      const event = JSON.parse(data);
      if (event.detail.type === "session_init_v2" && event.detail.client_id === this.clientId) {
        this.serving(event.replica);
      }
    });
    stream.addEventListener("state_changed", ({ data }) => {
      const event = JSON.parse(data);
      this.replicas.set(event.replica, event.detail.after);
      this.changed();
    });
  }

  kill(name) {
    return this.command(name, "kill");
  }

  restart(name) {
    return this.command(name, "restart");
  }

  async command(name, what) {
    const replica = await this.call("POST", `/replicas/${encodeURIComponent(name)}/${what}`);
    if (replica) this.take([replica]);
  }

  take(replicas) {
    for (const { name, state } of replicas) this.replicas.set(name, state);
    this.changed();
  }

  async call(method, path) {
    try {
      const answer = await fetch(path, { method });
      return answer.ok ? await answer.json() : null;
    } catch {
      return null; // the emulator is gone; what it served goes on without it
    }
  }
}
