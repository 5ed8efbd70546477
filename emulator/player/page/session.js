// A client of the streaming protocol: one session over one WebSocket.

const MOST_WAITING = 16; // prompts that were sent and are not answered

export class Session {
  // `heard` is called with each text message and with each binary one, `ended` once with the close code and reason.
  constructor(address, clientId, { heard, media, ended }) {
    this.waiting = 0;
    this.seed = 0;
    this.isOpen = false;
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      this.say({ type: "session_init_v2", client_id: clientId, stream_mode: "av_fmp4" });
    };
    this.socket.onmessage = ({ data }) => {
      if (typeof data !== "string") {
        media(data);
        return;
      }
      let message;
      try {
        message = JSON.parse(data);
      } catch {
        return; // not for us
      }
      if (message.type === "ltx2_stream_start") this.isOpen = true;
      if (message.type === "ltx2_segment_complete") this.waiting = Math.max(0, this.waiting - 1);
      heard(message);
    };
    this.socket.onclose = ({ code, reason }) => {
      this.isOpen = false;
      ended(code, reason);
    };
  }

  get isFull() {
    return this.waiting >= MOST_WAITING;
  }

  // Ask for a segment; false when too many were asked for already.
  ask(prompt) {
    if (!this.isOpen || this.isFull) return false;
    this.waiting += 1;
    this.seed += 1;
    this.say({ type: "segment_prompt_source", prompt, source: "user", seed: this.seed });
    return true;
  }

  close() {
    this.socket.close(1000, "done");
  }

  say(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
