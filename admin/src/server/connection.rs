//! One connection to a server, from accept to close, and its requests.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer::{Answer, ErrorForm, Refusal};
use super::bound::{Bound, UnixSocket};
use super::made::Encoding;
use super::patience::Patient;
use super::tasks::Listing;
use super::{Body, Kind, Shared, guard};
use crate::endpoint::{Asked, Endpoint};
use crate::limits::{ACCEPT_PAUSE, CONNECTIONS, HEAD_BYTES, HEAD_TIMEOUT};
use crate::query::{Query, clipped};

/// Accepts connections of a server.
pub(super) fn listen(shared: &Rc<Shared>, kind: Kind, bound: Bound) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    for listener in bound.tcp {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                let accepting = Accepting::new(shared, kind, &room);
                tokio::task::spawn_local(accepting.tcp(listener));
            }
            Err(error) => {
                tracing::error!(server = kind.name(), %error, "cannot accept connections");
            }
        }
    }
    if let Some(unix) = bound.unix {
        tokio::task::spawn_local(Accepting::new(shared, kind, &room).unix(unix));
    }
}

struct Accepting {
    shared: Rc<Shared>,
    kind: Kind,
    room: Arc<Semaphore>,
    _listing: Listing,
}

impl Accepting {
    fn new(shared: &Rc<Shared>, kind: Kind, room: &Arc<Semaphore>) -> Self {
        Self {
            shared: Rc::clone(shared),
            kind,
            room: Arc::clone(room),
            _listing: shared
                .tasks
                .enter("server", "listening", kind.name().to_owned()),
        }
    }

    async fn tcp(self, listener: tokio::net::TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.serve(stream),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    async fn unix(self, socket: UnixSocket) {
        let listener = socket
            .listener
            .try_clone()
            .and_then(tokio::net::UnixListener::from_std);
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(server = self.kind.name(), %error, "cannot accept connections");
                return;
            }
        };
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.serve(stream),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        if let Ok(room) = Arc::clone(&self.room).try_acquire_owned() {
            let (shared, kind) = (Rc::clone(&self.shared), self.kind);
            tokio::task::spawn_local(serve(shared, kind, stream, room));
        }
    }
}

async fn serve(
    shared: Rc<Shared>,
    kind: Kind,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    _room: OwnedSemaphorePermit,
) {
    let listing = shared
        .tasks
        .enter("connection", "idle", kind.name().to_owned());
    let (shared, listing) = (&*shared, &listing);
    let service = service_fn(|request: Request<Incoming>| async move {
        let path = clipped(request.uri().path());
        listing.set("answering", format!("{} {path}", kind.name()));
        let answer = answer(shared, kind, &request).await;
        listing.set("idle", kind.name().to_owned());
        Ok::<Response<Body>, Infallible>(answer.into_response())
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(Patient::new(stream)), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(server = kind.name(), %error, "a connection broke off");
    }
}

/// The answer to a request.
async fn answer(shared: &Shared, kind: Kind, request: &Request<Incoming>) -> Answer {
    let path = request.uri().path();
    let endpoint = kind.endpoint(path);
    let (form, usage) = endpoint.map_or((ErrorForm::Text, ""), |it| (it.errors, it.usage));
    let guarded = match kind {
        Kind::Admin => guard::check(request.uri(), request.headers(), &shared.hosts),
        // Probes and scrapers come by names of the cluster, and can change nothing.
        Kind::Metrics | Kind::Readiness => Ok(()),
    };
    let answered = match (guarded, endpoint) {
        (Err(refusal), _) => Err(refusal),
        (Ok(()), None) => Err(Refusal::not_found(path)),
        (Ok(()), Some(endpoint)) => ask(shared, kind, endpoint, request).await,
    };
    answered.unwrap_or_else(|refusal| refusal.answer(form, usage))
}

async fn ask(
    shared: &Shared,
    kind: Kind,
    endpoint: &Endpoint,
    request: &Request<Incoming>,
) -> Result<Answer, Refusal> {
    if !endpoint.methods.contains(request.method()) {
        return Err(Refusal::method(endpoint.methods));
    }
    let query = match kind {
        Kind::Admin => Query::parse(request.uri().query(), endpoint.parameters),
        // Whatever a scraper or probe has there means nothing to us.
        Kind::Metrics | Kind::Readiness => Ok(Query::default()),
    };
    let asked = Asked {
        shared,
        method: request.method(),
        headers: request.headers(),
        query: query.map_err(Refusal::bad_parameter)?,
        encoding: Encoding::asked(request.headers()),
    };
    (endpoint.answer)(asked).await
}
