// Decodes profiles: gzipped protobuf (github.com/google/pprof/blob/main/proto/profile.proto).

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

/** Field numbers of the messages; unused ones are left out. */
const PROFILE = {
  sampleType: 1,
  sample: 2,
  location: 4,
  function: 5,
  string: 6,
  dropFrames: 7,
  duration: 10,
  defaultType: 14,
};
const VALUE_TYPE = { type: 1, unit: 2 };
const SAMPLE = { location: 1, value: 2 };
const LOCATION = { id: 1, address: 3, line: 4 };
const LINE = { function: 1 };
const FUNCTION = { id: 1, name: 2 };

/** Decodes a gzipped profile: `types` of values, and `samples` with a stack, outermost first. */
export async function read(gzipped) {
  const unpacked = new Blob([gzipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  return decode(new Uint8Array(await new Response(unpacked).arrayBuffer()));
}

function decode(buffer) {
  const profile = message(buffer);
  const strings = all(profile, PROFILE.string).map((text) => new TextDecoder().decode(text));
  const names = new Map();
  for (const it of all(profile, PROFILE.function).map(message)) {
    names.set(one(it, FUNCTION.id), strings[one(it, FUNCTION.name)] || "unknown");
  }
  const frames = new Map();
  for (const it of all(profile, PROFILE.location).map(message))
    frames.set(one(it, LOCATION.id), functions(it, names));
  const dropped = strings[one(profile, PROFILE.dropFrames)];
  return {
    types: all(profile, PROFILE.sampleType)
      .map(message)
      .map((it) => ({
        name: strings[one(it, VALUE_TYPE.type)],
        unit: strings[one(it, VALUE_TYPE.unit)],
      })),
    defaultType: strings[one(profile, PROFILE.defaultType)],
    samples: all(profile, PROFILE.sample)
      .map((bytes) => sample(message(bytes), frames))
      .map(({ stack, values }) => ({ stack: dropped ? cut(stack, dropped) : stack, values })),
  };
}

/**
 * Cuts a stack before the first function whose whole name matches. As in pprof, matching functions at
 * the root are kept, so that the stack is not empty.
 */
function cut(stack, pattern) {
  const isDropped = new RegExp(`^(?:${pattern})$`);
  const own = stack.findIndex((name) => !isDropped.test(name));
  const first = stack.findIndex((name, index) => index > own && isDropped.test(name));
  return own < 0 || first < 0 ? stack : stack.slice(0, first);
}

function sample(it, frames) {
  const stack = numbers(it, SAMPLE.location)
    .toReversed()
    .flatMap((id) => frames.get(id) ?? ["unknown"]);
  return { stack, values: numbers(it, SAMPLE.value) };
}

/** The functions at a location, outermost first; several where functions are inlined. */
function functions(location, names) {
  const lines = all(location, LOCATION.line).map(message);
  if (lines.length === 0) return [`0x${one(location, LOCATION.address).toString(16)}`];
  return lines.toReversed().map((line) => names.get(one(line, LINE.function)) ?? "unknown");
}

/** The fields of a message: number to values. */
function message(buffer) {
  const fields = new Map();
  const reader = new Reader(buffer);
  while (!reader.atEnd) {
    const key = reader.varint();
    const [number, type] = [Math.floor(key / 8), key % 8];
    if (!fields.has(number)) fields.set(number, []);
    fields.get(number).push(reader.value(type));
  }
  return fields;
}

function all(fields, number) {
  return fields.get(number) ?? [];
}

function one(fields, number) {
  return fields.get(number)?.at(-1) ?? 0;
}

/** A repeated number field, packed or not. */
function numbers(fields, number) {
  return all(fields, number).flatMap((value) => {
    if (typeof value === "number") return [value];
    const reader = new Reader(value);
    const unpacked = [];
    while (!reader.atEnd) unpacked.push(reader.varint());
    return unpacked;
  });
}

class Reader {
  #bytes;
  #at = 0;

  constructor(bytes) {
    this.#bytes = bytes;
  }

  get atEnd() {
    return this.#at >= this.#bytes.length;
  }

  /** Numbers above 2^53 lose precision; only addresses are that large. */
  varint() {
    let [value, scale] = [0, 1];
    for (;;) {
      if (this.atEnd) throw new Error("the profile ends in the middle of a number");
      const byte = this.#bytes[this.#at++];
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }

  value(type) {
    if (type === VARINT) return this.varint();
    if (type === BYTES) return this.#take(this.varint());
    if (type === FIXED64) return this.#take(8);
    if (type === FIXED32) return this.#take(4);
    throw new Error(`the profile has a field of the unknown type ${type}`);
  }

  #take(length) {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new Error("the profile ends in the middle of a field");
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}
