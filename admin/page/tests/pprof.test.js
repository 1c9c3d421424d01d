// Profiles are read as pprof reads them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { read } from "../pprof.js";

/** A field of bytes, or of text; all of these are short. */
function field(number, content) {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from([number * 8 + 2, bytes.length]), bytes]);
}

function number(field, value) {
  return Buffer.from([field * 8, value]);
}

/** A profile of one sample, whose stack is given outermost first. */
function profile(stack, dropFrames) {
  const strings = ["", "samples", "count", dropFrames, ...stack];
  const parts = [
    field(1, Buffer.concat([number(1, 1), number(2, 2)])),
    ...strings.map((text) => field(6, text)),
    number(7, 3),
  ];
  const ids = stack.map((_, index) => index + 1);
  for (const id of ids) {
    parts.push(field(5, Buffer.concat([number(1, id), number(2, id + 3)])));
    parts.push(field(4, Buffer.concat([number(1, id), field(4, number(1, id))])));
  }
  parts.push(field(2, Buffer.concat([field(1, ids.toReversed()), field(2, [7])])));
  return gzipSync(Buffer.concat(parts));
}

async function stackOf(stack, dropFrames) {
  const { samples } = await read(profile(stack, dropFrames));
  assert.deepEqual(samples[0].values, [7]);
  return samples[0].stack;
}

test("frames that the profile drops go, and so does all that they call", async () => {
  const stack = ["main", "serve", "alloc::one", "inner", "alloc::two"];
  assert.deepEqual(await stackOf(stack, "alloc::.*|sys"), ["main", "serve"]);
  assert.deepEqual(await stackOf(stack, ""), stack);
  // The whole name has to match.
  assert.deepEqual(await stackOf(stack, "alloc|inn"), stack);
});

test("frames at the root stay, so that something is left", async () => {
  const stack = ["alloc::start", "main", "alloc::one"];
  assert.deepEqual(await stackOf(stack, "alloc::.*"), ["alloc::start", "main"]);
  assert.deepEqual(await stackOf(["alloc::one"], "alloc::.*"), ["alloc::one"]);
});
