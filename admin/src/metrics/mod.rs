//! Metrics as text: what Prometheus and everything that learnt from it reads.

mod exposition;

pub use exposition::{Exposition, Family, Form, Labels};
