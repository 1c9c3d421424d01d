//! Destinations of requests: Services, pools, our `Backend` and XBackends, with the workloads behind them.

#[expect(
    missing_docs,
    reason = "most fields are documented by the references of Kubernetes and Gateway API"
)]
pub mod api;
pub(crate) mod app_protocol;
pub(crate) mod checks;
pub(crate) mod external_host;
pub(crate) mod own;
pub(crate) mod own_status;
pub(crate) mod own_unit;
pub(crate) mod own_use;
pub(crate) mod picker;
pub(crate) mod pool;
pub(crate) mod pool_unit;
pub(crate) mod references;
pub(crate) mod referrer;
pub(crate) mod service;
pub(crate) mod service_unit;
pub(crate) mod upstream;
pub(crate) mod validation;
pub(crate) mod x_backend;
pub(crate) mod x_backend_unit;
