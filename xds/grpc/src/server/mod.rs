//! The controller's side: accepts connections of proxies, asks who they are, and serves each the
//! view of its own Gateway from [`xds::delta::Views`]. It knows nothing of Kubernetes: who may see
//! what is decided by the caller.
