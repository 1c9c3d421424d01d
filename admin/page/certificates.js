// Certificates that the gateway serves or presents to backends; private keys are never shown.

import { properties, raw } from "./describe.js";
import { code, el, facts, section, tag } from "./dom.js";
import { listView } from "./list.js";
import { seconds } from "./text.js";

export const title = "Certificates";

export function create(watch) {
  return listView(OPTIONS, { rows: (dump) => dump.certificates, watch });
}

/** A certificate that expires within this time is marked: 30 days. */
const SOON_SECONDS = 30 * 86_400;

/** Whether a certificate is valid, and for how much longer. */
export function validity(certificate) {
  const left = Math.floor((Date.parse(certificate.notAfter) - Date.now()) / 1000);
  if (left <= 0) return { text: `Expired ${seconds(-left)} ago`, tone: "bad" };
  if (Date.parse(certificate.notBefore) > Date.now()) return { text: "Not valid yet", tone: "bad" };
  return { text: `Valid for ${seconds(left)}`, tone: left < SOON_SECONDS ? "warn" : "good" };
}

const OPTIONS = {
  view: "certificates",
  noun: "certificate",
  nouns: "certificates",
  hint: "name, issuer, user …",
  key: (certificate) => certificate.fingerprint,
  words: (certificate) => `${JSON.stringify(certificate)} ${validity(certificate).text}`,
  columns: [
    {
      title: "Subject",
      cell: (it) => el("span", { class: "key" }, it.subject || it.sans[0] || it.fingerprint),
      sort: (it) => it.subject,
    },
    { title: "Names", cell: names, wide: true, spare: true },
    { title: "State", cell: state, sort: (it) => it.notAfter },
    {
      title: "Used by",
      cell: (it) => String(it.usedBy.length),
      sort: (it) => it.usedBy.length,
      number: true,
    },
  ],
  filters: [{ label: "Only expired or expiring soon", test: (it) => validity(it).tone !== "good" }],
  details,
  none: [
    "No certificate is loaded.",
    "Certificates are loaded with listeners that terminate TLS and with client certificates for backends.",
  ],
};

function names({ sans }) {
  const [first, ...more] = sans;
  if (!first) return el("span", { class: "muted" }, "none");
  return [
    code(first),
    more.length > 0 && el("span", { class: "muted" }, ` and ${more.length} more`),
  ];
}

function state(certificate) {
  const { text, tone } = validity(certificate);
  return tag(text, tone);
}

function details(certificate) {
  return [
    certificate.subject || "Certificate",
    facts([
      ["state", state(certificate)],
      ["issuer", certificate.issuer],
      ["valid from", certificate.notBefore],
      ["valid until", certificate.notAfter],
      ["SHA-256", code(certificate.fingerprint)],
    ]),
    section("Names", properties(certificate.sans)),
    section(
      "Used by",
      el(
        "ul",
        { class: "plain" },
        certificate.usedBy.map((key) => el("li", {}, code(key))),
      ),
    ),
    raw(certificate),
  ];
}
