// Asks again and again, but only while somebody looks: not in a hidden tab, and not while updates
// are paused. The next time counts from the end of the last, so that a slow server is not piled upon.

/** Never faster than this: 5 s. */
const LEAST_SECONDS = 5;

const running = new Set();
let paused = false;

/** Does `work` now, or once the page is seen, and again every so many seconds. */
export function poll(seconds, work) {
  const it = { timer: undefined, busy: false, over: false, ended: undefined };
  const pause = Math.max(seconds, LEAST_SECONDS) * 1000;
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
    /** Does it now. */
    now: it.turn,
    stop() {
      it.over = true;
      clearTimeout(it.timer);
      running.delete(it);
    },
  };
}

/** Pauses all of it, or goes on. */
export function setPaused(value) {
  paused = value;
  wake();
}

/** A pause holds up news, not what a view that is opened needs to show anything at all. */
function mayAsk({ ended }) {
  return !document.hidden && (!paused || ended === undefined);
}

function wake() {
  for (const it of running) {
    it.schedule();
  }
}

document.addEventListener("visibilitychange", wake);
