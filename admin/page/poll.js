// Polling, suspended in a hidden tab and while updates are paused. The interval counts from the end of
// the previous request, so that requests do not pile up on a slow server.

/** Minimum interval: 5 s. */
const MIN_SECONDS = 5;

const running = new Set();
let paused = false;

/** Runs `work` now, or once the page is visible, and then every `seconds`. */
export function poll(seconds, work) {
  const it = { timer: undefined, busy: false, over: false, ended: undefined };
  const pause = Math.max(seconds, MIN_SECONDS) * 1000;
  it.turn = async () => {
    clearTimeout(it.timer);
    if (it.busy || it.over) return;
    it.busy = true;
    try {
      await work();
    } finally {
      it.busy = false;
      it.ended = performance.now();
      it.schedule();
    }
  };
  it.schedule = () => {
    clearTimeout(it.timer);
    if (it.busy || it.over || !mayAsk(it)) return;
    const left = it.ended === undefined ? 0 : Math.max(0, it.ended + pause - performance.now());
    it.timer = setTimeout(it.turn, left);
  };
  running.add(it);
  it.schedule();
  return {
    /** Runs it now. */
    now: it.turn,
    stop() {
      it.over = true;
      clearTimeout(it.timer);
      running.delete(it);
    },
  };
}

/** Pauses or resumes all polling. */
export function setPaused(value) {
  paused = value;
  wake();
}

/** Pausing does not affect the first request of a newly opened view. */
function mayAsk({ ended }) {
  return !document.hidden && (!paused || ended === undefined);
}

function wake() {
  for (const it of running) {
    it.schedule();
  }
}

document.addEventListener("visibilitychange", wake);
