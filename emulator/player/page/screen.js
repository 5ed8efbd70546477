// Plays segments one after the other through MediaSource.
//
// Each segment is a file of its own that begins at 0: it is put where the one before it ended. Until a segment is
// whole it can be abandoned; then all that is there of it goes, and the next one takes its place. What has been
// played is thrown away after a while, so the memory stays bounded.

const KEEP_SECONDS = 12; // behind the playhead
const FULL_RETRY_MS = 500;

export class Screen {
  constructor(video, onFailure) {
    this.video = video;
    this.onFailure = onFailure;
    this.start = 0; // where the current segment begins
    this.open = false; // whether it has begun and is not whole
    this.failed = false;
    this.work = []; // what is to be done to the buffer, in order
    this.isWorking = false;
    this.buffer = null;
    this.source = new MediaSource();
    this.url = URL.createObjectURL(this.source);
    this.ready = new Promise((resolve) => this.source.addEventListener("sourceopen", resolve, { once: true }));
    video.src = this.url;
    video.onerror = () => this.fail(video.error?.message || "the media cannot be decoded");
  }

  // A segment begins; one that has not become whole is abandoned.
  begin(mime) {
    if (!MediaSource.isTypeSupported(mime)) {
      this.fail(`this browser cannot play ${mime}`);
      return;
    }
    this.abandon();
    this.open = true;
    const start = this.start;
    this.enqueue(() => this.prepare(mime, start));
  }

  append(bytes) {
    if (this.open) this.enqueue(() => this.add(bytes), true);
  }

  // The segment is whole, and lasts so long.
  finish(seconds) {
    if (!this.open) return;
    this.open = false;
    this.start += seconds;
    for (const task of this.work) task.droppable = false;
    this.enqueue(() => this.trim(KEEP_SECONDS));
  }

  // What there is of a segment that is not whole is gone.
  abandon() {
    if (!this.open) return;
    this.open = false;
    const start = this.start;
    this.work = this.work.filter((task) => !task.droppable);
    this.enqueue(async () => {
      if (!this.buffer) return;
      this.buffer.abort(); // forgets a fragment of which only a part has come
      if (this.source.duration > start) await this.change(() => this.buffer.remove(start, Infinity));
    });
  }

  // Seconds that can be played before more is needed.
  get ahead() {
    const { buffered, currentTime } = this.video;
    for (let i = 0; i < buffered.length; i += 1) {
      if (buffered.start(i) <= currentTime + 0.1 && buffered.end(i) > currentTime) return buffered.end(i) - currentTime;
    }
    return 0;
  }

  // Seconds that are held in memory.
  get held() {
    const { buffered } = this.video;
    let seconds = 0;
    for (let i = 0; i < buffered.length; i += 1) seconds += buffered.end(i) - buffered.start(i);
    return seconds;
  }

  dispose() {
    this.failed = true;
    this.work = [];
    this.video.onerror = null;
    URL.revokeObjectURL(this.url);
  }

  fail(why) {
    if (this.failed) return;
    this.failed = true;
    this.work = [];
    this.onFailure(why);
  }

  enqueue(run, droppable = false) {
    if (this.failed) return;
    this.work.push({ run, droppable });
    if (!this.isWorking) void this.workOn();
  }

  async workOn() {
    this.isWorking = true;
    await this.ready;
    try {
      while (this.work.length && !this.failed) await this.work.shift().run();
    } catch (error) {
      this.fail(this.video.error?.message || error.message);
    }
    this.isWorking = false;
  }

  async prepare(mime, start) {
    if (!this.buffer) this.buffer = this.source.addSourceBuffer(mime);
    else this.buffer.changeType(mime);
    this.buffer.timestampOffset = start;
  }

  async add(bytes) {
    for (;;) {
      try {
        await this.change(() => this.buffer.appendBuffer(bytes));
        return;
      } catch (error) {
        if (error.name !== "QuotaExceededError") throw error;
        await this.trim(1);
        await new Promise((resolve) => setTimeout(resolve, FULL_RETRY_MS));
        if (this.failed) return;
      }
    }
  }

  async trim(keep) {
    const end = this.video.currentTime - keep;
    const { buffered } = this.buffer;
    if (buffered.length && end > buffered.start(0)) await this.change(() => this.buffer.remove(0, end));
  }

  // The change is made and done with.
  change(make) {
    return new Promise((resolve, reject) => {
      const settle = (event) => {
        this.buffer.removeEventListener("updateend", settle);
        this.buffer.removeEventListener("error", settle);
        if (event.type === "error") reject(new Error("the media cannot be decoded"));
        else resolve();
      };
      this.buffer.addEventListener("updateend", settle);
      this.buffer.addEventListener("error", settle);
      try {
        make();
      } catch (error) {
        this.buffer.removeEventListener("updateend", settle);
        this.buffer.removeEventListener("error", settle);
        reject(error);
      }
    });
  }
}
