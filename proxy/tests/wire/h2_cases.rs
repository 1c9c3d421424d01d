//! HTTP/2 by the sections of RFC 9113 and RFC 7541: the cases are data, in `tests/corpus/h2`.
//!
//! A case is a line `[section] title`, lines of what a client sends, and a line `=> outcome`. After
//! preface and empty SETTINGS (unless the first line is `raw`), each line is one frame:
//! `KIND+FLAG.. stream payload..`. Payloads are `"text"`, `0xhex`, `*N` zeros, `{name: value; ..}`
//! as an HPACK block; `@N` claims another length. `GET n` and `POST n` are whole heads. `WAIT
//! outcome` delays what follows until that outcome.
//!
//! Every case runs whole and in small pieces, with the same outcome. The kernel may join pieces
//! before the gateway reads them.

use std::path::Path;
use std::time::Duration;

use crate::support::frames::{
    ACK, ANSWER_OF_HTTP_1, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS,
    PING, PREFACE, PRIORITY, Peer, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame, get, post,
};
use crate::support::{GatewayBuilder, gateway, ok, on_both_drivers, origin};

on_both_drivers! {
    fn every_case_has_its_expected_result(driver) {
        run(gateway(driver), usize::MAX);
    }

    fn every_case_has_the_same_result_in_pieces_of_seven_bytes(driver) {
        run(gateway(driver), 7);
    }

    fn every_case_has_the_same_result_byte_by_byte(driver) {
        run(gateway(driver), 1);
    }
}

fn run(gateway: GatewayBuilder, piece: usize) {
    let origin = origin().replies(ok("hello"));
    let gateway = gateway.routes_to(&origin).start();
    let cases = cases();
    assert!(cases.len() >= 220, "only {} cases", cases.len());
    let mut failed = Vec::new();
    for case in &cases {
        let mut peer = Peer::silent(gateway.address());
        peer.tolerates_silence_of(SILENCE);
        for Step { bytes, outcomes } in &case.steps {
            for bytes in bytes.chunks(piece) {
                peer.sends(bytes);
            }
            if case.finishes {
                peer.finishes();
            }
            let actual = outcome(&mut peer, outcomes);
            if !outcomes.contains(&actual) {
                let (title, outcomes) = (&case.title, outcomes.join(" or "));
                failed.push(format!("{title}: {actual}, not {outcomes}"));
                break;
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {}:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
    Peer::client(gateway.address())
        .sends(get(1))
        .next_of(HEADERS);
}

struct Case {
    title: String,
    steps: Vec<Step>,
    /// Whether the client half-closes after the only step.
    finishes: bool,
}

/// What a client sends, and the allowed outcomes.
struct Step {
    bytes: Vec<u8>,
    outcomes: Vec<String>,
}

/// The first outcome of the kinds that the case expects.
fn outcome(peer: &mut Peer, expected: &[String]) -> String {
    let awaits = |word: &str| expected.iter().any(|outcome| outcome.starts_with(word));
    loop {
        let Some(frame) = peer.next() else {
            let end = if peer.was_silent() {
                "silence"
            } else {
                "closed"
            };
            return end.to_owned();
        };
        match frame.kind {
            GOAWAY => return format!("goaway {}", code(&frame)),
            ANSWER_OF_HTTP_1 => {
                return format!("http/1.1 {}", String::from_utf8_lossy(&frame.payload));
            }
            RST_STREAM => return format!("reset {}", code(&frame)),
            HEADERS if awaits("status") => {
                return format!("status {}", frame.status().unwrap_or_default());
            }
            PING if frame.flags & ACK != 0 && awaits("pong") => return "pong".to_owned(),
            SETTINGS if frame.flags & ACK != 0 && awaits("ack") => return "ack".to_owned(),
            DATA if awaits("data") => return format!("data {}", frame.payload.len()),
            DATA | HEADERS if frame.flags & END_STREAM != 0 && awaits("end") => {
                return "end".to_owned();
            }
            _ => {}
        }
    }
}

fn code(frame: &Frame) -> String {
    let code = frame.code().expect("a whole frame");
    let name = CODES.get(usize::try_from(code).expect("32 bits"));
    name.map_or_else(|| code.to_string(), |name| (*name).to_owned())
}

/// No outcome of a case takes nearly that long.
const SILENCE: Duration = Duration::from_secs(3);

const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/h2");
    let files = std::fs::read_dir(folder).expect("the corpus");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let texts = files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("text"));
    texts.flat_map(|text| parse(&text)).collect()
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut lines = Vec::new();
    let mut title = "";
    let trimmed = text.lines().map(str::trim);
    for line in trimmed.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with('[') {
            title = line;
            lines.clear();
        } else if line.starts_with("=> ") {
            lines.push(line);
            cases.push(Case {
                title: title.to_owned(),
                steps: steps(&lines),
                finishes: lines.contains(&"FIN"),
            });
        } else {
            lines.push(line);
        }
    }
    cases
}

/// Lines of frames up to a line of outcomes, again and again.
fn steps(lines: &[&str]) -> Vec<Step> {
    let mut bytes = Vec::new();
    if !lines.first().is_some_and(|line| line.starts_with("raw")) {
        bytes.extend_from_slice(PREFACE);
        bytes.extend(frame(SETTINGS, 0, 0, b""));
    }
    let mut steps = Vec::new();
    for line in lines.iter().filter(|line| **line != "FIN") {
        let outcomes = line.strip_prefix("=> ").or(line.strip_prefix("WAIT "));
        match outcomes {
            None => bytes.extend(one(line)),
            Some(outcomes) => steps.push(Step {
                bytes: std::mem::take(&mut bytes),
                outcomes: outcomes.split(" | ").map(str::to_owned).collect(),
            }),
        }
    }
    steps
}

fn one(line: &str) -> Vec<u8> {
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    if kind == "raw" {
        return payload(rest).0;
    }
    let (stream, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let stream: u32 = stream
        .parse()
        .unwrap_or_else(|_| panic!("a stream in `{line}`"));
    match kind {
        "GET" => return get(stream),
        "POST" => return post(stream),
        _ => {}
    }
    let mut parts = kind.split('+');
    let kind = kind_of(parts.next().unwrap_or_default());
    let flags = parts.map(flag_of).fold(0, |flags, flag| flags | flag);
    let (payload, claimed) = payload(rest);
    let mut bytes = frame(kind, flags, stream, &payload);
    if let Some(claimed) = claimed {
        bytes[..3].copy_from_slice(&claimed.to_be_bytes()[1..]);
    }
    bytes
}

fn kind_of(name: &str) -> u8 {
    match name {
        "DATA" => DATA,
        "HEADERS" => HEADERS,
        "PRIORITY" => PRIORITY,
        "RST" => RST_STREAM,
        "SETTINGS" => SETTINGS,
        "PUSH" => 5,
        "PING" => PING,
        "GOAWAY" => GOAWAY,
        "WINDOW" => WINDOW_UPDATE,
        "CONT" => CONTINUATION,
        other => other
            .parse()
            .unwrap_or_else(|_| panic!("a kind of frame: `{other}`")),
    }
}

fn flag_of(name: &str) -> u8 {
    match name {
        "END" | "ACK" => END_STREAM,
        "HEAD" => END_HEADERS,
        "PADDED" => 8,
        "PRIO" => 0x20,
        other => panic!("a flag: `{other}`"),
    }
}

/// The bytes of a payload, and the length that is claimed in place of theirs.
fn payload(text: &str) -> (Vec<u8>, Option<u32>) {
    let (mut bytes, mut claimed) = (Vec::new(), None);
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' => 1 + rest[1..].find('"').expect("a closing quote"),
            '{' => rest.find('}').expect("a closing brace"),
            _ => rest.find(' ').unwrap_or(rest.len()) - 1,
        };
        let (token, after) = rest.split_at(end + 1);
        rest = after.trim_start();
        match first {
            '"' => {
                let text = token
                    .trim_matches('"')
                    .replace("\\r", "\r")
                    .replace("\\n", "\n");
                bytes.extend_from_slice(text.as_bytes());
            }
            '{' => bytes.extend(block(&fields(token))),
            '*' => bytes.resize(
                bytes.len() + token[1..].parse::<usize>().expect("a number"),
                0,
            ),
            '@' => claimed = Some(token[1..].parse().expect("a number")),
            _ => bytes.extend(hex(token)),
        }
    }
    (bytes, claimed)
}

/// `{GET; x: y}`: the fields of a request, and more.
fn fields(token: &str) -> Vec<(&str, &str)> {
    let inside = token.trim_start_matches('{').trim_end_matches('}');
    let mut fields = Vec::new();
    for field in inside
        .split(';')
        .map(str::trim)
        .filter(|field| !field.is_empty())
    {
        match field {
            "GET" | "HEAD" | "POST" | "OPTIONS" | "CONNECT" | "TRACE" => {
                fields.extend(crate::support::frames::request(field));
            }
            _ => {
                let at = 1 + field[1..].find(':').expect("a name and a value");
                let (name, value) = field.split_at(at);
                let value = value[1..].strip_prefix(' ').unwrap_or(&value[1..]);
                fields.push((name, value));
            }
        }
    }
    fields
}

fn hex(token: &str) -> Vec<u8> {
    let digits = token
        .strip_prefix("0x")
        .unwrap_or_else(|| panic!("hexadecimal: `{token}`"));
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    (0..digits.len()).step_by(2).map(byte).collect()
}
