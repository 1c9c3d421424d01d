//! Connections to the servers, from accept to close, and their requests.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::bound::{BoundSockets, UnixSocket};
use super::write_timeout::WriteTimeout;
use super::{Kind, guard};
use crate::endpoint::{Context, Endpoint, EndpointRequest};
use crate::limits::{ACCEPT_PAUSE, HEAD_BYTES, HEAD_TIMEOUT, MAX_CONNECTIONS};
use crate::query::{Query, clipped};
use crate::response::{Body, Encoding, ErrorFormat, ErrorResponse, Response};
use crate::tasks::TaskHandle;

/// Starts accepting connections to a server.
pub(super) fn listen(context: &Rc<Context>, kind: Kind, bound: BoundSockets) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    for listener in bound.tcp {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                let acceptor = Acceptor::new(context, kind, &permits);
                tokio::task::spawn_local(acceptor.tcp(listener));
            }
            Err(error) => {
                tracing::error!(server = kind.name(), %error, "cannot accept connections");
            }
        }
    }
    if let Some(unix) = bound.unix {
        tokio::task::spawn_local(Acceptor::new(context, kind, &permits).unix(unix));
    }
}

struct Acceptor {
    context: Rc<Context>,
    kind: Kind,
    permits: Arc<Semaphore>,
    _task: TaskHandle,
}

impl Acceptor {
    fn new(context: &Rc<Context>, kind: Kind, permits: &Arc<Semaphore>) -> Self {
        Self {
            context: Rc::clone(context),
            kind,
            permits: Arc::clone(permits),
            _task: context
                .tasks
                .register("server", "listening", kind.name().to_owned()),
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
        if let Ok(permits) = Arc::clone(&self.permits).try_acquire_owned() {
            let (context, kind) = (Rc::clone(&self.context), self.kind);
            tokio::task::spawn_local(serve(context, kind, stream, permits));
        }
    }
}

async fn serve(
    context: Rc<Context>,
    kind: Kind,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    _permits: OwnedSemaphorePermit,
) {
    let task = context
        .tasks
        .register("connection", "idle", kind.name().to_owned());
    let (context, task) = (&*context, &task);
    let service = service_fn(|request: Request<Incoming>| async move {
        let path = clipped(request.uri().path());
        task.set("answering", format!("{} {path}", kind.name()));
        let response = respond(context, kind, &request).await;
        task.set("idle", kind.name().to_owned());
        Ok::<http::Response<Body>, Infallible>(response.into_http())
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream)), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(server = kind.name(), %error, "a connection failed");
    }
}

/// Responds to a request.
async fn respond(context: &Context, kind: Kind, request: &Request<Incoming>) -> Response {
    let path = request.uri().path();
    let endpoint = kind.endpoint(path);
    let (format, usage) = endpoint.map_or((ErrorFormat::Text, ""), |it| (it.errors, it.usage));
    let guarded = match kind {
        Kind::Admin | Kind::Process => {
            guard::check(request.uri(), request.headers(), &context.hosts)
        }
        // Probes and scrapers use cluster host names; these servers are read-only.
        Kind::Metrics | Kind::Readiness => Ok(()),
    };
    let result = match (guarded, endpoint) {
        (Err(refusal), _) => Err(refusal),
        (Ok(()), None) => Err(ErrorResponse::not_found(path)),
        (Ok(()), Some(endpoint)) => handle(context, kind, endpoint, request).await,
    };
    result.unwrap_or_else(|error| error.into_response(format, usage))
}

async fn handle(
    context: &Context,
    kind: Kind,
    endpoint: &Endpoint,
    request: &Request<Incoming>,
) -> Result<Response, ErrorResponse> {
    if !endpoint.methods.contains(request.method()) {
        return Err(ErrorResponse::method(endpoint.methods));
    }
    let query = match kind {
        Kind::Admin | Kind::Process => Query::parse(request.uri().query(), endpoint.parameters),
        // Queries of scrapers and probes are ignored.
        Kind::Metrics | Kind::Readiness => Ok(Query::default()),
    };
    let request = EndpointRequest {
        context,
        method: request.method(),
        headers: request.headers(),
        query: query.map_err(ErrorResponse::bad_parameter)?,
        encoding: Encoding::negotiate(request.headers()),
    };
    (endpoint.handle)(request).await
}
