//! Clients with sessions: cookies that keep them at an origin.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{Client, Gateway, Message, TIMEOUT};

/// A rule whose clients have sessions, at the backend `all`.
pub(crate) const COOKIE: &str =
    "{sessionPersistence: {sessionName: who, type: Cookie}, backendRefs: [{@all}]}";

/// A client's session: its cookie, and the text of the origin that answers.
pub(crate) struct Session {
    pub(crate) cookie: String,
    pub(crate) origin: String,
}

impl Session {
    #[track_caller]
    pub(crate) fn begin(client: &mut Client) -> Self {
        Self::of(&ask(client, "X-A: b"))
    }

    /// The session that begins with a response.
    #[track_caller]
    pub(crate) fn of(response: &Message) -> Self {
        Self {
            cookie: cookie(response).expect("a cookie is set"),
            origin: response.text(),
        }
    }

    /// Asks again, and keeps a cookie that it gets. Returns whether the same origin answers.
    #[track_caller]
    pub(crate) fn holds(&mut self, client: &mut Client) -> bool {
        let response = ask(client, &format!("Cookie: {}", self.cookie));
        if let Some(cookie) = cookie(&response) {
            self.cookie = cookie;
        }
        response.text() == self.origin
    }
}

/// A request with a field; it must be served.
#[track_caller]
pub(crate) fn ask(client: &mut Client, field: &str) -> Message {
    client
        .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"))
        .expects(200)
}

/// The `name=value` of the cookie that a response sets.
pub(crate) fn cookie(response: &Message) -> Option<String> {
    let set = response.value("set-cookie")?;
    Some(set.split(';').next().unwrap_or_default().to_owned())
}

/// Twenty sessions that begin at a gateway.
#[track_caller]
pub(crate) fn sessions(gateway: &Gateway) -> Vec<Session> {
    let begin = |_| Session::begin(&mut gateway.client());
    (0..20).map(begin).collect()
}

/// Sessions hold at a gateway.
#[track_caller]
pub(crate) fn assert_held(sessions: &mut [Session], gateway: &Gateway) {
    for session in sessions {
        assert!(session.holds(&mut gateway.client()), "{}", gateway.log());
    }
}

/// Four clients with eight sessions each, which they use at every gateway while something is done: none moves, and
/// no request fails. What is done gets a function that waits until a hundred requests more were answered.
#[track_caller]
pub(crate) fn assert_none_moves(gateways: &[&Gateway], during: impl FnOnce(&dyn Fn())) {
    let (stop, moved, asked) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let load = || {
        let mut clients: Vec<Client> = gateways.iter().map(|it| it.client()).collect();
        let mut sessions: Vec<_> = (0..8).map(|_| Session::begin(&mut clients[0])).collect();
        while !stop.load(Ordering::Relaxed) {
            for session in &mut sessions {
                for client in &mut clients {
                    let has_moved = !session.holds(client);
                    moved.fetch_add(usize::from(has_moved), Ordering::Relaxed);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(load);
        }
        let _stop = StopOnDrop(&stop);
        let waits = || {
            let (before, deadline) = (asked.load(Ordering::Relaxed), Instant::now() + TIMEOUT);
            while asked.load(Ordering::Relaxed) < before + 100 {
                assert!(Instant::now() < deadline, "only {asked:?} requests");
                std::thread::park_timeout(Duration::from_millis(1));
            }
        };
        during(&waits);
    });
    assert_eq!(moved.load(Ordering::Relaxed), 0, "of {asked:?}");
}

/// Also if the test fails meanwhile: the clients would go on for ever.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
