//! The summary section.

use admin_types::trace::{ConnectionFinished, Finished, Message, PolicyOutcome, Request};

use super::super::event::TraceEvent;
use super::{Line, Tone, messages, millis};

/// The title of the report, and its summary.
pub(super) fn lines(events: &[TraceEvent]) -> (Line, Vec<Line>) {
    let mut facts = Facts::default();
    for message in messages(events) {
        facts.record(message);
    }
    (facts.title(), facts.lines())
}

#[derive(Default)]
struct Facts<'a> {
    request: Option<&'a Request>,
    client: Option<&'a str>,
    listener: Option<&'a str>,
    route: Option<&'a str>,
    policies: Vec<String>,
    backend: Option<&'a str>,
    endpoint: Option<&'a str>,
    finished: Option<&'a Finished>,
    /// Protocol and server name of a TCP, TLS or UDP connection.
    connection: Option<(&'a str, Option<&'a str>)>,
    connection_finished: Option<&'a ConnectionFinished>,
    /// Events that the gateway dropped.
    lost: u64,
}

impl<'a> Facts<'a> {
    fn record(&mut self, message: &'a Message) {
        match message {
            Message::RequestStarted { client, .. } => self.client = Some(client),
            Message::ConnectionStarted {
                client,
                protocol,
                server_name,
                ..
            } => {
                self.client = Some(client);
                self.connection = Some((protocol, server_name.as_deref()));
            }
            Message::RequestSnapshot(request) => self.request = Some(request),
            Message::ListenerSelection { selected, .. } => self.listener = selected.as_deref(),
            Message::RouteSelection { selected, .. } => self.route = selected.as_deref(),
            Message::Policy {
                kind,
                outcome: PolicyOutcome::Applied,
                ..
            } => self.name_policy(kind),
            Message::PolicySelection { policies } => {
                for policy in policies {
                    self.name_policy(policy);
                }
            }
            Message::AuthorizationResult {
                by, allowed: true, ..
            } => self.name_policy(by),
            Message::AuthorizationResult { by, .. } => {
                self.policies.retain(|policy| policy != by);
                self.name_policy(&format!("{by} (denied)"));
            }
            Message::BackendSelection {
                backend, selected, ..
            } => {
                self.backend = Some(backend);
                self.endpoint = selected.as_deref();
            }
            Message::RequestFinished(finished) => self.finished = Some(finished),
            Message::ConnectionFinished(finished) => self.connection_finished = Some(finished),
            Message::EventsLost { count } => self.lost = self.lost.saturating_add(*count),
            _ => {}
        }
    }

    /// Names a policy once, whether the rule has it, it had an effect, or both.
    fn name_policy(&mut self, name: &str) {
        if !self.policies.iter().any(|policy| policy == name) {
            self.policies.push(name.to_owned());
        }
    }

    fn title(&self) -> Line {
        let subject = match (self.request, self.client) {
            (Some(it), _) => format!("{} {}{}", it.method, it.host, it.path),
            (None, Some(client)) => format!("connection from {client}"),
            (None, None) => "request".to_owned(),
        };
        let (tone, outcome) = self.outcome();
        Line::new(tone, &format!("{subject}: {outcome}"))
    }

    fn is_finished(&self) -> bool {
        self.finished.is_some() || self.connection_finished.is_some()
    }

    fn outcome(&self) -> (Tone, String) {
        if let Some(connection) = self.connection_finished {
            return match &connection.reason {
                None => (Tone::Good, "closed normally".to_owned()),
                Some(reason) => (Tone::Bad, reason.clone()),
            };
        }
        let Some(finished) = self.finished else {
            return (Tone::Warning, "in progress".to_owned());
        };
        let reason = finished.reason.as_deref();
        let reason = reason.map_or_else(String::new, |reason| format!(", {reason}"));
        let (tone, status) = match finished.status {
            0 => (Tone::Bad, "no response".to_owned()),
            status @ ..400 => (Tone::Good, status.to_string()),
            status @ 400..500 => (Tone::Warning, status.to_string()),
            status => (Tone::Bad, status.to_string()),
        };
        (tone, format!("{status}{reason}"))
    }

    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut line = |tone, name: &str, text: String| {
            lines.push(Line::new(tone, &format!("{name:10}{text}")));
        };
        if let Some(it) = self.request {
            let text = format!("{} {}{}  {}", it.method, it.host, it.path, it.protocol);
            line(Tone::Plain, "request", text);
        }
        if let Some((protocol, server_name)) = self.connection {
            let name = server_name.map_or_else(String::new, |name| format!(" for {name}"));
            line(Tone::Plain, "protocol", format!("{protocol}{name}"));
        }
        if let Some(client) = self.client {
            line(Tone::Plain, "client", client.to_owned());
        }
        let (tone, outcome) = self.outcome();
        line(tone, "status", outcome);
        for (name, selected) in [("listener", self.listener), ("route", self.route)] {
            if self.request.is_some() || self.connection.is_some() {
                let (tone, text) = match selected {
                    Some(selected) => (Tone::Good, selected),
                    None if self.is_finished() => (Tone::Bad, "none"),
                    None => (Tone::Dimmed, "not selected yet"),
                };
                line(tone, name, text.to_owned());
            }
        }
        if !self.policies.is_empty() {
            line(Tone::Plain, "policies", self.policies.join(", "));
        }
        if let Some(backend) = self.backend {
            line(Tone::Plain, "backend", backend.to_owned());
            let tone = self.endpoint.map_or(Tone::Bad, |_| Tone::Good);
            line(tone, "endpoint", self.endpoint.unwrap_or("none").to_owned());
        }
        self.numbers(&mut line);
        lines
    }

    fn numbers(&self, line: &mut dyn FnMut(Tone, &str, String)) {
        if let Some(it) = self.finished {
            let tone = if it.retries > 0 {
                Tone::Warning
            } else {
                Tone::Plain
            };
            line(tone, "retries", it.retries.to_string());
            let upstream = it.upstream_micros.map_or_else(String::new, |upstream| {
                format!(", {} to the backend's response head", millis(upstream))
            });
            let time = format!("{}{upstream}", millis(it.duration_micros));
            line(Tone::Plain, "time", time);
        }
        if let Some(it) = self.connection_finished {
            line(Tone::Plain, "retries", it.retries.to_string());
            line(Tone::Plain, "time", millis(it.duration_micros));
        }
        let bytes = self
            .connection_finished
            .map(|it| (it.bytes_in, it.bytes_out));
        if let Some((bytes_in, bytes_out)) =
            bytes.or(self.finished.map(|it| (it.bytes_in, it.bytes_out)))
        {
            let text = format!("{bytes_in} from the client, {bytes_out} to the client");
            line(Tone::Plain, "bytes", text);
        }
        if self.lost > 0 {
            let text = format!("{} events: gwctl did not read them in time", self.lost);
            line(Tone::Warning, "lost", text);
        }
    }
}
