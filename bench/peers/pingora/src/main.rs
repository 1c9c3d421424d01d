//! A Pingora proxy to measure the gateway beside: the smallest that does the scenarios' work.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use clap::{Parser, ValueEnum};
use pingora::apps::HttpServerOptions;
use pingora::prelude::*;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::configuration::ServerConf;

#[derive(Parser)]
#[command(version)]
struct Args {
    /// Address and port that it listens on.
    #[arg(long)]
    listen: String,
    /// Address and port of the origin.
    #[arg(long)]
    origin: String,
    /// Number of worker threads.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// How routes are distinguished.
    #[arg(long, value_enum)]
    by: RouteBy,
    /// One host name or path prefix per line.
    #[arg(long)]
    routes: PathBuf,
    /// Take HTTP/2 in the clear.
    #[arg(long)]
    h2c: bool,
    /// PEM certificate, for TLS.
    #[arg(long, requires = "key")]
    certificate: Option<String>,
    /// PEM key, for TLS.
    #[arg(long)]
    key: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum RouteBy {
    Nothing,
    Hosts,
    Prefixes,
}

struct Proxy {
    origin: String,
    by: RouteBy,
    routes: HashSet<String>,
}

impl Proxy {
    fn knows(&self, session: &Session) -> bool {
        let request = session.req_header();
        match self.by {
            RouteBy::Nothing => true,
            RouteBy::Hosts => request
                .headers
                .get("host")
                .and_then(|host| host.to_str().ok())
                .or_else(|| request.uri.host())
                .is_some_and(|host| self.routes.contains(host)),
            RouteBy::Prefixes => {
                let path = request.uri.path();
                let mut ends = path.match_indices('/').map(|(at, _)| at).skip(1);
                ends.any(|end| path.get(..end).is_some_and(|key| self.routes.contains(key)))
            }
        }
    }
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn request_filter(&self, session: &mut Session, _ctx: &mut ()) -> Result<bool> {
        if self.knows(session) {
            return Ok(false);
        }
        session.respond_error(404).await?;
        Ok(true)
    }

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(
            self.origin.as_str(),
            false,
            String::new(),
        )))
    }
}

fn main() {
    let args = Args::parse();
    let routes = std::fs::read_to_string(&args.routes).expect("--routes must be readable");
    let proxy = Proxy {
        origin: args.origin,
        by: args.by,
        routes: routes.lines().map(str::to_owned).collect(),
    };
    let conf = ServerConf {
        threads: args.workers,
        upstream_keepalive_pool_size: 1024,
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut service = http_proxy_service(&Arc::clone(&server.configuration), proxy);
    if args.h2c
        && let Some(app) = service.app_logic_mut()
    {
        let mut options = HttpServerOptions::default();
        options.h2c = true;
        app.server_options = Some(options);
    }
    match (args.certificate, args.key) {
        (Some(certificate), Some(key)) => {
            service
                .add_tls(&args.listen, &certificate, &key)
                .expect("certificate and key");
        }
        _ => service.add_tcp(&args.listen),
    }
    server.add_service(service);
    server.run_forever();
}
