//! Connections to the servers, from accept to close, and their requests.

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::bound::{BoundSockets, UnixSocket};
use super::connections::{Connection, Connections};
use super::write_timeout::WriteTimeout;
use super::{Kind, guard};
use crate::endpoint::{Context, Endpoint, EndpointRequest};
use crate::limits::{ACCEPT_PAUSE, HEAD_BYTES, MAX_CONNECTIONS};
use crate::query::{Query, clipped};
use crate::response::{Body, Encoding, ErrorFormat, ErrorResponse, Generation, Response};
use crate::tasks::TaskHandle;

/// Starts accepting connections to a server.
pub(super) fn listen(context: &Rc<Context>, kind: Kind, bound: BoundSockets) {
    let connections = Connections::new(MAX_CONNECTIONS);
    for listener in bound.tcp {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                let acceptor = Acceptor::new(context, kind, &connections);
                tokio::task::spawn_local(acceptor.tcp(listener));
            }
            Err(error) => {
                tracing::error!(server = kind.name(), %error, "cannot accept connections");
            }
        }
    }
    if let Some(unix) = bound.unix {
        tokio::task::spawn_local(Acceptor::new(context, kind, &connections).unix(unix));
    }
}

struct Acceptor {
    context: Rc<Context>,
    kind: Kind,
    connections: Connections,
    _task: TaskHandle,
}

impl Acceptor {
    fn new(context: &Rc<Context>, kind: Kind, connections: &Connections) -> Self {
        Self {
            context: Rc::clone(context),
            kind,
            connections: connections.clone(),
            _task: context
                .tasks
                .register("server", "listening", kind.name().to_owned()),
        }
    }

    async fn tcp(self, listener: tokio::net::TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.serve(stream, Some(peer.ip())).await,
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
                Ok((stream, _)) => self.serve(stream, None).await,
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        peer: Option<IpAddr>,
    ) {
        let (connection, closed) = self.connections.open(peer);
        let (context, kind) = (Rc::clone(&self.context), self.kind);
        tokio::task::spawn_local(async move {
            tokio::select! {
                () = serve(&context, kind, stream, &connection) => {}
                _ = closed => tracing::debug!(server = kind.name(), "closed the oldest connection for another"),
            }
        });
        // It reads its request first: in a flood, it would be closed before.
        tokio::task::yield_now().await;
    }
}

async fn serve(
    context: &Context,
    kind: Kind,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: &Connection,
) {
    let task = &context
        .tasks
        .register("connection", "idle", kind.name().to_owned());
    let service = service_fn(|request: Request<Incoming>| async move {
        connection.begin_request();
        let path = clipped(request.uri().path());
        task.set("answering", format!("{} {path}", kind.name()));
        let response = respond(context, kind, &request).await;
        task.set("idle", kind.name().to_owned());
        let response = response.into_http();
        if let Some(generation) = response.extensions().get::<Generation>() {
            connection.begin_response(*generation);
        }
        Ok::<http::Response<Body>, Infallible>(response)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(kind.head_timeout())
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
        Kind::Metrics | Kind::Readiness | Kind::Probes => Ok(()),
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
        Kind::Metrics | Kind::Readiness | Kind::Probes => Ok(Query::default()),
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
