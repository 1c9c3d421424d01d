// Formats numbers, sizes and times.

const numbers = new Intl.NumberFormat("en");

/** `5,000`. */
export function count(number) {
  return numbers.format(number);
}

/** `1 route`, `2 routes`. */
export function counted(number, noun, nouns = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : nouns}`;
}

/** `1.5 MiB`. */
export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [size, unit] = [number, 0];
  while (Math.abs(size) >= 1024 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  const digits = unit === 0 || Math.abs(size) >= 100 ? 0 : 1;
  return `${size.toFixed(digits)} ${units[unit]}`;
}

/** Microseconds: `35 µs`, `1.25 ms`, `2.50 s`. */
export function micros(number) {
  if (number < 1000) return `${number} µs`;
  if (number < 1e6) return `${(number / 1e3).toFixed(2)} ms`;
  return `${(number / 1e6).toFixed(2)} s`;
}

/** Milliseconds: `35 ms`, `2.5 s`, `5 min`. */
export function millis(number) {
  if (number < 1000) return `${number} ms`;
  if (number < 60_000) return `${(number / 1e3).toFixed(1)} s`;
  return seconds(Math.floor(number / 1000));
}

/** Seconds: `42 s`, `5 min`, `3 h 12 min`, `4 d 2 h`. */
export function seconds(number) {
  if (number < 60) return `${number} s`;
  const [minutes, hours, days] = [60, 3600, 86_400].map((unit) => Math.floor(number / unit));
  if (hours < 1) return `${minutes} min`;
  if (days < 1) return joined(hours, "h", minutes % 60, "min");
  return joined(days, "d", hours % 24, "h");
}

function joined(large, unit, small, smallUnit) {
  return small > 0 ? `${large} ${unit} ${small} ${smallUnit}` : `${large} ${unit}`;
}

/** `statusAtLeast` as `status at least`. */
export function words(name) {
  return name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

/** Splits a key such as `HTTPRoute/default/shop`. */
export function parts(key) {
  const [kind = "", namespace = "", name = "", ...rest] = key.split("/");
  return { kind, namespace, name, rest };
}
