//! A case of the corpus, parsed from its file. `README.md` beside this file is the format.

use std::path::{Path, PathBuf};

use crate::escape::unescape;

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    /// Whether a part of a request may reach the origin, but never all of it.
    pub(crate) partial: bool,
    pub(crate) client: Vec<u8>,
    /// Whether the client half-closes after sending.
    pub(crate) finishes: bool,
    pub(crate) origin: Vec<OriginResponse>,
    pub(crate) forwarded: Vec<Expectation>,
    pub(crate) responses: Vec<(Presence, Expectation)>,
}

/// The response of an origin.
#[derive(Debug, Clone)]
pub(crate) struct OriginResponse {
    pub(crate) bytes: Vec<u8>,
    pub(crate) closes: bool,
}

/// How a case ends for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Allowed statuses of a final rejection; empty if nothing is rejected. 0 means that the
    /// connection ends without a response.
    pub(crate) refusals: Vec<u16>,
    pub(crate) connection: Connection,
}

/// Whether the connection stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connection {
    GoesOn,
    Ends,
    Either,
}

/// Whether a response is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Comes,
    MayCome,
    BreaksOff,
}

/// The expected form of a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expectation {
    /// `METHOD TARGET`, or a status.
    pub(crate) start: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) absent: Vec<String>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) absent_trailers: Vec<String>,
}

/// All cases, by name.
pub(crate) fn all() -> Vec<Case> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "corpus", "h1"]
        .iter()
        .collect();
    let entries = std::fs::read_dir(&folder).expect("the folder of the corpus");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable entry").path())
        .collect();
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> Case {
    let text = std::fs::read_to_string(file).expect("a readable case");
    let name = file
        .file_stem()
        .expect("a file has a name")
        .to_string_lossy()
        .into_owned();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut case = Case {
        name,
        verdict: Verdict {
            refusals: Vec::new(),
            connection: Connection::GoesOn,
        },
        partial: false,
        client: Vec::new(),
        finishes: false,
        origin: Vec::new(),
        forwarded: Vec::new(),
        responses: Vec::new(),
    };
    let mut section = String::new();
    for line in lines {
        if let Some(title) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            title.clone_into(&mut section);
            case.begin(title);
        } else {
            case.line(&section, line);
        }
    }
    case
}

impl Case {
    fn begin(&mut self, section: &str) {
        match section {
            "client" => {}
            "client finishes" => self.finishes = true,
            "origin" | "origin closes" => {
                let closes = section == "origin closes";
                self.origin.push(OriginResponse {
                    bytes: Vec::new(),
                    closes,
                });
            }
            "forwarded" => self.forwarded.push(Expectation::default()),
            "response" => self
                .responses
                .push((Presence::Comes, Expectation::default())),
            "response maybe" => self
                .responses
                .push((Presence::MayCome, Expectation::default())),
            "response cut" => self
                .responses
                .push((Presence::BreaksOff, Expectation::default())),
            other => panic!("{}: no such section: [{other}]", self.name),
        }
    }

    fn line(&mut self, section: &str, line: &str) {
        match section.split(' ').next() {
            Some("client") => self.client.extend(unescape(line)),
            Some("origin") => {
                let answer = self.origin.last_mut().expect("the section has begun");
                answer.bytes.extend(unescape(line));
            }
            Some("forwarded") => self
                .forwarded
                .last_mut()
                .expect("the section has begun")
                .line(line),
            Some("response") => self
                .responses
                .last_mut()
                .expect("the section has begun")
                .1
                .line(line),
            _ => match line.split_once(": ") {
                Some(("verdict", verdict)) => self.verdict = Verdict::parse(verdict),
                Some(("partial", "yes")) => self.partial = true,
                _ => panic!("{}: no such header: {line}", self.name),
            },
        }
    }
}

impl Verdict {
    fn parse(text: &str) -> Self {
        let (what, connection) = match text.rsplit_once('-') {
            Some((what, "close")) => (what, Connection::Ends),
            Some((what, "any")) => (what, Connection::Either),
            _ => (text, Connection::GoesOn),
        };
        let status = |text: &str| match text {
            "none" => 0,
            text => text
                .parse()
                .unwrap_or_else(|_| panic!("no verdict: {text}")),
        };
        let refusals = match what {
            "forward" => Vec::new(),
            statuses => statuses.split('|').map(status).collect(),
        };
        Self {
            refusals,
            connection,
        }
    }
}

impl Expectation {
    fn line(&mut self, line: &str) {
        let text = |escaped: &str| {
            unescape(escaped)
                .into_iter()
                .map(char::from)
                .collect::<String>()
        };
        let field = |line: &str| {
            let (name, value) = line
                .split_once(':')
                .unwrap_or_else(|| panic!("no field: {line}"));
            (name.to_owned(), text(value.trim()))
        };
        if self.start.is_empty() {
            self.start = text(line);
        } else if let Some(body) = line.strip_prefix('>') {
            let body = unescape(body.strip_prefix(' ').unwrap_or(body));
            self.body.get_or_insert_default().extend(body);
        } else if let Some(trailer) = line.strip_prefix('+') {
            self.trailers.push(field(trailer));
        } else if let Some(name) = line.strip_prefix('-') {
            self.absent_trailers.push(name.to_owned());
        } else if let Some(name) = line.strip_prefix('!') {
            self.absent.push(name.to_owned());
        } else {
            self.fields.push(field(line));
        }
    }
}
