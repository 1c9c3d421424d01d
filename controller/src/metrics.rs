//! The registry of metrics, and their text form.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// Where metrics are registered. A clone refers to the same.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::with_prefix("gateway_controller");
        Self(Arc::new(Mutex::new(registry)))
    }
}

impl Metrics {
    /// Registers metrics. Names begin with `gateway_controller_` by themselves, and counters end with
    /// `_total`.
    pub fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// All metrics as text in the OpenMetrics form.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match encode(&mut text, &registry) {
            Ok(()) => text,
            // A String takes whatever is written.
            Err(std::fmt::Error) => String::new(),
        }
    }
}
