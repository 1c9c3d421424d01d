//! Metrics in the text formats of Prometheus and `OpenMetrics`.

mod exposition;

pub use exposition::{Exposition, Family, Format, Labels};
