use std::num::*; use std::sync::Arc; use std::time::Duration;
use proxy::config::*; use proxy::limits::Limits; use proxy::shard::interned::Interned;
use proxy::supervisor::*; use proxy::observe::log_writer::*; use xds::model;
use proxy::upstream::balance::*; use proxy::upstream::session::Identity; use proxy::route::*;
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
fn main() {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let a: Vec<String> = std::env::args().collect();
    let listen: std::net::SocketAddr = a[1].parse().unwrap();
    let up: std::net::SocketAddr = a[2].parse().unwrap();
    let driver = if a.get(3).map(String::as_str) == Some("epoll") { proxy::driver::DriverChoice::Epoll } else { proxy::driver::DriverChoice::IoUring };
    let off = model::AccessLog { off: a.get(4).is_none(), format: model::LogFormat::Text, sample_per_million: 1_000_000, filter: Default::default() };
    let id = |i| Interned { index: i, generation: 0 };
    let identity = Identity::new("x", "y");
    let m = model::HttpMatch { path: model::PathMatch::Prefix(String::new()), method: None, headers: vec![], query: vec![] };
    let order = model::Order { created: 0, object: "a/b".into(), rule: 0 };
    let limits = Limits { requests_per_connection: NonZeroU64::MAX, ..Limits::default() };
    let rule = Rule { id: id(0), name: "r".into(), limits, request_timeout: None, backend_timeout: None, waits_forever: false, retry: None, session: None, access_log: off.clone(), answers: None, draw: Draw::new(&[1]), backends: vec![RuleBackend { cluster: Ok(ClusterIndex(0)), policy: None, mirrors: vec![] }] };
    let obj = model::ObjectName::new("default", "gw");
    let listener = Listener { id: id(0), key: model::ListenerKey::new("Gateway", &obj, "http"), hostname: None, router: Router::compile([Entry { hostnames: &[], matches: &m, order: &order, match_index: 0, route: 0 }]), rules: vec![rule], access_log: off.clone() };
    let bind = Bind { key: model::BindKey::new(model::Transport::Tcp, listen.port(), &obj), address: listen, gateway: "default/gw".into(), limits, proxy_protocol: proxy::policy::proxy_protocol::Acceptance::compile(None), path_options: model::PathOptions { merge_slashes: false, escaped_slash: model::EscapedSlash::Keep }, trust: Default::default(), access_log: off, listeners: vec![listener] };
    let cluster = Cluster { id: id(0), name: "c".into(), set: EndpointSet::new(id(0), proxy::limits::EJECTION, &[(EndpointRef { id: id(0), weight: NonZeroU32::MIN }, model::Health::Ready, identity)]), endpoints: vec![Endpoint { id: id(0), address: Address::Tcp(up), name: up.to_string().into(), identity }], connections_per_shard: NonZeroU32::new(4096).unwrap(), retry_budget: proxy::limits::RETRY_BUDGET };
    let snapshot = Snapshot { version: 1, binds: vec![Some(bind)], clusters: vec![cluster] };
    let published = Arc::new(arc_swap::ArcSwap::from_pointee(snapshot));
    let log = LogQueue::new(); let w = LogWriter::spawn(log.clone(), std::io::stdout()).unwrap();
    let plan = ShardPlan { shards: NonZeroU32::MIN, driver, cores: None, connections: 20000, session_key: ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"x") };
    let (shards, events, sender) = Shards::start(plan, published, log).unwrap();
    shards.listen(0, listen).unwrap();
    std::thread::spawn(move || { let mut s = signal_hook::iterator::Signals::new([15, 2]).unwrap(); for _ in &mut s { sender.send(Event::Stop(Urgency::Prompt)).unwrap(); } });
    supervise(&shards, &events, DrainPlan { accept: Duration::ZERO, deadline: Duration::from_secs(3) });
    w.stop(Duration::from_secs(1));
}
